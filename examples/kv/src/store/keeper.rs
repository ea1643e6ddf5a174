//! The store's one thread: it flushes, and sweeps when there is nothing to flush.
//!
//! It alone writes the tables. When it fails, it says so to everyone who waits, and ends.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};
use std::sync::{RwLockReadGuard, RwLockWriteGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use kontiki::Index;
use tokio::sync::watch;

use super::base::Base;
use super::error::StoreError;
use super::flush::flush;
use super::meter::StoreMeter;
use super::state::State;
use super::sweep;
use super::tables::Tables;

/// With more sorted runs than this in a table nothing is written until some have been merged.
const RUNS_MAX: usize = 12;

/// How often it looks whether they have.
const MERGE_POLL: Duration = Duration::from_millis(5);

/// How far the store's work in the background has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The last entry whose effects the store keeps whatever happens to this process: the log
    /// is needed only from the next one on.
    pub durable_applied: Index,
    /// What compactions up to this revision gave up is deleted.
    pub swept: i64,
}

impl From<&Base> for Progress {
    fn from(base: &Base) -> Self {
        Self { durable_applied: base.mark.applied, swept: base.upkeep.sweep.done }
    }
}

/// What the thread shares with writers and readers.
pub(super) struct Shared {
    state: RwLock<State>,
    control: Mutex<Control>,
    changed: Condvar,
    pub progress: watch::Sender<Progress>,
    /// The newest revision, told when readers can see it.
    pub newest: watch::Sender<i64>,
    pub meter: StoreMeter,
}

#[derive(Default)]
struct Control {
    is_due: bool,
    /// All up to here is to be flushed at once, in as many turns as that takes.
    wanted: Index,
    is_stopping: bool,
    failed: Option<StoreError>,
}

impl Shared {
    pub fn new(state: State) -> Self {
        let progress = watch::Sender::new(Progress::from(&*state.base));
        let newest = watch::Sender::new(state.mark.revision);
        let (control, changed) = (Mutex::default(), Condvar::new());
        let meter = StoreMeter::new();
        Self { state: RwLock::new(state), control, changed, progress, newest, meter }
    }

    pub fn read(&self) -> RwLockReadGuard<'_, State> {
        // A panic in the middle of a request leaves changes of half of it: let nobody see them.
        self.state.read().expect("no request panicked")
    }

    pub fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().expect("no request panicked")
    }

    /// Replaces everything. The keeper drops what it was writing; what it is to do is found anew.
    pub fn replace(&self, state: State) {
        let mut current = self.write();
        self.progress.send_replace(Progress::from(&*state.base));
        let revision = state.mark.revision;
        *current = state;
        drop(current);
        self.tell(revision);
        self.control().wanted = Index::ZERO;
        self.demand_flush();
    }

    /// Tells those who follow that there is a newer revision. The state's lock is not held: who
    /// writes never waits for who follows.
    pub fn tell(&self, revision: i64) {
        self.newest.send_if_modified(|newest| {
            let is_newer = *newest < revision;
            *newest = revision.max(*newest);
            is_newer
        });
    }

    /// Goes on with `new`, which was written above `old`; unless everything was replaced in the
    /// meantime. Whether there is more to sweep.
    pub fn advance(&self, old: &Arc<Base>, new: Base) -> bool {
        let mut state = self.write();
        if Arc::ptr_eq(&state.base, old) {
            state.frozen.take_if(|frozen| frozen.mark == new.mark);
            self.progress.send_replace(Progress::from(&new));
            state.base = Arc::new(new);
        }
        sweep::is_due(&state.base)
    }

    /// Whether nothing has to be written any more above what `base` has read.
    fn is_over(&self, base: &Arc<Base>) -> bool {
        self.control().is_stopping || !Arc::ptr_eq(&self.read().base, base)
    }

    /// Whether the state is free at this moment, and holds less than this many fresh bytes.
    pub fn has_room(&self, bytes_max: usize) -> bool {
        self.state.try_write().is_ok_and(|state| state.active.bytes() < bytes_max)
    }

    /// Has the thread flush now.
    pub fn demand_flush(&self) {
        self.control().is_due = true;
        self.changed.notify_all();
    }

    /// Has the thread flush now, until all is durable that is applied up to here. One turn may
    /// not be enough: it writes what is frozen already, and what came since is left for the next.
    pub fn demand_all(&self, applied: Index) {
        let mut control = self.control();
        control.wanted = control.wanted.max(applied);
        drop(control);
        self.changed.notify_all();
    }

    /// Waits until `ready`, which is asked again whenever the thread has finished something.
    pub fn wait_until(&self, ready: impl Fn(&State) -> bool) -> Result<(), StoreError> {
        let mut control = self.control();
        loop {
            if let Some(error) = &control.failed {
                return Err(error.clone());
            }
            // The thread never holds the state's lock while it takes this one.
            if ready(&self.read()) {
                return Ok(());
            }
            control = self.changed.wait(control).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Fails when the thread has failed.
    pub fn check(&self) -> Result<(), StoreError> {
        match &self.control().failed {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }

    fn control(&self) -> MutexGuard<'_, Control> {
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for something to do.
    fn next(&self, flush_at: Instant, sweep_is_due: bool) -> Turn {
        let durable = self.read().base.mark.applied;
        let mut control = self.control();
        loop {
            let left = flush_at.saturating_duration_since(Instant::now());
            if control.is_stopping {
                return Turn::Stop;
            } else if control.is_due || control.wanted > durable || left.is_zero() {
                control.is_due = false;
                return Turn::Flush;
            } else if sweep_is_due {
                return Turn::Sweep;
            }
            let waited = self.changed.wait_timeout(control, left);
            control = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    Flush,
    Sweep,
    Stop,
}

/// The running thread. Dropping it stops it where it stands, as a crash would.
pub(super) struct Keeper {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Keeper {
    pub fn start(shared: &Arc<Shared>, interval: Duration) -> Result<Self, StoreError> {
        let own = Arc::clone(shared);
        let thread = std::thread::Builder::new()
            .name("kv-keeper".into())
            .spawn(move || keep(&own, interval))
            .map_err(|error| StoreError::Thread(Arc::new(error)))?;
        Ok(Self { shared: Arc::clone(shared), thread: Some(thread) })
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.shared.control().is_stopping = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // What it could say is in `failed`.
            let _ = thread.join();
        }
    }
}

fn keep(shared: &Shared, interval: Duration) {
    let mut flush_at = Instant::now() + interval;
    let mut sweep_is_due = sweep::is_due(&shared.read().base);
    loop {
        let turn = shared.next(flush_at, sweep_is_due);
        match turn {
            Turn::Flush => flush_at = Instant::now() + interval,
            Turn::Sweep => {}
            Turn::Stop => return,
        }
        match work(shared, turn) {
            Ok(is_due) => sweep_is_due = is_due,
            Err(error) => {
                shared.control().failed = Some(error.clone());
                shared.changed.notify_all();
                tracing::error!(%error, "the key-value store has failed");
                return;
            }
        }
        shared.changed.notify_all();
    }
}

/// Flushes, or does a step of the sweep. Whether there is more to sweep.
fn work(shared: &Shared, turn: Turn) -> Result<bool, StoreError> {
    let (frozen, base) = {
        let mut state = shared.write();
        if turn == Turn::Flush && state.frozen.is_none() && state.mark != state.base.mark {
            state.freeze();
        }
        (state.frozen.clone(), Arc::clone(&state.base))
    };
    let new = match &frozen {
        Some(frozen) => {
            wait_for_merges(&base.tables, || shared.is_over(&base));
            let _timed = shared.meter.commits.start_timer();
            flush(&base, frozen)?
        }
        None if sweep::is_due(&base) => {
            wait_for_merges(&base.tables, || shared.is_over(&base));
            let _timed = shared.meter.commits.start_timer();
            sweep::step(&base, sweep::STEP_CHANGES)?
        }
        None => return Ok(false),
    };
    Ok(shared.advance(&base, new))
}

/// Waits until the tables have few enough runs to get one more. In tables that were deleted that
/// never happens.
pub(super) fn wait_for_merges(tables: &Tables, is_over: impl Fn() -> bool) {
    while tables.runs() > RUNS_MAX && !is_over() {
        std::thread::sleep(MERGE_POLL);
    }
}
