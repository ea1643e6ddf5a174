//! One node of a cluster: its Raft while it runs, its disk, its clock, its state machine.

use std::collections::VecDeque;

use raft_core::{Config, Entry, Event, Index, Instant, Raft, RequestId, Ticket};

use super::store::{Image, Store};
use crate::clock::Clock;
use crate::oracles::Seen;

/// How a disk behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskMood {
    /// Syncs end by themselves.
    Working,
    /// Syncs wait until they are asked to end.
    Stalled,
}

/// A node and everything around it. Between a crash and a restart it has no Raft.
#[derive(Clone, Debug)]
pub struct Member {
    pub(super) config: Config,
    /// How many times it has started: what belongs to an earlier run is ignored.
    pub(super) run: u64,
    pub(super) raft: Option<Raft>,
    pub(super) store: Store,
    pub(super) disk: DiskMood,
    /// How many disks it has had before this one.
    pub(super) disks: u64,
    pub(super) clock: Clock,
    pub(super) paused: bool,
    /// What happened while it was paused.
    pub(super) backlog: VecDeque<Event>,
    pub(super) machine: Vec<Entry>,
    /// A snapshot is being taken.
    pub(super) is_building: bool,
    pub(super) next_request: u64,
    /// When the newest sync ends, so that syncs end in order.
    pub(super) synced_at: Instant,
}

impl Member {
    pub(super) fn new(config: Config, store: Store) -> Self {
        Self {
            config,
            run: 0,
            raft: None,
            store,
            disk: DiskMood::Working,
            disks: 0,
            clock: Clock::default(),
            paused: false,
            backlog: VecDeque::new(),
            machine: Vec::new(),
            is_building: false,
            next_request: 1,
            synced_at: Instant(0),
        }
    }

    /// The running Raft, or `None` while the node is down.
    pub fn raft(&self) -> Option<&Raft> {
        self.raft.as_ref()
    }

    /// Its disk.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The settings it starts with.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The state machine: the entries applied so far.
    pub fn machine(&self) -> &[Entry] {
        &self.machine
    }

    /// How far the state machine has come.
    pub fn applied(&self) -> Index {
        Index(self.machine.len() as u64)
    }

    /// How many times it has started.
    pub fn run(&self) -> u64 {
        self.run
    }

    /// Whether it runs and is not paused.
    pub fn is_up(&self) -> bool {
        self.raft.is_some() && !self.paused
    }

    /// The number of its next request.
    pub fn next_request(&self) -> RequestId {
        RequestId(self.next_request)
    }

    /// How its disk behaves.
    pub fn disk(&self) -> DiskMood {
        self.disk
    }

    /// When its timer is due, by the cluster's clock.
    pub(super) fn timer(&self) -> Option<Instant> {
        let raft = self.raft.as_ref().filter(|_| !self.paused)?;
        Some(self.global(raft.deadline()?))
    }

    pub(super) fn newest_pending(&self) -> Option<Ticket> {
        self.store.pending().last()
    }
}

impl Seen for Member {
    fn run(&self) -> u64 {
        self.run
    }

    fn live(&self) -> &Image {
        self.store.live()
    }

    fn durable(&self) -> &Image {
        self.store.durable()
    }

    fn applied(&self) -> Index {
        Index(self.machine.len() as u64)
    }

    fn local(&self, clock: Instant) -> Instant {
        self.clock.local(clock)
    }

    fn global(&self, local: Instant) -> Instant {
        self.clock.global(local)
    }
}
