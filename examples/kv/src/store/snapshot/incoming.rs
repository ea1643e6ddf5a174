//! Reads a snapshot and believes nothing of it.

use std::io::Read;

use kontiki::Index;

use super::super::base::{Mark, decode_mark};
use super::super::error::{SnapshotError, StoreError};
use super::super::format::{Change, KEY_BYTES_MAX, Revision};
use super::blocks::Blocks;
use super::{FORMAT, Totals};

/// What a snapshot is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotStatus {
    /// The format of its bytes.
    pub format: u32,
    /// The last entry whose effects are in it.
    pub applied: Index,
    /// The newest revision in it.
    pub revision: i64,
    /// The compacted revision: older versions are not in it. −1 before the first compaction.
    pub compacted: i64,
    /// The keys that are there at the newest revision.
    pub keys: u64,
    /// The versions and deletions in it.
    pub changes: u64,
    /// Its length.
    pub bytes: u64,
    /// The same as [`StateHash::hash`](super::super::StateHash) of the store that it was taken of.
    pub hash: u32,
}

/// Reads a snapshot to its end and checks all of it, in a few blocks of memory.
///
/// # Errors
/// It cannot be read, is damaged, cut off, of a newer format, or no snapshot at all.
pub fn snapshot_status(mut source: impl Read) -> Result<SnapshotStatus, StoreError> {
    let mut incoming = Incoming::open(&mut source)?;
    while incoming.next()?.is_some() {}
    Ok(incoming.status())
}

/// A snapshot that is being read.
pub(in crate::store) struct Incoming<'a> {
    blocks: Blocks<'a>,
    pub mark: Mark,
    totals: Totals,
    newest: Revision,
}

impl<'a> Incoming<'a> {
    /// Reads what comes before the changes.
    pub fn open(source: &'a mut dyn Read) -> Result<Self, StoreError> {
        let mut blocks = Blocks::open(source)?;
        let len = blocks.u32()? as usize;
        let (mark, _) = decode_mark(&blocks.take(len)?).map_err(|error| match error {
            StoreError::NewerFormat { found, known } => SnapshotError::NewerFormat { found, known },
            _ => blocks.damaged(),
        })?;
        if mark.revision < 1 || !(-1..=mark.revision).contains(&mark.compacted) {
            return Err(blocks.damaged().into());
        }
        Ok(Self { blocks, mark, totals: Totals::default(), newest: Revision::NONE })
    }

    /// The next change, or `None` once all of the snapshot was read and found to be right.
    pub fn next(&mut self) -> Result<Option<Change>, StoreError> {
        let at = self.blocks.take(Revision::NONE.row().len())?;
        let at = Revision::from_row(&at).map_err(|_| self.blocks.damaged())?;
        if at.is_none() {
            let (changes, keys) = (self.blocks.u64()?, self.blocks.u64()?);
            let totals = Totals { changes, keys, hash: self.blocks.u32()? };
            if totals != self.totals {
                return Err(self.blocks.damaged().into());
            }
            self.blocks.end()?;
            return Ok(None);
        }
        let len = self.blocks.u32()? as usize;
        let row = self.blocks.take(len)?;
        let change = Change::decode(at, row.clone()).map_err(|_| self.blocks.damaged())?;
        let is_in_order = self.newest < at && at.main <= self.mark.revision;
        if !is_in_order || !(1..=KEY_BYTES_MAX).contains(&change.key.len()) {
            return Err(self.blocks.damaged().into());
        }
        self.newest = at;
        self.totals.add(&change, &row, self.mark.compacted);
        Ok(Some(change))
    }

    /// What it was worth, once it was read to its end.
    pub fn status(&self) -> SnapshotStatus {
        SnapshotStatus {
            format: FORMAT,
            applied: self.mark.applied,
            revision: self.mark.revision,
            compacted: self.mark.compacted,
            keys: self.totals.keys,
            changes: self.totals.changes,
            bytes: self.blocks.read,
            hash: self.totals.hash,
        }
    }
}
