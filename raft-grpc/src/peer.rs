//! One other node: its two queues, what is known of it, and how its connections fare.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use raft_core::{Lane, NodeId};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tonic::transport::Uri;

use crate::causes::Causes;
use crate::config::{Config, Incarnation};
use crate::hello::Mismatch;
use crate::queue::{Limits, Queue};
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

    fn of_mut(&mut self, lane: Lane) -> &mut T {
        match lane {
            Lane::Control => &mut self.control,
            Lane::Bulk => &mut self.bulk,
        }
    }
}

/// One other node.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) id: NodeId,
    pub(crate) queues: PerLane<Arc<Queue>>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    address: Uri,
    /// The first disk that it came with; another one is refused.
    incarnation: Option<Incarnation>,
    refused_incarnation: Option<Incarnation>,
    lanes: PerLane<LaneState>,
    causes: Causes,
    /// The tasks that keep its streams.
    links: Vec<AbortHandle>,
    /// It is no peer any more: streams end as soon as they begin.
    closed: bool,
}

#[derive(Debug, Default)]
struct LaneState {
    connected: bool,
    connects: u64,
    last_error: Option<String>,
    /// Ends the stream from the peer that is read now, when dropped or used.
    reading: Option<oneshot::Sender<()>>,
    received_messages: u64,
}

impl Peer {
    pub(crate) fn new(id: NodeId, address: Uri, config: &Config) -> Self {
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
            address,
            incarnation: None,
            refused_incarnation: None,
            lanes: PerLane::default(),
            causes: Causes::default(),
            links: Vec::new(),
            closed: false,
        };
        Self { id, queues, state: Mutex::new(state) }
    }

    pub(crate) fn address(&self) -> Uri {
        self.lock().address.clone()
    }

    /// Replaces the address and the tasks that talk to it.
    pub(crate) fn relink(&self, address: Uri, links: Vec<AbortHandle>) {
        let mut state = self.lock();
        state.address = address;
        for link in std::mem::replace(&mut state.links, links) {
            link.abort();
        }
    }

    /// Ends every stream from the peer.
    pub(crate) fn end_reading(&self) {
        let mut state = self.lock();
        for lane in [Lane::Control, Lane::Bulk] {
            state.lanes.of_mut(lane).reading = None;
        }
    }

    /// Ends every stream, to and from the peer.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        for link in state.links.drain(..) {
            link.abort();
        }
        for lane in [Lane::Control, Lane::Bulk] {
            let lane = state.lanes.of_mut(lane);
            (lane.connected, lane.reading) = (false, None);
        }
        drop(state);
        self.queues.control.close();
        self.queues.bulk.close();
    }

    /// Whether both streams to the peer stand.
    pub(crate) fn is_connected(&self) -> bool {
        self.lock().is_connected()
    }

    /// Recognises the disk that the peer comes with. The first one seen is the peer's; another
    /// one is no longer the node that made our promises (a lost disk, or two of one id).
    pub(crate) fn recognise(&self, theirs: Incarnation, node: NodeId) -> Result<(), Mismatch> {
        let mut state = self.lock();
        let known = *state.incarnation.get_or_insert(theirs);
        if known == theirs {
            return Ok(());
        }
        state.refused_incarnation = Some(theirs);
        Err(Mismatch::Incarnation { from: self.id, known, theirs, node })
    }

    /// Presets what [`recognise`](Self::recognise) would learn.
    pub(crate) fn expect(&self, incarnation: Incarnation) {
        self.lock().incarnation = Some(incarnation);
    }

    /// A stream to the peer is open.
    pub(crate) fn on_connected(&self, lane: Lane) {
        self.queues.of(lane).open();
        let mut state = self.lock();
        let it = state.lanes.of_mut(lane);
        (it.connected, it.last_error) = (true, None);
        it.connects += 1;
        tracing::debug!(peer = %self.id, ?lane, "stream open");
        if state.is_connected() {
            state.causes.clear();
            tracing::info!(peer = %self.id, address = %state.address, "connected");
        }
    }

    /// A stream to the peer was lost, or could not be opened.
    pub(crate) fn on_failed(&self, lane: Lane, error: String) {
        self.queues.of(lane).close();
        let mut state = self.lock();
        let was_connected = state.is_connected();
        if state.causes.is_news(&error, Instant::now()) {
            let (peer, address) = (self.id, &state.address);
            match was_connected {
                true => tracing::warn!(%peer, %address, ?lane, error, "connection lost"),
                false => tracing::warn!(%peer, %address, ?lane, error, "cannot connect"),
            }
        }
        let it = state.lanes.of_mut(lane);
        (it.connected, it.last_error) = (false, Some(error));
    }

    /// A stream from the peer opens; an older one of the lane ends. What is returned resolves
    /// when this one has to end in turn.
    pub(crate) fn on_reading(&self, lane: Lane) -> oneshot::Receiver<()> {
        let (sender, receiver) = oneshot::channel();
        let mut state = self.lock();
        if !state.closed {
            state.lanes.of_mut(lane).reading = Some(sender);
        }
        receiver
    }

    pub(crate) fn on_received(&self, lane: Lane, messages: usize) {
        self.lock().lanes.of_mut(lane).received_messages += messages as u64;
    }

    pub(crate) fn stats(&self) -> PeerStats {
        let state = self.lock();
        PeerStats {
            address: state.address.to_string(),
            connected: state.is_connected(),
            incarnation: state.incarnation,
            refused_incarnation: state.refused_incarnation,
            control: self.lane_stats(&state, Lane::Control),
            bulk: self.lane_stats(&state, Lane::Bulk),
        }
    }

    fn lane_stats(&self, state: &State, lane: Lane) -> LaneStats {
        let (it, counts) = (state.lanes.of(lane), self.queues.of(lane).counts());
        LaneStats {
            connected: it.connected,
            reading: it.reading.as_ref().is_some_and(|sender| !sender.is_closed()),
            connects: it.connects,
            last_error: it.last_error.clone(),
            queued_messages: counts.queued_messages,
            queued_bytes: counts.queued_bytes,
            sent_messages: counts.sent_messages,
            sent_bytes: counts.sent_bytes,
            dropped_messages: counts.dropped_messages,
            too_large_messages: counts.too_large_messages,
            received_messages: it.received_messages,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn is_connected(&self) -> bool {
        self.lanes.control.connected && self.lanes.bulk.connected
    }
}
