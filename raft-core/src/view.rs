//! What can be seen of a node from outside. Looking changes nothing.

use crate::raft::{Raft, Role};
use crate::{Entries, Index, LogPosition, Membership, NodeId, RoleKind, Term};

impl Raft {
    /// This node.
    pub fn id(&self) -> NodeId {
        self.node.id()
    }

    /// The current term.
    pub fn term(&self) -> Term {
        self.node.term
    }

    /// The vote given in the current term.
    pub fn vote(&self) -> Option<NodeId> {
        self.node.vote
    }

    /// The current role.
    pub fn role(&self) -> RoleKind {
        match self.role {
            Role::Follower(_) => RoleKind::Follower,
            Role::PreCandidate(_) => RoleKind::PreCandidate,
            Role::Candidate(_) => RoleKind::Candidate,
            Role::Leader(_) => RoleKind::Leader,
        }
    }

    /// The leader of the current term, where known.
    pub fn leader(&self) -> Option<NodeId> {
        match &self.role {
            Role::Follower(role) => role.leader,
            Role::PreCandidate(_) | Role::Candidate(_) => None,
            Role::Leader(_) => Some(self.node.id()),
        }
    }

    /// The voters.
    pub fn membership(&self) -> &Membership {
        &self.node.membership
    }

    /// Everything up to here is committed, as far as this node knows.
    pub fn commit_index(&self) -> Index {
        self.node.commit
    }

    /// Everything up to here is applied.
    pub fn applied_index(&self) -> Index {
        self.node.applied
    }

    /// Everything up to here would survive a crash of this node.
    pub fn durable_index(&self) -> Index {
        self.node.log.durable()
    }

    /// The end of the log.
    pub fn last(&self) -> LogPosition {
        self.node.log.last()
    }

    /// The term of the entry at `index`, where this node has it.
    pub fn term_at(&self, index: Index) -> Option<Term> {
        self.node.log.term_at(index)
    }

    /// The entries `first..=last` as far as they fit in `bytes_max` (at least one), or `None`
    /// where the first is no longer in memory and must be read from storage.
    pub fn recent_entries(&self, first: Index, last: Index, bytes_max: usize) -> Option<Entries> {
        self.node.log.recent(first, last, bytes_max)
    }

    /// How far each peer is known to hold this leader's log; empty on other nodes.
    pub fn matched(&self) -> impl Iterator<Item = (NodeId, Index)> + '_ {
        let peers = match &self.role {
            Role::Leader(role) => Some(&role.peers),
            _ => None,
        };
        peers.into_iter().flatten().map(|(&peer, progress)| (peer, progress.matched))
    }
}
