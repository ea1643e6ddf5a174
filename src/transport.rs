//! What a node needs of a transport beside messages: who the members are, and the way for
//! snapshots. And what the node is told.

use std::fmt;
use std::sync::Arc;

use raft_core::{
    Incarnation, Index, LogPosition, Membership, NodeId, Snapshot, SnapshotSource, Term, Transport,
};

/// A transport for a group whose members change, and who send one another snapshots. One that
/// does neither can do with what is here by default.
pub trait Peers: Transport {
    /// These are the members in force: whoever is not reached yet, is to be. Nobody is left
    /// alone yet, for the change may be undone.
    fn reach(&self, membership: &Membership) {
        let _ = membership;
    }

    /// These are the members for good, as of `index`: whoever is not among them is left alone,
    /// and told so where it was removed.
    fn settle(&self, index: Index, membership: &Arc<Membership>) {
        let _ = (index, membership);
    }

    /// Sends a snapshot, in place of any other that is on its way to that peer. Never blocks.
    fn send_snapshot(&self, outgoing: OutgoingSnapshot) {
        outgoing.end(None);
    }

    /// Gives up all snapshots that are on their way.
    fn cancel_snapshots(&self) {}
}

/// A snapshot that is to be sent. Dropped, it counts as failed.
pub struct OutgoingSnapshot {
    /// To whom.
    pub peer: NodeId,
    /// The term in which this node leads.
    pub term: Term,
    /// What.
    pub source: Arc<dyn SnapshotSource>,
    /// Whom to tell; `None` once it is told.
    ended: Option<Ended>,
}

type Ended = Box<dyn FnOnce(Option<LogPosition>) + Send>;

impl OutgoingSnapshot {
    /// Calls `ended` once, with the end of the snapshot that the peer has then, or with `None`.
    pub fn new(
        peer: NodeId,
        term: Term,
        source: Arc<dyn SnapshotSource>,
        ended: impl FnOnce(Option<LogPosition>) + Send + 'static,
    ) -> Self {
        Self { peer, term, source, ended: Some(Box::new(ended)) }
    }

    /// The peer has a snapshot that ends at `last` now, durably; or the transfer failed.
    pub fn end(mut self, last: Option<LogPosition>) {
        self.tell(last);
    }

    fn tell(&mut self, last: Option<LogPosition>) {
        if let Some(ended) = self.ended.take() {
            ended(last);
        }
    }
}

impl Drop for OutgoingSnapshot {
    fn drop(&mut self) {
        self.tell(None);
    }
}

impl fmt::Debug for OutgoingSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let last = self.source.snapshot().last;
        write!(f, "OutgoingSnapshot({last:?} to {}, {:?})", self.peer, self.term)
    }
}

/// What a node is told beside messages, by its transport or whoever looks after its disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A node has shown its disk.
    Identified {
        /// The node.
        peer: NodeId,
        /// Its disk.
        incarnation: Incarnation,
    },
    /// A snapshot has arrived whole and is durable.
    SnapshotReceived {
        /// Who sent it.
        from: NodeId,
        /// The term in which the sender leads.
        term: Term,
        /// What it covers.
        snapshot: Snapshot,
    },
    /// The group has removed this node for good. It stops.
    Removed,
    /// The group knows this member with another disk: its promises are not on this one. The node
    /// stops, with this sentence.
    Impostor(String),
    /// The newest snapshot is not what was written. Another one takes its place.
    SnapshotDamaged,
    /// What is durable is not what was written: where, and what. The node hands over and stops.
    Damaged(String),
}

#[cfg(feature = "grpc")]
impl Peers for raft_grpc::GrpcTransport {
    fn reach(&self, membership: &Membership) {
        for member in membership.members() {
            if !member.address.is_empty()
                && let Err(error) = self.set_peer(member.id, &member.address)
            {
                tracing::warn!(%error, "a member cannot be reached; correct its address");
            }
            if let Some(incarnation) = member.incarnation {
                self.expect_incarnation(member.id, incarnation);
            }
        }
    }

    fn settle(&self, index: Index, membership: &Arc<Membership>) {
        self.follow(membership);
        self.publish_membership(index, Arc::clone(membership));
    }

    fn send_snapshot(&self, outgoing: OutgoingSnapshot) {
        let (peer, source) = (outgoing.peer, Arc::clone(&outgoing.source));
        let sending = Self::send_snapshot(self, peer, outgoing.term, source);
        tokio::spawn(async move {
            let sent = sending.await;
            if let Err(error) = &sent {
                tracing::warn!(%peer, %error, "a snapshot did not arrive");
            }
            outgoing.end(sent.ok());
        });
    }

    fn cancel_snapshots(&self) {
        Self::cancel_snapshots(self);
    }
}
