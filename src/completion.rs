//! What the threads report back to the driver.

use std::io::Read;
use std::sync::Arc;

use raft_core::{Entries, Index, LogPosition, NodeId, Snapshot, SnapshotSource, Term, Ticket};
use tokio::sync::mpsc::UnboundedSender;

use crate::driver::Progress;
use crate::transfers::TransferId;

/// Something that the driver asked for is done, or failed. As many as were asked for, so the
/// queue needs no bound of its own.
pub(crate) enum Completion<A> {
    Persisted(Ticket),
    StorageFailed(String),
    Loaded { peer: NodeId, entries: Entries },
    Applied { progress: Progress, answers: Vec<A> },
    Installed(Index),
    Captured(Result<Captured, String>),
    Built { snapshot: Snapshot, result: Result<(), String> },
    Opened { transfer: TransferId, peer: NodeId, term: Term, source: Opened },
    SnapshotSent { transfer: TransferId, peer: NodeId, last: Option<LogPosition> },
    MachineFailed(String),
}

/// The newest snapshot, or why there is none to send.
pub(crate) type Opened = Result<Arc<dyn SnapshotSource>, String>;

/// The state as it was at `index`.
pub(crate) struct Captured {
    pub(crate) index: Index,
    pub(crate) state: Box<dyn Read + Send>,
}

impl<A> Completion<A> {
    /// Whether it ends a task of the apply thread.
    pub(crate) fn ends_task(&self) -> bool {
        matches!(self, Self::Applied { .. } | Self::Installed(_) | Self::Captured(_))
    }
}

/// A thread's way to report.
pub(crate) type Reports<A> = UnboundedSender<Completion<A>>;
