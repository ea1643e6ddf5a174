//! What a node tells of itself.

use std::sync::Arc;

use raft_core::{Claim, Index, Membership, NodeId, PeerView, Raft, RoleKind, Term};
use tokio::sync::watch;

use crate::transfers::{SnapshotProgress, Transfers};

/// Who leads, as this node sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leadership {
    /// The term.
    pub term: Term,
    /// This node's role in it.
    pub role: RoleKind,
    /// The leader of it, where known.
    pub leader: Option<NodeId>,
}

impl Leadership {
    /// Whether this node believes that it leads. Another may have been elected already: what
    /// must not be done by two leaders is guarded by a [`FencingToken`].
    pub fn is_leader(&self) -> bool {
        self.role == RoleKind::Leader
    }

    pub(crate) fn of(raft: &Raft) -> Self {
        Self { term: raft.term(), role: raft.role(), leader: raft.leader() }
    }
}

/// Shows who leads, as one node sees it. Looking never holds the node up, and watching does
/// not keep it running.
#[derive(Clone, Debug)]
pub struct LeadershipWatch(pub(crate) watch::Receiver<Leadership>);

impl LeadershipWatch {
    /// Who leads now.
    pub fn current(&self) -> Leadership {
        *self.0.borrow()
    }

    /// Waits for the next change; `None` when the node has stopped. Changes in quick
    /// succession may show as one.
    pub async fn changed(&mut self) -> Option<Leadership> {
        self.0.changed().await.ok()?;
        Some(*self.0.borrow_and_update())
    }

    /// Waits until `holds`, at once where it does already; `None` when the node stops first.
    pub async fn wait_for(
        &mut self,
        mut holds: impl FnMut(Leadership) -> bool,
    ) -> Option<Leadership> {
        self.0.wait_for(|leadership| holds(*leadership)).await.ok().map(|found| *found)
    }
}

/// Grows with every leadership in the group, and no two leaders ever have the same one. A
/// resource that remembers the largest it has seen, and refuses smaller ones, is safe from a
/// leader that was paused and does not know that its time is over.
///
/// It is the leader's term: at most one leader a term (Raft §5.2, Election Safety).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken(pub u64);

/// The members of the group, as one node knows them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Members {
    /// The index of this configuration in the log; zero for the founders'.
    pub index: Index,
    /// Everybody. It is in force from the moment it is in the log, committed or not (Raft §6).
    pub membership: Arc<Membership>,
}

/// Shows the members, as one node knows them. Watching does not keep the node running.
#[derive(Clone, Debug)]
pub struct MembersWatch(pub(crate) watch::Receiver<Members>);

impl MembersWatch {
    /// The members now.
    pub fn current(&self) -> Members {
        self.0.borrow().clone()
    }

    /// Waits for the next change; `None` when the node has stopped. Changes in quick
    /// succession may show as one.
    pub async fn changed(&mut self) -> Option<Members> {
        self.0.changed().await.ok()?;
        Some(self.0.borrow_and_update().clone())
    }
}

/// A node's state at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The node.
    pub id: NodeId,
    /// Who leads.
    pub leadership: Leadership,
    /// How often another leader was seen to take over, or this node did, since it started.
    pub leader_changes: u64,
    /// The members, and the index of that configuration.
    pub members: Members,
    /// The log holds no entry up to here: a snapshot has taken their place.
    pub base: Index,
    /// The last index of the log.
    pub last: Index,
    /// Everything up to here would survive a crash of this node.
    pub durable: Index,
    /// Everything up to here is committed, as far as this node knows.
    pub committed: Index,
    /// Everything up to here is applied.
    pub applied: Index,
    /// The end of the newest snapshot that the log was told of.
    pub snapshot: Index,
    /// What the log is known to have held before it was damaged, until it holds as much again:
    /// until then this node does not stand for election.
    pub claim: Option<Claim>,
    /// To whom leadership is being handed over.
    pub transferring_to: Option<NodeId>,
    /// A write to the log has been under way for longer than a healthy disk takes.
    pub is_storage_stalled: bool,
    /// Where the other members stand. Empty on a node that does not lead.
    pub peers: Vec<PeerStatus>,
}

/// Where another member stands, as its leader knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerStatus {
    /// The member.
    pub id: NodeId,
    /// It holds the leader's log up to here, durably.
    pub matched: Index,
    /// It was heard within an election timeout.
    pub is_live: bool,
    /// It keeps up with the leader's log. A learner that does may be promoted.
    pub keeps_up: bool,
    /// It needs what is gone from the log, so it is being sent a snapshot.
    pub needs_snapshot: bool,
    /// How far that has come.
    pub snapshot: Option<SnapshotProgress>,
}

impl Status {
    pub(crate) fn of(raft: &Raft, transfers: &Transfers) -> Self {
        let mut status = Self {
            id: raft.id(),
            // Of no leader: whoever is there already is seen now.
            leadership: Leadership { leader: None, ..Leadership::of(raft) },
            leader_changes: 0,
            members: Members::of(raft),
            base: Index::ZERO,
            last: Index::ZERO,
            durable: Index::ZERO,
            committed: Index::ZERO,
            applied: Index::ZERO,
            snapshot: Index::ZERO,
            claim: None,
            transferring_to: None,
            is_storage_stalled: false,
            peers: Vec::new(),
        };
        status.refresh(raft, transfers);
        status
    }

    /// Brings it up to date. Done after every turn, so it allocates nothing.
    pub(crate) fn refresh(&mut self, raft: &Raft, transfers: &Transfers) {
        let before = std::mem::replace(&mut self.leadership, Leadership::of(raft)).leader;
        let is_new = self.leadership.leader.is_some() && self.leadership.leader != before;
        self.leader_changes += u64::from(is_new);
        if !Arc::ptr_eq(&self.members.membership, raft.membership()) {
            self.members = Members::of(raft);
        }
        self.base = raft.base().index;
        self.last = raft.last().index;
        self.durable = raft.durable_index();
        self.committed = raft.commit_index();
        self.applied = raft.applied_index();
        self.snapshot = raft.snapshot().index;
        self.claim = raft.claim();
        self.transferring_to = raft.transferring_to();
        self.is_storage_stalled = raft.is_stalled();
        self.peers.clear();
        self.peers.extend(raft.peers().map(|peer: PeerView| PeerStatus {
            id: peer.id,
            matched: peer.matched,
            is_live: peer.is_live,
            keeps_up: peer.keeps_up,
            needs_snapshot: peer.needs_snapshot,
            snapshot: transfers.progress(peer.id),
        }));
    }
}

impl Members {
    pub(crate) fn of(raft: &Raft) -> Self {
        Self { index: raft.membership_index(), membership: Arc::clone(raft.membership()) }
    }
}
