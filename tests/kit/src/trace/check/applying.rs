//! Applying (Raft §5.3; scenario B52).
//!
//! - **applied-in-order**: entries are applied one after the other, when they are committed and
//!   durable here, and nothing is said to be applied that was not handed out.
//! - **committed-once**: a snapshot ends with what was committed there. (Entries were compared when
//!   they were committed, and nothing else is applied.)
//! - **snapshot-forward**: a snapshot that takes the place of the state brings it forward.

use super::ledger::Ledger;
use super::node::Node;
use super::{Verdict, demand};
use crate::trace::Position;

const ORDER: &str = "applied-in-order";

pub(super) fn on_apply(node: &Node, first: u64, last: u64) -> Verdict {
    if !node.is_known {
        return Ok(());
    }
    let id = node.id;
    demand(first == node.applying + 1 && first <= last, ORDER, || {
        format!("N{id} applies {first} to {last} behind {}", node.applying)
    })?;
    demand(last <= node.commit, ORDER, || {
        format!("N{id} applies up to {last}, and has committed up to {}", node.commit)
    })?;
    demand(node.log.is_durable(last), ORDER, || {
        format!("N{id} applies up to {last} before that is durable here")
    })
}

/// Reports may overtake one another.
pub(super) fn on_applied(node: &Node, index: u64) -> Verdict {
    demand(!node.is_known || index <= node.applying, ORDER, || {
        format!("N{} has applied {index}, and was given {}", node.id, node.applying)
    })
}

pub(super) fn on_install(ledger: &Ledger, node: &Node, last: Position) -> Verdict {
    if !node.is_known {
        return Ok(());
    }
    demand(last.1 > node.applying, "snapshot-forward", || {
        format!("N{} takes a snapshot up to {} and had applied {}", node.id, last.1, node.applying)
    })?;
    let known = ledger.committed.get(&last.1);
    demand(known.is_none_or(|known| known.term == last.0), "committed-once", || {
        format!("N{} takes a snapshot that ends with another entry at {}", node.id, last.1)
    })
}
