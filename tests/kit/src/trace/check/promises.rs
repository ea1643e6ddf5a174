//! Promises (Raft, figure 2: "updated on stable storage before responding"; scenario B33).
//!
//! - **durable-promise**: a vote, a candidacy and an acknowledgement leave when what they rest on
//!   is durable.
//! - **held**: nothing is acknowledged that is not in the log.

use super::node::Node;
use super::{Broken, demand};
use crate::trace::Said;

const DURABLE: &str = "durable-promise";

/// Returns how many acknowledgements left.
pub(super) fn on_send(node: &mut Node, (to, term): (u64, u64), says: &Said) -> Result<u64, Broken> {
    if !node.is_known {
        return Ok(u64::from(matches!(says, Said::Accept { .. })));
    }
    let (id, promised) = (node.id, node.promised);
    match *says {
        Said::VoteReply { granted: true } => {
            let is_durable = promised.term == term && promised.vote == Some(to);
            demand(is_durable || promised.term > term, DURABLE, || {
                format!("N{id} gives N{to} its vote in term {term} before that is durable")
            })?;
            Ok(0)
        }
        Said::Vote { last, .. } => {
            let is_durable = promised.term == term && promised.vote == Some(id);
            demand(is_durable, DURABLE, || {
                format!("N{id} asks for votes in term {term} before its own is durable")
            })?;
            demand(node.log.is_durable(last.1), DURABLE, || {
                format!("N{id} asks for votes with a log up to {} that is not durable", last.1)
            })?;
            Ok(0)
        }
        Said::Accept { matched } => {
            let last = node.log.last().1;
            demand(matched <= last, "held", || {
                format!("N{id} acknowledges up to {matched}, and its log ends with {last}")
            })?;
            demand(node.log.is_durable(matched), DURABLE, || {
                format!("N{id} acknowledges up to {matched} before that is durable")
            })?;
            let (in_term, before) = node.acknowledged;
            let most = if in_term == term { before.max(matched) } else { matched };
            node.acknowledged = (term, most);
            Ok(1)
        }
        _ => Ok(0), // It promises nothing.
    }
}
