//! What messages say, without what they carry.

use raft_core::{Append, AppendReply, Message};
use serde::{Deserialize, Serialize};

use super::Position;

/// What a message says. Entries are only counted: their marks stand where they are written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "they are the fields of the messages, under the same names")]
pub enum Said {
    /// "Would you vote for me?"
    PreVote { last: Position },
    /// The answer.
    PreVoteReply { asked: u64, granted: bool },
    /// "Vote for me."
    Vote {
        last: Position,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        transfer: bool,
    },
    /// The answer: a promise where it is granted.
    VoteReply { granted: bool },
    /// "Append these."
    Append { previous: Position, count: u64, commit: u64 },
    /// "We agree up to here": a promise.
    Accept { matched: u64 },
    /// "We differ."
    Reject { previous: u64, hint: Position },
    /// "I lead."
    Heartbeat { commit: u64, round: u64, sent_at: u64 },
    /// The answer.
    HeartbeatReply { round: u64 },
    /// "Stand at once."
    TimeoutNow,
    /// "You may commit this much."
    Commit { commit: u64 },
    /// "From where may I read?"
    Read { question: u64 },
    /// The answer.
    ReadReply { question: u64, index: u64 },
    /// "Take these."
    Propose { first: u64, count: u64 },
    /// The answer: where they stand, if they were taken.
    ProposeReply { first: u64, index: Option<u64> },
}

impl Said {
    pub(super) fn of(message: &Message) -> Self {
        match message {
            Message::PreVote { last } => Self::PreVote { last: (*last).into() },
            Message::PreVoteReply { asked, granted } => {
                Self::PreVoteReply { asked: asked.0, granted: *granted }
            }
            Message::Vote { last, transfer } => {
                Self::Vote { last: (*last).into(), transfer: *transfer }
            }
            Message::VoteReply { granted } => Self::VoteReply { granted: *granted },
            Message::Append(Append { previous, entries, commit }) => Self::Append {
                previous: (*previous).into(),
                count: entries.len() as u64,
                commit: commit.0,
            },
            Message::AppendReply(AppendReply::Accept { matched }) => {
                Self::Accept { matched: matched.0 }
            }
            Message::AppendReply(AppendReply::Reject { previous, hint, .. }) => {
                Self::Reject { previous: previous.0, hint: (*hint).into() }
            }
            Message::Heartbeat { commit, round, sent_at } => {
                Self::Heartbeat { commit: commit.0, round: round.0, sent_at: sent_at.0 }
            }
            Message::HeartbeatReply { round, .. } => Self::HeartbeatReply { round: round.0 },
            Message::TimeoutNow => Self::TimeoutNow,
            Message::Commit { commit } => Self::Commit { commit: commit.0 },
            Message::Read { question } => Self::Read { question: question.0 },
            Message::ReadReply { question, index } => {
                Self::ReadReply { question: question.0, index: index.0 }
            }
            Message::Propose { requests, entries, .. } => {
                Self::Propose { first: requests.first.0, count: entries.len() as u64 }
            }
            Message::ProposeReply { requests, outcome } => Self::ProposeReply {
                first: requests.first.0,
                index: outcome.ok().map(|index| index.0),
            },
        }
    }
}
