//! One per node: it reads what happens once, for all who watch. The store never waits for it, and
//! it never waits for a client.
//!
//! ```text
//!   Store ── newest ─▶ live: what just happened, from memory ────┐
//!                                                                ▼
//!                                                            Registry ─▶ queues
//!                                                                ▲
//!   queues ── have room ─▶ past: history, on blocking threads ───┘
//! ```

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, watch};

use super::queue::{Happening, Previous, Queue};
use super::registry::{Create, Past, Registry, StreamSlot};
use crate::proto::etcdserverpb::RangeRequest;
use crate::proto::mvccpb::{Event, KeyValue};
use crate::server::backend::stopped;
use crate::store::{Events, Failure, KvError, Most, StoreReader};

/// How much is read at once.
const MOST: Most = Most { events: 1000, bytes: 256 << 10 };

/// See the head of this file.
pub(in crate::server) struct Hub {
    reader: StoreReader,
    registry: Mutex<Registry>,
    /// Somebody watches again.
    watched: Notify,
    /// There is room for what somebody lacks.
    lacking: Notify,
    stopping: watch::Sender<bool>,
}

/// What came of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// There may be more to do.
    Done,
    /// There is nothing to do.
    Idle,
    /// It must be done where blocking does no harm.
    Blocks,
}

/// Where a step is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum On {
    /// A thread that must not block.
    Task,
    /// One that may.
    Thread,
}

impl Hub {
    pub fn new(reader: StoreReader) -> Arc<Self> {
        Arc::new(Self {
            reader,
            registry: Mutex::new(Registry::new()),
            watched: Notify::new(),
            lacking: Notify::new(),
            stopping: watch::Sender::new(false),
        })
    }

    /// Tells all who watch, until the store fails.
    pub async fn run(self: Arc<Self>) {
        let (live, past) = (Arc::clone(&self).run_live(), Arc::clone(&self).run_past());
        let outcome = tokio::select! {
            outcome = live => outcome,
            outcome = past => outcome,
        };
        if let Err(failure) = outcome {
            tracing::error!(?failure, "watches end: the store cannot be read");
            self.end();
        }
    }

    /// Ends all streams, and those that are still to come: their clients go elsewhere.
    pub fn end(&self) {
        self.stopping.send_replace(true);
        self.registry().end(&stopped());
    }

    /// Whether [`end`](Self::end) was called.
    pub fn stopping(&self) -> watch::Receiver<bool> {
        self.stopping.subscribe()
    }

    pub(super) fn open(&self, queue: Arc<Queue>) -> StreamSlot {
        self.registry().open(queue)
    }

    pub(super) fn close(&self, stream: StreamSlot) {
        self.registry().close(stream);
    }

    pub(super) fn create(&self, stream: StreamSlot, create: Create) {
        let mut registry = self.registry();
        let is_first = registry.is_empty();
        // Under the lock, so that nothing that happens later is told before.
        registry.create(stream, create, self.reader.revision());
        if registry.is_lacking() {
            self.lacking.notify_one();
        }
        if is_first {
            self.watched.notify_one();
        }
    }

    pub(super) fn cancel(&self, stream: StreamSlot, watch_id: i64) {
        let mut registry = self.registry();
        registry.cancel(stream, watch_id, self.reader.revision());
    }

    pub(super) fn ask_progress(&self, stream: StreamSlot) {
        let mut registry = self.registry();
        registry.ask_progress(stream, self.reader.revision());
    }

    pub(super) fn tell_idle(&self, stream: StreamSlot) {
        self.registry().tell_idle(stream);
    }

    pub(super) fn on_room(&self, stream: StreamSlot) {
        self.registry().on_room(stream);
        self.lacking.notify_one();
    }

    async fn run_live(self: Arc<Self>) -> Result<(), Failure> {
        let mut newest = self.reader.newest();
        loop {
            newest.borrow_and_update();
            match self.step(Self::live).await? {
                Step::Done => tokio::task::yield_now().await,
                Step::Idle | Step::Blocks if self.registry().is_empty() => {
                    self.watched.notified().await;
                }
                Step::Idle | Step::Blocks => {
                    if newest.changed().await.is_err() {
                        return Ok(());
                    }
                }
            }
        }
    }

    async fn run_past(self: Arc<Self>) -> Result<(), Failure> {
        loop {
            match self.step(Self::past).await? {
                Step::Done => tokio::task::yield_now().await,
                Step::Idle | Step::Blocks => self.lacking.notified().await,
            }
        }
    }

    /// Does a step here, or where it may block.
    async fn step(
        self: &Arc<Self>,
        step: fn(&Self, On) -> Result<Step, Failure>,
    ) -> Result<Step, Failure> {
        match step(self, On::Task)? {
            Step::Blocks => {
                let hub = Arc::clone(self);
                let done = tokio::task::spawn_blocking(move || step(&hub, On::Thread)).await;
                // A runtime that goes down takes no more work.
                done.unwrap_or(Ok(Step::Idle))
            }
            step => Ok(step),
        }
    }

    /// Tells the synced watches what happened since.
    pub(super) fn live(&self, on: On) -> Result<Step, Failure> {
        let Some(from) = self.registry().next() else { return Ok(Step::Idle) };
        if self.reader.revision() < from {
            return Ok(Step::Idle);
        }
        let events = match on {
            On::Task => self.reader.events_in_memory(from, MOST),
            On::Thread => self.reader.events(from, MOST).map(Some),
        };
        let Events { events, until } = match events {
            Ok(Some(events)) => events,
            Ok(None) => return Ok(Step::Blocks),
            Err(Failure::Refused(KvError::Compacted)) => {
                // They fell behind a snapshot: some get the rest of it, others an end.
                self.registry().lose(self.reader.revision());
                self.lacking.notify_one();
                return Ok(Step::Done);
            }
            Err(failure) => return Err(failure),
        };
        let unread = |event| Happening::new(event, Previous::Unread);
        let mut happenings: Vec<Happening> = events.into_iter().map(unread).collect();
        let wanted: Vec<usize> = {
            let registry = self.registry();
            let wants = |number: &usize| registry.wants_previous(&happenings[*number]);
            (0..happenings.len()).filter(wants).collect()
        };
        if !wanted.is_empty() && on == On::Task {
            return Ok(Step::Blocks);
        }
        for number in wanted {
            let event = std::mem::take(&mut happenings[number].event);
            happenings[number] = self.with_previous(event)?;
        }
        let happenings: Vec<_> = happenings.into_iter().map(Arc::new).collect();
        let mut registry = self.registry();
        registry.dispatch(&happenings, until);
        if registry.is_lacking() {
            self.lacking.notify_one();
        }
        Ok(Step::Done)
    }

    /// Reads one part of history for those who are behind.
    pub(super) fn past(&self, on: On) -> Result<Step, Failure> {
        let turn = self.registry().turn();
        let Some((from, with_previous)) = turn else { return Ok(Step::Idle) };
        if on == On::Task {
            return Ok(Step::Blocks);
        }
        let Events { events, until } = match self.reader.events(from, MOST) {
            Ok(events) => events,
            Err(Failure::Refused(KvError::Compacted)) => {
                self.registry().give_up(self.reader.compacted());
                return Ok(Step::Done);
            }
            Err(failure) => return Err(failure),
        };
        let happening = |event| match with_previous {
            true => self.with_previous(event),
            false => Ok(Happening::new(event, Previous::Unread)),
        };
        let happenings = events.into_iter().map(|event| Ok(Arc::new(happening(event)?)));
        let happenings = happenings.collect::<Result<Vec<_>, Failure>>()?;
        let revision = self.reader.revision();
        self.registry().deliver(&Past { from, until, happenings: &happenings, revision });
        Ok(Step::Done)
    }

    /// The event, and what its key held before, as far as that is still kept.
    fn with_previous(&self, event: Event) -> Result<Happening, Failure> {
        let kv = event.kv.as_ref();
        let before = |kv: &KeyValue| RangeRequest {
            key: kv.key.clone(),
            revision: kv.mod_revision - 1,
            ..RangeRequest::default()
        };
        let Some(request) = kv.filter(|kv| kv.create_revision != kv.mod_revision).map(before)
        else {
            return Ok(Happening::new(event, Previous::Nothing));
        };
        let previous = match self.reader.range(&request) {
            Ok(found) => found.kvs.into_iter().next().map_or(Previous::Nothing, Previous::Was),
            Err(Failure::Refused(KvError::Compacted)) => Previous::Nothing,
            Err(failure) => return Err(failure),
        };
        Ok(Happening::new(event, previous))
    }

    fn registry(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
