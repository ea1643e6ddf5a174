//! What goes wrong, and in what order: a function of the seed and of nothing else. What the
//! processes make of it is not; that is what the run is for.
//!
//! ```text
//! step     ├─ trouble begins ── deed ── hold ── trouble ends ─┤ rest, until writes are acknowledged
//! ```
//! A round has each kind once, in an order that is drawn, so that a short run has all of them.

use std::collections::VecDeque;
use std::time::Duration;

use clap::ValueEnum;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Kind {
    /// kill -9 of one node, of a majority, or of all
    Kill,
    /// SIGSTOP, and later SIGCONT
    Stop,
    /// SIGTERM, and started again once it has ended
    Restart,
    /// Links between nodes drop what is sent, in one direction or in both
    Partition,
    /// Links between nodes are slow
    Slow,
    /// A disk is full, or its writes fail
    Disk,
    /// A bit is flipped in the log of a node that is down
    Corrupt,
    /// A member is replaced by a new one
    Members,
    /// Leadership is handed over
    Transfer,
    /// A node stays away until it can only be brought back by a snapshot
    Snapshot,
    /// Old revisions are compacted
    Compact,
    /// A backup is taken and checked
    Backup,
}

/// Whom it meets. Numbers are positions, counted modulo the number of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whom {
    Leader,
    Node(usize),
    /// This node and those behind it, as many as the cluster cannot do without.
    Majority(usize),
    All,
}

/// Which links drop what is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// All of one node, in both directions.
    Off(Whom),
    /// What it sends.
    Mute(Whom),
    /// What is sent to it.
    Deaf(Whom),
    /// Between these two, in both directions.
    Pair(usize, usize),
    /// As many nodes as the others can do without, this one first, apart from the others.
    Minority(usize),
}

/// What goes wrong and stays so for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// Killed; when started again, killed again after each of these times.
    Dead {
        whom: Whom,
        again: Vec<Duration>,
    },
    /// Neither dead nor alive.
    Stopped(Whom),
    Cut(Cut),
    /// What is sent arrives so much later, and sometimes later still.
    Slow(Duration),
}

/// What is done, and takes as long as it takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Deed {
    Restart(Whom),
    Disk { whom: Whom, full: bool },
    Corrupt { whom: Whom, draw: u64 },
    Replace { whom: Whom, id: u64 },
    Transfer(Option<usize>),
    Snapshot(Whom),
    Compact,
    Backup(Whom),
}

/// One step of the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) trouble: Option<Trouble>,
    pub(crate) deed: Option<Deed>,
    /// How long the trouble lasts at least.
    pub(crate) hold: Duration,
    /// How long it is quiet afterwards at least.
    pub(crate) rest: Duration,
}

impl Trouble {
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::Dead { .. } => Kind::Kill,
            Self::Stopped(_) => Kind::Stop,
            Self::Cut(_) => Kind::Partition,
            Self::Slow(_) => Kind::Slow,
        }
    }
}

impl Deed {
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::Restart(_) => Kind::Restart,
            Self::Disk { .. } => Kind::Disk,
            Self::Corrupt { .. } => Kind::Corrupt,
            Self::Replace { .. } => Kind::Members,
            Self::Transfer(_) => Kind::Transfer,
            Self::Snapshot(_) => Kind::Snapshot,
            Self::Compact => Kind::Compact,
            Self::Backup(_) => Kind::Backup,
        }
    }
}

/// Draws the steps, one after the other, without end.
pub(crate) struct Schedule {
    random: Pcg64Mcg,
    kinds: Vec<Kind>,
    round: VecDeque<Kind>,
}

impl Schedule {
    /// Of these kinds, at least one.
    pub(crate) fn new(seed: u64, kinds: &[Kind]) -> Self {
        assert!(!kinds.is_empty(), "something has to go wrong");
        let random = Pcg64Mcg::seed_from_u64(seed);
        Self { random, kinds: kinds.to_vec(), round: VecDeque::new() }
    }

    /// The next step.
    pub(crate) fn step(&mut self) -> Step {
        let kind = self.kind();
        let (trouble, deed) = match self.trouble(kind) {
            Some(trouble) => (Some(trouble), self.deed_beside(kind)),
            None => (self.slowness_beside(), self.deed(kind)),
        };
        let is_quick = matches!(trouble, Some(Trouble::Dead { .. }));
        let hold = self.ms(20, if is_quick { 700 } else { 2500 });
        let rest = self.ms(0, 300);
        Step { trouble, deed, hold, rest }
    }

    fn kind(&mut self) -> Kind {
        if self.round.is_empty() {
            let mut round = self.kinds.clone();
            round.shuffle(&mut self.random);
            self.round = round.into();
        }
        self.round.pop_front().expect("a round has a step for each kind")
    }

    fn trouble(&mut self, kind: Kind) -> Option<Trouble> {
        match kind {
            Kind::Kill => {
                let times = [0, 0, 1, 2][self.random.random_range(0..4)];
                let again = (0..times).map(|_| self.ms(1, 200)).collect();
                Some(Trouble::Dead { whom: self.anybody(), again })
            }
            Kind::Stop => Some(Trouble::Stopped(self.anybody())),
            Kind::Partition => Some(Trouble::Cut(self.cut())),
            Kind::Slow => Some(self.slowness()),
            _ => None, // A deed.
        }
    }

    fn deed(&mut self, kind: Kind) -> Option<Deed> {
        let deed = match kind {
            Kind::Restart => Deed::Restart(self.one()),
            Kind::Disk => Deed::Disk { whom: self.one(), full: self.random.random() },
            Kind::Corrupt => Deed::Corrupt { whom: self.one(), draw: self.random.random() },
            Kind::Members => {
                let id = self.random.random_range(1..=u64::MAX);
                Deed::Replace { whom: self.one(), id }
            }
            Kind::Transfer => {
                let to = self.random.random_bool(0.7).then(|| self.number());
                Deed::Transfer(to)
            }
            Kind::Snapshot => Deed::Snapshot(self.one()),
            Kind::Compact => Deed::Compact,
            Kind::Backup => Deed::Backup(self.one()),
            Kind::Kill | Kind::Stop | Kind::Partition | Kind::Slow => return None,
        };
        Some(deed)
    }

    /// While something is wrong, what can go well or fail all the same.
    fn deed_beside(&mut self, trouble: Kind) -> Option<Deed> {
        const LIGHT: [Kind; 4] = [Kind::Restart, Kind::Transfer, Kind::Compact, Kind::Backup];
        if !self.random.random_bool(0.3) {
            return None;
        }
        let can = |kind: &Kind| *kind != trouble && LIGHT.contains(kind);
        let kinds: Vec<Kind> = self.kinds.iter().copied().filter(can).collect();
        let kind = kinds.get(self.random.random_range(0..LIGHT.len()))?;
        self.deed(*kind)
    }

    fn slowness_beside(&mut self) -> Option<Trouble> {
        let is_slow = self.kinds.contains(&Kind::Slow) && self.random.random_bool(0.3);
        is_slow.then(|| self.slowness())
    }

    fn slowness(&mut self) -> Trouble {
        // With stragglers, of which wires.rs knows, still well below an election timeout: a
        // network that is slower than that elects for ever, and shows nothing else.
        Trouble::Slow(self.ms(1, 20))
    }

    fn cut(&mut self) -> Cut {
        let (whom, at) = (self.one(), self.number());
        match self.random.random_range(0..5) {
            0 => Cut::Off(whom),
            1 => Cut::Mute(whom),
            2 => Cut::Deaf(whom),
            3 => Cut::Pair(at, at + self.random.random_range(1..3)),
            _ => Cut::Minority(at),
        }
    }

    fn anybody(&mut self) -> Whom {
        let at = self.number();
        match self.random.random_range(0..20) {
            0..6 => Whom::Leader,
            6..12 => Whom::Node(at),
            12..16 => Whom::Majority(at),
            _ => Whom::All,
        }
    }

    fn one(&mut self) -> Whom {
        if self.random.random_bool(0.4) { Whom::Leader } else { Whom::Node(self.number()) }
    }

    fn number(&mut self) -> usize {
        self.random.random_range(0..60)
    }

    fn ms(&mut self, from: u64, below: u64) -> Duration {
        Duration::from_millis(self.random.random_range(from..below))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn steps(seed: u64, kinds: &[Kind], count: usize) -> Vec<Step> {
        let mut schedule = Schedule::new(seed, kinds);
        std::iter::repeat_with(|| schedule.step()).take(count).collect()
    }

    #[test]
    fn one_seed_is_one_schedule() {
        let all = Kind::value_variants();
        assert_eq!(steps(7, all, 100), steps(7, all, 100));
        assert_ne!(steps(7, all, 100), steps(8, all, 100));
    }

    #[test]
    fn each_round_has_each_kind_and_no_kind_that_was_not_asked_for() {
        let all = Kind::value_variants();
        for seed in 0..20 {
            let round = steps(seed, all, all.len());
            let kinds: BTreeSet<Kind> = round
                .iter()
                .flat_map(|step| {
                    let trouble = step.trouble.as_ref().map(Trouble::kind);
                    trouble.into_iter().chain(step.deed.as_ref().map(Deed::kind))
                })
                .collect();
            assert_eq!(kinds, all.iter().copied().collect(), "{round:?}");
        }
        for step in steps(1, &[Kind::Kill], 100) {
            assert!(matches!(step.trouble, Some(Trouble::Dead { .. })) && step.deed.is_none());
        }
    }
}
