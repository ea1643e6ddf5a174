//! The greeting on each new stream.

use bytes::Bytes;
use prost::Message as _;
use raft_core::{Incarnation, Lane, NodeId};
use tonic::metadata::{MetadataMap, MetadataValue};

use crate::config::{ClusterId, Identity};
use crate::proto;
use crate::refusal::Mismatch;

pub(crate) const VERSION: u32 = 1;
const KEY: &str = "kontiki-hello-bin";
/// The longest list of addresses that is listened to.
const ADDRESS_BYTES_MAX: usize = 1024;

/// Who talks to whom on a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hello {
    pub(crate) from: Identity,
    pub(crate) to: NodeId,
    pub(crate) purpose: Purpose,
    /// The sender's process.
    pub(crate) session: u64,
    /// Where the sender can be called; empty where it does not say.
    pub(crate) address: String,
    pub(crate) motive: Motive,
}

/// Why the sender calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Motive {
    /// The receiver is a peer of the sender.
    Peer,
    /// The receiver has called, and could not be answered otherwise.
    CallBack,
}

/// What a stream is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Talk(Lane),
    Ship,
}

impl Hello {
    pub(crate) fn write(&self, metadata: &mut MetadataMap) {
        metadata.insert_bin(KEY, MetadataValue::from_bytes(&self.encode()));
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let lane = match self.purpose {
            Purpose::Talk(Lane::Control) => proto::Lane::Control,
            Purpose::Talk(Lane::Bulk) => proto::Lane::Bulk,
            Purpose::Ship => proto::Lane::Snapshot,
        };
        let wire = proto::Hello {
            version: VERSION,
            cluster: self.from.cluster.0,
            from: self.from.node.get(),
            to: self.to.get(),
            incarnation: self.from.incarnation.get(),
            lane: lane.into(),
            session: self.session,
            address: self.address.clone(),
            calls_back: self.motive == Motive::CallBack,
        };
        wire.encode_to_vec()
    }

    /// Reads the greeting that came to `node`.
    pub(crate) fn read(metadata: &MetadataMap, node: NodeId) -> Result<Self, Mismatch> {
        let bytes = metadata.get_bin(KEY).ok_or(Mismatch::NoGreeting("it is absent"))?;
        let bytes = bytes.to_bytes().map_err(|_| Mismatch::NoGreeting("not base64"))?;
        Self::decode(bytes, node)
    }

    pub(crate) fn decode(bytes: Bytes, node: NodeId) -> Result<Self, Mismatch> {
        let wire = proto::Hello::decode(bytes).map_err(|_| Mismatch::NoGreeting("malformed"))?;
        // The version first: what another one means by the other fields is not known here.
        if wire.version != VERSION {
            return Err(Mismatch::Version { theirs: wire.version, node });
        }
        let from = NodeId::new(wire.from).ok_or(Mismatch::NoGreeting("the sender is zero"))?;
        let to = NodeId::new(wire.to).ok_or(Mismatch::NoGreeting("the receiver is zero"))?;
        let incarnation = Incarnation::new(wire.incarnation)
            .ok_or(Mismatch::NoGreeting("the sender's disk is zero, which names none"))?;
        let purpose = match proto::Lane::try_from(wire.lane) {
            Ok(proto::Lane::Control) => Purpose::Talk(Lane::Control),
            Ok(proto::Lane::Bulk) => Purpose::Talk(Lane::Bulk),
            Ok(proto::Lane::Snapshot) => Purpose::Ship,
            Ok(proto::Lane::Unspecified) | Err(_) => {
                return Err(Mismatch::NoGreeting("it names no lane"));
            }
        };
        if wire.address.len() > ADDRESS_BYTES_MAX {
            return Err(Mismatch::NoGreeting("the sender's address is too long"));
        }
        let from = Identity { cluster: ClusterId(wire.cluster), node: from, incarnation };
        let motive = match wire.calls_back {
            true => Motive::CallBack,
            false => Motive::Peer,
        };
        let (session, address) = (wire.session, wire.address);
        Ok(Self { from, to, purpose, session, address, motive })
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
        let incarnation = Incarnation::new(9).expect("not zero");
        Hello {
            from: Identity { cluster: ClusterId(7), node: id(1), incarnation },
            to: id(2),
            purpose: Purpose::Talk(Lane::Bulk),
            session: 11,
            address: "a:1".to_owned(),
            motive: Motive::CallBack,
        }
    }

    fn read(wire: &proto::Hello) -> Result<Hello, Mismatch> {
        let mut metadata = MetadataMap::new();
        metadata.insert_bin(KEY, MetadataValue::from_bytes(&wire.encode_to_vec()));
        Hello::read(&metadata, id(2))
    }

    #[test]
    fn a_greeting_is_read_as_it_was_written() {
        for purpose in [Purpose::Talk(Lane::Control), Purpose::Talk(Lane::Bulk), Purpose::Ship] {
            let (mut metadata, sent) = (MetadataMap::new(), Hello { purpose, ..hello() });
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
            session: 11,
            address: "a:1".to_owned(),
            calls_back: true,
        };
        assert_eq!(read(&good), Ok(hello()));
        let newer =
            read(&proto::Hello { version: 2, ..good.clone() }).expect_err("refused").to_string();
        assert!(newer.contains("speaks version 2") && newer.contains("node 2"), "{newer}");
        for bad in [
            proto::Hello { from: 0, ..good.clone() },
            proto::Hello { to: 0, ..good.clone() },
            proto::Hello { incarnation: 0, ..good.clone() },
            proto::Hello { address: "a".repeat(1025), ..good.clone() },
            proto::Hello { lane: 0, ..good.clone() },
            proto::Hello { lane: 7, ..good.clone() },
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
