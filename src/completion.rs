//! What the threads report back to the driver.

use raft_core::{Entries, Index, NodeId, Ticket};
use tokio::sync::mpsc::UnboundedSender;

/// Something that the driver asked for is done, or failed. As many as were asked for, so the
/// queue needs no bound of its own.
#[derive(Debug)]
pub(crate) enum Completion<A> {
    Persisted(Ticket),
    StorageFailed(String),
    Loaded { peer: NodeId, entries: Entries },
    Applied { last: Index, answers: Vec<A> },
    MachineFailed(String),
}

/// A thread's way to report.
pub(crate) type Reports<A> = UnboundedSender<Completion<A>>;
