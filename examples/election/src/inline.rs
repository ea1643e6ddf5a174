//! Leadership without a cluster beside: a service that embeds Kontiki is led by the node that
//! leads its Raft group. It never renews anything, the group's own heartbeats do that.
//!
//! *Guarantees*: tokens grow from leader to leader, and no two leaders have the same one (the term:
//! Raft §5.2). *Not guaranteed*: that at each moment one node at most believes that it leads: what
//! it proposes as a deposed leader is not committed, and what it writes elsewhere has to carry the
//! token. *Who is trusted*: the group. *Costs*: nothing.

use kontiki::Node;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::fence::Token;

/// A leadership of this node, as it sees it.
#[derive(Debug)]
pub struct InlineLeadership {
    token: Token,
    lost: CancellationToken,
    /// Ends the watcher, too.
    _guard: DropGuard,
}

impl InlineLeadership {
    /// Larger than that of every leader before.
    pub fn token(&self) -> Token {
        self.token
    }

    /// Cancelled when the node sees that this leadership has ended.
    pub fn lost(&self) -> CancellationToken {
        self.lost.clone()
    }

    /// Whether the node has not seen an end of it.
    pub fn is_held(&self) -> bool {
        !self.lost.is_cancelled()
    }
}

/// Waits until `node` leads; `None` when it stops first.
pub async fn leadership<R: Send + 'static>(node: &Node<R>) -> Option<InlineLeadership> {
    let mut watch = node.leadership();
    let term = watch.wait_for(|now| now.is_leader()).await?.term;
    let lost = CancellationToken::new();
    let ended = lost.clone();
    tokio::spawn(async move {
        let other = watch.wait_for(|now| !now.is_leader() || now.term != term);
        // However it ends, this leadership does not go on.
        let _ = ended.run_until_cancelled(other).await;
        ended.cancel();
    });
    Some(InlineLeadership { token: Token(term.0), lost: lost.clone(), _guard: lost.drop_guard() })
}
