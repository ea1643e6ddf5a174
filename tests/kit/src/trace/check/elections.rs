//! Elections (Raft §5.2, §5.4.1).
//!
//! - **one-leader**: a term has one leader at most (Election Safety).
//! - **one-vote**: a node gives one vote in a term, for life (scenario B01, B04).
//! - **good-log**: a vote goes to a log that is at least as good as the voter's (scenario B08).
//! - **elected**: a leader has the votes of a majority, its own counted when it is durable.
//! - **complete-leader**: a leader holds what was committed in older terms (Leader Completeness).

use super::ledger::Ledger;
use super::node::Node;
use super::{Broken, Verdict, demand};
use crate::trace::{Line, Persist, Role, Said, Start};

pub(super) fn on_start(ledger: &mut Ledger, node: &Node, start: &Start, line: Line) -> Verdict {
    let state = start.hard_state;
    state.vote.map_or(Ok(()), |vote| note_vote(ledger, (node.id, state.term), vote, line))
}

/// A vote counts from when it is durable, or leaves: before that a crash may undo it.
pub(super) fn on_persisted(ledger: &mut Ledger, node: &Node, line: Line) -> Verdict {
    let state = node.promised;
    state.vote.map_or(Ok(()), |vote| note_vote(ledger, (node.id, state.term), vote, line))
}

pub(super) fn on_persist(node: &Node, write: &Persist) -> Verdict {
    let Some(state) = write.hard_state else { return Ok(()) };
    let Some(vote) = state.vote else { return Ok(()) };
    let is_new = (node.written.term, node.written.vote) != (state.term, Some(vote));
    let Some(asked) = node.asked.get(&vote).filter(|_| is_new && node.is_known) else {
        return Ok(());
    };
    let own = node.log.last();
    demand(*asked >= own, "good-log", || {
        format!(
            "N{} votes for N{vote}, whose log ends with {}:{}, while its own ends with {}:{}",
            node.id, asked.1, asked.0, own.1, own.0
        )
    })
}

/// Returns how many votes for others left.
pub(super) fn on_send(
    ledger: &mut Ledger,
    node: &Node,
    (to, term): (u64, u64),
    says: &Said,
    line: Line,
) -> Result<u64, Broken> {
    match says {
        Said::VoteReply { granted: true } => {
            note_vote(ledger, (node.id, term), to, line).map(|()| 1)
        }
        Said::Vote { .. } => note_vote(ledger, (node.id, term), node.id, line).map(|()| 0),
        _ => Ok(0), // Nobody counts it as a vote.
    }
}

fn note_vote(ledger: &mut Ledger, at: (u64, u64), to: u64, line: Line) -> Verdict {
    let (known, since) = *ledger.votes.entry(at).or_insert((to, line));
    demand(known == to, "one-vote", || {
        format!(
            "N{} votes for N{to} in term {}, and has voted for N{known} (line {})",
            at.0, at.1, since.number
        )
    })
}

/// Returns whether an election was won, as a count.
pub(super) fn on_role(
    ledger: &mut Ledger,
    node: &Node,
    term: u64,
    role: Role,
    line: Line,
) -> Result<u64, Broken> {
    if role != Role::Leader {
        return Ok(0);
    }
    let id = node.id;
    if let Some(leader) = ledger.leaders.get(&term) {
        demand(leader.id == id, "one-leader", || {
            format!(
                "N{id} leads term {term}, which N{} leads (line {})",
                leader.id, leader.line.number
            )
        })?;
        return Ok(0);
    }
    if node.is_known {
        has_votes(node, term)?;
        is_complete(ledger, node, term)?;
    }
    ledger.elect(term, node, line);
    Ok(1)
}

fn has_votes(node: &Node, term: u64) -> Verdict {
    let own = node.promised.term == term && node.promised.vote == Some(node.id);
    let has_voted = |voter| if voter == node.id { own } else { node.votes.contains(&voter) };
    demand(node.has_quorum(has_voted), "elected", || {
        let own = if own { "its own and " } else { "not its own, but " };
        format!("N{} leads term {term} with {own}the votes of {:?}", node.id, node.votes)
    })
}

fn is_complete(ledger: &Ledger, node: &Node, term: u64) -> Verdict {
    // What it has committed itself was compared then.
    for (index, committed) in ledger.committed.range(node.commit.max(node.log.base().1) + 1..) {
        if committed.in_term >= term {
            continue;
        }
        let held = node.log.term_at(*index);
        demand(held == Some(committed.term), "complete-leader", || {
            let held = held.map_or("nothing".to_owned(), |term| format!("an entry of term {term}"));
            format!(
                "N{} leads term {term} with {held} at index {index}, where N{} has committed an \
                 entry of term {} in term {}",
                node.id, committed.by, committed.term, committed.in_term
            )
        })?;
    }
    Ok(())
}
