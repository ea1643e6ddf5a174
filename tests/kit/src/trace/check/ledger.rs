//! What must be the same for all nodes, as far as any trace has told.

use std::collections::BTreeMap;

use super::node::Node;
use crate::trace::{Line, Position};

/// What all know.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// Who led each term, and with what log it began.
    pub(super) leaders: BTreeMap<u64, Leader>,
    /// Whom each node voted for in each term, for life.
    pub(super) votes: BTreeMap<(u64, u64), (u64, Line)>,
    /// The checksum of each index and term, and who wrote it first.
    entries: BTreeMap<(u64, u64), (u32, u64)>,
    /// What was committed at each index.
    pub(super) committed: BTreeMap<u64, Committed>,
}

/// A leader as it was when it was elected.
#[derive(Debug)]
pub(super) struct Leader {
    pub(super) id: u64,
    pub(super) line: Line,
    /// Its log, if that is known.
    log: Option<(Position, Vec<Position>, u64)>,
}

/// An entry that was committed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Committed {
    pub(super) term: u64,
    pub(super) checksum: Option<u32>,
    /// The oldest term in which a node is known to have committed it.
    pub(super) in_term: u64,
    pub(super) by: u64,
}

impl Ledger {
    /// The checksum at an index of a term, and who wrote it first: this one, if nobody did before.
    pub(super) fn entry(&mut self, index: u64, term: u64, checksum: u32, by: u64) -> (u32, u64) {
        *self.entries.entry((index, term)).or_insert((checksum, by))
    }

    /// Everybody knows now who leads a term.
    pub(super) fn elect(&mut self, term: u64, node: &Node, line: Line) {
        let log = &node.log;
        let log = node.is_known.then(|| (log.base(), log.terms(), log.last().1));
        self.leaders.insert(term, Leader { id: node.id, line, log });
    }
}

impl Leader {
    /// Whether its log held another entry than one of this term at this index, or none.
    pub(super) fn lacks(&self, index: u64, term: u64) -> bool {
        let Some((base, terms, last)) = &self.log else { return false };
        if index <= base.1 {
            return false; // It is in its snapshot.
        }
        let run = terms.partition_point(|run| run.1 <= index);
        let held = run.checked_sub(1).map(|run| terms[run].0).filter(|_| index <= *last);
        held != Some(term)
    }
}
