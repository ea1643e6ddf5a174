//! What an engine needs from a log store and a transport. The core itself never calls them;
//! they stand here so that an adapter depends on nothing but this crate.

use alloc::vec::Vec;
use core::fmt::{Debug, Display};

use crate::{Entry, Envelope, Index, NodeId, Write};

/// A durable log. One thread owns it and writes; readers go beside it.
pub trait LogStore: Send + 'static {
    /// What can go wrong. Says which file, where and why.
    type Error: Display + Debug + Send + Sync + 'static;
    /// Reads beside the writer.
    type Reader: LogReader<Error = Self::Error>;

    /// Makes all of `writes` durable, in order, with one sync; each write is atomic. After an
    /// error nothing may be written any more: every later call fails.
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
    /// more than fit in `bytes_max` beyond that.
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
