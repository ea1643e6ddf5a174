//! From the wire to the core's messages. Never panics: what makes no sense is refused, with
//! the field named.

use std::sync::Arc;

use bytes::Bytes;
use raft_core::{
    Append, AppendReply, Entries, Entry, Envelope, Index, Instant, LogPosition, Membership,
    MembershipDecodeError, Message, NodeId, Payload, Refusal, RequestId, Requests, Round, Term,
};

use crate::proto;
use crate::proto::envelope::Message as Wire;

/// Why a message from the wire makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// It is not protobuf, or not of our schema.
    #[error("not a protobuf message of this protocol: {0}")]
    Malformed(String),
    /// A field that must be there is absent, or of a newer protocol.
    #[error("{0} is missing, or of a newer protocol version")]
    Missing(&'static str),
    /// A field holds what it must not hold.
    #[error("{field} is {value}: {rule}")]
    Invalid {
        /// The field, as in `raft.proto`.
        field: &'static str,
        /// What it holds.
        value: u64,
        /// What it must hold.
        rule: &'static str,
    },
    /// An entry holds a membership that cannot be read.
    #[error(transparent)]
    Membership(#[from] MembershipDecodeError),
}

impl From<DecodeError> for tonic::Status {
    fn from(error: DecodeError) -> Self {
        Self::invalid_argument(error.to_string())
    }
}

/// The envelopes of `batch`, all from `from` to `to`.
pub(crate) fn batch(
    batch: proto::Batch,
    from: NodeId,
    to: NodeId,
) -> Result<Vec<Envelope>, DecodeError> {
    let envelope = |wire: proto::Envelope| {
        if wire.group != 0 {
            return Err(invalid("envelope.group", wire.group, "only group 0 exists today"));
        }
        let term = term("envelope.term", wire.term)?;
        let message = message(wire.message.ok_or(DecodeError::Missing("envelope.message"))?)?;
        Ok(Envelope { from, to, term, message })
    };
    batch.envelopes.into_iter().map(envelope).collect()
}

fn message(wire: Wire) -> Result<Message, DecodeError> {
    Ok(match wire {
        Wire::PreVote(it) => {
            Message::PreVote { last: position("pre_vote.last", it.last_term, it.last_index)? }
        }
        Wire::PreVoteReply(it) => Message::PreVoteReply {
            asked: term("pre_vote_reply.asked", it.asked)?,
            granted: it.granted,
        },
        Wire::Vote(it) => {
            let last = position("vote.last", it.last_term, it.last_index)?;
            Message::Vote { last, transfer: it.transfer }
        }
        Wire::VoteReply(it) => Message::VoteReply { granted: it.granted },
        Wire::Append(it) => Message::Append(append(it)?),
        Wire::AppendReply(it) => Message::AppendReply(append_reply(it)?),
        Wire::Heartbeat(it) => Message::Heartbeat {
            commit: index("heartbeat.commit", it.commit)?,
            round: Round(it.round),
            sent_at: Instant(it.sent_at),
        },
        Wire::HeartbeatReply(it) => {
            Message::HeartbeatReply { round: Round(it.round), sent_at: Instant(it.sent_at) }
        }
        Wire::TimeoutNow(_) => Message::TimeoutNow,
        Wire::Commit(it) => Message::Commit { commit: index("commit.commit", it.commit)? },
        Wire::Read(it) => Message::Read { question: Round(it.question) },
        Wire::ReadReply(it) => Message::ReadReply {
            question: Round(it.question),
            index: index("read_reply.index", it.index)?,
        },
        Wire::Propose(it) => propose(it)?,
        Wire::ProposeReply(it) => propose_reply(it)?,
    })
}

/// Terms and indexes stay below this, so that whoever counts on from one never overflows.
const NUMBER_MAX: u64 = u64::MAX >> 1;

fn number(field: &'static str, value: u64) -> Result<u64, DecodeError> {
    match value {
        0..=NUMBER_MAX => Ok(value),
        _ => Err(invalid(field, value, "no log or cluster gets that far")),
    }
}

pub(crate) fn term(field: &'static str, value: u64) -> Result<Term, DecodeError> {
    number(field, value).map(Term)
}

pub(crate) fn index(field: &'static str, value: u64) -> Result<Index, DecodeError> {
    number(field, value).map(Index)
}

pub(crate) fn position(
    field: &'static str,
    term_value: u64,
    index_value: u64,
) -> Result<LogPosition, DecodeError> {
    Ok(LogPosition { term: term(field, term_value)?, index: index(field, index_value)? })
}

fn append(wire: proto::Append) -> Result<Append, DecodeError> {
    let previous = position("append.previous", wire.previous_term, wire.previous_index)?;
    let indexes = previous.index.0 + 1..;
    let entries = entries(wire.runs, wire.payloads, indexes.map(Index), APPEND)?;
    Ok(Append { previous, entries, commit: index("append.commit", wire.commit)? })
}

/// How errors name the fields of a stretch of entries.
struct Names {
    term: &'static str,
    count: &'static str,
    kind: &'static str,
    payloads: &'static str,
}

const APPEND: Names = Names {
    term: "append.runs.term",
    count: "append.runs.count",
    kind: "append.runs.kind",
    payloads: "append.payloads",
};

const PROPOSE: Names = Names {
    term: "propose.runs.term",
    count: "propose.runs.count",
    kind: "propose.runs.kind",
    payloads: "propose.payloads",
};

/// Entries of these runs, one for each payload, at `indexes`.
fn entries(
    runs: Vec<proto::Run>,
    payloads: Vec<Bytes>,
    mut indexes: impl Iterator<Item = Index>,
    names: Names,
) -> Result<Entries, DecodeError> {
    let total = payloads.len();
    let mut payloads = payloads.into_iter();
    let mut entry = |term, kind, bytes: Bytes| {
        let payload = match kind {
            proto::Kind::Command => Payload::Command(bytes),
            proto::Kind::Membership => {
                let membership = Membership::decode(&bytes)?;
                Payload::Membership(Arc::new(membership))
            }
            proto::Kind::Empty if bytes.is_empty() => Payload::Empty,
            proto::Kind::Empty => {
                let rule = "bytes in an entry of kind EMPTY, which has none";
                return Err(invalid(names.payloads, bytes.len() as u64, rule));
            }
        };
        let index = indexes.next().unwrap_or_default();
        Ok(Entry { index, term, payload })
    };
    let kind = |run: &proto::Run| {
        let unknown = |_| invalid(names.kind, run.kind as u64, "a kind of a newer version");
        proto::Kind::try_from(run.kind).map_err(unknown)
    };

    let mut all = Vec::with_capacity(total);
    for run in &runs {
        let (term, kind) = (term(names.term, run.term)?, kind(run)?);
        if run.count == 0 || run.count > payloads.len() as u64 {
            let rule = "each run counts at least one payload, and all runs count all of them";
            return Err(invalid(names.count, run.count, rule));
        }
        for bytes in payloads.by_ref().take(run.count as usize) {
            all.push(entry(term, kind, bytes)?);
        }
    }
    match payloads.len() {
        0 => Ok(all.into()),
        more => Err(invalid(names.payloads, more as u64, "more payloads than the runs count")),
    }
}

fn append_reply(wire: proto::AppendReply) -> Result<AppendReply, DecodeError> {
    use proto::append_reply::Outcome;
    Ok(match wire.outcome.ok_or(DecodeError::Missing("append_reply.outcome"))? {
        Outcome::Matched(matched) => {
            AppendReply::Accept { matched: index("append_reply.matched", matched)? }
        }
        Outcome::Reject(it) => AppendReply::Reject {
            previous: index("append_reply.reject.previous_index", it.previous_index)?,
            hint: position("append_reply.reject.hint", it.hint_term, it.hint_index)?,
            repairing: it.repairing,
        },
    })
}

fn propose(wire: proto::Propose) -> Result<Message, DecodeError> {
    let nowhere = std::iter::repeat(Index::ZERO);
    let entries = entries(wire.runs, wire.payloads, nowhere, PROPOSE)?;
    let first = wire.first_request;
    let requests = requests("propose.first_request", first, entries.len() as u64)?;
    Ok(Message::Propose { session: wire.session, requests, entries })
}

fn propose_reply(wire: proto::ProposeReply) -> Result<Message, DecodeError> {
    use proto::propose_reply::Outcome;
    let requests = requests("propose_reply.first_request", wire.first_request, wire.count)?;
    let outcome = match wire.outcome.ok_or(DecodeError::Missing("propose_reply.outcome"))? {
        Outcome::Index(value) => Ok(index("propose_reply.index", value)?),
        Outcome::Refusal(it) => Err(refusal(it)?),
    };
    Ok(Message::ProposeReply { requests, outcome })
}

fn requests(field: &'static str, first: u64, count: u64) -> Result<Requests, DecodeError> {
    if count == 0 {
        return Err(invalid(field, first, "counts no request"));
    }
    if first.checked_add(count).is_none() {
        return Err(invalid(field, first, "the requests behind it would have no number"));
    }
    Ok(Requests { first: RequestId(first), count })
}

fn refusal(wire: proto::Refusal) -> Result<Refusal, DecodeError> {
    use proto::refusal::Reason;
    match Reason::try_from(wire.reason) {
        Ok(Reason::NotLeader) => Ok(Refusal::NotLeader { leader: NodeId::new(wire.leader) }),
        Ok(Reason::Overloaded) => Ok(Refusal::Overloaded),
        Ok(Reason::TooLarge) => Ok(Refusal::TooLarge),
        Ok(Reason::StorageFailed) => Ok(Refusal::StorageFailed),
        Ok(Reason::Transferring) => Ok(Refusal::Transferring),
        Ok(Reason::Unspecified) | Err(_) => {
            Err(DecodeError::Missing("propose_reply.refusal.reason"))
        }
    }
}

fn invalid(field: &'static str, value: u64, rule: &'static str) -> DecodeError {
    DecodeError::Invalid { field, value, rule }
}
