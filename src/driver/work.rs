//! What goes into the driver, and what comes out of it.

use std::sync::Arc;

use raft_core::{
    ChangeSet, Entries, Envelope, Incarnation, Index, Instant, LogPosition, Membership, NodeId,
    Refusal, RoleChange, Snapshot, Term, Ticket, Write,
};

/// What happened, beside proposals and reads.
#[derive(Debug)]
pub(crate) enum Input {
    Timer,
    Receive(Envelope),
    Persisted(Ticket),
    StorageFailed,
    Loaded {
        peer: NodeId,
        entries: Entries,
    },
    /// A [`Task::Apply`] was done.
    Applied(Progress),
    /// A [`Task::Install`] was done; the state machine holds everything up to here.
    Installed(Index),
    /// A snapshot that was to be built is durable, or could not be.
    Built(Result<Snapshot, BuildFailed>),
    SnapshotReceived {
        from: NodeId,
        term: Term,
        snapshot: Snapshot,
    },
    /// The newest snapshot file is of no use.
    SnapshotDamaged,
    SnapshotSent {
        peer: NodeId,
        last: Option<LogPosition>,
    },
    Identified {
        peer: NodeId,
        incarnation: Incarnation,
    },
}

/// How far a batch brought the state machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress {
    /// Applied up to here: the end of the batch, or less where the log does not hold the rest
    /// any more because a snapshot has taken its place.
    pub(crate) applied: Index,
    /// The end of the batch.
    pub(crate) last: Index,
    /// How many bytes of the log that was.
    pub(crate) bytes: u64,
    /// What [`StateMachine::durable`](crate::StateMachine::durable) says.
    pub(crate) durable: Option<Index>,
}

/// It is tried again later.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BuildFailed;

/// Something that a caller wants beside proposing and reading.
#[derive(Debug)]
pub(crate) enum Wish {
    Change(ChangeSet),
    Transfer(Option<NodeId>),
}

/// What is to be done. Writes and tasks are first-in-first-out.
#[derive(Debug)]
pub(crate) struct Work<W> {
    pub(crate) writes: Vec<Write>,
    pub(crate) sends: Vec<Envelope>,
    pub(crate) tasks: Vec<Task<W>>,
    pub(crate) loads: Vec<Load>,
    pub(crate) snapshots: Vec<SnapshotJob>,
    pub(crate) ended: Vec<(W, Ending)>,
    pub(crate) members: Vec<MembersNow>,
    pub(crate) role_changes: Vec<RoleChange>,
    pub(crate) regressions: Vec<Regression>,
}

impl<W> Default for Work<W> {
    fn default() -> Self {
        Self {
            writes: Vec::new(),
            sends: Vec::new(),
            tasks: Vec::new(),
            loads: Vec::new(),
            snapshots: Vec::new(),
            ended: Vec::new(),
            members: Vec::new(),
            role_changes: Vec::new(),
            regressions: Vec::new(),
        }
    }
}

/// What the state machine is to do.
#[derive(Debug)]
pub(crate) enum Task<W> {
    /// To be reported with [`Input::Applied`].
    Apply(Batch<W>),
    /// Restore it from the newest snapshot, which ends here or later; to be reported with
    /// [`Input::Installed`].
    Install(LogPosition),
    /// Take a snapshot of it; to be reported with
    /// [`Driver::captured`](super::Driver::captured).
    Capture,
}

/// Committed entries to be applied, and who waits for their responses.
#[derive(Debug)]
pub(crate) struct Batch<W> {
    pub(crate) first: Index,
    pub(crate) last: Index,
    /// The entries, or `None` when they have to be read from storage.
    pub(crate) entries: Option<Entries>,
    pub(crate) waiters: Vec<(Index, W)>,
}

/// Entries to be read from storage for a peer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) peer: NodeId,
    pub(crate) first: Index,
    pub(crate) last: Index,
    pub(crate) bytes_max: usize,
}

/// What is to be done with snapshot files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SnapshotJob {
    /// Send the newest; to be reported with [`Input::SnapshotSent`].
    Send { peer: NodeId, term: Term },
    /// None is to be sent any more.
    Cancel,
    /// Remove those that are older than this.
    Retain(LogPosition),
}

/// How a caller's request ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Surely not executed.
    Refused(Refusal),
    /// Surely not executed: another entry took its place.
    Superseded,
    /// Nobody here can know.
    Unknown,
    /// The node stops.
    Stopped,
    /// The state may be read, which has everything up to `index`; under a lease until then.
    Readable { index: Index, until: Option<Instant> },
    /// The change is in force, and stands here.
    Changed(Index),
    /// This node leads now.
    Transferred(NodeId),
}

/// The members, and whether that is for good.
#[derive(Clone, Debug)]
pub(crate) enum MembersNow {
    /// In force from now on, but not committed: it may yet be undone.
    InForce(Index, Arc<Membership>),
    /// Committed.
    Settled(Index, Arc<Membership>),
}

/// A peer lost what it had acknowledged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Regression {
    pub(crate) peer: NodeId,
    pub(crate) acknowledged: Index,
    pub(crate) holds: Index,
}
