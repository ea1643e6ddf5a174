//! Snapshot files, beside the log in its directory. The log says which of them counts: its mark.
//!
//! ```text
//!   00000000000003e8-0000000000000002.snap        ends at index 1000, term 2 (hexadecimal)
//!   00000000000007d0-0000000000000002.snap.tmp    is being built here
//!   00000000000007d0-0000000000000002-5eed.part   is being received: transfer 0x5eed
//!
//!   0              header.length                              file.length - 24
//!   +--------------+---------+---------+- -+------------------+---------+
//!   | header       | block   | block   |   | a shorter block  | trailer |
//!   +--------------+---------+---------+- -+------------------+---------+
//!                  |  65536 bytes each     | if any bytes are left
//!
//!   header                                      block
//!    0  preamble, magic "KONTSNAP"               0  check     u32  CRC-32C of the bytes from 4 on,
//!   16  length of the header         u32                           xor the number of the block,
//!   20  length of the members        u32                           xor the check of the header
//!   24  first cluster id             u64         4  length    u32  of the data: at most 65528
//!   32  last: index                  u64         8  data
//!   40  last: term                   u64
//!   48  members' index               u64        trailer
//!   56  the members                              0  magic "KONTSEND"
//!       zeros up to a multiple of 512, and       8  length of all data        u64
//!       in the last four bytes a CRC-32C        16  CRC-32C of all data       u32
//!       of everything before them               20  CRC-32C of bytes 0..20    u32
//! ```
//!
//! A snapshot is written under another name, synced, renamed, and its directory synced; so a file
//! that has its name is whole. What reads it checks block after block and never hands on a byte
//! of a damaged one. Nothing ever holds more than a block of it in memory.

use std::collections::BTreeSet;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use raft_core::{
    LogPosition, Snapshot, SnapshotOffer, SnapshotSink, SnapshotSource, SnapshotStore, seeded,
};

use crate::disk::{Disk, list_or_empty};
use crate::error::{Damage, DiskError, SnapshotError};

pub(crate) mod format;
mod sink;
mod source;

pub use source::SnapshotFile;

use format::{Header, Name};
use sink::Sink;

/// The end of the snapshot in a file of this name; `None` where it is none that is whole.
pub(crate) fn end_of(name: &str) -> Option<LogPosition> {
    match Name::parse(name)? {
        Name::Whole(last) => Some(last),
        Name::Building(_) | Name::Receiving(..) => None,
    }
}

/// What the port of `raft-core` asks for.
type StoreError = Box<dyn Error + Send + Sync>;

/// The snapshots of one log. Cheap to clone; goes beside the writer from any thread.
#[derive(Clone, Debug)]
pub struct Snapshots {
    place: Arc<Place>,
}

/// Where they are.
#[derive(Debug)]
struct Place {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    first_cluster_id: u64,
    /// What is being written just now: nobody removes that.
    busy: Mutex<BTreeSet<PathBuf>>,
    /// Counts what was begun to be received. Only the newest goes on.
    receiving: Mutex<u64>,
}

impl Snapshots {
    pub(crate) fn new(disk: Arc<dyn Disk>, dir: &Path, first_cluster_id: u64) -> Self {
        let (busy, receiving) = (Mutex::default(), Mutex::new(0));
        let place = Place { disk, dir: dir.to_owned(), first_cluster_id, busy, receiving };
        Self { place: Arc::new(place) }
    }

    /// The snapshot that ends at `last`. Its header and its end are checked, not its blocks.
    ///
    /// # Errors
    /// There is none, or it is damaged, or another cluster's, or of a newer format.
    pub fn at(&self, last: LogPosition) -> Result<SnapshotFile, SnapshotError> {
        let source = self.place.source(&self.place.dir.join(Name::Whole(last).file()))?;
        if source.snapshot().last != last {
            let (file, reason) = (source.path().to_owned(), "it has another's name".to_owned());
            return Err(Damage { file, offset: 0, reason, intact: LogPosition::ZERO }.into());
        }
        Ok(source)
    }

    /// The newest sound one that ends at `least` or later.
    pub(crate) fn newest_from(
        &self,
        least: LogPosition,
    ) -> Result<Option<SnapshotFile>, DiskError> {
        for last in self.place.whole()?.into_iter().rev().filter(|last| last.index >= least.index) {
            match self.at(last) {
                Ok(source) => return Ok(Some(source)),
                Err(SnapshotError::Disk(error)) => return Err(error),
                Err(error) => tracing::warn!(%error, "a snapshot is of no use"),
            }
        }
        Ok(None)
    }

    /// Reads all of the snapshot that ends at `last`.
    ///
    /// # Errors
    /// See [`at`](Self::at); and a block of it is damaged.
    pub fn verify(&self, last: LogPosition) -> Result<(), SnapshotError> {
        self.at(last)?.verify()
    }

    /// Gives a damaged snapshot another name (`*.damaged`), so that nobody takes it for one any
    /// more. Where the log needs it, the next [`Wal::open`](crate::Wal::open) repairs that.
    ///
    /// # Errors
    /// The disk failed, or there is no such snapshot.
    pub fn set_aside(&self, last: LogPosition) -> Result<(), SnapshotError> {
        let Place { disk, dir, .. } = &*self.place;
        let source = dir.join(Name::Whole(last).file());
        let target = dir.join(format!("{}.damaged", Name::Whole(last).file()));
        disk.rename(&source, &target).map_err(|e| DiskError::new("rename", &source, 0, e))?;
        disk.sync_dir(dir).map_err(|error| DiskError::new("sync", dir, 0, error))?;
        Ok(())
    }

    /// The newest one.
    pub(crate) fn newest_whole(&self) -> Result<Option<SnapshotFile>, SnapshotError> {
        self.place.whole()?.into_iter().next_back().map(|last| self.at(last)).transpose()
    }

    /// Gives those that are of no use names that do not count.
    pub(crate) fn set_unsound_aside(&self) -> Result<(), DiskError> {
        for last in self.place.whole()? {
            match self.at(last) {
                Err(error @ (SnapshotError::Damaged(_) | SnapshotError::Foreign { .. })) => {
                    tracing::warn!(%error, "set a snapshot aside");
                    if let Err(SnapshotError::Disk(error)) = self.set_aside(last) {
                        return Err(error);
                    }
                }
                Err(SnapshotError::Disk(error)) => return Err(error),
                Ok(_) | Err(_) => {}
            }
        }
        Ok(())
    }

    /// Removes all that do not count: those that the log's mark at `last` does not name, and what
    /// was being built. What was being received stays where it is newer.
    pub(crate) fn keep_only(&self, last: LogPosition) -> Result<(), DiskError> {
        self.place.remove(|name| match name {
            Name::Whole(other) => *other != last,
            Name::Building(_) => true,
            Name::Receiving(other, _) => other.index <= last.index,
        })
    }
}

impl SnapshotStore for Snapshots {
    fn newest(&self) -> Result<Option<Arc<dyn SnapshotSource>>, StoreError> {
        let newest = self.newest_whole()?;
        Ok(newest.map(|source| Arc::new(source) as Arc<dyn SnapshotSource>))
    }

    fn build(&self, snapshot: &Snapshot) -> Result<Box<dyn SnapshotSink>, StoreError> {
        let path = self.place.dir.join(Name::Building(snapshot.last).file());
        if !self.place.busy().insert(path.clone()) {
            return Err(SnapshotError::Busy { file: path }.into());
        }
        Ok(Box::new(Sink::building(Arc::clone(&self.place), path, snapshot)?))
    }

    fn receive(&self, offer: &SnapshotOffer) -> Result<Box<dyn SnapshotSink>, StoreError> {
        let turn = self.place.next_turn();
        let transfer = if seeded!(ChunksOfAnotherTransfer) { 0 } else { offer.transfer };
        let name = Name::Receiving(offer.snapshot.last, transfer);
        self.place.remove(|other| matches!(other, Name::Receiving(..)) && *other != name)?;
        let path = self.place.dir.join(name.file());
        Ok(Box::new(Sink::receiving(Arc::clone(&self.place), path, offer, turn)?))
    }

    fn retain(&self, last: LogPosition) -> Result<(), StoreError> {
        Ok(self.place.remove(|name| match name {
            Name::Whole(other) => other.index < last.index,
            Name::Building(_) => true,
            Name::Receiving(other, _) => other.index <= last.index,
        })?)
    }
}

impl Place {
    /// The ends of all that are whole, ascending.
    fn whole(&self) -> Result<BTreeSet<LogPosition>, DiskError> {
        let whole = |name| match name {
            Name::Whole(last) => Some(last),
            Name::Building(_) | Name::Receiving(..) => None,
        };
        Ok(self.names()?.into_iter().filter_map(whole).collect())
    }

    fn names(&self) -> Result<Vec<Name>, DiskError> {
        let names = list_or_empty(&*self.disk, &self.dir)
            .map_err(|error| DiskError::new("list", &self.dir, 0, error))?;
        Ok(names.iter().filter_map(|name| Name::parse(name)).collect())
    }

    /// Removes those of them that nobody is writing.
    fn remove(&self, is_unused: impl Fn(&Name) -> bool) -> Result<(), DiskError> {
        let mut is_changed = false;
        for name in self.names()?.iter().filter(|name| is_unused(name)) {
            let path = self.dir.join(name.file());
            if !self.busy().contains(&path) {
                self.disk
                    .remove(&path)
                    .map_err(|error| DiskError::new("remove", path, 0, error))?;
                is_changed = true;
            }
        }
        if is_changed { self.sync_dir() } else { Ok(()) }
    }

    fn sync_dir(&self) -> Result<(), DiskError> {
        self.disk.sync_dir(&self.dir).map_err(|error| DiskError::new("sync", &self.dir, 0, error))
    }

    fn source(&self, path: &Path) -> Result<SnapshotFile, SnapshotError> {
        let source = SnapshotFile::open_on(&*self.disk, path)?;
        if source.header().first_cluster_id != self.first_cluster_id {
            return Err(SnapshotError::Foreign {
                file: path.to_owned(),
                found: source.header().first_cluster_id,
                expected: self.first_cluster_id,
            });
        }
        Ok(source)
    }

    fn header(&self, snapshot: &Snapshot) -> Header {
        Header { first_cluster_id: self.first_cluster_id, snapshot: snapshot.clone() }
    }

    fn busy(&self) -> MutexGuard<'_, BTreeSet<PathBuf>> {
        self.busy.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn turn(&self) -> MutexGuard<'_, u64> {
        self.receiving.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next_turn(&self) -> u64 {
        let mut turn = self.turn();
        *turn += 1;
        *turn
    }
}
