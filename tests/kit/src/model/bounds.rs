//! How much may happen in a search, and in what kind of world.

use core::time::Duration;
use std::fmt;

use raft_core::{Change, Config, NodeId};

use super::act::Cost;

/// A heartbeat of the model's clocks.
pub(super) const HEARTBEAT: Duration = Duration::from_secs(1);
/// An election timeout.
const TIMEOUT: Duration = Duration::from_secs(3600);
/// Longer than every timeout that there is, but the one after which a disk counts as stalled.
pub(super) const LONG: Duration = Duration::from_secs(100 * 3600);

/// What a search explores: everything that can happen within these bounds.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// How many nodes found the group.
    pub founders: u64,
    /// How many more nodes there are, empty, waiting to be added.
    pub others: u64,
    /// Nobody goes beyond this term.
    pub term_max: u64,
    /// Nobody's log goes beyond this index.
    pub last_max: u64,
    /// Whether nodes ask before they stand.
    pub pre_vote: bool,
    /// Whether leaders that hear no quorum step down, and are not deposed while they are heard.
    pub check_quorum: bool,
    /// How many writes take time: of those, a crash may leave any part from the beginning, and
    /// their node hears late that they are durable. All others are durable, with those before
    /// them, before anything else happens at their node.
    pub stalls: u8,
    /// Whether leaders send heartbeats by themselves, and not only to confirm reads. What a lost
    /// message would need them for is not needed here: nothing is lost, it only comes late.
    pub heartbeats: bool,
    /// Whether what has arrived may arrive again.
    pub repeats: bool,
    /// Whether clocks may run ahead of timers: a follower stops hearing its leader, and goes on.
    pub silence: bool,
    /// How many times patience ends anywhere; any number of times where it is `None`.
    pub timeouts: Option<u8>,
    /// How many entries are proposed.
    pub proposals: u8,
    /// How many reads are asked for.
    pub reads: u8,
    /// How many times some node crashes.
    pub crashes: u8,
    /// How many times some node finds the end of its log damaged.
    pub damages: u8,
    /// How many snapshots are taken.
    pub snapshots: u8,
    /// How many times somebody wants another leader.
    pub transfers: u8,
    /// The changes of the members, asked for in this order.
    pub changes: Vec<Vec<Change>>,
    /// How the search begins.
    pub opening: Opening,
    /// What the disks are like.
    pub disks: Disks,
    /// Whether states that differ only in the names of the nodes count as one. Not for worlds in
    /// which nodes are named.
    pub symmetry: bool,
}

/// How a search begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    /// Nothing has happened.
    Start,
    /// N1 leads term 1, and everybody knows that its first entry is committed.
    Led,
}

/// What the disks are like. The checker has to find what the wrong ones lead to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disks {
    /// They keep what they say they keep.
    Honest,
    /// They lose the vote in a crash.
    ForgetVotes,
    /// They report writes that a crash still loses.
    LieAboutSyncs,
}

impl Default for Bounds {
    /// Three nodes, two terms, and nothing asked of them.
    fn default() -> Self {
        Self {
            founders: 3,
            others: 0,
            term_max: 2,
            last_max: 2,
            pre_vote: false,
            check_quorum: false,
            stalls: 0,
            heartbeats: false,
            repeats: true,
            silence: false,
            timeouts: None,
            proposals: 0,
            reads: 0,
            crashes: 0,
            damages: 0,
            snapshots: 0,
            transfers: 0,
            changes: Vec::new(),
            opening: Opening::Start,
            disks: Disks::Honest,
            symmetry: true,
        }
    }
}

impl fmt::Display for Bounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { founders, term_max, last_max, .. } = self;
        write!(f, "{founders} nodes")?;
        if self.others > 0 {
            write!(f, " and {} to be added", self.others)?;
        }
        write!(f, ", terms up to {term_max}, logs up to {last_max}")?;
        if let Some(timeouts) = self.timeouts {
            write!(f, ", timeouts {timeouts}")?;
        }
        let counts = [
            ("proposals", self.proposals),
            ("reads", self.reads),
            ("slow writes", self.stalls),
            ("crashes", self.crashes),
            ("damaged logs", self.damages),
            ("snapshots", self.snapshots),
            ("transfers", self.transfers),
            ("changes", self.changes.len() as u8),
        ];
        for (what, count) in counts.iter().filter(|(_, count)| *count > 0) {
            write!(f, ", {what} {count}")?;
        }
        let marks = [
            ("PreVote", self.pre_vote),
            ("CheckQuorum", self.check_quorum),
            ("heartbeats", self.heartbeats),
            ("silence", self.silence),
            ("nothing twice", !self.repeats),
            ("N1 leads term 1", self.opening == Opening::Led),
        ];
        for (what, _) in marks.iter().filter(|(_, is_on)| *is_on) {
            write!(f, ", {what}")?;
        }
        Ok(())
    }
}

impl Bounds {
    pub(super) fn nodes(&self) -> usize {
        (self.founders + self.others) as usize
    }

    /// How often this may happen.
    pub(super) fn most(&self, cost: Cost) -> u8 {
        match cost {
            Cost::Timeout => self.timeouts.unwrap_or(u8::MAX),
            Cost::Proposal => self.proposals,
            Cost::Read => self.reads,
            Cost::Crash => self.crashes,
            Cost::Damage => self.damages,
            Cost::Snapshot => self.snapshots,
            Cost::Change => self.changes.len() as u8,
            Cost::Transfer => self.transfers,
            Cost::Stall => self.stalls,
        }
    }

    /// The settings of a node.
    pub(super) fn config(&self, id: NodeId) -> Config {
        Config {
            heartbeat_interval: HEARTBEAT,
            election_timeout: TIMEOUT,
            pre_vote: self.pre_vote,
            check_quorum: self.check_quorum,
            forward_proposals: false,
            snapshot_tail_entries: 0,
            disk_stall_timeout: LONG * 10_000,
            check_invariants: true,
            ..Config::new(id)
        }
    }
}
