//! The writer: one thread owns it, and what it returns `Ok` for is durable.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use raft_core::{Claim, LogStore, Membership, Write, seeded};

use crate::batch::Batch;
use crate::disk::{Disk, DiskLock, write_full};
use crate::error::{DiskError, WalError};
use crate::map::Map;
use crate::meta::{Meta, SyncMark};
use crate::meter::WriteMeter;
use crate::prepare::Preparer;
use crate::reader::{WalReader, lock};
use crate::scrub::Scrubber;
use crate::sector::{DATA_BYTES, SECTOR_BYTES};
use crate::segment::{Header, Segment, header_bytes, publish};
use crate::snapshots::Snapshots;
use crate::state::{State, Step};
use crate::{Identity, Options};

/// How many times as large as its predecessor a segment is, until it has its full size.
const GROWTH: u64 = 4;

/// A write-ahead log in a directory of its own, which is locked for as long as this lives.
///
/// # Guarantees
/// - What [`persist`](LogStore::persist) returned `Ok` for is there after any crash or power cut.
/// - What it did not return `Ok` for is there as a whole or not at all: never a part of one call.
/// - After the first error nothing is written any more: every later call fails with that error.
///
/// # Panics
/// `persist` panics, before it writes anything, when a write cannot follow what is in the log: a
/// gap, a falling term, a cut before the log's start, a vote that changes within its term.
#[derive(Debug)]
pub struct Wal {
    // The order of the fields is the order in which they are dropped: the thread of the preparer
    // ends before the lock is given up.
    pub(crate) preparer: Preparer,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) dir: PathBuf,
    /// How large a segment is in the end.
    pub(crate) segment_bytes: u64,
    /// How large the next one is to be.
    pub(crate) next_bytes: u64,
    pub(crate) meta: Meta,
    /// The log on disk.
    pub(crate) state: State,
    /// The log with the batch that is being written: the same between two calls.
    pub(crate) ahead: State,
    pub(crate) map: Arc<Mutex<Map>>,
    pub(crate) segment: Arc<Segment>,
    /// The sector that the next batch starts at.
    pub(crate) end: u64,
    pub(crate) batch: Batch,
    pub(crate) meter: Arc<WriteMeter>,
    pub(crate) snapshots: Snapshots,
    /// A write is being checked; when that panics, the state is no longer that of the log.
    pub(crate) checking: bool,
    pub(crate) poison: Option<WalError>,
    pub(crate) _lock: Box<dyn DiskLock>,
}

impl Wal {
    /// Whose log it is.
    pub fn identity(&self) -> Identity {
        self.meta.identity
    }

    /// Whom the log was made with; nobody on a node that joined later.
    pub fn founders(&self) -> &Membership {
        &self.meta.founders
    }

    /// What the log held before it was damaged, until it holds as much again.
    pub fn claim(&self) -> Option<Claim> {
        self.meta.claim
    }

    /// The snapshots beside the log, in the same directory.
    pub fn snapshots(&self) -> Snapshots {
        self.snapshots.clone()
    }

    /// Counts what is written. It may be read from anywhere, and stays when the log is closed.
    pub fn meter(&self) -> Arc<WriteMeter> {
        Arc::clone(&self.meter)
    }

    /// Looks for damage beside the writer.
    pub fn scrubber(&self) -> Scrubber {
        Scrubber::new(Arc::clone(&self.map), self.snapshots())
    }

    /// Where it is.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Notes that all of it is synced, and closes it. Dropping a log closes it too and loses
    /// nothing; after `close`, even the loss of whole sectors at its end would be noticed.
    ///
    /// # Errors
    /// The disk failed, now or before. What was acknowledged is safe all the same.
    pub fn close(mut self) -> Result<(), WalError> {
        match self.poison.take() {
            Some(error) => Err(error),
            None => Ok(self.mark_synced()?),
        }
    }

    /// Writes down that everything up to here is durable, as it is.
    pub(crate) fn mark_synced(&mut self) -> Result<(), DiskError> {
        let synced = SyncMark { batch: self.state.batch, segment: self.segment.number };
        self.write_mark(synced)
    }

    fn write_mark(&mut self, synced: SyncMark) -> Result<(), DiskError> {
        self.meta.synced = synced;
        self.write_meta()
    }

    pub(crate) fn write_meta(&mut self) -> Result<(), DiskError> {
        self.meta.generation += 1;
        self.meta.write(&*self.disk, &self.dir)
    }

    /// Writes the batch that is encoded, and syncs it; then does what may be done only then.
    fn append(&mut self) -> Result<(), WalError> {
        if self.end + self.batch.sectors() > self.segment.sectors {
            self.rotate()?;
        }
        let (segment, offset) = (&*self.segment, self.end * SECTOR_BYTES as u64);
        let bytes = self.batch.sealed(segment.salt, self.end, self.ahead.batch);
        write_full(&*segment.file, bytes, offset)
            .map_err(|error| segment.error("write", offset, error))?;
        self.meter.on_written(bytes.len());
        let began = Instant::now();
        if !seeded!(BatchNotSynced) {
            let mut synced = segment.file.sync_data();
            if synced.is_err() && seeded!(FailedSyncRetried) {
                synced = segment.file.sync_data();
            }
            synced.map_err(|error| segment.error("sync", offset, error))?;
        }
        self.meter.on_synced(began.elapsed());

        let mut map = lock(&self.map);
        let mut marked = false;
        for steps in self.batch.steps().chunk_by(Step::is_same_term) {
            self.state.take(steps);
            for step in steps {
                map.apply(step, segment.number, self.end * DATA_BYTES as u64, &self.state.log);
                marked |= matches!(step, Step::Mark(_));
            }
        }
        drop(map);
        // Of several hard states only the last one was written.
        (self.state.batch, self.state.chain) = (self.ahead.batch, self.ahead.chain);
        debug_assert_eq!(self.state, self.ahead, "the log is what was to be written");
        self.end += self.batch.sectors();
        self.preparer.note_used(self.end, segment.sectors);
        // Until a repair is done, it may have to be done again.
        if self.meta.repair.is_some() {
            return Ok(());
        }
        if self.meta.claim.is_some_and(|claim| self.state.log.last() >= claim.last) {
            tracing::info!(last = ?self.state.log.last(), "the log is whole again");
            self.meta.claim = None;
            self.write_meta()?;
        }
        if marked { Ok(self.forget_segments()?) } else { Ok(()) }
    }

    /// Removes the segments that lie wholly before the base. First the meta file says where the log
    /// begins; from then on it does not matter how many of them are gone. It says too that the mark
    /// which lets them go is synced: a log without it would begin with entries that are gone.
    pub(crate) fn forget_segments(&mut self) -> Result<(), DiskError> {
        let unused = lock(&self.map).take_unused();
        let Some(last) = unused.last() else { return Ok(()) };
        self.meta.first_segment = last.number + 1;
        if !seeded!(SegmentsGoTooEarly) {
            self.mark_synced()?;
        }
        tracing::info!(segments = unused.len(), base = ?self.state.log.base(), "forgot old entries");
        self.preparer.remove(unused.iter().map(|segment| segment.path.clone()));
        Ok(())
    }

    /// Starts a new segment, which goes on after what is on disk.
    fn rotate(&mut self) -> Result<(), DiskError> {
        let before = self.state.clone();
        let bytes_min = header_bytes(&before) + self.batch.sectors() * SECTOR_BYTES as u64;
        let space = self.preparer.take(bytes_min, self.next_bytes)?;
        let number = self.segment.number + 1;
        let (identity, batch) = (self.meta.first_identity(), before.batch);
        let header = Header { identity, number, bytes: space.bytes, before };
        let segment = Arc::new(publish(&*self.disk, &self.dir, space, &header)?);
        tracing::info!(
            segment = %segment.path.display(),
            bytes = segment.bytes(),
            after = ?self.state.log.last(),
            "the log goes on in a new segment"
        );
        lock(&self.map).add_segment(Arc::clone(&segment));
        (self.end, self.segment) = (segment.start, segment);
        self.write_mark(SyncMark { batch, segment: number })?;
        // Not by the size that it has: the writer may have taken it before it was all filled.
        self.prepare_next(self.next_bytes);
        Ok(())
    }

    /// Asks for the segment that is to follow one of this size.
    pub(crate) fn prepare_next(&mut self, bytes: u64) {
        self.next_bytes = bytes.saturating_mul(GROWTH).min(self.segment_bytes);
        self.preparer.note_used(self.end, self.segment.sectors);
        self.preparer.request(self.next_bytes);
    }
}

impl LogStore for Wal {
    type Error = WalError;
    type Reader = WalReader;

    /// Writes all of `writes` as one batch: one write and one sync, and after a crash all of it
    /// is there or nothing.
    fn persist(&mut self, writes: &[Write]) -> Result<(), WalError> {
        assert!(!seeded!(Canary), "the canary");
        if let Some(error) = &self.poison {
            return Err(error.clone());
        }
        assert!(!self.checking, "the log is not used any more after a panic");
        self.checking = true;
        self.batch.encode(writes, &mut self.ahead);
        self.checking = false;
        if self.batch.is_empty() {
            return Ok(());
        }
        self.append().inspect_err(|error| {
            // Nobody knows what the disk holds now. A second sync could say "all is well" about
            // pages that the kernel has given up.
            tracing::error!(%error, "the log takes no more writes");
            self.poison = Some(error.clone());
        })
    }

    fn reader(&self) -> WalReader {
        WalReader::new(Arc::clone(&self.map))
    }
}

impl Options {
    /// The size that a new log begins with.
    pub(crate) fn first_bytes(&self) -> u64 {
        self.segment_bytes.min(Self::FIRST_SEGMENT_BYTES)
    }
}
