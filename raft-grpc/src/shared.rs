//! What the sending and the receiving half have in common: identity, settings, peers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use raft_core::{Envelope, NodeId};

use crate::causes::Causes;
use crate::config::{Config, Identity};
use crate::peer::Peer;

/// Shared by the transport, its tasks and its service.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) identity: Identity,
    pub(crate) config: Config,
    peers: Mutex<Peers>,
    /// What was refused lately.
    pub(crate) refusals: Mutex<Causes>,
}

#[derive(Debug, Default)]
pub(crate) struct Peers {
    pub(crate) by_id: BTreeMap<NodeId, Arc<Peer>>,
    pub(crate) closed: bool,
    /// Messages to nodes that are no peers, or from others than this node.
    pub(crate) misdirected: u64,
    wakers: Vec<Waker>,
}

impl Shared {
    pub(crate) fn new(identity: Identity, config: Config) -> Self {
        Self { identity, config, peers: Mutex::default(), refusals: Mutex::default() }
    }

    pub(crate) fn peers(&self) -> MutexGuard<'_, Peers> {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends every stream from every peer.
    pub(crate) fn end_reading(&self) {
        for peer in self.peers().by_id.values() {
            peer.end_reading();
        }
    }

    pub(crate) fn is_encrypted(&self) -> bool {
        #[cfg(feature = "tls")]
        return self.config.tls.is_some();
        #[cfg(not(feature = "tls"))]
        false
    }

    pub(crate) fn peer(&self, id: NodeId) -> Option<Arc<Peer>> {
        self.peers().by_id.get(&id).cloned()
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
