//! What an engine needs from a log store and a transport. The core itself never calls them;
//! they stand here so that an adapter depends on nothing but this crate.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::error::Error;
use core::fmt::{Debug, Display};

use crate::{Entry, Envelope, Index, LogPosition, NodeId, Snapshot, Term, Write};

/// A durable log. One thread owns it and writes; readers go beside it.
pub trait LogStore: Send + 'static {
    /// What can go wrong. Says which file, where and why.
    type Error: Display + Debug + Send + Sync + 'static;
    /// Reads beside the writer.
    type Reader: LogReader<Error = Self::Error>;

    /// Makes all of `writes` durable, in order, with one sync; each write is atomic. After an
    /// error nothing may be written any more: every later call fails. What lies before the base
    /// of a [`SnapshotMark`](crate::SnapshotMark) may go once the mark is durable, not before.
    fn persist(&mut self, writes: &[Write]) -> Result<(), Self::Error>;

    /// A reader of what has been persisted.
    fn reader(&self) -> Self::Reader;

    /// Ends it in good order, where that is more than dropping it.
    fn close(self) -> Result<(), Self::Error>
    where
        Self: Sized,
    {
        Ok(())
    }
}

/// Reads entries that were persisted.
pub trait LogReader: Clone + Send + Sync + 'static {
    /// What can go wrong. Says which file, where and why.
    type Error: Display + Debug + Send + Sync + 'static;

    /// Appends to `entries` the entries from `first` to at most `last`, at least one, no
    /// more than fit in `bytes_max` beyond that. Appends none where `first` lies before the
    /// log's base: a snapshot has taken its place.
    fn read(
        &self,
        first: Index,
        last: Index,
        bytes_max: usize,
        entries: &mut Vec<Entry>,
    ) -> Result<(), Self::Error>;
}

/// A way to the other nodes.
pub trait Transport: Send + Sync + 'static {
    /// Takes these messages, in order within each [`Lane`](crate::Lane) of each peer. Never
    /// blocks; what cannot be taken is dropped, for Raft tolerates loss. Leaves `envelopes`
    /// empty.
    fn send(&self, envelopes: &mut Vec<Envelope>);

    /// Whether there is a way to `peer` at this moment. What is sent without one is lost, so a
    /// proposal is better refused than handed on. A transport that cannot tell says yes.
    fn is_reachable(&self, peer: NodeId) -> bool {
        let _ = peer;
        true
    }
}

/// Why a snapshot cannot be read or written. Says which file, where and why.
pub type SnapshotStoreError = Box<dyn Error + Send + Sync>;

/// The snapshots of one node. The log says which of them counts
/// ([`SnapshotMark`](crate::SnapshotMark)).
pub trait SnapshotStore: Send + Sync + 'static {
    /// The newest one that is durable, or `None` where there is none.
    ///
    /// # Errors
    /// The disk failed, or the snapshot is damaged.
    fn newest(&self) -> Result<Option<Arc<dyn SnapshotSource>>, SnapshotStoreError>;

    /// Begins one that is built here, under a temporary name.
    ///
    /// # Errors
    /// The disk failed.
    fn build(&self, snapshot: &Snapshot) -> Result<Box<dyn SnapshotSink>, SnapshotStoreError>;

    /// Begins one that a peer sends, or goes on with it where it is the same transfer. Whatever
    /// else was being received is dropped.
    ///
    /// # Errors
    /// The disk failed.
    fn receive(&self, offer: &SnapshotOffer) -> Result<Box<dyn SnapshotSink>, SnapshotStoreError>;

    /// Removes all that are older than `last`, and what was left unfinished. To be called only
    /// once the log's mark of the snapshot at `last` is durable.
    ///
    /// # Errors
    /// The disk failed.
    fn retain(&self, last: LogPosition) -> Result<(), SnapshotStoreError>;
}

/// A durable snapshot: the bytes of a state machine.
pub trait SnapshotSource: Send + Sync + 'static {
    /// What it covers.
    fn snapshot(&self) -> &Snapshot;

    /// How many bytes it has.
    fn len_bytes(&self) -> u64;

    /// The CRC-32C of all of them.
    fn check(&self) -> u32;

    /// Reads from `offset` on, as many bytes as there are or as there is room for.
    ///
    /// # Errors
    /// The disk failed, or what it holds is not what was written.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<usize, SnapshotStoreError>;
}

/// A snapshot that is being written. Dropped before it is published, it is kept for a transfer
/// that goes on later, and not otherwise.
pub trait SnapshotSink: Send + 'static {
    /// How many bytes it has already: the next one to write.
    fn offset(&self) -> u64;

    /// Adds bytes at its end.
    ///
    /// # Errors
    /// The disk failed.
    fn write(&mut self, bytes: &[u8]) -> Result<(), SnapshotStoreError>;

    /// Makes it durable under its name: the file is synced, renamed, and the directory synced.
    ///
    /// # Errors
    /// The disk failed, or it is not what was offered; nothing is published then.
    fn publish(self: Box<Self>) -> Result<(), SnapshotStoreError>;
}

/// What a sender says of a snapshot before it sends it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotOffer {
    /// Who sends it.
    pub from: NodeId,
    /// The term in which the sender leads.
    pub term: Term,
    /// Fresh for every transfer, and the same when it is resumed.
    pub transfer: u64,
    /// What it covers.
    pub snapshot: Snapshot,
    /// How many bytes it has.
    pub len_bytes: u64,
    /// The CRC-32C of all of them.
    pub check: u32,
}
