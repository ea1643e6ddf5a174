//! How large a message is, and how one that is too large becomes several.

use std::ops::Range;

use raft_core::{Entries, Envelope, Message, RequestId};

/// What every bound in bytes counts for a message beside its entries: more than it takes on
/// the wire.
pub(crate) const OVERHEAD_BYTES: usize = 96;

/// The bytes that every bound in bytes counts for `envelope`: at least its size on the wire.
pub(crate) fn size_bytes(envelope: &Envelope) -> usize {
    let entries = match &envelope.message {
        Message::Append(append) => append.entries.size_bytes(),
        Message::Propose { entries, .. } => entries.size_bytes(),
        Message::PreVote { .. }
        | Message::PreVoteReply { .. }
        | Message::Vote { .. }
        | Message::VoteReply { .. }
        | Message::AppendReply(_)
        | Message::Heartbeat { .. }
        | Message::HeartbeatReply { .. }
        | Message::Read { .. }
        | Message::ReadReply { .. }
        | Message::ProposeReply { .. } => 0,
    };
    OVERHEAD_BYTES + entries
}

/// Splits off the front of an append or a proposal, as many entries as fit into `bytes_max`, at
/// least one, and leaves the rest. `None` when there would be no rest.
///
/// Several appends say the same as one: each begins where the one before it ends.
pub(crate) fn front(envelope: &mut Envelope, bytes_max: usize) -> Option<Envelope> {
    let entries = match &envelope.message {
        Message::Append(append) => &append.entries,
        Message::Propose { entries, .. } => entries,
        _ => return None, // Nothing else carries entries.
    };
    let count = fitting(entries, bytes_max).max(1);
    if count >= entries.len() {
        return None;
    }
    let mut part = envelope.clone(); // Shares the entries.
    keep(&mut part.message, 0..count);
    keep(&mut envelope.message, count..usize::MAX);
    Some(part)
}

/// Makes of an append or a proposal the one that carries only these of its entries.
fn keep(message: &mut Message, range: Range<usize>) {
    match message {
        Message::Append(append) => {
            let range = range.start..range.end.min(append.entries.len());
            if let Some(before) = range.start.checked_sub(1) {
                append.previous = append.entries[before].position();
            }
            append.entries = append.entries.slice(range);
        }
        Message::Propose { requests, entries, .. } => {
            let range = range.start..range.end.min(entries.len());
            requests.first = RequestId(requests.first.0.wrapping_add(range.start as u64));
            requests.count = range.len() as u64;
            *entries = entries.slice(range);
        }
        _ => {} // Nothing else carries entries.
    }
}

/// How many of the first entries fit into a message of `bytes_max`.
fn fitting(entries: &Entries, bytes_max: usize) -> usize {
    let mut used = OVERHEAD_BYTES;
    entries
        .iter()
        .take_while(|entry| {
            used += entry.size_bytes();
            used <= bytes_max
        })
        .count()
}
