//! Everything that can happen to a node, and everything that a node can want done.

use alloc::boxed::Box;
use alloc::sync::Arc;

use crate::{
    ChangeError, ChangeSet, Entries, Envelope, HardState, Incarnation, Index, Instant, LogPosition,
    Membership, NodeId, RequestId, Requests, Snapshot, SnapshotMark, Term, Ticket,
};

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
        /// Whether a lease will do (see [`Config::lease`](crate::Config::lease)).
        lease: bool,
    },
    /// Somebody wants to change the group. Ends with [`Effect::Resolve`] when the change is
    /// committed, a joint phase to its end, or with [`Effect::Refuse`]. Learners that are to be
    /// promoted, and voters that retire for them, follow later, whoever leads then.
    ChangeMembership {
        /// One number.
        request: RequestId,
        /// The changes.
        set: ChangeSet,
    },
    /// Somebody wants another leader. Ends with [`Effect::Transferred`] or [`Effect::Refuse`].
    TransferLeadership {
        /// One number.
        request: RequestId,
        /// The leader to be, or the best there is.
        to: Option<NodeId>,
    },
    /// A peer has shown its disk. The leader notes it in the configuration.
    Identified {
        /// The peer.
        peer: NodeId,
        /// Its disk.
        incarnation: Incarnation,
    },
    /// This write, and all before it, is durable.
    Persisted(Ticket),
    /// A write or sync failed. Nothing that was not durable before can be trusted.
    StorageFailed,
    /// The answer to [`Effect::Load`].
    Loaded {
        /// The peer they were asked for.
        peer: NodeId,
        /// Entries from the first index that was asked for; none where they are gone.
        entries: Entries,
    },
    /// A snapshot of the state machine, taken here, is durable. The log may be cut behind it.
    SnapshotTaken(Snapshot),
    /// A snapshot from the leader of `term` has arrived whole and is durable.
    SnapshotReceived {
        /// Who sent it.
        from: NodeId,
        /// The sender's term.
        term: Term,
        /// What it covers.
        snapshot: Snapshot,
    },
    /// A transfer asked for by [`Effect::SendSnapshot`] has ended.
    SnapshotSent {
        /// The peer.
        peer: NodeId,
        /// The end of the snapshot that the peer has now, or `None` where it failed.
        last: Option<LogPosition>,
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
    /// Restore the state machine from the newest snapshot, which ends at `last`; then report
    /// [`Event::Applied`]. In line with [`Apply`](Effect::Apply).
    Install {
        /// The end of the snapshot.
        last: LogPosition,
    },
    /// Send the newest durable snapshot to `peer`, on a stream of its own; then report
    /// [`Event::SnapshotSent`]. One at a time for each peer; a newer one replaces an older.
    SendSnapshot {
        /// The peer that needs it.
        peer: NodeId,
        /// The term in which it is sent.
        term: Term,
        /// It covers at least this much.
        at_least: LogPosition,
    },
    /// No snapshot for `peer` is wanted any more: this node no longer leads.
    CancelSnapshots,
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
        /// For a read under a lease: until when the answer may leave, by this node's clock. Look
        /// again after reading the state; later than this, ask again without a lease.
        until: Option<Instant>,
    },
    /// Leadership has passed to the node that was named, or to the best.
    Transferred {
        /// Who asked.
        request: RequestId,
        /// Who leads now.
        leader: NodeId,
    },
    /// The members changed, or a change was undone. The new ones are in force.
    MembershipChanged {
        /// The index of the configuration.
        index: Index,
        /// The members.
        membership: Arc<Membership>,
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
    /// Then, note this snapshot, and let go of the log before its base. It is rare and large.
    pub snapshot: Option<Box<SnapshotMark>>,
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
    /// Leadership is being handed over. Try again as soon as there is a new leader.
    Transferring,
    /// The members cannot be changed so, or not now.
    Change(ChangeError),
    /// Leadership cannot be handed over so, or was not.
    Transfer(TransferError),
}

/// Why leadership was not handed over. Whoever led, leads on, unless another was elected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum TransferError {
    /// There is no such member.
    UnknownMember(NodeId),
    /// Only a voter can lead.
    NotVoter(NodeId),
    /// The member is not heard, or its log is far behind.
    Lags(NodeId),
    /// Another transfer is under way.
    InProgress,
    /// There is nobody else who could lead.
    NobodyElse,
    /// The member did not catch up and win in time, or is no voter any more.
    Failed(NodeId),
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
