//! A node that wants to lead: first it asks whether it would win (thesis §9.6, PreVote), then
//! it stands in a new term (Raft §5.2).
//!
//! ```text
//!   Follower ──timeout──▶ PreCandidate ──quorum──▶ Candidate ──quorum──▶ Leader
//!       ▲                   │    ▲                  │
//!       └──── leader, or ───┘    └──── timeout ─────┘
//!             newer term
//! ```

use alloc::collections::BTreeSet;

use crate::node::Node;
use crate::untracked::Untracked;
use crate::{Instant, Message, NodeId};

/// Who said yes. A no is not kept: it may answer an earlier question, and a yes may follow it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Tally(BTreeSet<NodeId>);

impl Tally {
    fn note(&mut self, voter: NodeId, granted: bool) {
        if granted {
            self.0.insert(voter);
        }
    }

    /// Only voters count, whoever else may have answered.
    fn wins(&self, node: &Node) -> bool {
        node.membership.has_quorum(|voter| self.0.contains(&voter))
    }
}

/// Asks whether it would win. Has changed nothing: neither term nor vote.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PreCandidate {
    pub(crate) retry_at: Untracked<Instant>,
    tally: Tally,
}

impl PreCandidate {
    pub(crate) fn new(node: &mut Node) -> Self {
        let mut tally = Tally::default();
        tally.note(node.id(), true);
        let last = node.log.last();
        for peer in node.other_voters() {
            node.send(peer, Message::PreVote { last });
        }
        Self { retry_at: Untracked(node.next_election()), tally }
    }

    pub(crate) fn note(&mut self, voter: NodeId, granted: bool) {
        self.tally.note(voter, granted);
    }

    pub(crate) fn wins(&self, node: &Node) -> bool {
        self.tally.wins(node)
    }
}

/// Why a node stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// It hears no leader.
    Timeout,
    /// The leader asked it to (thesis §3.10).
    Transfer,
}

/// Stands for election in its own new term, having voted for itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Candidate {
    pub(crate) retry_at: Untracked<Instant>,
    tally: Tally,
}

impl Candidate {
    /// Begins a term. Both the own vote and the request for votes wait until term, vote and
    /// the whole log are durable: a candidate that lost the end of its log in a crash must not
    /// be elected by a grant that was given to the longer one.
    pub(crate) fn new(node: &mut Node, cause: Cause) -> Self {
        node.advance_term(node.term.next());
        node.vote = Some(node.id());
        node.promise_own_vote();
        let last = node.log.last();
        for peer in node.other_voters() {
            node.promise(peer, Message::Vote { last, transfer: cause == Cause::Transfer });
        }
        Self { retry_at: Untracked(node.next_election()), tally: Tally::default() }
    }

    pub(crate) fn note(&mut self, voter: NodeId, granted: bool) {
        self.tally.note(voter, granted);
    }

    pub(crate) fn wins(&self, node: &Node) -> bool {
        self.tally.wins(node)
    }
}
