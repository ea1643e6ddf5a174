//! Snapshot files in memory. They outlive their node, as a disk does.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use kontiki::{
    Index, LogPosition, Snapshot, SnapshotOffer, SnapshotSink, SnapshotSource, SnapshotStore,
};

type Failure = Box<dyn Error + Send + Sync>;

#[derive(Clone, Default)]
pub struct MemorySnapshots {
    files: Arc<Mutex<BTreeMap<Index, Arc<File>>>>,
    /// So many builds still fail.
    pub failing_builds: Arc<AtomicU32>,
    /// So many reads still fail.
    pub failing_reads: Arc<AtomicU32>,
    /// The most bytes that were handed over at once.
    pub largest_write: Arc<AtomicUsize>,
}

struct File {
    snapshot: Snapshot,
    bytes: Vec<u8>,
    failing_reads: Arc<AtomicU32>,
}

impl MemorySnapshots {
    /// The ends of all there are.
    pub fn ends(&self) -> Vec<Index> {
        self.files.lock().expect("not poisoned").keys().copied().collect()
    }

    pub fn lose_all(&self) {
        self.files.lock().expect("not poisoned").clear();
    }

    fn sink(&self, snapshot: &Snapshot) -> Box<dyn SnapshotSink> {
        Box::new(Sink { store: self.clone(), snapshot: snapshot.clone(), bytes: vec![] })
    }
}

impl SnapshotStore for MemorySnapshots {
    fn newest(&self) -> Result<Option<Arc<dyn SnapshotSource>>, Failure> {
        let files = self.files.lock().expect("not poisoned");
        Ok(files.values().next_back().map(|file| Arc::clone(file) as Arc<dyn SnapshotSource>))
    }

    fn build(&self, snapshot: &Snapshot) -> Result<Box<dyn SnapshotSink>, Failure> {
        if take_one(&self.failing_builds) {
            return Err("no space for it".into());
        }
        Ok(self.sink(snapshot))
    }

    fn receive(&self, offer: &SnapshotOffer) -> Result<Box<dyn SnapshotSink>, Failure> {
        Ok(self.sink(&offer.snapshot))
    }

    fn retain(&self, last: LogPosition) -> Result<(), Failure> {
        self.files.lock().expect("not poisoned").retain(|index, _| *index >= last.index);
        Ok(())
    }
}

/// Counts down to zero; whether it was more.
pub fn take_one(counter: &AtomicU32) -> bool {
    let less = |count: u32| count.checked_sub(1);
    counter.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_ok()
}

impl SnapshotSource for File {
    fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    fn len_bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn check(&self) -> u32 {
        0
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<usize, Failure> {
        if take_one(&self.failing_reads) {
            return Err("the disk is broken".into());
        }
        let rest = &self.bytes[offset as usize..];
        let count = rest.len().min(into.len());
        into[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }
}

struct Sink {
    store: MemorySnapshots,
    snapshot: Snapshot,
    bytes: Vec<u8>,
}

impl SnapshotSink for Sink {
    fn offset(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.store.largest_write.fetch_max(bytes.len(), Ordering::SeqCst);
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn publish(self: Box<Self>) -> Result<(), Failure> {
        let Self { store, snapshot, bytes } = *self;
        let index = snapshot.last.index;
        let failing_reads = Arc::clone(&store.failing_reads);
        let file = Arc::new(File { snapshot, bytes, failing_reads });
        store.files.lock().expect("not poisoned").insert(index, file);
        Ok(())
    }
}
