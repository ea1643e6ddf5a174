//! What the threads report back to the driver.

use std::sync::Arc;

use raft_core::{Entries, LogPosition, NodeId, Snapshot, SnapshotSource, Term, Ticket};
use raft_driver::{Done, Failure};
use tokio::sync::mpsc::UnboundedSender;

use crate::transfers::TransferId;

/// Something that the driver asked for is done, or failed. As many as were asked for, so the
/// queue needs no bound of its own.
pub(crate) enum Completion<A> {
    Persisted(Ticket),
    StorageFailed(String),
    Loaded { peer: NodeId, entries: Entries },
    Task(Result<Done<A>, Failure>),
    Built { snapshot: Snapshot, result: Result<(), String> },
    Opened { transfer: TransferId, peer: NodeId, term: Term, source: Opened },
    SnapshotSent { transfer: TransferId, peer: NodeId, last: Option<LogPosition> },
}

/// The newest snapshot, or why there is none to send.
pub(crate) type Opened = Result<Arc<dyn SnapshotSource>, String>;

/// A thread's way to report.
pub(crate) type Reports<A> = UnboundedSender<Completion<A>>;
