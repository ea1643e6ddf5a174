//! What can be seen of a node from outside. Looking changes nothing.

use alloc::sync::Arc;

use crate::progress::Pace;
use crate::raft::{Raft, Role};
use crate::{Claim, Entries, Index, LogPosition, Membership, NodeId, RoleKind, Snapshot, Term};

/// Where a peer stands, as its leader knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerView {
    /// The peer.
    pub id: NodeId,
    /// It holds the leader's log up to here, durably.
    pub matched: Index,
    /// It was heard within an election timeout.
    pub is_live: bool,
    /// It is heard, and keeps up with the leader's log.
    pub keeps_up: bool,
    /// It needs what is gone from the log, and is being sent a snapshot.
    pub needs_snapshot: bool,
}

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

    /// The members: the newest configuration in snapshot and log, which is in force.
    pub fn membership(&self) -> &Arc<Membership> {
        &self.node.membership
    }

    /// The index of that configuration; zero for the founders'.
    pub fn membership_index(&self) -> Index {
        self.node.configurations.newest().0
    }

    /// Whether this node was a member, and is none any more for good.
    pub fn is_removed(&self) -> bool {
        self.membership_index() <= self.node.commit && self.node.membership.was_removed(self.id())
    }

    /// The position before the first entry of the log.
    pub fn base(&self) -> LogPosition {
        self.node.log.base()
    }

    /// The end of the newest snapshot that the log was told of.
    pub fn snapshot(&self) -> LogPosition {
        self.node.snapshot
    }

    /// What a snapshot of the state at `index` covers; `None` where the log does not reach there.
    pub fn snapshot_at(&self, index: Index) -> Option<Snapshot> {
        self.node.snapshot_at(index)
    }

    /// What the log is known to have held before it was damaged, until it holds as much again.
    pub fn claim(&self) -> Option<Claim> {
        self.node.claim
    }

    /// Whether a write has been under way for longer than the stall timeout.
    pub fn is_stalled(&self) -> bool {
        self.node.is_stalled()
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

    /// Where each peer stands; empty on nodes that do not lead.
    pub fn peers(&self) -> impl Iterator<Item = PeerView> + '_ {
        let peers = match &self.role {
            Role::Leader(role) => Some(&role.peers),
            Role::Follower(_) | Role::PreCandidate(_) | Role::Candidate(_) => None,
        };
        let (now, patience) = (self.node.now.0, self.node.config.election_timeout);
        peers.into_iter().flatten().map(move |(&id, progress)| PeerView {
            id,
            matched: progress.matched,
            is_live: progress.is_live(now, patience),
            keeps_up: progress.keeps_up(now, patience),
            needs_snapshot: matches!(progress.pace, Pace::Snapshot),
        })
    }

    /// To whom leadership is being handed over, where it is.
    pub fn transferring_to(&self) -> Option<NodeId> {
        match &self.role {
            Role::Leader(role) => role.transferring_to(),
            Role::Follower(_) | Role::PreCandidate(_) | Role::Candidate(_) => None,
        }
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
