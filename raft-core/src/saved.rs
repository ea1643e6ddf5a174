//! What a node finds in storage when it starts.

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

/// What storage recovered: see [`Raft::restore`](crate::Raft::restore).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Saved {
    /// The hard state.
    pub hard_state: HardState,
    /// The terms of the log, and where it begins and ends.
    pub log: TermRuns,
    /// The voters, of the newest configuration in snapshot and log.
    pub membership: Membership,
    /// What the state machine holds already.
    pub applied: Index,
}

impl Saved {
    /// What a node of a new group of `membership` starts from.
    pub fn first_start(membership: Membership) -> Self {
        let (hard_state, log) = (HardState::default(), TermRuns::default());
        Self { hard_state, log, membership, applied: Index::ZERO }
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
