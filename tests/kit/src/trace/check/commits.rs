//! Commits (Raft §5.3, §5.4.2).
//!
//! - **quorum-commit**: a leader commits an entry of its own term that a majority has acknowledged
//!   to it in this term, itself counted when the entry is durable (scenario B25, B37).
//! - **told-commit**: a follower commits what a leader told it to, and what it holds.
//! - **committed-once**: at one index one entry is committed (State Machine Safety).
//! - **complete-leader**: leaders of later terms held it when they were elected.

use super::ledger::{Committed, Ledger};
use super::node::Node;
use super::{Verdict, demand};
use crate::trace::Role;

/// What a node finds committed when it starts.
pub(super) fn on_start(ledger: &mut Ledger, node: &Node) -> Verdict {
    note(ledger, node, node.log.base().1 + 1, node.commit)
}

pub(super) fn on_commit(ledger: &mut Ledger, node: &Node, index: u64) -> Verdict {
    if !node.is_known {
        return Ok(());
    }
    let (id, last) = (node.id, node.log.last().1);
    demand(index <= last, "told-commit", || {
        format!("N{id} commits up to {index}, and its log ends with {last}")
    })?;
    if node.role == Role::Leader {
        by_quorum(node, index)?;
    } else {
        demand(index <= node.told, "told-commit", || {
            format!("N{id} commits up to {index}, and no leader said more than {}", node.told)
        })?;
    }
    note(ledger, node, node.commit + 1, index)
}

fn by_quorum(node: &Node, index: u64) -> Verdict {
    let (id, term) = (node.id, node.term);
    let held = node.log.term_at(index);
    demand(held == Some(term), "quorum-commit", || {
        format!("N{id} commits up to {index} in term {term}, where an entry of term {held:?} is")
    })?;
    let holds = |voter| {
        if voter == id {
            return node.log.is_durable(index);
        }
        node.matched.get(&voter).is_some_and(|matched| *matched >= index)
    };
    demand(node.has_quorum(holds), "quorum-commit", || {
        let own = if node.log.is_durable(index) { "durable" } else { "not durable" };
        format!(
            "N{id} commits up to {index} without a majority: it is {own} here, and acknowledged \
             up to {:?} by {:?}",
            node.matched, node.members.voters
        )
    })
}

fn note(ledger: &mut Ledger, node: &Node, first: u64, last: u64) -> Verdict {
    let id = node.id;
    for index in first..=last {
        let Some(slot) = node.log.slot(index) else { continue };
        let new =
            Committed { term: slot.term, checksum: slot.checksum, in_term: node.term, by: id };
        let is_new = !ledger.committed.contains_key(&index);
        let known = ledger.committed.entry(index).or_insert(new);
        same(known, &new, index)?;
        known.checksum = known.checksum.or(new.checksum);
        known.in_term = known.in_term.min(new.in_term);
        if is_new {
            for (term, leader) in ledger.leaders.range(node.term + 1..) {
                demand(!leader.lacks(index, slot.term), "complete-leader", || {
                    format!(
                        "N{id} commits index {index} of term {} in term {}, and N{} leads term \
                         {term} without it (line {})",
                        slot.term, node.term, leader.id, leader.line.number
                    )
                })?;
            }
        }
    }
    Ok(())
}

/// Whether two nodes mean the same entry.
fn same(known: &Committed, new: &Committed, index: u64) -> Verdict {
    let is_same = known.term == new.term
        && (known.checksum.is_none() || new.checksum.is_none() || known.checksum == new.checksum);
    demand(is_same, "committed-once", || {
        format!(
            "N{} has another entry committed at index {index} than N{}: of term {} and of term {}",
            new.by, known.by, new.term, known.term
        )
    })
}
