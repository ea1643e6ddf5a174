//! One whole node: the real driver and the real applier, the real log and snapshots on a simulated
//! disk, and what it has under way. It decides nothing: what is done when stands in the cluster.

use std::collections::{BTreeMap, VecDeque};
use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;

use raft_core::{
    Config, Incarnation, Index, Instant, LogPosition, LogReader as _, LogStore as _, Membership,
    NodeId, Raft, Snapshot, Term, Write,
};
use raft_driver::{Applier, Driver, Found, Load, Performed, Policy, Settings, StateMachine, Task};
use raft_storage::{
    Identity, OpenError, Options, Preparation, Snapshots, StateKept, Wal, WalReader,
};

use super::machine::Judged;
use super::ship::{Incoming, Outgoing, Parcel};
use crate::clock::Clock;
use crate::disk::SimDisk;

/// The group that all nodes belong to.
const CLUSTER_ID: u64 = 0x51;

/// Who waits: the client, and which of its tries that was.
pub(super) type Waiter = (u64, u64);

pub(super) fn dir() -> PathBuf {
    PathBuf::from("/node")
}

/// A node, running or not.
pub(super) struct Node<S: StateMachine> {
    pub(super) config: Config,
    pub(super) policy: Policy,
    pub(super) segment_bytes: u64,
    pub(super) disk: SimDisk,
    pub(super) disk_state: DiskState,
    pub(super) clock: Clock,
    pub(super) run: u64,
    /// Whom it was founded with; nobody where it joins.
    pub(super) founders: Membership,
    /// Its disk's number, once it has a log.
    pub(super) incarnation: u64,
    pub(super) running: Option<Running<S>>,
    /// What happened while it stood still; `None` while it does not.
    pub(super) paused: Option<VecDeque<super::Happening<S>>>,
    /// Its group has removed it, or knows it with another disk: it never starts again.
    pub(super) gone: Option<&'static str>,
    /// When its timer is due, by the true clock.
    pub(super) due: Option<Instant>,
}

/// How a disk behaves.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DiskState {
    pub(super) stalled: bool,
    /// It takes so many milliseconds longer.
    pub(super) slow_ms: u64,
}

/// What a process has in memory.
pub(super) struct Running<S: StateMachine> {
    pub(super) driver: Driver<Waiter>,
    pub(super) wal: Wal,
    pub(super) reader: WalReader,
    pub(super) snapshots: Snapshots,
    pub(super) applier: Applier<Judged<S>, WalReader>,
    /// To be written next, all together.
    pub(super) writes: Vec<Write>,
    pub(super) writing: Vec<Write>,
    pub(super) tasks: VecDeque<Task<Waiter>>,
    pub(super) is_applying: bool,
    /// What is under way with files, by number.
    pub(super) files: BTreeMap<u64, FileJob>,
    pub(super) incoming: Incoming,
    pub(super) outgoing: BTreeMap<NodeId, Outgoing>,
    /// The disks of the peers it has told its driver of.
    pub(super) identified: BTreeMap<NodeId, Incarnation>,
}

/// Something that a thread of its own does with files.
pub(super) enum FileJob {
    Build(Snapshot, Box<dyn Read + Send>),
    Retain(LogPosition),
    Open { peer: NodeId, term: Term },
    Load(Load),
    Receive(Parcel),
}

/// What a state machine was asked to do: done at the beginning of the time it takes, or at its end.
pub(super) enum Applying<S: StateMachine> {
    Now(Performed<Waiter, Judged<S>>),
    Later(Task<Waiter>),
}

/// What was found when a node started.
pub(super) struct Opened {
    pub(super) wal: Wal,
    pub(super) saved: raft_core::Saved,
    pub(super) repairs: Vec<String>,
    pub(super) is_snapshot_lost: bool,
}

/// Why a node does not start.
#[derive(Debug)]
pub(super) enum Unopened {
    /// The disk fails or is full.
    Disk(String),
    /// What is damaged may be a promise.
    Damage(String),
}

impl<S: StateMachine> Node<S> {
    pub(super) fn new(config: Config, policy: Policy, founders: Membership, clock: Clock) -> Self {
        Self {
            config,
            policy,
            segment_bytes: 32 << 10,
            disk: SimDisk::new(),
            disk_state: DiskState::default(),
            clock,
            run: 0,
            founders,
            incarnation: 0,
            running: None,
            paused: None,
            gone: None,
            due: None,
        }
    }

    pub(super) fn id(&self) -> NodeId {
        self.config.id
    }

    pub(super) fn raft(&self) -> Option<&Raft> {
        self.running.as_ref().map(|running| running.driver.raft())
    }

    pub(super) fn is_up(&self) -> bool {
        self.running.is_some() && self.paused.is_none()
    }

    pub(super) fn options(&self, state_kept: StateKept) -> Options {
        let mut options = Options::on(Arc::new(self.disk.clone()));
        options.segment_bytes = self.segment_bytes;
        options.preparation = Preparation::Inline;
        options.state_kept = state_kept;
        options
    }

    /// Opens the log, or makes one; `fresh` is the number of a new disk.
    pub(super) fn open(&mut self, fresh: u64) -> Result<Opened, Unopened> {
        let (dir, options) = (dir(), self.options(StateKept::Elsewhere));
        let disk = |error: &dyn ToString| Unopened::Disk(error.to_string());
        let exists = Wal::exists(&dir, &options).map_err(|error| disk(&error))?;
        let (wal, recovered) = if exists {
            let owner = raft_storage::Owner { cluster_id: CLUSTER_ID, node_id: self.id() };
            Wal::open(&dir, owner, &options).map_err(unopened)?
        } else {
            let identity =
                Identity { cluster_id: CLUSTER_ID, node_id: self.id(), incarnation: fresh };
            let made = Wal::create(&dir, identity, &self.founders, &options);
            made.map_err(|error| disk(&error))?
        };
        let (base, last) = (recovered.log.base().index, recovered.snapshot);
        if base == Index::ZERO || wal.snapshots().verify(last).is_ok() {
            let repairs = recovered.repairs.clone();
            self.incarnation = recovered.identity.incarnation;
            let saved = recovered.into_saved(Index::ZERO);
            return Ok(Opened { wal, saved, repairs, is_snapshot_lost: false });
        }
        // The state machine lives in memory: without its snapshot the log is damaged.
        if wal.snapshots().at(last).is_ok() {
            wal.snapshots().set_aside(last).map_err(|error| disk(&error))?;
        }
        let owner = recovered.identity.owner();
        drop(wal);
        let opened = Wal::open(&dir, owner, &self.options(StateKept::InSnapshot));
        let (wal, recovered) = opened.map_err(unopened)?;
        let repairs = recovered.repairs.clone();
        self.incarnation = recovered.identity.incarnation;
        let saved = recovered.into_saved(Index::ZERO);
        Ok(Opened { wal, saved, repairs, is_snapshot_lost: true })
    }

    /// Puts a process together around an open log.
    pub(super) fn assemble(
        &self,
        opened: Opened,
        machine: Judged<S>,
        seed: u64,
        now: Instant,
    ) -> Result<Running<S>, String> {
        let Opened { wal, saved, .. } = opened;
        let (snapshots, reader) = (wal.snapshots(), wal.reader());
        let found = Found::at_start(&saved, machine.durable(), &snapshots)?;
        let mut config = self.config.clone();
        config.incarnation = Incarnation::new(self.incarnation);
        let settings =
            Settings { election_timeout: config.election_timeout, policy: self.policy, found };
        let raft = Raft::restore(config, saved, seed, self.clock.local(now));
        let raft = raft.map_err(|error| error.to_string())?;
        Ok(Running {
            driver: Driver::new(raft, settings),
            applier: Applier::new(machine, reader.clone(), Arc::new(snapshots.clone())),
            wal,
            reader,
            snapshots,
            writes: Vec::new(),
            writing: Vec::new(),
            tasks: VecDeque::new(),
            is_applying: false,
            files: BTreeMap::new(),
            incoming: Incoming::default(),
            outgoing: BTreeMap::new(),
            identified: BTreeMap::new(),
        })
    }
}

/// The entries that an open log holds.
pub(super) fn entries(opened: &Opened) -> Result<Vec<raft_core::Entry>, String> {
    let (mut entries, log) = (Vec::new(), &opened.saved.log);
    let (mut next, last) = (log.base().index.next(), log.last_index());
    while next <= last {
        let read = opened.wal.reader().read(next, last, usize::MAX, &mut entries);
        read.map_err(|error| error.to_string())?;
        let newest = entries.last().map(|entry: &raft_core::Entry| entry.index);
        match newest {
            Some(newest) if newest >= next => next = newest.next(),
            Some(_) | None => return Err(format!("the log does not give its entry {next}")),
        }
    }
    Ok(entries)
}

fn unopened(error: OpenError) -> Unopened {
    match error {
        OpenError::Disk(_) => Unopened::Disk(error.to_string()),
        _ => Unopened::Damage(error.to_string()),
    }
}
