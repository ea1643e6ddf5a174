//! What a node tells of itself.

use raft_core::{Index, NodeId, Raft, RoleKind, Term};
use tokio::sync::watch;

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

/// A node's state at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The node.
    pub id: NodeId,
    /// Who leads.
    pub leadership: Leadership,
    /// The last index of the log.
    pub last: Index,
    /// Everything up to here would survive a crash of this node.
    pub durable: Index,
    /// Everything up to here is committed, as far as this node knows.
    pub committed: Index,
    /// Everything up to here is applied.
    pub applied: Index,
}

impl Status {
    pub(crate) fn of(raft: &Raft) -> Self {
        Self {
            id: raft.id(),
            leadership: Leadership::of(raft),
            last: raft.last().index,
            durable: raft.durable_index(),
            committed: raft.commit_index(),
            applied: raft.applied_index(),
        }
    }
}
