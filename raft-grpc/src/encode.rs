//! From the core's messages to the wire. Total: every message has a form.

use raft_core::{
    Append, AppendReply, Entries, Entry, Envelope, Index, LogPosition, Message, Payload, Refusal,
};

use crate::proto;
use crate::proto::envelope::Message as Wire;

/// The wire form of `envelopes`. Sender and receiver are the stream's.
pub(crate) fn batch(envelopes: impl ExactSizeIterator<Item = Envelope>) -> proto::Batch {
    proto::Batch { envelopes: envelopes.map(envelope).collect(), answer: 0 }
}

fn envelope(envelope: Envelope) -> proto::Envelope {
    let message = message(envelope.message);
    proto::Envelope { group: 0, term: envelope.term.0, message: Some(message) }
}

fn message(message: Message) -> Wire {
    match message {
        Message::PreVote { last } => {
            Wire::PreVote(proto::PreVote { last_term: last.term.0, last_index: last.index.0 })
        }
        Message::PreVoteReply { asked, granted } => {
            Wire::PreVoteReply(proto::PreVoteReply { asked: asked.0, granted })
        }
        Message::Vote { last, transfer } => {
            let (last_term, last_index) = (last.term.0, last.index.0);
            Wire::Vote(proto::Vote { last_term, last_index, transfer })
        }
        Message::VoteReply { granted } => Wire::VoteReply(proto::VoteReply { granted }),
        Message::Append(it) => Wire::Append(append(it)),
        Message::AppendReply(it) => Wire::AppendReply(append_reply(it)),
        Message::Heartbeat { commit, round, sent_at } => Wire::Heartbeat(proto::Heartbeat {
            commit: commit.0,
            round: round.0,
            sent_at: sent_at.0,
        }),
        Message::HeartbeatReply { round, sent_at } => {
            Wire::HeartbeatReply(proto::HeartbeatReply { round: round.0, sent_at: sent_at.0 })
        }
        Message::TimeoutNow => Wire::TimeoutNow(proto::TimeoutNow {}),
        Message::Commit { commit } => Wire::Commit(proto::Commit { commit: commit.0 }),
        Message::Read { question } => Wire::Read(proto::Read { question: question.0 }),
        Message::ReadReply { question, index } => {
            Wire::ReadReply(proto::ReadReply { question: question.0, index: index.0 })
        }
        Message::Propose { session, requests, entries } => Wire::Propose(proto::Propose {
            session,
            first_request: requests.first.0,
            runs: runs(&entries),
            payloads: payloads(&entries),
        }),
        Message::ProposeReply { requests, outcome } => Wire::ProposeReply(proto::ProposeReply {
            first_request: requests.first.0,
            count: requests.count,
            outcome: Some(propose_outcome(outcome)),
        }),
    }
}

fn append(Append { previous, entries, commit }: Append) -> proto::Append {
    let LogPosition { term, index } = previous;
    proto::Append {
        previous_term: term.0,
        previous_index: index.0,
        commit: commit.0,
        runs: runs(&entries),
        payloads: payloads(&entries),
    }
}

/// Neighbours of one term and kind, together.
fn runs(entries: &Entries) -> Vec<proto::Run> {
    let alike = |a: &Entry, b: &Entry| a.term == b.term && kind(a) == kind(b);
    let run = |of: &[Entry]| proto::Run {
        term: of[0].term.0,
        count: of.len() as u64,
        kind: kind(&of[0]).into(),
    };
    entries.chunk_by(alike).map(run).collect()
}

fn kind(entry: &Entry) -> proto::Kind {
    match entry.payload {
        Payload::Empty => proto::Kind::Empty,
        Payload::Command(_) => proto::Kind::Command,
        Payload::Membership(_) => proto::Kind::Membership,
    }
}

fn payloads(entries: &Entries) -> Vec<bytes::Bytes> {
    let payload = |entry: &Entry| match &entry.payload {
        Payload::Empty => bytes::Bytes::new(),
        Payload::Command(bytes) => bytes.clone(),
        Payload::Membership(membership) => membership.encode().into(),
    };
    entries.iter().map(payload).collect()
}

fn append_reply(reply: AppendReply) -> proto::AppendReply {
    use proto::append_reply::Outcome;
    let outcome = match reply {
        AppendReply::Accept { matched } => Outcome::Matched(matched.0),
        AppendReply::Reject { previous, hint, repairing } => Outcome::Reject(proto::Reject {
            previous_index: previous.0,
            hint_term: hint.term.0,
            hint_index: hint.index.0,
            repairing,
        }),
    };
    proto::AppendReply { outcome: Some(outcome) }
}

fn propose_outcome(outcome: Result<Index, Refusal>) -> proto::propose_reply::Outcome {
    use proto::propose_reply::Outcome;
    match outcome {
        Ok(index) => Outcome::Index(index.0),
        Err(refusal) => Outcome::Refusal(self::refusal(refusal)),
    }
}

fn refusal(refusal: Refusal) -> proto::Refusal {
    use proto::refusal::Reason;
    let (reason, leader) = match refusal {
        Refusal::NotLeader { leader } => (Reason::NotLeader, leader),
        Refusal::Overloaded => (Reason::Overloaded, None),
        Refusal::TooLarge => (Reason::TooLarge, None),
        Refusal::StorageFailed => (Reason::StorageFailed, None),
        Refusal::Transferring => (Reason::Transferring, None),
        Refusal::Change(_) | Refusal::Transfer(_) => {
            unreachable!("only proposals are answered to peers")
        }
    };
    proto::Refusal { reason: reason.into(), leader: leader.map_or(0, |leader| leader.get()) }
}
