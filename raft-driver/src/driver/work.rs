//! What goes into the driver, and what comes out of it.

use std::sync::Arc;

use raft_core::{
    ChangeSet, Entries, Envelope, Incarnation, Index, Instant, LogPosition, Membership, NodeId,
    Refusal, RoleChange, Snapshot, Term, Ticket, Write,
};

/// What happened, beside proposals and reads.
#[derive(Debug)]
pub enum Input {
    /// [`Driver::deadline`](super::Driver::deadline) has passed.
    Timer,
    /// A peer sent this.
    Receive(Envelope),
    /// All writes up to this one are durable.
    Persisted(Ticket),
    /// A write, a sync or a read failed: the last step of this driver.
    StorageFailed,
    /// A [`Load`] was done.
    Loaded {
        /// For whom.
        peer: NodeId,
        /// As many of them as were asked for and fit; none where the log does not hold them.
        entries: Entries,
    },
    /// A [`Task::Apply`] was done.
    Applied(Progress),
    /// A [`Task::Install`] was done; the state machine holds everything up to here.
    Installed(Index),
    /// A snapshot that was to be built is durable, or could not be.
    Built(Result<Snapshot, BuildFailed>),
    /// A snapshot has arrived whole and is durable.
    SnapshotReceived {
        /// Who sent it.
        from: NodeId,
        /// The term in which the sender leads.
        term: Term,
        /// What it covers.
        snapshot: Snapshot,
    },
    /// The newest snapshot file is of no use.
    SnapshotDamaged,
    /// A [`SnapshotJob::Send`] has ended.
    SnapshotSent {
        /// To whom.
        peer: NodeId,
        /// The end of the snapshot that the peer has then; `None` if the transfer failed.
        last: Option<LogPosition>,
    },
    /// A peer has shown its disk.
    Identified {
        /// The peer.
        peer: NodeId,
        /// Its disk.
        incarnation: Incarnation,
    },
}

/// How far a batch brought the state machine.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Applied up to here: the end of the batch, or less where the log does not hold the rest
    /// any more because a snapshot has taken its place.
    pub applied: Index,
    /// The end of the batch.
    pub last: Index,
    /// How many bytes of the log that was.
    pub bytes: u64,
    /// What [`StateMachine::durable`](crate::StateMachine::durable) says.
    pub durable: Option<Index>,
}

/// It is tried again later.
#[derive(Clone, Copy, Debug)]
pub struct BuildFailed;

/// Something that a caller wants beside proposing and reading.
#[derive(Debug)]
pub enum Wish {
    /// Other members.
    Change(ChangeSet),
    /// Another leader: this one, or the best there is.
    Transfer(Option<NodeId>),
}

/// What is to be done. Writes and tasks are first-in-first-out.
#[derive(Debug)]
pub struct Work<W> {
    /// For the log; to be reported with [`Input::Persisted`].
    pub writes: Vec<Write>,
    /// For the peers. May be lost.
    pub sends: Vec<Envelope>,
    /// For the state machine.
    pub tasks: Vec<Task<W>>,
    /// To be read from the log; to be reported with [`Input::Loaded`].
    pub loads: Vec<Load>,
    /// For the snapshot files.
    pub snapshots: Vec<SnapshotJob>,
    /// Who has an answer, and which.
    pub ended: Vec<(W, Ending)>,
    /// The members, where they have changed.
    pub members: Vec<MembersNow>,
    /// To be shown and noted down.
    pub role_changes: Vec<RoleChange>,
    /// To be told to a person.
    pub regressions: Vec<Regression>,
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
pub enum Task<W> {
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
pub struct Batch<W> {
    /// Its first entry.
    pub first: Index,
    /// Its last entry.
    pub last: Index,
    /// The entries, or `None` when they have to be read from storage.
    pub entries: Option<Entries>,
    /// Ascending.
    pub waiters: Vec<(Index, W)>,
}

/// Entries to be read from storage for a peer.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// For whom.
    pub peer: NodeId,
    /// From here.
    pub first: Index,
    /// Up to here.
    pub last: Index,
    /// And not more than this (a single larger entry goes alone).
    pub bytes_max: usize,
}

/// What is to be done with snapshot files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotJob {
    /// Send the newest; to be reported with [`Input::SnapshotSent`].
    Send {
        /// To whom.
        peer: NodeId,
        /// The term in which this node leads.
        term: Term,
    },
    /// None is to be sent any more.
    Cancel,
    /// Remove those that are older than this.
    Retain(LogPosition),
}

/// How a caller's request ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Surely not executed.
    Refused(Refusal),
    /// Surely not executed: another entry took its place.
    Superseded,
    /// Nobody here can know.
    Unknown,
    /// The node stops.
    Stopped,
    /// The state may be read, which has everything up to `index`; under a lease until then.
    Readable {
        /// What is applied.
        index: Index,
        /// The end of the lease.
        until: Option<Instant>,
    },
    /// The change is in force, and stands here.
    Changed(Index),
    /// This node leads now.
    Transferred(NodeId),
}

/// The members, and whether that is for good.
#[derive(Clone, Debug)]
pub enum MembersNow {
    /// In force from now on, but not committed: it may yet be undone.
    InForce(Index, Arc<Membership>),
    /// Committed.
    Settled(Index, Arc<Membership>),
}

/// A peer lost what it had acknowledged.
#[derive(Clone, Copy, Debug)]
pub struct Regression {
    /// Who.
    pub peer: NodeId,
    /// What it had acknowledged.
    pub acknowledged: Index,
    /// What it holds now.
    pub holds: Index,
}
