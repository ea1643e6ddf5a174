//! Snapshots on their way to peers: how far each has come, and which report is of the newest.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use raft_core::{NodeId, Snapshot, SnapshotSource};

/// Tells one transfer of this node from others.
pub(crate) type TransferId = u64;

/// How far a snapshot has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotProgress {
    /// Bytes that were handed to the transport.
    pub sent_bytes: u64,
    /// All of them.
    pub len_bytes: u64,
}

#[derive(Default)]
pub(crate) struct Transfers {
    newest: TransferId,
    under_way: BTreeMap<NodeId, Transfer>,
}

struct Transfer {
    id: TransferId,
    /// Set once the file is open.
    source: Option<Arc<Watched>>,
}

impl Transfers {
    /// A transfer to `peer` begins, and takes the place of the one before it.
    pub(crate) fn begin(&mut self, peer: NodeId) -> TransferId {
        self.newest += 1;
        self.under_way.insert(peer, Transfer { id: self.newest, source: None });
        self.newest
    }

    /// The same source, watched; `None` where the transfer is not wanted any more.
    pub(crate) fn watch(
        &mut self,
        peer: NodeId,
        id: TransferId,
        source: Arc<dyn SnapshotSource>,
    ) -> Option<Arc<dyn SnapshotSource>> {
        let transfer = self.under_way.get_mut(&peer).filter(|transfer| transfer.id == id)?;
        let watched = Arc::new(Watched { source, sent_bytes: AtomicU64::new(0) });
        transfer.source = Some(Arc::clone(&watched));
        Some(watched)
    }

    /// Whether that was the newest one to `peer`, which is over then.
    pub(crate) fn end(&mut self, peer: NodeId, id: TransferId) -> bool {
        let is_newest = self.under_way.get(&peer).is_some_and(|transfer| transfer.id == id);
        if is_newest {
            self.under_way.remove(&peer);
        }
        is_newest
    }

    pub(crate) fn cancel(&mut self) {
        self.under_way.clear();
    }

    pub(crate) fn progress(&self, peer: NodeId) -> Option<SnapshotProgress> {
        let source = self.under_way.get(&peer)?.source.as_ref()?;
        let sent_bytes = source.sent_bytes.load(Ordering::Relaxed);
        Some(SnapshotProgress { sent_bytes, len_bytes: source.len_bytes() })
    }
}

/// Notes how far it was read.
struct Watched {
    source: Arc<dyn SnapshotSource>,
    sent_bytes: AtomicU64,
}

impl SnapshotSource for Watched {
    fn snapshot(&self) -> &Snapshot {
        self.source.snapshot()
    }

    fn len_bytes(&self) -> u64 {
        self.source.len_bytes()
    }

    fn check(&self) -> u32 {
        self.source.check()
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<usize, Box<dyn Error + Send + Sync>> {
        let read = self.source.read_at(offset, into)?;
        self.sent_bytes.store(offset + read as u64, Ordering::Relaxed);
        Ok(read)
    }
}
