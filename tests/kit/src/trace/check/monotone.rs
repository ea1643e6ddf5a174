//! What never goes back (Raft, figure 2; scenario B52).
//!
//! - **never-back**: term and commit index within a run; term and vote over restarts on the same
//!   disk. (What is applied goes forward by `applied-in-order`.)
//! - **never-lost**: what was committed or acknowledged here and was durable is there after a
//!   restart, unless the node knows that its log is damaged.

use super::node::Node;
use super::{Verdict, demand};
use crate::trace::{Persist, Start};

const BACK: &str = "never-back";
const LOST: &str = "never-lost";

pub(super) fn on_start(node: &Node, start: &Start) -> Verdict {
    if !node.has_history || node.disk != start.disk {
        return Ok(());
    }
    let (id, found, promised) = (node.id, start.hard_state, node.promised);
    demand(found.term >= promised.term, BACK, || {
        format!("N{id} starts in term {}, and was in term {} before", found.term, promised.term)
    })?;
    let is_kept =
        found.term > promised.term || promised.vote.is_none_or(|vote| found.vote == Some(vote));
    demand(is_kept, BACK, || {
        format!("N{id} has forgotten in term {} whom it gave its vote", found.term)
    })?;
    if start.claim.is_some() {
        return Ok(());
    }
    let last = start.last.1;
    let committed = node.commit.min(node.log.last().1);
    let is_kept = last >= committed || !node.log.is_durable(committed);
    demand(is_kept, LOST, || {
        format!("N{id} starts with a log up to {last}, and had committed up to {committed}")
    })?;
    // Only in a newer term could what it acknowledged have been replaced.
    let (term, acknowledged) = node.acknowledged;
    demand(found.term > term || last >= acknowledged, LOST, || {
        format!("N{id} starts with a log up to {last}, and had acknowledged up to {acknowledged}")
    })
}

pub(super) fn on_role(node: &Node, term: u64) -> Verdict {
    demand(!node.is_known || term >= node.term, BACK, || {
        format!("N{} goes back from term {} to term {term}", node.id, node.term)
    })
}

pub(super) fn on_persist(node: &Node, write: &Persist) -> Verdict {
    let Some(state) = write.hard_state.filter(|_| node.is_known) else { return Ok(()) };
    let (id, before) = (node.id, node.written);
    demand(state.term >= before.term, BACK, || {
        format!("N{id} writes down term {} behind term {}", state.term, before.term)
    })?;
    let is_kept =
        state.term > before.term || before.vote.is_none_or(|vote| state.vote == Some(vote));
    demand(is_kept, BACK, || format!("N{id} takes back its vote in term {}", state.term))?;
    demand(state.commit >= before.commit, BACK, || {
        format!("N{id} writes down commit index {} behind {}", state.commit, before.commit)
    })
}

pub(super) fn on_commit(node: &Node, index: u64) -> Verdict {
    demand(!node.is_known || index >= node.commit, BACK, || {
        format!("the commit index of N{} goes back from {} to {index}", node.id, node.commit)
    })
}
