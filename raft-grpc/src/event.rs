//! What the engine is told beside messages.

use raft_core::{Incarnation, NodeId, Snapshot, Term};
use tokio::sync::mpsc;

use crate::refusal::Refused;

/// Something that happened to a peer's streams.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PeerEvent {
    /// A node has shown its disk, the first time since this process started or since it is
    /// accepted with another one.
    Identified {
        /// The node: a peer or a guest.
        peer: NodeId,
        /// Its disk.
        incarnation: Incarnation,
    },
    /// A peer refused to talk to this node. Told once for each peer and reason until it talks
    /// again. [`Refused::Removed`] and [`Refused::Incarnation`] are final.
    RefusedUs {
        /// The peer.
        peer: NodeId,
        /// Why, for programs.
        reason: Refused,
        /// Why, for people, and what to do.
        message: String,
    },
    /// A node that is no peer talks to this one, and is answered: it is from a newer
    /// configuration, or from an older one.
    Unknown {
        /// The node.
        node: NodeId,
        /// Where it can be called.
        address: String,
    },
    /// Two processes of one identity are alive: a data directory was copied. The second one is
    /// refused for as long as the first one lives.
    Twins {
        /// The identity.
        peer: NodeId,
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
}

/// Tells it, unless the channel is full or closed: then it has to be told again.
pub(crate) fn tell(events: &mpsc::Sender<PeerEvent>, event: PeerEvent) -> bool {
    events.try_send(event).is_ok()
}
