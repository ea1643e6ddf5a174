//! The bytes of messages, for tests and fuzzing: what a stream carries, without the stream.

use bytes::Bytes;
use prost::Message as _;
use raft_core::{Envelope, NodeId};

use crate::hello::Hello;
use crate::{DecodeError, decode, encode, proto, ship, split};

/// One gRPC message that carries `envelopes`. Sender and receiver are not part of it.
pub fn encode(envelopes: &[Envelope]) -> Bytes {
    encode::batch(envelopes.iter().cloned()).encode_to_vec().into()
}

/// The envelopes of one gRPC message that came from `from` to `to`.
///
/// # Errors
/// The field that makes no sense. Never panics, whatever the bytes.
pub fn decode(bytes: Bytes, from: NodeId, to: NodeId) -> Result<Vec<Envelope>, DecodeError> {
    let malformed = |error: prost::DecodeError| DecodeError::Malformed(error.to_string());
    decode::batch(proto::Batch::decode(bytes).map_err(malformed)?, from, to)
}

/// What the bounds of queues and messages count for `envelope`: no less than its part of a
/// gRPC message.
pub fn size_bytes(envelope: &Envelope) -> usize {
    split::size_bytes(envelope)
}

/// What comes from a peer beside its messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The greeting on a new stream.
    Greeting,
    /// The offer of a snapshot.
    Offer,
}

impl Part {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Greeting, Self::Offer];

    /// Reads what `from` has sent to `to`, and writes it again; `None` where it makes no sense.
    /// Never panics, whatever the bytes.
    pub fn rewritten(self, bytes: Bytes, from: NodeId, to: NodeId) -> Option<Bytes> {
        let again = match self {
            Self::Greeting => Hello::decode(bytes, to).ok()?.encode(),
            Self::Offer => {
                let wire = proto::SnapshotOffer::decode(bytes).ok()?;
                let offer = ship::decode_offer(&wire, from).ok()?;
                ship::encode_offer(&offer).encode_to_vec()
            }
        };
        Some(again.into())
    }
}
