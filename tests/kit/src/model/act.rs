//! What can happen to one node, and what travels between nodes.

use std::fmt;

use raft_core::{Envelope, Index, LogPosition, NodeId, Snapshot, Term};

/// One thing that happens to one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Act {
    /// This packet, which was sent once, arrives: for the first time, late, or again.
    Receive(u32),
    /// The node's patience ends: its clock is far ahead, and its timer fires.
    Timeout,
    /// A leader's next heartbeat is due.
    Heartbeat,
    /// The node's clock runs far ahead, and its timer has not fired yet.
    Silence,
    /// The oldest so many writes under way are durable, and the node hears of it.
    Persisted(u8),
    /// The node crashes and starts again. Of the writes under way, the oldest `kept` survive.
    Crash { kept: u8, machine: Machine },
    /// As a crash that loses nothing, but the log behind this index turns out to be damaged.
    Damage(Index),
    /// Somebody proposes an entry.
    Propose,
    /// Somebody reads; so much was committed before.
    Read(Index),
    /// A snapshot of the state machine was taken.
    Snapshot,
    /// Somebody asks for the change of this number.
    Change(u8),
    /// Somebody wants this node to lead.
    Transfer(NodeId),
}

/// What becomes of the state machine in a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Machine {
    Stays,
    FallsBackToSnapshot,
}

/// What can happen only so often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cost {
    Timeout,
    Proposal,
    Read,
    Crash,
    Damage,
    Snapshot,
    Change,
    Transfer,
    Stall,
}

impl Act {
    pub(super) fn cost(self) -> Option<Cost> {
        match self {
            Self::Receive(_) | Self::Heartbeat | Self::Silence | Self::Persisted(_) => None,
            Self::Timeout => Some(Cost::Timeout),
            Self::Crash { .. } => Some(Cost::Crash),
            Self::Damage(_) => Some(Cost::Damage),
            Self::Propose => Some(Cost::Proposal),
            Self::Read(_) => Some(Cost::Read),
            Self::Snapshot => Some(Cost::Snapshot),
            Self::Change(_) => Some(Cost::Change),
            Self::Transfer(_) => Some(Cost::Transfer),
        }
    }
}

/// What travels. Once sent, it can arrive at any time and any number of times, or never.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Packet {
    Message(Envelope),
    Snapshot {
        from: NodeId,
        to: NodeId,
        term: Term,
        snapshot: Snapshot,
    },
    /// What a sender hears of its snapshot: it has arrived, or will not.
    Sent {
        to: NodeId,
        peer: NodeId,
        last: Option<LogPosition>,
    },
}

impl Packet {
    pub(super) fn to(&self) -> NodeId {
        match self {
            Self::Message(envelope) => envelope.to,
            Self::Snapshot { to, .. } | Self::Sent { to, .. } => *to,
        }
    }
}

impl fmt::Display for Packet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Message(Envelope { from, term, message, .. }) => {
                write!(f, "{message:?} of {term:?} from {from:?}")
            }
            Self::Snapshot { from, term, snapshot, .. } => {
                write!(f, "the snapshot up to {:?} of {term:?} from {from:?}", snapshot.last)
            }
            Self::Sent { peer, last: Some(last), .. } => {
                write!(f, "that {peer:?} has the snapshot up to {last:?}")
            }
            Self::Sent { peer, last: None, .. } => write!(f, "that {peer:?} got no snapshot"),
        }
    }
}
