//! What nodes say to one another.

use crate::{Entries, Index, Instant, LogPosition, NodeId, Refusal, Requests, Round, Term};

/// A message on its way. Loss, repetition, delay and reordering are all allowed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Envelope {
    /// The sender.
    pub from: NodeId,
    /// The receiver.
    pub to: NodeId,
    /// The sender's term when it sent: every message, every reply carries it (Raft §5.1).
    pub term: Term,
    /// What it says.
    pub message: Message,
}

/// What a message says. Requests stand before their replies.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Message {
    /// "Would you vote for me in the term after mine?" (thesis §9.6). Changes nobody's state.
    PreVote {
        /// The end of the sender's log.
        last: LogPosition,
    },
    /// The answer to a pre-vote.
    PreVoteReply {
        /// The term in which the question was asked.
        asked: Term,
        /// The answer.
        granted: bool,
    },
    /// RequestVote (Raft §5.2) for the envelope's term.
    Vote {
        /// The end of the candidate's log.
        last: LogPosition,
        /// The leader itself has asked the candidate to take over (thesis §3.10): a vote against
        /// a leader that lives.
        transfer: bool,
    },
    /// The answer to RequestVote. A granted one is durable before it leaves.
    VoteReply {
        /// The answer.
        granted: bool,
    },
    /// AppendEntries (Raft §5.3).
    Append(Append),
    /// The answer to AppendEntries.
    AppendReply(AppendReply),
    /// "I lead, and you may commit this much." Never waits for a disk.
    Heartbeat {
        /// The leader's commit index, but no more than what the receiver is known to hold.
        commit: Index,
        /// The newest round in which the leader confirms its leadership.
        round: Round,
        /// When it was sent, by the leader's clock; means nothing to the receiver.
        sent_at: Instant,
    },
    /// The answer to a heartbeat.
    HeartbeatReply {
        /// The heartbeat's round.
        round: Round,
        /// The heartbeat's time of sending.
        sent_at: Instant,
    },
    /// "Stand for election at once": the leader hands over (thesis §3.10).
    TimeoutNow,
    /// "You may commit this much", when no append carries it. Not answered: what is lost is
    /// made good by the next append or heartbeat.
    Commit {
        /// The leader's commit index, but no more than what the receiver is known to hold.
        commit: Index,
    },
    /// A follower asks for a read index (thesis §6.4).
    Read {
        /// The follower's own number for its question, fresh for each.
        question: Round,
    },
    /// The answer: reads that waited when the question was first sent may be served at
    /// `index`.
    ReadReply {
        /// The follower's number.
        question: Round,
        /// The read index.
        index: Index,
    },
    /// A follower hands a proposal on to the leader.
    Propose {
        /// Fresh in every run of the follower: with `requests` it makes a copy of this
        /// message known as a copy.
        session: u64,
        /// The follower's numbers for the entries, one each.
        requests: Requests,
        /// What is proposed.
        entries: Entries,
    },
    /// The answer to a proposal that was handed on: where its entries stand now. Travels
    /// ahead of the append that carries them, on the same lane.
    ProposeReply {
        /// The follower's numbers.
        requests: Requests,
        /// The place of the first entry in the log of the envelope's term, or the reason why
        /// none was taken.
        outcome: Result<Index, Refusal>,
    },
}

/// AppendEntries (Raft §5.3). Without entries it probes, or only moves the commit index.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Append {
    /// The position just before the entries.
    pub previous: LogPosition,
    /// Consecutive entries, the first at `previous.index + 1`.
    pub entries: Entries,
    /// The leader's commit index.
    pub commit: Index,
}

impl Append {
    /// The last index that this message proves equal to the leader's log.
    pub fn last_covered(&self) -> Index {
        Index(self.previous.index.0 + self.entries.len() as u64)
    }
}

/// The answer to AppendEntries.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum AppendReply {
    /// The logs agree up to here, durably.
    Accept {
        /// The last index proven equal.
        matched: Index,
    },
    /// The logs differ at `previous`.
    Reject {
        /// The index of the `previous` that did not match.
        previous: Index,
        /// Where the logs may agree at the latest: skips a whole term a message.
        hint: LogPosition,
        /// The sender's log was damaged, and it knows: it may hold less than it once
        /// acknowledged, and asks to be sent it again.
        repairing: bool,
    },
}

/// How urgent a message is, so that a transport can keep small ones from queueing behind bulk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lane {
    /// Elections, heartbeats and read rounds.
    Control,
    /// Entries, and what must stay in order with them.
    Bulk,
}

impl Message {
    /// The lane it belongs to.
    pub fn lane(&self) -> Lane {
        match self {
            Self::PreVote { .. }
            | Self::PreVoteReply { .. }
            | Self::Vote { .. }
            | Self::VoteReply { .. }
            | Self::Heartbeat { .. }
            | Self::HeartbeatReply { .. }
            | Self::Read { .. }
            | Self::ReadReply { .. } => Lane::Control,
            Self::Append(_)
            | Self::AppendReply(_)
            | Self::Commit { .. }
            // Behind the entries that make its receiver's log as long as any.
            | Self::TimeoutNow
            | Self::Propose { .. }
            | Self::ProposeReply { .. } => Lane::Bulk,
        }
    }
}
