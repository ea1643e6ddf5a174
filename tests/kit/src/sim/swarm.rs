//! Makes a plan of a seed. Each seed has some kinds of faults and not others, each with a weight of
//! its own: so that one kind is sometimes seen alone, and sometimes with one other.

use std::fmt;

use raft_core::{Change, NewMember, NodeId};

use super::act::{Act, Weather};
use super::plan::{Plan, Settings};
use crate::cluster::{Dice, node};
use crate::disk::Operation;

macro_rules! faults {
    ($($name:ident $word:literal $weight:literal,)+) => {
        /// A kind of fault.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Fault {
            $(#[doc = $word] $name,)+
        }

        impl Fault {
            /// All kinds.
            pub const ALL: &[Self] = &[$(Self::$name,)+];

            /// Its name on the command line.
            pub fn word(self) -> &'static str {
                match self {
                    $(Self::$name => $word,)+
                }
            }

            fn weight(self) -> u64 {
                match self {
                    $(Self::$name => $weight,)+
                }
            }
        }
    };
}

faults! {
    Loss "loss" 4,
    Partition "partition" 10,
    Hold "hold" 4,
    Repeat "repeat" 5,
    Crash "crash" 10,
    Power "power" 10,
    Pause "pause" 6,
    Slow "slow" 4,
    Stall "stall" 4,
    Fail "fail" 3,
    Full "full" 2,
    Damage "damage" 2,
    Wipe "wipe" 1,
    Clock "clock" 3,
    Members "members" 8,
    Transfer "transfer" 6,
}

/// Which kinds of faults there may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Faults(Vec<Fault>);

impl Faults {
    /// All of them.
    pub fn all() -> Self {
        Self(Fault::ALL.to_vec())
    }

    /// Those that are named, with commas between them.
    ///
    /// # Errors
    /// A name that is none.
    pub fn named(words: &str) -> Result<Self, String> {
        let named = |word: &str| {
            let known = Fault::ALL.iter().find(|fault| fault.word() == word);
            known.copied().ok_or_else(|| {
                let known: Vec<&str> = Fault::ALL.iter().map(|fault| fault.word()).collect();
                format!("there is no fault `{word}`; there are {}", known.join(", "))
            })
        };
        let words = words.split(',').map(str::trim).filter(|word| !word.is_empty());
        words.map(named).collect::<Result<_, _>>().map(Self)
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<&str> = self.0.iter().map(|fault| fault.word()).collect();
        f.write_str(&words.join(","))
    }
}

/// The plan of a seed.
pub fn plan(seed: u64, faults: &Faults, nodes: Option<u64>) -> Plan {
    let mut dice = Dice::new(seed);
    let nodes = nodes.unwrap_or_else(|| dice.pick(&[1, 2, 3, 3, 3, 3, 4, 5, 5, 5, 7]));
    let settings = settings(&mut dice, faults);
    // Each seed has about half of the kinds; one that is alone shows itself best.
    let few = dice.chance(200);
    let chosen: Vec<(Fault, u64)> = faults
        .0
        .iter()
        .filter(|_| dice.chance(if few { 150 } else { 600 }))
        .copied()
        .collect::<Vec<_>>()
        .into_iter()
        .map(|fault| (fault, fault.weight() * dice.pick(&[1, 1, 2, 4])))
        .collect();
    let mut swarm = Swarm { dice, nodes, known: nodes, lease: settings.lease, acts: Vec::new() };
    let total: u64 = chosen.iter().map(|(_, weight)| weight).sum();
    let mut at = if swarm.dice.chance(700) { 2000 } else { 0 };
    let pace = swarm.dice.pick(&[60, 250, 250, 600]);
    while at < settings.storm_ms && total > 0 {
        at += swarm.dice.below(pace) + 1;
        let mut number = swarm.dice.below(total);
        for (fault, weight) in &chosen {
            if number < *weight {
                swarm.add(at, *fault);
                break;
            }
            number -= weight;
        }
        if swarm.dice.chance(120) {
            swarm.then(at, Act::Calm);
        }
    }
    let mut acts = swarm.acts;
    acts.sort_by_key(|(at, _)| *at);
    Plan { seed, nodes, settings, acts }
}

fn settings(dice: &mut Dice, faults: &Faults) -> Settings {
    let has = |fault| faults.0.contains(&fault);
    let check_quorum = dice.chance(850);
    let lease = check_quorum && dice.chance(400);
    let clock_error_ppm = if has(Fault::Clock) { dice.pick(&[0, 500, 50_000]) } else { 0 };
    Settings {
        pre_vote: dice.chance(800),
        check_quorum,
        forward: dice.chance(800),
        lease,
        clock_error_ppm,
        tight: dice.chance(250),
        snapshot_entries: dice.pick(&[5, 20, 50, 100_000]),
        tail_entries: dice.pick(&[0, 1, 5, 20]),
        ballast: if dice.chance(150) { 150_000 } else { 0 },
        segment_bytes: dice.pick(&[4 << 10, 16 << 10, 64 << 10]),
        stall_ms: dice.pick(&[300, 3000]),
        latency_us: dice.pick(&[500, 2000, 20_000, 80_000]),
        sync_us: dice.pick(&[100, 2000, 20_000, 150_000]),
        apply_us: dice.pick(&[0, 500, 50_000]),
        clients: dice.pick(&[2, 4, 6]),
        think_ms: dice.pick(&[50, 200, 400]),
        keys: dice.pick(&[1, 2, 4]),
        sessions: dice.chance(750),
        session_ms: dice.pick(&[1500, 8000, 60_000]),
        storm_ms: dice.pick(&[6000, 10_000, 20_000]),
        lying_disk: false,
    }
}

struct Swarm {
    dice: Dice,
    nodes: u64,
    known: u64,
    lease: bool,
    acts: Vec<(u64, Act)>,
}

impl Swarm {
    fn someone(&mut self) -> NodeId {
        node(self.dice.below(self.known) + 1)
    }

    fn then(&mut self, at: u64, act: Act) {
        self.acts.push((at, act));
    }

    /// After a while; a while may be long.
    fn later(&mut self, at: u64) -> u64 {
        let most = self.dice.pick(&[50, 500, 1500, 5000]);
        at + self.dice.below(most) + 1
    }

    fn add(&mut self, at: u64, fault: Fault) {
        let id = self.someone();
        let later = self.later(at);
        match fault {
            Fault::Loss => {
                let weather = Weather {
                    lost: self.dice.pick(&[0, 10, 100, 300]),
                    repeated: self.dice.pick(&[0, 0, 30, 300]),
                    latency_ms: self.dice.pick(&[1, 5, 30, 150]),
                };
                self.then(at, Act::Network(weather));
            }
            Fault::Partition => self.partition(at, later),
            Fault::Hold => {
                let other = self.someone();
                self.then(at, Act::Hold((id, other)));
                self.then(later, Act::Mend((id, other)));
            }
            Fault::Repeat => {
                let count = self.dice.below(8) + 1;
                self.then(at, Act::Repeat(count));
            }
            Fault::Crash => self.down(at, later, Act::Crash),
            Fault::Power => self.down(at, later, Act::PowerCut),
            Fault::Pause => {
                self.then(at, Act::Pause(id));
                self.then(later, Act::Resume(id));
            }
            Fault::Slow => {
                let ms = self.dice.pick(&[20, 100, 400]);
                self.then(at, Act::Slow(id, ms));
                self.then(later, Act::Work(id));
            }
            Fault::Stall => {
                self.then(at, Act::Stall(id));
                self.then(later, Act::Work(id));
            }
            Fault::Fail => {
                let kinds = [Operation::Sync, Operation::Write, Operation::Create];
                let rare = [Operation::Rename, Operation::SyncDir, Operation::Read];
                let kinds = if self.dice.chance(700) { kinds } else { rare };
                let (what, nth) = (self.dice.pick(&kinds), self.dice.below(6) + 1);
                self.then(at, Act::Fail(id, what, nth));
                self.then(later, Act::Restart(id));
            }
            Fault::Full => {
                let bytes = self.dice.pick(&[0, 1000, 10_000]);
                self.then(at, Act::Fill(id, bytes));
                self.then(later, Act::Restart(id));
            }
            Fault::Damage => {
                let seed = self.dice.any() >> 16;
                let act = if self.dice.chance(700) {
                    Act::Rot(id, seed)
                } else {
                    Act::Misdirect(id, seed)
                };
                let down = if self.dice.chance(500) { Act::Crash(id) } else { Act::PowerCut(id) };
                self.then(at, down);
                self.then(at, act);
                self.then(later, Act::Restart(id));
            }
            Fault::Wipe => {
                self.then(at, Act::Wipe(id));
                if self.dice.chance(500) {
                    self.replace(later, id);
                }
            }
            Fault::Clock if self.lease => {}
            Fault::Clock if self.dice.chance(500) => self.then(at, Act::Campaign(id)),
            Fault::Clock => {
                let ms = self.dice.below(1500);
                self.then(at, Act::Skip(id, ms));
            }
            Fault::Members => self.change(at, id),
            Fault::Transfer => {
                let to = self.dice.chance(600).then_some(id);
                self.then(at, Act::Transfer(to));
                if self.dice.chance(300) {
                    // Rather often the one that hands over.
                    let paused = self.someone();
                    let soon = at + self.dice.below(4);
                    self.then(soon, Act::Pause(paused));
                    self.then(later, Act::Resume(paused));
                }
            }
        }
    }

    fn down(&mut self, at: u64, later: u64, how: fn(NodeId) -> Act) {
        let many = self.dice.chance(150);
        let count = if many { self.known } else { 1 };
        for number in 0..count {
            let id = if many { node(number + 1) } else { self.someone() };
            self.then(at, how(id));
            self.then(later, Act::Restart(id));
        }
    }

    /// Somebody alone, two halves, a bridge between them, a ring, or one direction.
    fn partition(&mut self, at: u64, later: u64) {
        let ids: Vec<NodeId> = (1..=self.known).map(node).collect();
        let cut_at = self.dice.below(ids.len() as u64 + 1) as usize;
        let (left, right) = ids.split_at(cut_at);
        match self.dice.below(6) {
            0 => {
                let id = self.someone();
                self.then(at, Act::Isolate(id));
            }
            1 => self.then(at, Act::Split(left.to_vec(), right.to_vec())),
            2 => {
                let right = right.iter().skip(1).copied().collect(); // The first one is the bridge.
                self.then(at, Act::Split(left.to_vec(), right));
            }
            3 => {
                for (number, id) in ids.iter().enumerate() {
                    let other = ids[(number + 2) % ids.len()];
                    if ids.len() > 3 && *id != other {
                        self.then(at, Act::Cut((*id, other)));
                        self.then(at, Act::Cut((other, *id)));
                    }
                }
            }
            _ => {
                let (one, other) = (self.someone(), self.someone());
                self.then(at, Act::Cut((one, other)));
            }
        }
        if self.dice.chance(700) {
            self.then(later, Act::Heal);
        }
    }

    fn newcomer(&mut self, at: u64) -> NewMember {
        if self.known < self.nodes + 4 && self.dice.chance(800) {
            self.known += 1;
            self.then(at, Act::New(node(self.known)));
            return NewMember { id: node(self.known), address: String::new() };
        }
        NewMember { id: self.someone(), address: String::new() }
    }

    fn change(&mut self, at: u64, id: NodeId) {
        let mut changes = Vec::new();
        for _ in 0..self.dice.pick(&[1, 1, 1, 2]) {
            changes.push(match self.dice.below(100) {
                0..35 => Change::AddVoter(self.newcomer(at)),
                35..45 => Change::AddLearner(self.newcomer(at)),
                45..55 => Change::Promote(id),
                55..65 => Change::Demote(id),
                65..85 => Change::Remove(id),
                85..92 => Change::SetPriority(id, self.dice.below(3) as u8),
                _ => Change::Cancel,
            });
        }
        self.then(at, Act::Change(changes));
    }

    /// A new member for one that is lost.
    fn replace(&mut self, at: u64, id: NodeId) {
        let new = self.newcomer(at);
        self.then(at, Act::Change(vec![Change::AddVoter(new), Change::Remove(id)]));
    }
}
