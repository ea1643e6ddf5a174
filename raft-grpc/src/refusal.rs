//! Every reason why two nodes do not talk: a sentence for people, and beside it a [`Refused`]
//! that travels in the metadata, for programs.

use prost::Message as _;
use raft_core::{Incarnation, NodeId};
use tonic::metadata::{MetadataMap, MetadataValue};
use tonic::{Code, Status};

use crate::config::ClusterId;
use crate::hello::VERSION;
use crate::proto::{self, refused::Reason};

const KEY: &str = "kontiki-refused-bin";

/// Why a peer refused this node's greeting, as far as a program can do something about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refused {
    /// This node was removed from the cluster. It will never be accepted again.
    Removed,
    /// This node's disk is not the one that made this member's promises.
    Incarnation {
        /// The one that did.
        known: Incarnation,
    },
    /// The peer belongs to another cluster.
    Cluster {
        /// The peer's cluster.
        theirs: ClusterId,
    },
    /// Another process with this node's identity is alive: its data directory was copied.
    Twin,
    /// Something else, as the sentence says; it may pass.
    Other,
}

/// Why two nodes do not talk. Names both sides, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Mismatch {
    #[error("no greeting of a Kontiki node ({0}); is this the peer address of one?")]
    NoGreeting(&'static str),
    #[error(
        "the other side speaks version {theirs} of the peer protocol, node {node} speaks \
         version {VERSION}; run releases that share one"
    )]
    Version { theirs: u32, node: NodeId },
    #[error(
        "node {from} belongs to cluster {theirs}, node {node} to cluster {ours}; one of them \
         has the peer address, or the data directory, of another cluster"
    )]
    Cluster { from: NodeId, theirs: ClusterId, node: NodeId, ours: ClusterId },
    #[error(
        "node {from} wants to talk to node {wanted}, but here is node {node}; correct the peer \
         address of node {wanted} at node {from}"
    )]
    Destination { from: NodeId, wanted: NodeId, node: NodeId },
    #[error(
        "node {found} answers where node {node} looks for node {expected}; correct the peer \
         address of node {expected} at node {node}"
    )]
    Sender { found: NodeId, expected: NodeId, node: NodeId },
    #[error(
        "node {from} was removed from the cluster, says node {node}; stop it, and add it anew \
         under an id never used before, with an empty data directory"
    )]
    Removed { from: NodeId, node: NodeId },
    #[error(
        "node {from} is not a member as far as node {node} knows, and is no guest either: \
         {reason}; if it should be one, add it to the cluster first, or correct its id or its \
         advertised address"
    )]
    Unknown { from: NodeId, node: NodeId, reason: String },
    #[error(
        "node {from} is not a member as far as node {node} knows, and node {node} listens to \
         {max} such nodes already; it may try again"
    )]
    Crowded { from: NodeId, node: NodeId, max: usize },
    #[error(
        "the disk of node {from} is not the one that made this member's promises: it was here \
         with disk {known} and now comes with disk {theirs}, says node {node}; its data was \
         lost or it runs twice: `kontiki member replace` gives it a new place"
    )]
    Incarnation { from: NodeId, known: Incarnation, theirs: Incarnation, node: NodeId },
    #[error(
        "another process of node {from}, with the same disk, is alive, says node {node}; its \
         data directory was copied: stop one of them, and delete that one's copy"
    )]
    Twin { from: NodeId, node: NodeId },
    #[cfg(feature = "tls")]
    #[error(
        "the certificate of node {from} does not name {name}, says node {node}; issue one that \
         has it as a DNS name"
    )]
    Certificate { from: NodeId, name: String, node: NodeId },
}

impl From<&Mismatch> for Refused {
    fn from(mismatch: &Mismatch) -> Self {
        match *mismatch {
            Mismatch::Removed { .. } => Self::Removed,
            Mismatch::Incarnation { known, .. } => Self::Incarnation { known },
            Mismatch::Cluster { ours, .. } => Self::Cluster { theirs: ours },
            Mismatch::Twin { .. } => Self::Twin,
            _ => Self::Other, // Nothing that a program could do about them.
        }
    }
}

impl From<Mismatch> for Status {
    fn from(mismatch: Mismatch) -> Self {
        let mut metadata = MetadataMap::new();
        Refused::from(&mismatch).write(&mut metadata);
        Self::with_metadata(Code::FailedPrecondition, mismatch.to_string(), metadata)
    }
}

impl Refused {
    fn write(self, metadata: &mut MetadataMap) {
        let (reason, known) = match self {
            Self::Removed => (Reason::Removed, 0),
            Self::Incarnation { known } => (Reason::Incarnation, known.get()),
            Self::Cluster { theirs } => (Reason::Cluster, theirs.0),
            Self::Twin => (Reason::Twin, 0),
            Self::Other => (Reason::Unspecified, 0),
        };
        let wire = proto::Refused { reason: reason.into(), known };
        metadata.insert_bin(KEY, MetadataValue::from_bytes(&wire.encode_to_vec()));
    }

    /// Why this status was answered to a greeting, or `None` where it is no such answer.
    pub(crate) fn read(status: &Status) -> Option<Self> {
        let bytes = status.metadata().get_bin(KEY)?.to_bytes().ok()?;
        let wire = proto::Refused::decode(bytes).ok()?;
        Some(match Reason::try_from(wire.reason) {
            Ok(Reason::Removed) => Self::Removed,
            Ok(Reason::Incarnation) => match Incarnation::new(wire.known) {
                Some(known) => Self::Incarnation { known },
                None => Self::Other,
            },
            Ok(Reason::Cluster) => Self::Cluster { theirs: ClusterId(wire.known) },
            Ok(Reason::Twin) => Self::Twin,
            Ok(Reason::Unspecified) | Err(_) => Self::Other,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_travels_beside_the_sentence() {
        let known = Incarnation::new(7).expect("not zero");
        for reason in [
            Refused::Removed,
            Refused::Incarnation { known },
            Refused::Cluster { theirs: ClusterId(9) },
            Refused::Twin,
            Refused::Other,
        ] {
            let mut metadata = MetadataMap::new();
            reason.write(&mut metadata);
            let status = Status::with_metadata(Code::FailedPrecondition, "", metadata);
            assert_eq!(Refused::read(&status), Some(reason));
        }
        assert_eq!(Refused::read(&Status::failed_precondition("removed")), None);
    }
}
