//! A Raft group in memory: N nodes of the shipped core on simulated disks, a simulated network
//! and virtual time. One seed is one history. It never touches a real clock, disk or socket.
//!
//! ```text
//!            ┌────────── agenda: syncs, loads, applies ──────────┐
//!            ▼                                                   │
//!   clock ─▶ step() ─▶ Raft::handle ─▶ oracles look ─▶ effects ──┤
//!            ▲                                                   │
//!            └────────── network: messages on their way ─────────┘
//! ```
//!
//! ```
//! use raft_testkit::cluster::{Cluster, Options};
//! use std::time::Duration;
//!
//! let mut cluster = Cluster::new(Options::default());
//! cluster.run_for(Duration::from_secs(5));
//! let leader = cluster.leader().expect("three healthy nodes have a leader");
//! cluster.propose(leader, ["x"]);
//! cluster.run_for(Duration::from_secs(1));
//! assert!(cluster.members().all(|(_, member)| member.applied().0 == 2)); // and the empty one
//! ```

mod dice;
mod member;
mod network;
pub mod partitions;
mod perform;
mod recording;
mod requests;
mod snapshots;
mod store;
mod time;
pub mod weather;

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use raft_core::{
    Config, Effect, Envelope, Event, HardState, Incarnation, Index, Instant, Membership, NodeId,
    Raft, RoleKind, Term, Ticket,
};
use raft_driver::trace::{Recorder, Sink};

pub use crate::oracles::{Ending, Ledger, Oracles};
pub use dice::Dice;
pub use member::{DiskMood, Member};
pub use network::{Link, Network, Slot};
pub use store::{File, Image, Store};

use snapshots::Transfer;

use crate::oracles::Seen as _;

/// The least and the most that something takes.
pub type Span = (Duration, Duration);

/// How well network and disks work.
#[derive(Clone, Debug)]
pub struct Conditions {
    /// How long a message takes.
    pub latency: Span,
    /// How many messages in a thousand are lost.
    pub lost: u64,
    /// How many messages in a thousand arrive twice.
    pub repeated: u64,
    /// How long a sync takes.
    pub sync: Span,
    /// How long it takes to load entries.
    pub load: Span,
    /// How many loads in a thousand read the log at the end of that time and not at its beginning.
    pub late: u64,
    /// How long it takes to take a snapshot.
    pub build: Span,
    /// How long it takes to send a snapshot.
    pub transfer: Span,
    /// How many transfers of snapshots in a thousand fail.
    pub broken: u64,
    /// How long it takes to hear that entries were applied.
    pub apply: Span,
}

impl Default for Conditions {
    /// A network of one millisecond, and disks that take no time.
    fn default() -> Self {
        let (at_once, soon) = (Duration::ZERO, Duration::from_millis(1));
        Self {
            latency: (soon, soon),
            lost: 0,
            repeated: 0,
            sync: (at_once, at_once),
            load: (at_once, at_once),
            late: 0,
            build: (at_once, at_once),
            transfer: (soon, soon),
            broken: 0,
            apply: (at_once, at_once),
        }
    }
}

/// What a node does first when it wakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// It hears what it has missed.
    EarsFirst,
    /// It looks at its clock.
    ClockFirst,
}

/// What a cluster begins with.
#[derive(Clone, Debug)]
pub struct Options {
    /// How many nodes: N1, N2, and so on.
    pub nodes: u64,
    /// Everything that is left to chance.
    pub seed: u64,
    /// The settings of every node, but for the id.
    pub config: Config,
    /// Network and disks.
    pub conditions: Conditions,
    /// After how many entries each node takes a snapshot; never by itself where it is `None`.
    pub snapshot_every: Option<u64>,
    /// Prints every step to stderr.
    pub trace: bool,
    /// Where every step is recorded, if anywhere.
    pub sink: Option<Sink>,
}

impl Default for Options {
    /// Three healthy nodes with the default settings.
    fn default() -> Self {
        Self {
            nodes: 3,
            seed: 1,
            config: Config::new(node(1)),
            conditions: Conditions::default(),
            snapshot_every: None,
            trace: false,
            sink: None,
        }
    }
}

/// The node with this number.
///
/// # Panics
/// When it is zero.
pub fn node(number: u64) -> NodeId {
    NodeId::new(number).expect("nodes are numbered from one")
}

/// Something that happens to a node later.
#[derive(Clone, Debug)]
enum Task {
    Sync(Ticket),
    Tell(Event),
    Load(Load),
    Build(File),
    Transfer(Transfer),
}

/// Entries that are wanted out of storage.
#[derive(Clone, Copy, Debug)]
struct Load {
    peer: NodeId,
    first: Index,
    last: Index,
    bytes_max: usize,
}

/// A group of nodes and the world around them.
#[derive(Clone, Debug)]
pub struct Cluster {
    clock: Instant,
    dice: Dice,
    founders: Membership,
    members: BTreeMap<NodeId, Member>,
    network: Network,
    /// The newest transfer of a snapshot on each link.
    transfers: BTreeMap<Link, u64>,
    /// The newest snapshots that were sent, arrived or not: any may arrive much later.
    sent: VecDeque<Transfer>,
    snapshot_every: Option<u64>,
    config: Config,
    /// What will happen, to which node in which of its runs.
    agenda: BTreeMap<Slot, (NodeId, u64, Task)>,
    numbers: u64,
    conditions: Conditions,
    oracles: Oracles,
    news: Vec<(NodeId, Effect)>,
    trace: bool,
    sink: Option<Sink>,
    recorders: BTreeMap<NodeId, Recorder>,
}

/// Building it, and looking at it.
impl Cluster {
    /// A cluster of new nodes, all started.
    ///
    /// # Panics
    /// When the settings cannot work, or there are no nodes.
    pub fn new(options: Options) -> Self {
        let ids = || (1..=options.nodes).map(node);
        let founders = Membership::new(ids()).expect("a cluster has nodes");
        let mut cluster = Self {
            clock: Instant(0),
            dice: Dice::new(options.seed),
            members: BTreeMap::new(),
            network: Network::default(),
            transfers: BTreeMap::new(),
            sent: VecDeque::new(),
            snapshot_every: options.snapshot_every,
            config: options.config,
            agenda: BTreeMap::new(),
            numbers: 0,
            conditions: options.conditions,
            oracles: Oracles::new(founders.clone()),
            founders: founders.clone(),
            news: Vec::new(),
            trace: options.trace,
            sink: options.sink,
            recorders: BTreeMap::new(),
        };
        for id in ids() {
            cluster.settle_in(id, &founders);
        }
        cluster
    }

    fn settle_in(&mut self, id: NodeId, known: &Membership) {
        let config = Config { id, ..self.config.clone() };
        let image = Image::new(known.clone(), HardState::default(), Vec::new());
        let earlier = self.members.insert(id, Member::new(config, Store::new(image)));
        assert!(earlier.is_none(), "there is a {id:?} already");
        self.restart(id);
    }

    /// Who founded the group.
    pub fn founders(&self) -> &Membership {
        &self.founders
    }

    /// The time that has passed.
    pub fn clock(&self) -> Instant {
        self.clock
    }

    /// The nodes' ids.
    pub fn ids(&self) -> Vec<NodeId> {
        self.members.keys().copied().collect()
    }

    /// One node.
    ///
    /// # Panics
    /// When there is no such node.
    pub fn member(&self, id: NodeId) -> &Member {
        &self.members[&id]
    }

    /// All nodes.
    pub fn members(&self) -> impl Iterator<Item = (NodeId, &Member)> {
        self.members.iter().map(|(&id, member)| (id, member))
    }

    /// The network, to cut and to mend.
    pub fn network(&mut self) -> &mut Network {
        &mut self.network
    }

    /// The oracles, and what they know.
    pub fn oracles(&self) -> &Oracles {
        &self.oracles
    }

    /// The dice, so that a test's choices belong to the same seed.
    pub fn dice(&mut self) -> &mut Dice {
        &mut self.dice
    }

    /// The leader of the newest term among the nodes that are up.
    pub fn leader(&self) -> Option<NodeId> {
        let rafts = self.members.values().filter(|member| member.is_up());
        let leaders = rafts.filter_map(Member::raft).filter(|raft| raft.role() == RoleKind::Leader);
        leaders.max_by_key(|raft| raft.term()).map(Raft::id)
    }

    /// The newest term that any node knows.
    pub fn term(&self) -> Term {
        let terms = self.members.values().filter_map(Member::raft).map(Raft::term);
        terms.max().unwrap_or_default()
    }

    /// The role changes and the ends of requests since the last time.
    pub fn take_news(&mut self) -> Vec<(NodeId, Effect)> {
        std::mem::take(&mut self.news)
    }
}

/// What can be done to it.
impl Cluster {
    /// Network and disks get better or worse.
    pub fn set_conditions(&mut self, conditions: Conditions) {
        self.conditions = conditions;
    }

    /// Changes a node's settings, from its next start on.
    pub fn configure(&mut self, id: NodeId, change: impl FnOnce(&mut Config)) {
        change(&mut self.get_mut(id).config);
    }

    /// Stops a node at once. Of what was not durable, the `kept` oldest writes survive.
    pub fn crash(&mut self, id: NodeId, kept: usize) {
        let member = self.get_mut(id);
        if member.raft.take().is_some() {
            member.store.crash(kept);
            member.backlog.clear();
            (member.paused, member.is_building) = (false, false);
            self.cancel_snapshots(id);
            self.oracles.on_crash(id);
            self.record_crash(id);
            self.note(id, || "crashes".into());
        }
    }

    /// Starts a node from its durable image. Its state machine keeps what it had applied.
    ///
    /// # Panics
    /// When the image cannot be started from.
    pub fn restart(&mut self, id: NodeId) {
        let (seed, clock) = (self.dice.any(), self.clock);
        let member = self.get_mut(id);
        if member.raft.is_some() {
            return;
        }
        member.run += 1;
        member.next_request = 1; // A new run numbers its requests anew.
        let saved = member.store.durable().saved(member.applied());
        let now = member.local(clock);
        let raft = Raft::restore(member.config.clone(), saved, seed, now).expect("it can start");
        member.raft = Some(raft);
        let member = &self.members[&id];
        self.oracles.on_start(id, member.raft().expect("it runs"), member);
        self.record_start(id);
        self.note(id, || "starts".into());
    }

    /// The state machine of a node that is down loses what it applied after the first `kept`
    /// entries, as one that saves itself only now and then.
    pub fn forget_applied(&mut self, id: NodeId, kept: usize) {
        let member = self.get_mut(id);
        assert!(member.raft.is_none(), "only a node that is down forgets");
        member.machine.truncate(kept);
    }

    /// Replaces the disk of a node that is down, and empties its state machine.
    pub fn replace_disk(&mut self, id: NodeId, image: Image) {
        self.oracles.on_image(image.log());
        let member = self.get_mut(id);
        assert!(member.raft.is_none(), "only the disk of a node that is down is replaced");
        member.store = Store::new(image);
        member.disks += 1;
        member.machine.clear();
    }

    /// Everything behind `last` on the disk of a node that is down turns out to be damaged. The
    /// node knows how much there was.
    pub fn damage(&mut self, id: NodeId, last: Index) {
        let member = self.get_mut(id);
        assert!(member.raft.is_none(), "damage is found by a node that starts");
        member.store.damage(last);
        self.note(id, || format!("is damaged behind {last}"));
    }

    /// Starts a new, empty node that knows nobody. It waits to be added to the group.
    pub fn add_node(&mut self, id: NodeId) {
        self.settle_in(id, &Membership::unknown());
    }

    /// `at` learns which disk `peer` has.
    pub fn identify(&mut self, at: NodeId, peer: NodeId, incarnation: Incarnation) {
        self.tell(at, Event::Identified { peer, incarnation });
    }

    /// Stops a node's clock and ears. Its disk works on, but it does not hear of it.
    pub fn pause(&mut self, id: NodeId) {
        self.get_mut(id).paused = true;
        self.note(id, || "pauses".into());
    }

    /// Wakes a paused node: it hears all that happened meanwhile, before or after it looks at
    /// its clock.
    pub fn resume(&mut self, id: NodeId, wake: Wake) {
        let member = self.get_mut(id);
        member.paused = false;
        let backlog = std::mem::take(&mut member.backlog);
        self.note(id, || "resumes".into());
        let is_due = self.members[&id].timer().is_some_and(|due| due <= self.clock);
        if wake == Wake::ClockFirst && is_due {
            self.fire(id);
        }
        for event in backlog {
            self.tell(id, event);
        }
    }

    /// Moves a node's clock ahead of the others'.
    pub fn skip_clock(&mut self, id: NodeId, by: Duration) {
        self.get_mut(id).clock.skew += by;
    }

    /// A node's clock runs faster by so many millionths, or slower, and always did.
    ///
    /// # Panics
    /// When time has passed already.
    pub fn set_clock_rate(&mut self, id: NodeId, ppm: i64) {
        assert_eq!(self.clock, Instant(0), "a clock does not jump");
        self.get_mut(id).clock.rate_ppm = ppm;
    }

    /// Moves a node's clock ahead until its patience ends: it stands for election.
    pub fn campaign(&mut self, id: NodeId) {
        let state = |cluster: &Self| cluster.members[&id].raft().map(|it| (it.role(), it.term()));
        let before = state(self);
        for _ in 0..8 {
            let Some(due) = self.members[&id].timer() else { return };
            let early = due.since(self.clock);
            self.skip_clock(id, early);
            self.tell(id, Event::Timer);
            if state(self) != before {
                return;
            }
        }
    }

    /// The node's disk stalls, or works again and ends all syncs.
    pub fn set_disk(&mut self, id: NodeId, mood: DiskMood) {
        let member = self.get_mut(id);
        let was = std::mem::replace(&mut member.disk, mood);
        let newest = member.newest_pending();
        if let (DiskMood::Stalled, DiskMood::Working, Some(ticket)) = (was, mood, newest) {
            self.schedule_sync(id, ticket);
        }
    }

    /// Ends the oldest sync of a stalled disk. Returns whether there was one.
    pub fn sync_one(&mut self, id: NodeId) -> bool {
        let oldest = self.members[&id].store.pending().next();
        if let Some(ticket) = oldest {
            self.end_sync(id, ticket);
        }
        oldest.is_some()
    }

    /// The node's storage fails, for good.
    pub fn fail_storage(&mut self, id: NodeId) {
        self.tell(id, Event::StorageFailed);
    }

    /// Delivers, or repeats, or invents a message.
    pub fn deliver(&mut self, envelope: Envelope) {
        self.tell(envelope.to, Event::Receive(envelope));
    }
}
