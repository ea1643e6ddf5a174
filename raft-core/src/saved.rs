//! What a node finds in storage when it starts.

use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use crate::{Index, LogPosition, Membership, NodeId, Term};

/// The part of a node's state that is a promise (Raft, figure 2: persistent state).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct HardState {
    /// The newest term seen.
    pub term: Term,
    /// The vote given in that term. Cleared only when the term grows.
    pub vote: Option<NodeId>,
    /// A commit index that was reached. May be older than the truth.
    pub commit: Index,
}

/// What a snapshot covers: the state after the entry at `last`, and who the members were then.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Snapshot {
    /// The last entry whose effects are in it.
    pub last: LogPosition,
    /// The configuration in force at that entry.
    pub membership: Arc<Membership>,
    /// The index of that configuration; zero for the founders'.
    pub membership_index: Index,
}

/// Notes in the log that a snapshot is durable, and where the log begins from now on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SnapshotMark {
    /// The snapshot.
    pub snapshot: Snapshot,
    /// The position before the first entry that is kept; never after the snapshot's last. Where
    /// the log does not hold it, no entry is kept and the log goes on from here.
    pub base: LogPosition,
}

/// A node's knowledge that its log is damaged: it once held entries up to `last`, and may have
/// acknowledged them. Until it holds as much again, it does not stand for election, and votes
/// only for logs that reach as far.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Claim {
    /// The end of the log as it is known to have been.
    pub last: LogPosition,
}

/// What storage recovered: see [`Raft::restore`](crate::Raft::restore).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Saved {
    /// The hard state.
    pub hard_state: HardState,
    /// The terms of the log, and where it begins and ends.
    pub log: TermRuns,
    /// The configurations with their indexes, ascending: first the one in force where the log
    /// begins, or the one of the snapshot, then those in the log behind it. Never empty.
    pub memberships: Vec<(Index, Arc<Membership>)>,
    /// The newest snapshot that the log was told of. Covers at least the log's base.
    pub snapshot: LogPosition,
    /// What the state machine holds already.
    pub applied: Index,
    /// Where the log is damaged.
    pub claim: Option<Claim>,
}

impl Saved {
    /// What a node of a new group of `membership` starts from; a node that joins a group knows
    /// [nobody](Membership::unknown) yet.
    pub fn first_start(membership: Membership) -> Self {
        Self {
            hard_state: HardState::default(),
            log: TermRuns::default(),
            memberships: vec![(Index::ZERO, Arc::new(membership))],
            snapshot: LogPosition::ZERO,
            applied: Index::ZERO,
            claim: None,
        }
    }
}

/// The term of every index of a log, as stretches of equal terms.
///
/// Invariants: `base.index <= last`; runs ascend in first index and in term; the first run
/// starts at `base.index + 1`; there is none where the log is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct TermRuns {
    base: LogPosition,
    runs: Vec<(Index, Term)>,
    last: Index,
}

impl TermRuns {
    /// An empty log that starts after `base`: the end of a snapshot, or zero.
    pub fn starting_after(base: LogPosition) -> Self {
        Self { base, runs: Vec::new(), last: base.index }
    }

    /// The position before the first entry.
    pub fn base(&self) -> LogPosition {
        self.base
    }

    /// The last index, or the base's in an empty log.
    pub fn last_index(&self) -> Index {
        self.last
    }

    /// The end of the log as votes compare it: the base where the log is empty (Raft §5.4.1).
    pub fn last(&self) -> LogPosition {
        let term = self.runs.last().map_or(self.base.term, |&(_, term)| term);
        LogPosition { term, index: self.last }
    }

    /// The term at `index`, or `None` before the base or past the end.
    pub fn term_at(&self, index: Index) -> Option<Term> {
        if index > self.last || index < self.base.index {
            return None;
        }
        // Most questions are about the newest term.
        let newest = self.runs.last().filter(|(first, _)| *first <= index);
        let run = newest.or_else(|| {
            let after = self.runs.partition_point(|(first, _)| *first <= index);
            after.checked_sub(1).map(|run| &self.runs[run])
        });
        Some(run.map_or(self.base.term, |&(_, term)| term))
    }

    /// Adds the entries `first..=last`, all of `term`, at the end.
    ///
    /// # Panics
    /// When there is a gap, or when the term is older than the last one.
    pub fn push(&mut self, first: Index, last: Index, term: Term) {
        assert_eq!(first, self.last.next(), "a log has no gaps");
        let newest = self.last().term;
        assert!(term >= newest, "terms never fall along a log");
        if self.runs.is_empty() || term > newest {
            self.runs.push((first, term));
        }
        self.last = last;
    }

    /// Cuts the log so that `last` is its last index.
    ///
    /// # Panics
    /// When `last` lies before the base.
    pub fn truncate(&mut self, last: Index) {
        assert!(last >= self.base.index, "a cut stays inside the log");
        self.last = self.last.min(last);
        while self.runs.last().is_some_and(|(first, _)| *first > last) {
            self.runs.pop();
        }
    }

    /// Forgets everything up to `base`, which is in the log.
    ///
    /// # Panics
    /// When `base` is not in the log.
    pub fn compact(&mut self, base: LogPosition) {
        assert_eq!(self.term_at(base.index), Some(base.term), "the new base is in the log");
        let first = base.index.next();
        let covered = self.runs.partition_point(|(start, _)| *start <= first);
        self.runs.drain(..covered.saturating_sub(1));
        match self.runs.first_mut() {
            _ if first > self.last => self.runs.clear(),
            Some((start, _)) => *start = (*start).max(first),
            None => {}
        }
        self.base = base;
    }

    /// The largest index up to `limit` whose term is at most `term`: where two logs may agree
    /// at the latest, so that a conflict costs one message a term and not one an entry.
    pub fn latest_agreement(&self, limit: Index, term: Term) -> LogPosition {
        let mut index = limit.min(self.last);
        for &(first, run) in self.runs.iter().rev() {
            if first > index {
                continue;
            }
            if run <= term {
                return LogPosition { term: run, index };
            }
            index = first.prev();
        }
        self.base
    }
}

#[cfg(test)]
mod tests;
