//! The bytes of messages, for tests and fuzzing: what a stream carries, without the stream.

use bytes::Bytes;
use prost::Message as _;
use raft_core::{Envelope, NodeId};

use crate::{DecodeError, decode, encode, proto, split};

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
