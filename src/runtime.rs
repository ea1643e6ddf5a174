//! Starts a node: its threads, and the task that drives it.

use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use raft_core::{Envelope, Incarnation, Instant, LogStore, Raft, Saved, SnapshotStore};
use raft_driver::trace::{Recorder, Run, Sink};
use raft_driver::{Applier, Driver, Found, Policy, Settings, StateMachine};
use tokio::sync::{Semaphore, mpsc, watch};

use crate::apply;
use crate::clock::Clock;
use crate::error::{StartError, StopReason};
use crate::node::{Node, Shared};
use crate::shell::{Shell, Views};
use crate::status::{Leadership, Members, Status};
use crate::storage;
use crate::transfers::Transfers;
use crate::transport::{Notice, Peers};

/// How many requests may wait for the driver; beyond, callers wait.
const REQUESTS_MAX: usize = 4096;

/// Settings of a node: the core's, and the engine's own.
#[derive(Clone, Debug)]
pub struct Config {
    /// The core's settings.
    pub raft: raft_core::Config,
    /// The most bytes of commands that may be under way through one node's handle, from the
    /// call until the answer; beyond, callers wait. 64 MiB.
    pub proposing_bytes_max: usize,
    /// A snapshot is taken when so many entries were applied after the last one. 100 000.
    pub snapshot_entries: u64,
    /// Or so many bytes of log. 64 MiB.
    pub snapshot_bytes: u64,
    /// Where every step of the core is recorded, if anywhere. It costs nothing where it is off.
    pub trace: Option<Sink>,
}

impl Config {
    /// The defaults around these settings of the core.
    pub fn new(raft: raft_core::Config) -> Self {
        Self {
            raft,
            proposing_bytes_max: 64 << 20,
            snapshot_entries: 100_000,
            snapshot_bytes: 64 << 20,
            trace: None,
        }
    }

    pub(crate) fn validate(&self) -> Result<(), StartError> {
        let wrong = |reason| Err(StartError::Settings(reason));
        let (most, entry) = (self.proposing_bytes_max, self.raft.entry_bytes_max);
        if most < entry {
            return wrong(format!(
                "proposing_bytes_max ({most}) is less than entry_bytes_max ({entry}), so the \
                 largest entry could never be proposed; raise it"
            ));
        }
        for (name, value) in
            [("snapshot_entries", self.snapshot_entries), ("snapshot_bytes", self.snapshot_bytes)]
        {
            if value == 0 {
                return wrong(format!("{name} is zero; give it at least one"));
            }
        }
        Ok(())
    }
}

/// What a node is made of.
pub struct Parts<L, T, S> {
    /// The log.
    pub store: L,
    /// The snapshots.
    pub snapshots: Arc<dyn SnapshotStore>,
    /// The way to the others.
    pub transport: Arc<T>,
    /// What comes from them.
    pub inbox: Inbox,
    /// The state machine.
    pub machine: S,
}

/// Where a transport puts what it receives.
#[derive(Debug)]
pub struct Inbox {
    /// Elections, heartbeats and read rounds.
    pub control: mpsc::Receiver<Vec<Envelope>>,
    /// Entries, and what must stay in order with them.
    pub bulk: mpsc::Receiver<Vec<Envelope>>,
    /// Everything else.
    pub notices: mpsc::Receiver<Notice>,
}

/// Starts a node on any store, transport and state machine. `saved` is what the store
/// recovered; [`Builder`](crate::Builder) does all this for the adapters of this crate.
///
/// # Errors
/// Settings or a recovered state that cannot work; see [`StartError`].
///
/// # Panics
/// Outside of a tokio runtime.
pub fn start<L, T, S>(
    config: Config,
    saved: Saved,
    parts: Parts<L, T, S>,
) -> Result<Node<S::Response>, StartError>
where
    L: LogStore,
    T: Peers,
    S: StateMachine,
{
    let clock = Clock::start();
    config.validate()?;
    let Parts { store, snapshots, transport, inbox, machine } = parts;
    let (applied, base) = (saved.applied, saved.log.base().index);
    let found = Found::at_start(&saved, machine.durable(), &*snapshots);
    let found = found.map_err(|reason| StartError::Snapshot { applied, base, reason })?;
    let policy = Policy { entries: config.snapshot_entries, bytes: config.snapshot_bytes };
    let (timeout, heartbeat) = (config.raft.election_timeout, config.raft.heartbeat_interval);
    let (entry_bytes_max, most) = (config.raft.entry_bytes_max, config.proposing_bytes_max);
    let disk = config.raft.incarnation.map(Incarnation::get);
    let recorder = config.trace.map(|sink| Recorder::new(run(clock, disk), sink));
    let raft = Raft::restore(config.raft, saved, rand::random(), Instant(0))?;

    let (reports, completions) = mpsc::unbounded_channel();
    let (requests, requested) = mpsc::channel(REQUESTS_MAX);
    let (leadership, leadership_seen) = watch::channel(Leadership::of(&raft));
    let (members, members_seen) = watch::channel(Members::of(&raft));
    let (applied, applied_seen) = watch::channel(raft.applied_index());
    let (stopped, stopped_seen) = watch::channel(None);
    let status = Arc::new(Mutex::new(Status::of(&raft, &Transfers::default())));
    let reader = store.reader();
    let applier = Arc::new(Applier::new(machine, reader.clone(), Arc::clone(&snapshots)));
    let applying = apply::start(Arc::clone(&applier), reports.clone());
    let (tasks, apply_thread) = applying.map_err(StartError::Thread)?;
    let storage = storage::start(store, reports.clone());
    let (writes, storage_thread) = storage.map_err(StartError::Thread)?;
    transport.reach(raft.membership());
    let views = Views { leadership, members, applied, status: Arc::clone(&status) };
    let settings = Settings { election_timeout: timeout, policy, found };
    let id = raft.id();
    let mut driver = Driver::new(raft, settings);
    if let Some(mut recorder) = recorder.clone() {
        recorder.start(clock.now(), driver.raft());
        driver.observe(Box::new(recorder));
    }
    let shell = Shell {
        driver,
        work: Default::default(),
        clock,
        grace: timeout,
        linger: heartbeat,
        requested,
        inbox,
        completions,
        reports,
        transport,
        reader,
        writes,
        applier,
        tasks,
        queued: 0,
        snapshots,
        transfers: Transfers::default(),
        builder: Default::default(),
        leaving: None,
        views,
    };
    tokio::spawn(async move {
        let reason = shell.run([storage_thread, apply_thread]).await;
        if let Some(recorder) = recorder {
            recorder.stop(clock.now(), id);
        }
        match &reason {
            StopReason::Shutdown => tracing::info!("stopped"),
            failed => tracing::error!("stopped: {failed}"),
        }
        // Nobody may be left to hear it.
        let _ = stopped.send(Some(reason));
    });
    Ok(Node::new(Shared {
        requests,
        budget: Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS))),
        entry_bytes_max,
        leadership: leadership_seen,
        members: members_seen,
        applied: applied_seen,
        stopped: stopped_seen,
        clock,
        status,
    }))
}

/// This run as a trace knows it: by the time of day at which its clock began.
fn run(clock: Clock, disk: Option<u64>) -> Run {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = u64::try_from(since_1970.as_nanos()).unwrap_or(u64::MAX);
    Run { number: now / 1000, disk, epoch_nanos: now.saturating_sub(clock.now().0) }
}
