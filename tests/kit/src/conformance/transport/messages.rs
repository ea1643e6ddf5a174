//! What is sent: every kind of message, and messages that carry a number.

use bytes::Bytes;
use raft_core::{
    Append, AppendReply, Entries, Entry, Envelope, Index, Instant, Lane, Message, Payload, Refusal,
    RequestId, Requests, Round, Term,
};

use crate::conformance::writes::{at, command, founders, node};

/// A message that only looks for a way. It is never counted.
const PROBE: u64 = u64::MAX >> 1;

pub(super) fn envelope(from: u64, to: u64, message: Message) -> Envelope {
    Envelope { from: node(from), to: node(to), term: Term(5), message }
}

/// One for each lane.
pub(super) fn probes(from: u64, to: u64) -> Vec<Envelope> {
    [Lane::Control, Lane::Bulk].map(|lane| numbered(from, to, lane, PROBE)).to_vec()
}

pub(super) fn is_probe(envelope: &Envelope) -> bool {
    number(envelope) == Some(PROBE)
}

/// A small message on this lane that carries a number.
pub(super) fn numbered(from: u64, to: u64, lane: Lane, number: u64) -> Envelope {
    let message = match lane {
        Lane::Control => Message::Read { question: Round(number) },
        Lane::Bulk => Message::Commit { commit: Index(number) },
    };
    envelope(from, to, message)
}

/// The number of such a message, or of the first entry of an append.
pub(super) fn number(envelope: &Envelope) -> Option<u64> {
    match &envelope.message {
        Message::Read { question } => Some(question.0),
        Message::Commit { commit } => Some(commit.0),
        Message::Append(append) => Some(append.previous.index.0 + 1),
        _ => None,
    }
}

/// An append of entries of this payload from `first` on.
pub(super) fn append(from: u64, to: u64, first: u64, payloads: &[Bytes]) -> Envelope {
    let entry = |(index, payload): (u64, &Bytes)| Entry {
        index: Index(index),
        term: Term(5),
        payload: Payload::Command(payload.clone()),
    };
    let entries: Entries = (first..).zip(payloads).map(entry).collect();
    let append = Append { previous: at(first - 1, 5), entries, commit: Index(first - 1) };
    envelope(from, to, Message::Append(append))
}

/// Every kind of message, and every answer in it.
pub(super) fn every_kind(from: u64, to: u64) -> Vec<Envelope> {
    let mut messages = vec![
        Message::PreVote { last: at(7, 4) },
        Message::PreVote { last: at(0, 0) },
        Message::PreVoteReply { asked: Term(4), granted: true },
        Message::PreVoteReply { asked: Term(4), granted: false },
        Message::Vote { last: at(7, 4), transfer: false },
        Message::Vote { last: at(7, 4), transfer: true },
        Message::VoteReply { granted: true },
        Message::VoteReply { granted: false },
        Message::Heartbeat { commit: Index(3), round: Round(8), sent_at: Instant(u64::MAX) },
        Message::HeartbeatReply { round: Round(8), sent_at: Instant(u64::MAX) },
        Message::TimeoutNow,
        Message::Commit { commit: Index(9) },
        Message::Read { question: Round(11) },
        Message::ReadReply { question: Round(11), index: Index(12) },
    ];
    messages.extend(appends());
    messages.extend(proposals());
    messages.iter().for_each(known);
    messages.into_iter().map(|message| envelope(from, to, message)).collect()
}

fn appends() -> Vec<Message> {
    let membership = Payload::Membership(std::sync::Arc::new(founders()));
    let entries = vec![
        command(8, 4, b"eight"),
        command(9, 4, b""),
        Entry { payload: Payload::Empty, ..command(10, 5, b"") },
        Entry { payload: membership, ..command(11, 5, b"") },
    ];
    let append = Append { previous: at(7, 4), entries: entries.into(), commit: Index(6) };
    let probe = Append { previous: at(0, 0), entries: Entries::EMPTY, commit: Index(0) };
    let reject = |repairing| AppendReply::Reject { previous: Index(7), hint: at(5, 3), repairing };
    vec![
        Message::Append(append),
        Message::Append(probe),
        Message::AppendReply(AppendReply::Accept { matched: Index(7) }),
        Message::AppendReply(reject(false)),
        Message::AppendReply(reject(true)),
    ]
}

fn proposals() -> Vec<Message> {
    let requests = Requests { first: RequestId(70), count: 2 };
    let entries = Entries::proposal([Bytes::from_static(b"one"), Bytes::new()]);
    let mut all = vec![Message::Propose { session: 99, requests, entries }];
    let outcomes = [
        Ok(Index(13)),
        Err(Refusal::NotLeader { leader: None }),
        Err(Refusal::NotLeader { leader: Some(node(3)) }),
        Err(Refusal::Overloaded),
        Err(Refusal::TooLarge),
        Err(Refusal::StorageFailed),
        Err(Refusal::Transferring),
    ];
    all.extend(outcomes.map(|outcome| Message::ProposeReply { requests, outcome }));
    all
}

/// A new kind of message does not compile here, until it stands above.
fn known(message: &Message) {
    match message {
        Message::PreVote { .. }
        | Message::PreVoteReply { .. }
        | Message::Vote { .. }
        | Message::VoteReply { .. }
        | Message::Append(_)
        | Message::AppendReply(_)
        | Message::Heartbeat { .. }
        | Message::HeartbeatReply { .. }
        | Message::TimeoutNow
        | Message::Commit { .. }
        | Message::Read { .. }
        | Message::ReadReply { .. }
        | Message::Propose { .. }
        | Message::ProposeReply { .. } => {}
    }
}
