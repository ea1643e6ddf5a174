//! The log of one node, and the rules about what is written to it.
//!
//! - **log-order**: entries follow one another without a gap, and terms never fall along them or
//!   pass the node's own.
//! - **one-entry**: a term and an index name one entry everywhere (Raft §5.3, Log Matching: a
//!   leader writes one entry at an index in its term).
//! - **committed-kept**: what is committed is never cut off.

use std::collections::{BTreeMap, VecDeque};

use super::ledger::Ledger;
use super::node::Node;
use super::{Verdict, demand};
use crate::trace::{EntryMark, Persist, Position, Start};

/// Entries behind a base.
#[derive(Debug, Default)]
pub(super) struct Log {
    base: Position,
    entries: VecDeque<Slot>,
    /// The newest write that is durable.
    durable: u64,
    /// Where a snapshot took the place of the log: the write that did it, and up to where the log
    /// before it is durable with which write.
    replaced: Option<(u64, Vec<(u64, u64)>)>,
}

/// One entry. Its checksum is known if it was written in this run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub(super) term: u64,
    pub(super) checksum: Option<u32>,
    ticket: u64,
}

impl Log {
    /// What was found on disk.
    pub(super) fn start(start: &Start) -> Self {
        let mut log = Self { base: start.base, ..Self::default() };
        let ends = start.terms.iter().skip(1).map(|next| next.1 - 1).chain([start.last.1]);
        for (run, end) in start.terms.iter().zip(ends) {
            let slot = Slot { term: run.0, checksum: None, ticket: 0 };
            log.entries.extend((run.1..=end).map(|_| slot));
        }
        log
    }

    pub(super) fn base(&self) -> Position {
        self.base
    }

    pub(super) fn last(&self) -> Position {
        let index = self.base.1 + self.entries.len() as u64;
        Position(self.entries.back().map_or(self.base.0, |slot| slot.term), index)
    }

    pub(super) fn slot(&self, index: u64) -> Option<Slot> {
        let at = index.checked_sub(self.base.1 + 1)?;
        self.entries.get(usize::try_from(at).ok()?).copied()
    }

    /// The term at an index, the base's included.
    pub(super) fn term_at(&self, index: u64) -> Option<u64> {
        if index == self.base.1 {
            return Some(self.base.0);
        }
        self.slot(index).map(|slot| slot.term)
    }

    /// Whether everything up to here is durable.
    pub(super) fn is_durable(&self, index: u64) -> bool {
        match self.slot(index) {
            Some(slot) => slot.ticket <= self.durable,
            None if index <= self.base.1 => {
                let is_done = |ticket: u64| ticket <= self.durable;
                self.replaced.as_ref().is_none_or(|(ticket, before)| {
                    is_done(*ticket)
                        || before.iter().any(|(needs, last)| is_done(*needs) && index <= *last)
                })
            }
            None => false,
        }
    }

    /// Where each term begins.
    pub(super) fn terms(&self) -> Vec<Position> {
        let mut terms: Vec<Position> = Vec::new();
        for (slot, index) in self.entries.iter().zip(self.base.1 + 1..) {
            if terms.last().is_none_or(|newest| newest.0 != slot.term) {
                terms.push(Position(slot.term, index));
            }
        }
        terms
    }

    pub(super) fn on_persisted(&mut self, ticket: u64) {
        self.durable = self.durable.max(ticket);
    }

    pub(super) fn write(&mut self, write: &Persist) {
        if let Some(last) = write.truncate {
            self.entries.truncate(last.saturating_sub(self.base.1) as usize);
        }
        let slot =
            |mark: &EntryMark| Slot { term: mark.1, checksum: Some(mark.2), ticket: write.ticket };
        self.entries.extend(write.entries.iter().map(slot));
        if let Some(note) = write.snapshot {
            self.move_base(note.base, write.ticket);
        }
    }

    fn move_base(&mut self, base: Position, ticket: u64) {
        if self.term_at(base.1) == Some(base.0) {
            let count = base.1 - self.base.1;
            self.entries.drain(..count as usize);
        } else {
            let ends = self.entries.iter().zip(self.base.1 + 1..);
            let mut before: BTreeMap<u64, u64> = BTreeMap::from([(0, self.base.1)]);
            before.extend(ends.map(|(slot, index)| (slot.ticket, index)));
            self.replaced = Some((ticket, before.into_iter().collect()));
            self.entries.clear();
        }
        self.base = base;
    }
}

pub(super) fn on_persist(ledger: &mut Ledger, node: &Node, write: &Persist) -> Verdict {
    let id = node.id;
    for EntryMark(index, term, checksum) in &write.entries {
        let (known, by) = ledger.entry(*index, *term, *checksum, id);
        demand(known == *checksum, "one-entry", || {
            format!(
                "N{id} writes another entry at index {index} of term {term} than N{by} has written"
            )
        })?;
    }
    if !node.is_known {
        return Ok(());
    }
    if let Some(cut) = write.truncate {
        demand(cut >= node.commit, "committed-kept", || {
            format!("N{id} cuts its log behind {cut}, and has committed up to {}", node.commit)
        })?;
    }
    let last = write.truncate.map_or(node.log.last().1, |cut| cut.min(node.log.last().1));
    let mut before = Position(node.log.term_at(last).unwrap_or(0), last);
    for EntryMark(index, term, _) in &write.entries {
        let Position(newest, end) = before;
        demand(*index == end + 1, "log-order", || {
            format!("N{id} writes an entry at index {index} behind index {end}")
        })?;
        let is_ordered = *term >= newest && *term <= node.term;
        demand(is_ordered, "log-order", || {
            format!(
                "N{id} writes an entry of term {term} behind one of term {newest} in its own \
                 term {}",
                node.term
            )
        })?;
        before = Position(*term, *index);
    }
    Ok(())
}
