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
        | Message::TimeoutNow
        | Message::Commit { .. }
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

#[cfg(test)]
mod tests {
    use raft_core::{Append, Entry, Index, LogPosition, NodeId, Payload, Requests, Term};

    use super::*;

    fn entries(first: u64, sizes: &[usize]) -> Entries {
        let entry = |(index, &size): (u64, &usize)| Entry {
            index: Index(index),
            term: Term(2),
            payload: Payload::Command(vec![0; size].into()),
        };
        (first..).zip(sizes).map(entry).collect()
    }

    fn envelope(message: Message) -> Envelope {
        let node = NodeId::new(1).expect("not zero");
        Envelope { from: node, to: node, term: Term(2), message }
    }

    fn parts(message: Message, bytes_max: usize) -> Vec<Message> {
        let mut rest = envelope(message);
        let mut parts = Vec::new();
        while let Some(part) = front(&mut rest, bytes_max) {
            parts.push(part.message);
        }
        parts.push(rest.message);
        parts
    }

    #[test]
    fn the_parts_of_an_append_follow_one_another() {
        let previous = LogPosition { term: Term(1), index: Index(4) };
        let whole = entries(5, &[100, 100, 1000, 100]);
        let commit = Index(4);
        let append = Append { previous, entries: whole.clone(), commit };
        let bytes_max = OVERHEAD_BYTES + 2 * (Entry::OVERHEAD_BYTES + 100);

        let part = |previous, range| Append { previous, entries: whole.slice(range), commit };
        let at = |index| LogPosition { term: Term(2), index: Index(index) };
        let expected = [part(previous, 0..2), part(at(6), 2..3), part(at(7), 3..4)];
        assert_eq!(parts(Message::Append(append), bytes_max), expected.map(Message::Append));
    }

    #[test]
    fn the_parts_of_a_proposal_share_out_the_requests() {
        let (whole, first) = (entries(0, &[100; 3]), RequestId(7));
        let requests = Requests { first, count: 3 };
        let proposal = Message::Propose { session: 5, requests, entries: whole.clone() };
        let part = |number: u64| Message::Propose {
            session: 5,
            requests: Requests::one(RequestId(7 + number)),
            entries: whole.slice(number as usize..number as usize + 1),
        };
        assert_eq!(parts(proposal, 1), [part(0), part(1), part(2)]);
    }

    #[test]
    fn what_has_one_entry_or_none_stays_whole() {
        let vote = Message::Vote { last: LogPosition::ZERO, transfer: false };
        let mut vote = envelope(vote);
        assert_eq!(front(&mut vote, 1), None);
        let (previous, commit) = (LogPosition::ZERO, Index::ZERO);
        for sizes in [&[][..], &[1000]] {
            let append = Append { previous, entries: entries(1, sizes), commit };
            assert_eq!(front(&mut envelope(Message::Append(append)), 1), None);
        }
    }
}
