//! Reads again what was written long ago, a little at a time, so that damage is found while the
//! peers still have what is lost.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use raft_core::LogPosition;

use crate::disk::read_full;
use crate::error::{Damage, SnapshotError, WalError};
use crate::map::Map;
use crate::reader::lock;
use crate::sector::{SECTOR_BYTES, SectorState, state_of};
use crate::segment::{Header, HeaderError, Segment};
use crate::snapshots::{SnapshotFile, Snapshots};

/// How much is read at once.
const CHUNK_BYTES: usize = 64 << 10;

/// Goes over the segments that are full and over the newest snapshot, again and again, beside the
/// writer. What it reads stays open meanwhile, so it does not matter when files are removed.
#[derive(Debug)]
pub struct Scrubber {
    map: Arc<Mutex<Map>>,
    snapshots: Snapshots,
    work: Work,
    chunk: Vec<u8>,
}

/// Where it is.
#[derive(Debug)]
enum Work {
    /// At the first segment of at least this number.
    Next(u64),
    Segment {
        segment: Arc<Segment>,
        sector: u64,
        is_behind_end: bool,
    },
    Snapshot {
        source: SnapshotFile,
        block: u64,
    },
}

/// What one step of a [`Scrubber`] came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scrubbed {
    /// So far everything is as it should be. Go on.
    Part,
    /// Everything was read once. The next step begins anew.
    All,
}

impl Scrubber {
    pub(crate) fn new(map: Arc<Mutex<Map>>, snapshots: Snapshots) -> Self {
        Self { map, snapshots, work: Work::Next(0), chunk: Vec::new() }
    }

    /// Reads about `budget_bytes`. Blocks for as long as the disk takes.
    ///
    /// # Errors
    /// Something is damaged; the error says where, and the next step goes on behind it. Or the
    /// disk failed. A damaged log is repaired when it is opened again; of a damaged snapshot take
    /// a new one, and [set the old one aside](Snapshots::set_aside).
    pub fn step(&mut self, budget_bytes: u64) -> Result<Scrubbed, WalError> {
        let mut left = budget_bytes;
        loop {
            let work = std::mem::replace(&mut self.work, Work::Next(0));
            let read = match work {
                Work::Next(number) => match self.begin(number)? {
                    Some(work) => {
                        self.work = work;
                        0
                    }
                    None => return Ok(Scrubbed::All),
                },
                Work::Segment { segment, sector, is_behind_end } => {
                    self.segment(segment, sector, is_behind_end)?
                }
                Work::Snapshot { source, block } => self.snapshot(source, block)?,
            };
            if left <= read {
                return Ok(Scrubbed::Part);
            }
            left -= read;
        }
    }

    /// The next full segment, or after the last one the snapshot, or nothing more.
    fn begin(&self, number: u64) -> Result<Option<Work>, WalError> {
        if number == u64::MAX {
            return Ok(None);
        }
        if let Some(segment) = lock(&self.map).full_segment(number) {
            return Ok(Some(Work::Segment { segment, sector: 0, is_behind_end: false }));
        }
        match self.snapshots.newest_whole() {
            Ok(Some(source)) => Ok(Some(Work::Snapshot { source, block: 0 })),
            Ok(None) | Err(SnapshotError::Missing { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn segment(
        &mut self,
        segment: Arc<Segment>,
        sector: u64,
        mut is_behind_end: bool,
    ) -> Result<u64, WalError> {
        // Whatever is found, the next step goes on with the next segment, unless all is well.
        self.work = Work::Next(segment.number + 1);
        if sector == 0 {
            self.header(&segment)?;
            let sector = segment.start;
            self.work = Work::Segment { segment, sector, is_behind_end };
            return Ok(SECTOR_BYTES as u64);
        }
        let offset = sector * SECTOR_BYTES as u64;
        self.chunk.resize(CHUNK_BYTES.min((segment.bytes() - offset) as usize), 0);
        let read = read_full(&*segment.file, &mut self.chunk, offset)
            .map_err(|error| segment.error("read", offset, error))?;
        if read < self.chunk.len() {
            return Err(damage(segment.path.clone(), offset, "the segment is too short"));
        }
        let mut at = sector;
        for bytes in self.chunk.chunks(SECTOR_BYTES) {
            match state_of(bytes, segment.salt, at) {
                SectorState::Written(_) if !is_behind_end => {}
                SectorState::Zero => is_behind_end = true,
                // Zeros with something behind them were something, too.
                SectorState::Written(_) | SectorState::Bad => {
                    let offset = at * SECTOR_BYTES as u64;
                    let reason = "the sector, or one before it, is not what was written";
                    return Err(damage(segment.path.clone(), offset, reason));
                }
            }
            at += 1;
        }
        if at < segment.sectors {
            self.work = Work::Segment { segment, sector: at, is_behind_end };
        }
        Ok(read as u64)
    }

    fn header(&self, segment: &Segment) -> Result<(), WalError> {
        match Header::read(&*segment.file) {
            Ok((header, _)) if header.number == segment.number => Ok(()),
            Err(HeaderError::Disk(error)) => Err(segment.error("read", 0, error).into()),
            Ok(_) | Err(HeaderError::Newer(_) | HeaderError::Bad) => {
                Err(damage(segment.path.clone(), 0, "the header of the segment is wrong"))
            }
        }
    }

    fn snapshot(&mut self, source: SnapshotFile, block: u64) -> Result<u64, WalError> {
        self.work = Work::Next(u64::MAX);
        if block >= source.blocks() {
            return Ok(0);
        }
        source.read_block(block, &mut self.chunk)?;
        self.work = Work::Snapshot { source, block: block + 1 };
        Ok(self.chunk.len() as u64)
    }
}

fn damage(file: PathBuf, offset: u64, reason: &str) -> WalError {
    let (reason, intact) = (reason.to_owned(), LogPosition::ZERO);
    Damage { file, offset, reason, intact }.into()
}
