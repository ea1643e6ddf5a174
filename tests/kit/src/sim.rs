//! A whole cluster in one thread: the driver, the applier, the log and the snapshots that ship,
//! on simulated disks, clocks and a simulated network. Virtual time; one seed is one history, bit
//! for bit.
//!
//! ```text
//!   Plan ─▶ acts ─────▶ ┌ Node ──────────────────────────────────┐ ◀─── clients ─▶ history
//!                       │ Driver(Raft) ─▶ Wal, Snapshots ─▶ disk │
//!   network ◀──────────▶│    └──▶ Applier ─▶ your state machine  │──▶ court: oracles, marks
//!                       └────────────────────────────────────────┘
//! ```
//!
//! First the acts of the plan happen, and only safety is demanded; then everything is mended, and
//! so must a leader, an answer to every call, and equal states come in bounded time.
//!
//! # Your own state machine
//!
//! [`Cluster::new`] runs any [`StateMachine`] on three nodes and under the faults of a seed, and
//! compares the bytes of its [`snapshot`](StateMachine::snapshot) on all nodes at equal applied
//! index, after restarts and after snapshots too. A machine that is not deterministic is caught:
//!
//! ```
//! use std::io::{Cursor, Read};
//!
//! use raft_core::{Entry, Index, Payload};
//! use raft_driver::StateMachine;
//! use raft_testkit::sim::Cluster;
//!
//! /// Adds up what it is told.
//! #[derive(Default)]
//! struct Sum(u64, Index);
//!
//! impl StateMachine for Sum {
//!     type Response = u64;
//!     type Error = std::io::Error;
//!
//!     fn applied(&self) -> Index {
//!         self.1
//!     }
//!
//!     fn apply(&mut self, entries: &[Entry], sums: &mut Vec<u64>) -> Result<(), Self::Error> {
//!         for entry in entries {
//!             self.1 = entry.index;
//!             if let Payload::Command(bytes) = &entry.payload {
//!                 self.0 += u64::from(bytes[0]);
//!                 sums.push(self.0);
//!             }
//!         }
//!         Ok(())
//!     }
//!
//!     fn snapshot(&self) -> Result<Box<dyn Read + Send>, Self::Error> {
//!         Ok(Box::new(Cursor::new(self.0.to_le_bytes())))
//!     }
//!
//!     fn restore(&mut self, applied: Index, state: &mut dyn Read) -> Result<(), Self::Error> {
//!         let mut sum = [0; 8];
//!         state.read_exact(&mut sum)?;
//!         *self = Self(u64::from_le_bytes(sum), applied);
//!         Ok(())
//!     }
//! }
//!
//! let cluster = Cluster::new(1, Sum::default);
//! let report = cluster.with_commands(|dice| vec![dice.below(256) as u8].into()).run();
//! println!("{} states were equal", report.expect("Sum is deterministic").compared);
//! ```

mod act;
mod callers;
mod court;
mod finale;
mod hand_out;
mod machine;
mod marks;
mod node;
mod perform;
mod plan;
mod recording;
mod run;
mod shadow;
mod ship;
mod shrink;
mod starting;
mod swarm;
mod take_in;
mod workload;

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use raft_core::{Config, Envelope, Instant, Lease, Membership, NodeId};
use raft_driver::{Policy, StateMachine};

pub use act::{Act, Weather};
pub use machine::Lists;
pub use marks::{Mark, Marks};
pub use plan::{Plan, Settings};
pub use run::{Report, Violation, recorded, run, story};
pub use shrink::shrink;
pub use swarm::{Fault, Faults, plan};
pub use workload::{Ask, End, Workload};

use crate::clock::Clock;
use crate::cluster::{Dice, Image, Network, node as id_of};
use callers::Caller;
use court::Court;
use machine::Hashes;
use node::{Applying, Node};
use shadow::Shadow;
use ship::Parcel;

/// A cluster of whole nodes.
pub struct Cluster<S: StateMachine> {
    plan: Plan,
    make: Box<dyn Fn() -> S>,
    workload: Box<dyn Workload<S>>,
    now: Instant,
    nodes: BTreeMap<NodeId, Node<S>>,
    network: Network,
    weather: Weather,
    /// The newest messages and the disks of their senders: any may come again.
    archive: VecDeque<(Envelope, u64)>,
    agenda: BTreeMap<(Instant, u64), (Due<S>, Origin)>,
    numbers: u64,
    court: Court,
    hashes: Hashes,
    callers: Vec<Caller>,
    /// Tries that were not answered yet, and the node and run that each was made at.
    open: BTreeMap<(u64, u64), (NodeId, u64)>,
    /// Chunks and offers that were sent: any may come again.
    parcels: VecDeque<Parcel>,
    /// Nodes whose disks may be damaged.
    minority: BTreeSet<NodeId>,
    dice: AllDice,
    is_over: bool,
    is_stuck: bool,
    recovery: Duration,
    judgement: String,
    figures: Figures,
    /// What has been found wrong.
    broken: Option<String>,
}

/// What was counted.
#[derive(Clone, Debug, Default)]
struct Figures {
    steps: u64,
    acts: BTreeMap<&'static str, u64>,
    restarts: u64,
    answered: u64,
    reads: u64,
    messages: u64,
    lost: u64,
}

/// Chance, one source for each matter: so that less of one changes little of another.
struct AllDice {
    network: Dice,
    disk: Dice,
    clients: Dice,
    nodes: Dice,
}

/// Something that will happen.
enum Due<S: StateMachine> {
    Act(usize),
    Node(NodeId, Happening<S>),
    Client(u64),
    GiveUp(u64, u64),
}

/// The run of the node that it belongs to, where it does not outlive it.
type Origin = Option<u64>;

/// Something that happens to a node.
enum Happening<S: StateMachine> {
    Heard(Envelope, u64),
    Parcel(Parcel),
    Written,
    Applied(Applying<S>),
    File(u64),
    Silence { peer: NodeId, transfer: u64, heard: u64 },
    Asked(u64, u64, Ask),
    Wish(raft_driver::Wish),
    Told(Sentence),
}

/// What a node is told by those who refuse it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sentence {
    Removed,
    Impostor,
}

impl<S: StateMachine> Cluster<S> {
    /// A cluster of three nodes of this machine, under the faults of this seed. It has no clients
    /// yet; see [`with_commands`](Self::with_commands).
    pub fn new(seed: u64, make: impl Fn() -> S + 'static) -> Self {
        let plan = plan(seed, &Faults::all(), Some(3));
        Self::planned(plan, make, |_| {
            Box::new(workload::Proposers::new(0, Box::new(|_| "".into())))
        })
    }

    /// Four clients that propose these commands.
    #[must_use]
    pub fn with_commands(self, commands: impl FnMut(&mut Dice) -> bytes::Bytes + 'static) -> Self {
        let clients = workload::Proposers::new(4, Box::new(commands));
        self.with_clients(Box::new(clients))
    }

    /// These clients.
    #[must_use]
    pub fn with_clients(mut self, workload: Box<dyn Workload<S>>) -> Self {
        self.callers = (0..workload.clients()).map(|_| Caller::default()).collect();
        self.workload = workload;
        self
    }

    /// A cluster to which this is done.
    pub fn planned(
        plan: Plan,
        make: impl Fn() -> S + 'static,
        workload: impl FnOnce(&Settings) -> Box<dyn Workload<S>>,
    ) -> Self {
        Self::told(plan, make, workload, false)
    }

    fn told(
        plan: Plan,
        make: impl Fn() -> S + 'static,
        workload: impl FnOnce(&Settings) -> Box<dyn Workload<S>>,
        with_story: bool,
    ) -> Self {
        let founders = (1..=plan.nodes).map(id_of);
        let founders = Membership::new(founders).expect("a cluster has nodes");
        let workload = workload(&plan.settings);
        let dice = |salt: u64| Dice::new(plan.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ salt);
        let dice = AllDice { network: dice(1), disk: dice(2), clients: dice(3), nodes: dice(4) };
        let latency_ms = plan.settings.latency_us.div_ceil(1000);
        let mut cluster = Self {
            make: Box::new(make),
            callers: (0..workload.clients()).map(|_| Caller::default()).collect(),
            workload,
            now: Instant(0),
            nodes: BTreeMap::new(),
            network: Network::default(),
            archive: VecDeque::new(),
            weather: Weather { lost: 0, repeated: 0, latency_ms },
            agenda: BTreeMap::new(),
            numbers: 0,
            court: Court::new(founders.clone(), with_story),
            hashes: Hashes::default(),
            open: BTreeMap::new(),
            parcels: VecDeque::new(),
            minority: minority(&plan),
            dice,
            is_over: false,
            is_stuck: false,
            recovery: Duration::ZERO,
            judgement: String::new(),
            figures: Figures::default(),
            broken: None,
            plan,
        };
        for id in (1..=cluster.plan.nodes).map(id_of) {
            cluster.settle_in(id, founders.clone());
        }
        cluster
    }

    fn settle_in(&mut self, id: NodeId, founders: Membership) {
        let settings = &self.plan.settings;
        let ppm = i64::from(settings.clock_error_ppm);
        let rate_ppm = self.dice.nodes.pick(&[-ppm, 0, ppm]);
        let clock = Clock { skew: Duration::ZERO, rate_ppm };
        let policy = Policy { entries: settings.snapshot_entries.max(1), bytes: 1 << 30 };
        let config = config(id, settings);
        let mut node = Node::new(config, policy, founders.clone(), clock);
        node.segment_bytes = settings.segment_bytes.max(4096);
        if settings.lying_disk {
            node.disk.lie_about_syncs();
        }
        let image = Image::new(founders, Default::default(), Vec::new());
        self.court.bench().shadows.insert(id, Shadow::new(image, clock));
        self.nodes.insert(id, node);
        self.start(id);
    }

    fn schedule(&mut self, after: Duration, due: Due<S>, origin: Origin) {
        self.numbers += 1;
        self.agenda.insert((self.now + after, self.numbers), (due, origin));
    }

    fn happen_later(&mut self, id: NodeId, after: Duration, what: Happening<S>) {
        let run = self.nodes[&id].run;
        self.schedule(after, Due::Node(id, what), Some(run));
    }

    fn break_off(&mut self, reason: String) {
        self.broken.get_or_insert(reason);
    }

    fn mark(&self, mark: Mark) {
        self.court.bench().mark(mark);
    }

    fn tell_story(&self, what: impl FnOnce() -> String) {
        self.court.bench().tell(what);
    }

    fn get(&mut self, id: NodeId) -> &mut Node<S> {
        self.nodes.get_mut(&id).expect("the node exists")
    }

    /// The leader of the newest term among the nodes that are up.
    fn leader(&self) -> Option<NodeId> {
        let rafts = self.nodes.values().filter(|node| node.is_up()).filter_map(Node::raft);
        let leaders = rafts.filter(|raft| raft.role() == raft_core::RoleKind::Leader);
        leaders.max_by_key(|raft| raft.term()).map(raft_core::Raft::id)
    }
}

/// Whose disks may be damaged, or lost: as many as the others can do without.
fn minority(plan: &Plan) -> BTreeSet<NodeId> {
    let most = (plan.nodes.saturating_sub(1)) / 2;
    let first = plan.seed % plan.nodes.max(1);
    (0..most).map(|number| id_of((first + number) % plan.nodes + 1)).collect()
}

fn config(id: NodeId, settings: &Settings) -> Config {
    let mut config = Config::new(id);
    config.check_invariants = true;
    config.pre_vote = settings.pre_vote;
    config.check_quorum = settings.check_quorum;
    config.forward_proposals = settings.forward;
    config.snapshot_tail_entries = settings.tail_entries;
    config.disk_stall_timeout = Duration::from_millis(settings.stall_ms);
    if settings.lease {
        let clock_error_ppm = settings.clock_error_ppm;
        config.lease = Some(Lease { clock_error_ppm, margin: Duration::ZERO });
    }
    if settings.tight {
        config.append_bytes_max = 150;
        config.inflight_appends_max = 2;
        config.inflight_bytes_max = 1000;
        config.uncommitted_bytes_max = 3000;
        config.recent_bytes_max = 500;
    }
    config
}
