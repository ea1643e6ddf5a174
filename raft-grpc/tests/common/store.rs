//! Snapshots in memory, as a disk would keep them.

use std::error::Error;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use raft_core::{
    Index, LogPosition, Membership, Snapshot, SnapshotOffer, SnapshotSink, SnapshotSource,
    SnapshotStore, Term,
};

use super::id;

type Failed = Box<dyn Error + Send + Sync>;

/// One that ends at this index.
pub fn snapshot(last: u64) -> Snapshot {
    let voters = [(id(1), "a:1"), (id(2), "b:2")];
    let membership = Arc::new(Membership::founded(voters).expect("two voters"));
    let last = LogPosition { term: Term(4), index: Index(last) };
    Snapshot { last, membership, membership_index: Index(3) }
}

/// The byte at `offset` of every snapshot of tests: no two chunks look alike.
pub fn byte_at(offset: u64) -> u8 {
    (offset ^ (offset >> 8).wrapping_mul(31) ^ (offset >> 16).wrapping_mul(113)) as u8
}

/// A snapshot whose bytes are computed: it needs no memory, however long.
pub struct Source {
    pub snapshot: Snapshot,
    pub len_bytes: u64,
    pub check: u32,
    /// It can be read up to there.
    pub ends_at: u64,
    /// How far it has been read.
    pub read: Arc<AtomicU64>,
}

impl Source {
    pub fn new(last: u64, len_bytes: u64) -> Self {
        let read = Arc::default();
        Self { snapshot: snapshot(last), len_bytes, check: 77, ends_at: len_bytes, read }
    }
}

impl SnapshotSource for Source {
    fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    fn check(&self) -> u32 {
        self.check
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<usize, Failed> {
        let count = self.ends_at.saturating_sub(offset).min(into.len() as u64) as usize;
        for (byte, at) in into[..count].iter_mut().zip(offset..) {
            *byte = byte_at(at);
        }
        self.read.fetch_max(offset + count as u64, Relaxed);
        Ok(count)
    }
}

/// A store that keeps one unfinished transfer, and remembers what happened. Bytes are compared
/// with what they must be as they come, and not kept.
#[derive(Clone, Default)]
pub struct Store(Arc<Mutex<Kept>>);

#[derive(Default)]
pub struct Kept {
    /// Every call to `receive`: the transfer, and the offset it began at.
    pub begun: Vec<(SnapshotOffer, u64)>,
    pub published: Vec<SnapshotOffer>,
    /// Every byte that was written, again where it was written again.
    pub written: u64,
    /// What is unfinished, and how many bytes it has.
    partial: Option<(SnapshotOffer, u64)>,
    /// How long a write takes.
    pub slowness: Duration,
    /// How often `publish` finds that it does not add up.
    pub spoiled: u32,
    /// How far the source has been read, and the most that it was ever ahead.
    pub source: Option<Arc<AtomicU64>>,
    pub ahead_max: u64,
    /// Sinks that are open at this moment.
    pub open: u32,
}

impl Store {
    pub fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().expect("nobody panics")
    }

    /// One in which each write takes so long.
    pub fn slow(write_takes: Duration) -> Self {
        let store = Self::default();
        store.lock().slowness = write_takes;
        store
    }
}

impl SnapshotStore for Store {
    fn newest(&self) -> Result<Option<Arc<dyn SnapshotSource>>, Failed> {
        Ok(None)
    }

    fn build(&self, _: &Snapshot) -> Result<Box<dyn SnapshotSink>, Failed> {
        Err("nothing is built here".into())
    }

    fn receive(&self, offer: &SnapshotOffer) -> Result<Box<dyn SnapshotSink>, Failed> {
        let mut kept = self.lock();
        assert_eq!(kept.open, 0, "the sink before has been let go of");
        kept.open = 1;
        let same = kept.partial.take().filter(|(partial, _)| partial == offer);
        let offset = same.map_or(0, |(_, offset)| offset);
        kept.begun.push((offer.clone(), offset));
        let (store, offer) = (self.clone(), offer.clone());
        Ok(Box::new(Sink { store, offer, offset }))
    }

    fn retain(&self, _: LogPosition) -> Result<(), Failed> {
        Ok(())
    }
}

struct Sink {
    store: Store,
    offer: SnapshotOffer,
    offset: u64,
}

impl SnapshotSink for Sink {
    fn offset(&self) -> u64 {
        self.offset
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Failed> {
        let slowness = self.store.lock().slowness;
        std::thread::sleep(slowness);
        for (byte, at) in bytes.iter().zip(self.offset..) {
            assert_eq!(*byte, byte_at(at), "at {at}");
        }
        self.offset += bytes.len() as u64;
        let mut kept = self.store.lock();
        kept.written += bytes.len() as u64;
        kept.partial = Some((self.offer.clone(), self.offset));
        let ahead = kept.source.as_ref().map_or(0, |it| it.load(Relaxed));
        kept.ahead_max = kept.ahead_max.max(ahead.saturating_sub(self.offset));
        Ok(())
    }

    fn publish(self: Box<Self>) -> Result<(), Failed> {
        let mut kept = self.store.lock();
        kept.partial = None;
        if self.offset != self.offer.len_bytes {
            return Err("not all of it has come".into());
        }
        if let Some(rest) = kept.spoiled.checked_sub(1) {
            kept.spoiled = rest;
            return Err("the bytes do not add up".into());
        }
        kept.published.push(self.offer.clone());
        drop(kept);
        Ok(())
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        self.store.lock().open = 0;
    }
}
