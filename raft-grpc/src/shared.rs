//! What the sending and the receiving half have in common: identity, settings, peers.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Instant;

use raft_core::{Envelope, Index, Membership, NodeId};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tonic::metadata::MetadataMap;

use crate::address;
use crate::causes::Causes;
use crate::config::{Config, ConfigError, Identity};
use crate::event::PeerEvent;
use crate::hello::{Hello, Motive, Purpose};
use crate::peer::{Kind, Peer};
use crate::refusal::Mismatch;
use crate::ship::{Incoming, Pace};

/// Shared by the transport, its tasks and its service.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) identity: Identity,
    pub(crate) config: Config,
    /// This process, as peers tell it from others of the same identity.
    pub(crate) session: u64,
    pub(crate) runtime: Handle,
    pub(crate) events: mpsc::Sender<PeerEvent>,
    peers: Mutex<Peers>,
    /// What was refused lately.
    refusals: Mutex<Causes>,
    /// The snapshot that is being received.
    pub(crate) incoming: Incoming,
    /// How fast snapshots may leave.
    pub(crate) pace: Pace,
}

#[derive(Debug, Default)]
pub(crate) struct Peers {
    pub(crate) by_id: BTreeMap<NodeId, Arc<Peer>>,
    /// Who is refused for ever.
    pub(crate) removed: BTreeSet<NodeId>,
    /// What nodes that want to join are told.
    pub(crate) membership: Option<(Index, Arc<Membership>)>,
    pub(crate) closed: bool,
    /// Messages to nodes that are no peers, or from others than this node.
    pub(crate) misdirected: u64,
    wakers: Vec<Waker>,
}

impl Shared {
    pub(crate) fn new(identity: Identity, config: Config, events: mpsc::Sender<PeerEvent>) -> Self {
        Self {
            identity,
            session: RandomState::new().hash_one(Instant::now()),
            runtime: Handle::current(),
            events,
            peers: Mutex::default(),
            refusals: Mutex::default(),
            incoming: Incoming::default(),
            pace: Pace::new(config.snapshot_bytes_per_second),
            config,
        }
    }

    pub(crate) fn peers(&self) -> MutexGuard<'_, Peers> {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends every stream from every peer.
    pub(crate) fn end_reading(&self) {
        self.incoming.end();
        for peer in self.peers().by_id.values() {
            peer.readings.end();
        }
    }

    pub(crate) fn is_encrypted(&self) -> bool {
        #[cfg(feature = "tls")]
        return self.config.tls.is_some();
        #[cfg(not(feature = "tls"))]
        false
    }

    /// Refuses an address of this node's own that peers could not use.
    pub(crate) fn check_advertised(&self) -> Result<(), ConfigError> {
        let address = &self.config.advertised;
        if address.is_empty() {
            return Ok(());
        }
        let checked = address::parse_all(address, self.is_encrypted());
        let refuse = |reason| ConfigError::Advertised { address: address.clone(), reason };
        checked.map(drop).map_err(refuse)
    }

    pub(crate) fn peer(&self, id: NodeId) -> Option<Arc<Peer>> {
        self.peers().by_id.get(&id).cloned()
    }

    /// Forgets a peer, unless another one has taken its place.
    pub(crate) fn forget(&self, peer: &Arc<Peer>) {
        let mut peers = self.peers();
        if peers.by_id.get(&peer.id).is_some_and(|it| Arc::ptr_eq(it, peer)) {
            peers.by_id.remove(&peer.id);
        }
        drop(peers);
        peer.close();
    }

    /// The greeting to `peer`.
    pub(crate) fn hello(&self, peer: &Peer, purpose: Purpose) -> Hello {
        let (from, session, address) =
            (self.identity, self.session, self.config.advertised.clone());
        let motive = match peer.kind() {
            Kind::Peer => Motive::Peer,
            Kind::Guest => Motive::CallBack,
        };
        Hello { from, to: peer.id, purpose, session, address, motive }
    }

    /// Checks the greeting that answers one to `peer`.
    pub(crate) fn recognise(&self, peer: &Peer, answer: &MetadataMap) -> Result<(), Mismatch> {
        let (ours, node) = (&self.identity, self.identity.node);
        let theirs = Hello::read(answer, node)?;
        theirs.check(ours)?;
        theirs.check_sender(peer.id, node)?;
        peer.recognise(theirs.from.incarnation, node, &self.events)
    }

    /// Whether this refusal is to be said: not at every attempt of the same caller.
    pub(crate) fn is_news(&self, refusal: &str) -> bool {
        let mut said = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        said.is_news(refusal, Instant::now())
    }
}

impl Peers {
    /// Queues `envelopes`: one lock for each stretch to the same peer and lane, and one wake
    /// for each stream that sleeps, after all is queued.
    pub(crate) fn queue(&mut self, from: NodeId, envelopes: &mut Vec<Envelope>) {
        let mut rest = envelopes.drain(..).peekable();
        while let Some(first) = rest.next() {
            let (to, lane) = (first.to, first.message.lane());
            let peer = self.by_id.get(&to).filter(|_| first.from == from);
            let Some(peer) = peer else {
                self.misdirected += 1;
                continue;
            };
            let mut queue = peer.queues.of(lane).pusher();
            queue.push(first);
            let alike = |it: &Envelope| it.to == to && it.from == from && it.message.lane() == lane;
            while let Some(next) = rest.next_if(alike) {
                queue.push(next);
            }
            self.wakers.extend(queue.into_waker());
        }
        drop(rest);
        for waker in self.wakers.drain(..) {
            waker.wake();
        }
    }
}
