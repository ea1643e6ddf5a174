//! The greeting on each new stream, and every reason to refuse one.

use prost::Message as _;
use raft_core::{Lane, NodeId};
use tonic::Status;
use tonic::metadata::{MetadataMap, MetadataValue};

use crate::config::{ClusterId, Identity, Incarnation};
use crate::proto;

const VERSION: u32 = 1;
const KEY: &str = "kontiki-hello-bin";

/// Who talks to whom on a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hello {
    pub(crate) from: Identity,
    pub(crate) to: NodeId,
    pub(crate) lane: Lane,
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
        "node {from} is not a member as far as node {node} knows; add it to the cluster first, \
         or correct its id"
    )]
    Unknown { from: NodeId, node: NodeId },
    #[error(
        "node {from} was here with disk {known} and now comes with disk {theirs}, says node \
         {node}; its data was lost or it runs twice: add it anew under an id never used before"
    )]
    Incarnation { from: NodeId, known: Incarnation, theirs: Incarnation, node: NodeId },
    #[cfg(feature = "tls")]
    #[error(
        "the certificate of node {from} does not name {name}, says node {node}; issue one that \
         has it as a DNS name"
    )]
    Certificate { from: NodeId, name: String, node: NodeId },
}

impl From<Mismatch> for Status {
    fn from(mismatch: Mismatch) -> Self {
        Self::failed_precondition(mismatch.to_string())
    }
}

impl Hello {
    pub(crate) fn write(&self, metadata: &mut MetadataMap) {
        let lane = match self.lane {
            Lane::Control => proto::Lane::Control,
            Lane::Bulk => proto::Lane::Bulk,
        };
        let wire = proto::Hello {
            version: VERSION,
            cluster: self.from.cluster.0,
            from: self.from.node.get(),
            to: self.to.get(),
            incarnation: self.from.incarnation.0,
            lane: lane.into(),
        };
        metadata.insert_bin(KEY, MetadataValue::from_bytes(&wire.encode_to_vec()));
    }

    /// Reads the greeting that came to `node`.
    pub(crate) fn read(metadata: &MetadataMap, node: NodeId) -> Result<Self, Mismatch> {
        let bytes = metadata.get_bin(KEY).ok_or(Mismatch::NoGreeting("it is absent"))?;
        let bytes = bytes.to_bytes().map_err(|_| Mismatch::NoGreeting("not base64"))?;
        let wire = proto::Hello::decode(bytes).map_err(|_| Mismatch::NoGreeting("malformed"))?;
        // The version first: what another one means by the other fields is not known here.
        if wire.version != VERSION {
            return Err(Mismatch::Version { theirs: wire.version, node });
        }
        let from = NodeId::new(wire.from).ok_or(Mismatch::NoGreeting("the sender is zero"))?;
        let to = NodeId::new(wire.to).ok_or(Mismatch::NoGreeting("the receiver is zero"))?;
        let lane = match proto::Lane::try_from(wire.lane) {
            Ok(proto::Lane::Control) => Lane::Control,
            Ok(proto::Lane::Bulk) => Lane::Bulk,
            Ok(proto::Lane::Unspecified) | Err(_) => {
                return Err(Mismatch::NoGreeting("it names no lane"));
            }
        };
        let cluster = ClusterId(wire.cluster);
        let incarnation = Incarnation(wire.incarnation);
        Ok(Self { from: Identity { cluster, node: from, incarnation }, to, lane })
    }

    /// Whether this greeting is for `ours`, from the same cluster.
    pub(crate) fn check(&self, ours: &Identity) -> Result<(), Mismatch> {
        let (from, node) = (self.from.node, ours.node);
        if self.from.cluster != ours.cluster {
            let (theirs, ours) = (self.from.cluster, ours.cluster);
            return Err(Mismatch::Cluster { from, theirs, node, ours });
        }
        if self.to != node {
            return Err(Mismatch::Destination { from, wanted: self.to, node });
        }
        Ok(())
    }

    /// Whether `expected` answered.
    pub(crate) fn check_sender(&self, expected: NodeId, node: NodeId) -> Result<(), Mismatch> {
        match self.from.node == expected {
            true => Ok(()),
            false => Err(Mismatch::Sender { found: self.from.node, expected, node }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(node: u64) -> NodeId {
        NodeId::new(node).expect("not zero")
    }

    fn hello() -> Hello {
        let (cluster, incarnation) = (ClusterId(7), Incarnation(9));
        Hello { from: Identity { cluster, node: id(1), incarnation }, to: id(2), lane: Lane::Bulk }
    }

    fn read(wire: &proto::Hello) -> Result<Hello, Mismatch> {
        let mut metadata = MetadataMap::new();
        metadata.insert_bin(KEY, MetadataValue::from_bytes(&wire.encode_to_vec()));
        Hello::read(&metadata, id(2))
    }

    #[test]
    fn a_greeting_is_read_as_it_was_written() {
        for lane in [Lane::Control, Lane::Bulk] {
            let (mut metadata, sent) = (MetadataMap::new(), Hello { lane, ..hello() });
            sent.write(&mut metadata);
            assert_eq!(Hello::read(&metadata, id(2)), Ok(sent));
        }
    }

    #[test]
    fn greetings_that_make_no_sense_are_refused() {
        let good = proto::Hello {
            version: VERSION,
            cluster: 7,
            from: 1,
            to: 2,
            incarnation: 9,
            lane: proto::Lane::Bulk.into(),
        };
        assert_eq!(read(&good), Ok(hello()));
        let newer = read(&proto::Hello { version: 2, ..good }).expect_err("refused").to_string();
        assert!(newer.contains("speaks version 2") && newer.contains("node 2"), "{newer}");
        for bad in [
            proto::Hello { from: 0, ..good },
            proto::Hello { to: 0, ..good },
            proto::Hello { lane: 0, ..good },
            proto::Hello { lane: 7, ..good },
        ] {
            assert!(matches!(read(&bad), Err(Mismatch::NoGreeting(_))), "{bad:?}");
        }

        let mut metadata = MetadataMap::new();
        assert!(matches!(Hello::read(&metadata, id(2)), Err(Mismatch::NoGreeting(_))));
        metadata.insert_bin(KEY, MetadataValue::from_bytes(b"\xff\xff"));
        assert!(matches!(Hello::read(&metadata, id(2)), Err(Mismatch::NoGreeting(_))));
    }

    #[test]
    fn the_receiver_and_the_cluster_have_to_be_right() {
        let ours = Identity { node: id(2), ..hello().from };
        assert_eq!(hello().check(&ours), Ok(()));
        let elsewhere = Identity { node: id(3), ..ours };
        assert!(matches!(hello().check(&elsewhere), Err(Mismatch::Destination { .. })));
        let other = Identity { cluster: ClusterId(8), ..ours };
        assert!(matches!(hello().check(&other), Err(Mismatch::Cluster { .. })));
        assert_eq!(hello().check_sender(id(1), id(2)), Ok(()));
        assert!(matches!(hello().check_sender(id(3), id(2)), Err(Mismatch::Sender { .. })));
    }
}
