//! The state machine: keys and values with their history, as etcd keeps them.
//!
//! ```text
//!            Store (one thread applies)            StoreReader (any thread reads)
//!                 | apply                             | range, txn, events
//!        +--------v-----------------------------------v--------+
//! memory |  active changes      frozen changes                 |  one lock, held for a batch
//!        +----------------------------|------------------------+
//!                                     | flush: sorted runs, synced, the mark last
//! disk      revisions   index   keys  v     (fjall, written by the keeper's thread alone)
//! ```
//! Raft's log is the journal. What was applied is in memory until enough has come together, and
//! is then written in one piece, with the index of the last entry in the same atomic step; after
//! a crash the entries behind it are applied again. Nothing is synced for a write, and nothing is
//! written twice.
//!
//! A snapshot is all that compaction keeps, at one index; restored, it takes the place of the three
//! tables at once.
//!
//! Memory holds at most two lots of changes of [`Options::flush_bytes`] each, and what one call
//! of [`Store::apply`] brings.

mod alarm;
mod apply;
mod base;
mod delta;
mod error;
mod flush;
mod format;
mod hash;
mod history;
mod keeper;
mod lease;
mod meter;
mod range;
mod reader;
mod scan;
mod snapshot;
mod span;
mod state;
mod sweep;
mod tables;
mod txn;
mod validate;
mod write;

#[cfg(test)]
mod tests;

use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use kontiki::{Entry, Index};

pub use alarm::cost;
pub use apply::{Answer, Response, encode};
pub use error::{Failure, KvError, SnapshotError, StoreError};
pub use format::KEY_BYTES_MAX;
pub use keeper::Progress;
pub use lease::{LEASE_TTL_MAX, Lease, Leases};
pub use meter::StoreMeter;
pub use reader::{Events, Most, Size, StateHash, StoreReader};
pub use snapshot::{RevisionBump, SnapshotStatus, snapshot_status};
pub use txn::{is_serializable, only_reads};
pub use validate::{validate_delete_range, validate_put, validate_range, validate_txn};

use base::Base;
use keeper::{Keeper, Shared};
use snapshot::Incoming;
use state::State;
use tables::Tables;

/// What counts as quick to apply; see [`Store::is_quick`].
const QUICK_ENTRIES_MAX: usize = 4;
const QUICK_BYTES_MAX: usize = 16 << 10;

/// How the store uses memory and disk. None of it changes what it answers.
#[derive(Clone, Debug)]
pub struct Options {
    /// So many bytes of changes are flushed together.
    pub flush_bytes: usize,
    /// Changes are flushed when they are older than this.
    pub flush_interval: Duration,
    /// Blocks of the tables that are kept in memory, in bytes.
    pub cache_bytes: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            flush_bytes: 12 << 20,
            flush_interval: Duration::from_secs(10),
            cache_bytes: 8 << 20,
        }
    }
}

/// The writing side of the store. Dropping it leaves the disk as a crash would: what was not
/// flushed must be applied again.
pub struct Store {
    shared: Arc<Shared>,
    flush_bytes: usize,
    _keeper: Keeper,
}

impl Store {
    /// Opens the store in directory `path`, which is made where there is none.
    ///
    /// # Errors
    /// The directory cannot be read or written, another process has it, or what is in it is
    /// damaged or of a newer format.
    pub fn open(path: &Path, options: &Options) -> Result<(Self, StoreReader), StoreError> {
        let base = Base::read(Tables::open(path, options.cache_bytes)?)?;
        let shared = Arc::new(Shared::new(State::new(base)?));
        let keeper = Keeper::start(&shared, options.flush_interval)?;
        let reader = StoreReader(Arc::clone(&shared));
        Ok((Self { shared, flush_bytes: options.flush_bytes, _keeper: keeper }, reader))
    }

    /// The last entry that was applied: the next one to apply is behind it.
    pub fn applied(&self) -> Index {
        self.shared.read().mark.applied
    }

    /// The last entry whose effects are on disk whatever happens: the log is needed only from
    /// the next one on.
    pub fn durable_applied(&self) -> Index {
        self.shared.read().base.mark.applied
    }

    /// Whether these next entries are a few small puts, nobody reads for long at this moment,
    /// and there is room for them in memory.
    pub fn is_quick(&self, entries: &[Entry]) -> bool {
        let bytes: usize = entries.iter().map(Entry::size_bytes).sum();
        entries.len() <= QUICK_ENTRIES_MAX
            && bytes <= QUICK_BYTES_MAX
            && entries.iter().all(apply::is_put_or_empty)
            && self.shared.has_room(self.flush_bytes.saturating_sub(QUICK_BYTES_MAX))
    }

    /// Applies the next entries: one response for each that holds a command, in order. Readers
    /// see all of them or none.
    ///
    /// # Errors
    /// The store failed. Nothing more can be applied, and the responses are worth nothing.
    pub fn apply(
        &mut self,
        entries: &[Entry],
        responses: &mut Vec<Response>,
    ) -> Result<(), StoreError> {
        let earlier = responses.len();
        let mut state = self.shared.write();
        let compacted = state.mark.compacted;
        for entry in entries {
            responses.extend(apply::apply(&mut state, entry)?);
        }
        let is_full = state.active.bytes() >= self.flush_bytes;
        if is_full && state.frozen.is_none() {
            state.freeze();
        }
        let must_wait = state.active.bytes() >= self.flush_bytes;
        let is_compaction = state.mark.compacted != compacted;
        let revision = state.mark.revision;
        drop(state);
        self.shared.tell(revision);
        self.shared.meter.on_applied(&responses[earlier..]);
        if is_full || is_compaction {
            self.shared.demand_flush();
        }
        if must_wait {
            // The disk is slower than the writers: they wait for it here.
            self.shared.wait_until(|state| state.frozen.is_none())?;
        }
        self.shared.check()
    }

    /// The state as it is now, as [`StoreReader::snapshot`] has it.
    ///
    /// # Errors
    /// The store failed.
    pub fn snapshot(&self) -> Result<Box<dyn Read + Send>, StoreError> {
        StoreReader(Arc::clone(&self.shared)).snapshot()
    }

    /// Replaces the whole state by that of a snapshot, which is durable then. Readers see all of
    /// the old state until they see all of the new one. Both are on disk for a while.
    ///
    /// # Errors
    /// The snapshot is of no use, or does not go up to `applied`, or the store failed. The state is
    /// what it was before, as it is after a crash in the middle.
    pub fn restore(&mut self, applied: Index, state: &mut dyn Read) -> Result<(), StoreError> {
        self.shared.check()?;
        let old = self.shared.read().base.tables.clone();
        let mut incoming = Incoming::open(state)?;
        let mark = incoming.mark.clone();
        if mark.applied != applied {
            let (expected, found) = (applied, mark.applied);
            return Err(SnapshotError::OtherIndex { expected, found }.into());
        }
        let new = old.next_generation()?;
        let loaded = snapshot::load(&mut incoming, &new, &mark, self.flush_bytes);
        let state = match loaded.and_then(State::new) {
            Ok(state) => state,
            Err(error) => {
                new.delete()?;
                return Err(error);
            }
        };
        self.shared.replace(state);
        old.delete()
    }

    /// Makes the store of a new cluster's member in `path`, where nothing is yet: the content of a
    /// snapshot, with revisions moved on. Every member is made of the same snapshot in the same
    /// way.
    ///
    /// # Errors
    /// Something is in `path`, the snapshot is of no use, or the disk failed. Nothing is in `path`.
    pub fn restore_for_new_cluster(
        path: &Path,
        mut snapshot: impl Read,
        bump: RevisionBump,
    ) -> Result<SnapshotStatus, StoreError> {
        if !tables::is_vacant(path)? {
            return Err(SnapshotError::Occupied(path.to_owned()).into());
        }
        let mut incoming = Incoming::open(&mut snapshot)?;
        let mark = bump.new_cluster(&incoming.mark)?;
        let Options { cache_bytes, flush_bytes, .. } = Options::default();
        Tables::make(path, cache_bytes, |tables| {
            snapshot::load(&mut incoming, tables, &mark, flush_bytes).map(drop)
        })?;
        Ok(incoming.status())
    }

    /// Has the store flush soon, so that [`durable_applied`](Self::durable_applied) comes up to
    /// what is applied now. Without it that takes [`Options::flush_interval`].
    pub fn request_flush(&self) {
        self.shared.demand_all(self.applied());
    }

    /// Writes to disk all that was applied so far, and returns when it is durable.
    ///
    /// # Errors
    /// The store failed.
    pub fn flush(&self) -> Result<(), StoreError> {
        let applied = self.applied();
        self.shared.demand_all(applied);
        self.shared.wait_until(|state| state.base.mark.applied >= applied)
    }
}
