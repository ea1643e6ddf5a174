//! One other node: its two queues, what is known of it, and how its connections fare.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use raft_core::{Incarnation, Lane, NodeId};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tonic::transport::Uri;

use crate::address;
use crate::causes::Causes;
use crate::config::Config;
use crate::event::{PeerEvent, tell};
use crate::link::Failure;
use crate::queue::{Limits, Queue};
use crate::reading::Readings;
use crate::refusal::{Mismatch, Refused};
use crate::ship::Shipping;
use crate::stats::{LaneStats, PeerStats};

/// One value for each lane.
#[derive(Debug, Default)]
pub(crate) struct PerLane<T> {
    pub(crate) control: T,
    pub(crate) bulk: T,
}

impl<T> PerLane<T> {
    pub(crate) fn of(&self, lane: Lane) -> &T {
        match lane {
            Lane::Control => &self.control,
            Lane::Bulk => &self.bulk,
        }
    }

    pub(crate) fn of_mut(&mut self, lane: Lane) -> &mut T {
        match lane {
            Lane::Control => &mut self.control,
            Lane::Bulk => &mut self.bulk,
        }
    }

    pub(crate) fn both(&self) -> [&T; 2] {
        [&self.control, &self.bulk]
    }
}

/// Why this node talks to another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The engine has named it.
    Peer,
    /// It has called, and goes again when it calls no more.
    Guest,
}

/// One other node.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) id: NodeId,
    pub(crate) queues: PerLane<Arc<Queue>>,
    /// What it sends.
    pub(crate) readings: Readings,
    /// The snapshot that goes to it.
    pub(crate) shipping: Shipping,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    kind: Kind,
    /// Tried in turn; at least one.
    addresses: Vec<Uri>,
    /// The first disk that it came with; another one is refused.
    incarnation: Option<Incarnation>,
    refused_incarnation: Option<Incarnation>,
    /// The engine knows of `incarnation`.
    identified: bool,
    /// How the peer refused this node, as far as the engine was told.
    refused_us: Option<Refused>,
    lanes: PerLane<LaneState>,
    causes: Causes,
    /// The tasks that keep its streams.
    links: Vec<AbortHandle>,
    since: Instant,
}

#[derive(Debug, Default)]
struct LaneState {
    /// Where the stream to the peer goes, while it is open.
    connected: Option<Uri>,
    connects: u64,
    last_error: Option<String>,
}

impl Peer {
    pub(crate) fn new(id: NodeId, kind: Kind, config: &Config) -> Self {
        let queue = |bytes_max| {
            Arc::new(Queue::new(Limits {
                bytes_max,
                messages_max: config.queue_messages_max,
                batch_bytes_max: config.batch_bytes_max,
                message_bytes_max: config.message_bytes_max,
                stale_after: config.stale_after,
            }))
        };
        let queues = PerLane {
            control: queue(config.control_bytes_max),
            bulk: queue(config.bulk_bytes_max),
        };
        let state = State {
            kind,
            addresses: Vec::new(),
            incarnation: None,
            refused_incarnation: None,
            identified: false,
            refused_us: None,
            lanes: PerLane::default(),
            causes: Causes::default(),
            links: Vec::new(),
            since: Instant::now(),
        };
        let (readings, shipping) = (Readings::default(), Shipping::default());
        Self { id, queues, readings, shipping, state: Mutex::new(state) }
    }

    pub(crate) fn kind(&self) -> Kind {
        self.lock().kind
    }

    /// The engine names it.
    pub(crate) fn adopt(&self) {
        self.lock().kind = Kind::Peer;
    }

    /// Whether it is a guest that does not call (any more).
    pub(crate) fn is_abandoned(&self, config: &Config) -> bool {
        let state = self.lock();
        // A new guest has time to open its first stream.
        let settled = state.since.elapsed() > config.handshake_timeout * 2;
        state.kind == Kind::Guest && settled && !self.readings.is_any_live()
    }

    pub(crate) fn addresses(&self) -> Vec<Uri> {
        self.lock().addresses.clone()
    }

    /// Replaces the addresses. The streams stay where they lead to one of them; else `link`
    /// makes tasks that open new ones, and what is queued waits for these.
    pub(crate) fn relink(&self, addresses: Vec<Uri>, link: impl FnOnce() -> Vec<AbortHandle>) {
        let mut state = self.lock();
        let stays = |it: &LaneState| it.connected.as_ref().is_some_and(|at| addresses.contains(at));
        let unchanged = state.addresses == addresses || state.lanes.both().into_iter().all(stays);
        state.addresses = addresses;
        if !unchanged {
            state.replace_links(link());
        }
    }

    /// Ends every stream, to and from the peer, for good.
    pub(crate) fn close(&self) {
        self.lock().replace_links(Vec::new());
        self.readings.close();
        self.shipping.cancel();
        self.queues.control.close();
        self.queues.bulk.close();
    }

    /// Whether both streams to the peer stand.
    pub(crate) fn is_connected(&self) -> bool {
        self.lock().is_connected()
    }

    /// Recognises the disk that the peer comes with. The first one seen is the peer's; another
    /// one is no longer the node that made our promises (a lost disk, or two of one id).
    pub(crate) fn recognise(
        &self,
        theirs: Incarnation,
        node: NodeId,
        events: &mpsc::Sender<PeerEvent>,
    ) -> Result<(), Mismatch> {
        let mut state = self.lock();
        let known = *state.incarnation.get_or_insert(theirs);
        if known != theirs {
            state.refused_incarnation = Some(theirs);
            return Err(Mismatch::Incarnation { from: self.id, known, theirs, node });
        }
        if !state.identified {
            let event = PeerEvent::Identified { peer: self.id, incarnation: theirs };
            state.identified = tell(events, event);
        }
        Ok(())
    }

    /// Presets what [`recognise`](Self::recognise) would learn. Where it has learnt otherwise,
    /// `link` makes tasks that open new streams, and the old ones end.
    pub(crate) fn expect(&self, incarnation: Incarnation, link: impl FnOnce() -> Vec<AbortHandle>) {
        let mut state = self.lock();
        let before = state.incarnation.replace(incarnation);
        state.identified = true;
        if before.is_some_and(|before| before != incarnation) {
            state.replace_links(link());
            drop(state);
            self.readings.end();
            self.shipping.cancel();
        }
    }

    /// A stream to the peer is open.
    pub(crate) fn on_connected(&self, lane: Lane, address: &Uri) {
        self.queues.of(lane).open();
        let mut state = self.lock();
        let it = state.lanes.of_mut(lane);
        (it.connected, it.last_error) = (Some(address.clone()), None);
        it.connects += 1;
        tracing::debug!(peer = %self.id, ?lane, "stream open");
        if state.is_connected() {
            state.causes.clear();
            state.refused_us = None;
            tracing::info!(peer = %self.id, %address, "connected");
        }
    }

    /// A stream to the peer was lost, or could not be opened.
    pub(crate) fn on_failed(
        &self,
        lane: Lane,
        address: &Uri,
        failure: Failure,
        events: &mpsc::Sender<PeerEvent>,
    ) {
        self.queues.of(lane).close();
        let mut state = self.lock();
        let was_connected = state.is_connected();
        let Failure { message: error, refused } = failure;
        if state.causes.is_news(&error, Instant::now()) {
            let peer = self.id;
            match was_connected {
                true => tracing::warn!(%peer, %address, ?lane, error, "connection lost"),
                false => tracing::warn!(%peer, %address, ?lane, error, "cannot connect"),
            }
        }
        if let Some(reason) = refused
            && state.refused_us != refused
        {
            let (peer, message) = (self.id, error.clone());
            if tell(events, PeerEvent::RefusedUs { peer, reason, message }) {
                state.refused_us = refused;
            }
        }
        let it = state.lanes.of_mut(lane);
        (it.connected, it.last_error) = (None, Some(error));
    }

    pub(crate) fn stats(&self) -> PeerStats {
        let state = self.lock();
        PeerStats {
            address: address::list(&state.addresses),
            guest: state.kind == Kind::Guest,
            connected: state.is_connected(),
            incarnation: state.incarnation,
            refused_incarnation: state.refused_incarnation,
            control: self.lane_stats(&state, Lane::Control),
            bulk: self.lane_stats(&state, Lane::Bulk),
            sending: self.shipping.stats(),
        }
    }

    fn lane_stats(&self, state: &State, lane: Lane) -> LaneStats {
        let (it, counts) = (state.lanes.of(lane), self.queues.of(lane).counts());
        let received = self.readings.received(lane);
        LaneStats {
            connected: it.connected.is_some(),
            reading: self.readings.is_live(lane),
            connects: it.connects,
            last_error: it.last_error.clone(),
            queued_messages: counts.queued_messages,
            queued_bytes: counts.queued_bytes,
            sent_messages: counts.sent_messages,
            sent_bytes: counts.sent_bytes,
            dropped_messages: counts.dropped_messages,
            too_large_messages: counts.too_large_messages,
            received_messages: received.messages,
            received_bytes: received.bytes,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn is_connected(&self) -> bool {
        self.lanes.both().into_iter().all(|lane| lane.connected.is_some())
    }

    fn replace_links(&mut self, links: Vec<AbortHandle>) {
        for link in std::mem::replace(&mut self.links, links) {
            link.abort();
        }
        (self.lanes.control.connected, self.lanes.bulk.connected) = (None, None);
    }
}
