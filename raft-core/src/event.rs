//! Everything that can happen to a node, and everything that a node can want done.

use crate::{Entries, Envelope, HardState, Index, LogPosition, NodeId, Requests, Term, Ticket};

/// What happened. Handed to [`Raft::handle`](crate::Raft::handle).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// [`Raft::deadline`](crate::Raft::deadline) has passed. An early one is ignored.
    Timer,
    /// A message arrived.
    Receive(Envelope),
    /// Somebody wants these entries in the log; see [`Entries::proposal`].
    Propose {
        /// One number for each entry.
        requests: Requests,
        /// The entries.
        entries: Entries,
    },
    /// Somebody wants to read what is linearizable now.
    Read {
        /// The readers.
        requests: Requests,
    },
    /// This write, and all before it, is durable.
    Persisted(Ticket),
    /// A write or sync failed. Nothing that was not durable before can be trusted.
    StorageFailed,
    /// The answer to [`Effect::Load`].
    Loaded {
        /// The peer they were asked for.
        peer: NodeId,
        /// Entries from the first index that was asked for; at least one.
        entries: Entries,
    },
    /// The state machine has applied everything up to here.
    Applied(Index),
}

/// What is to be done. In any order, except that [`Persist`](Effect::Persist) is
/// first-in-first-out, and so is [`Apply`](Effect::Apply).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Write this, make it durable, then report [`Event::Persisted`].
    Persist(Write),
    /// Send this, or drop it.
    Send(Envelope),
    /// Apply the committed entries `first..=last`, each exactly once; then report
    /// [`Event::Applied`]. They are durable here.
    Apply {
        /// The first.
        first: Index,
        /// The last.
        last: Index,
    },
    /// Read entries from `first` on out of storage for `peer`, up to `last` or until they
    /// reach `bytes_max` (at least one); then report [`Event::Loaded`].
    Load {
        /// The peer that needs them.
        peer: NodeId,
        /// The first.
        first: Index,
        /// The last that is of use.
        last: Index,
        /// Where to stop, in [`Entry::size_bytes`](crate::Entry::size_bytes).
        bytes_max: usize,
    },
    /// These reads may be served once the state machine has applied `index`.
    ReadReady {
        /// The readers.
        requests: Requests,
        /// The read index.
        index: Index,
    },
    /// These proposals ended. Comes before the [`Apply`](Effect::Apply) that covers them, but
    /// for one case: where the answer to a proposal that was handed on comes late, the entries
    /// may have been applied before anybody here knew whose they are.
    Resolve {
        /// The proposals.
        requests: Requests,
        /// How.
        outcome: Outcome,
    },
    /// These proposals or reads were surely not executed.
    Refuse {
        /// The requests.
        requests: Requests,
        /// Why.
        reason: Refusal,
    },
    /// A peer no longer holds what it once acknowledged: its disk lost entries. Reported again
    /// and again while that is so; once alone, it may be an answer that came very late.
    PeerRegressed {
        /// The peer.
        peer: NodeId,
        /// What it had acknowledged.
        acknowledged: Index,
        /// What it holds at most.
        holds: Index,
    },
    /// The role, the term or the known leader changed. For people and for watches.
    RoleChanged(RoleChange),
}

/// One write to storage, atomic: after a crash all of it is there or none of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Write {
    /// To be handed back in [`Event::Persisted`].
    pub ticket: Ticket,
    /// First, cut the log so that its last entry is this one.
    pub truncate: Option<Index>,
    /// Then append these.
    pub entries: Entries,
    /// Replace the hard state by this.
    pub hard_state: Option<HardState>,
}

/// How a proposal ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Committed: the first of the requests at `first`, the others behind it.
    Committed {
        /// The place of the first request's entry.
        first: Index,
    },
    /// Surely not executed: another entry was committed in its place.
    Superseded,
    /// It may or may not be executed, now or later. Nobody here can know.
    Unknown,
}

/// Why a request was refused. A refused request was surely not executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Refusal {
    /// Ask this node, or try again when a leader is known.
    NotLeader {
        /// The leader, where one is known.
        leader: Option<NodeId>,
    },
    /// Too many bytes are waiting to be committed. Try again later.
    Overloaded,
    /// An entry is larger than the group allows. Never try it again.
    TooLarge,
    /// Storage has failed; this node does nothing any more. Ask another one.
    StorageFailed,
}

/// The role, term and leader of a node, as of now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RoleChange {
    /// The term.
    pub term: Term,
    /// The role in it.
    pub role: RoleKind,
    /// The leader of it, where known.
    pub leader: Option<NodeId>,
    /// The end of the log.
    pub last: LogPosition,
}

/// The roles by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RoleKind {
    /// Follows a leader, or waits for one.
    Follower,
    /// Asks whether it would win an election.
    PreCandidate,
    /// Stands for election.
    Candidate,
    /// Leads.
    Leader,
}
