//! What comes from a peer: batches of messages, greetings, and the parts of snapshots. No bytes
//! panic; what can be read is written and read again as the same; what is sent is no larger than
//! the bounds of the queues have counted.

use bytes::Bytes;
use raft_core::NodeId;
use raft_grpc::wire;

/// Hands the bytes to each decoder.
pub fn run(bytes: &[u8]) {
    let bytes = Bytes::copy_from_slice(bytes);
    batch(&bytes);
    for part in wire::Part::ALL {
        let Some(again) = part.rewritten(bytes.clone(), node(1), node(2)) else { continue };
        let twice = part.rewritten(again.clone(), node(1), node(2));
        assert_eq!(twice.as_ref(), Some(&again), "{part:?} does not come back");
    }
}

fn batch(bytes: &Bytes) {
    let Ok(envelopes) = wire::decode(bytes.clone(), node(1), node(2)) else { return };
    for envelope in &envelopes {
        assert_eq!((envelope.from, envelope.to), (node(1), node(2)), "nobody claims a sender");
    }
    let again = wire::encode(&envelopes);
    let counted: usize = envelopes.iter().map(wire::size_bytes).sum();
    assert!(again.len() <= counted, "{} bytes, and {counted} were counted", again.len());
    assert_eq!(wire::decode(again, node(1), node(2)), Ok(envelopes), "they come back");
}

fn node(id: u64) -> NodeId {
    NodeId::new(id).expect("not zero")
}
