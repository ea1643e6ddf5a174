//! The state as a stream of bytes: for members that fell behind, and for backups.
//!
//! ```text
//! magic:8 "KONTIKIV"   format:4
//! block*    length:4 (1 to 65,536)   bytes   sum:4
//! end       length:4 = 0             sum:4
//!
//! the bytes of the blocks, put together:
//!   header    length:4   StoreMark (proto/kontiki.proto): applied index, revision, compacted
//!                        revision, members, leases
//!   change*   main:8 sub:4   length:4   row as in `revisions` (format.rs)
//!   totals    0:12   changes:8 keys:8 hash:4
//! ```
//! Numbers are big-endian. A sum is Castagnoli's CRC over every byte of the stream before it
//! except the sums: nothing is used that was not checked, and no block can be lost, doubled or
//! moved. The changes are all that compaction keeps, in order of revision: the whole history, from
//! which the tables can be made. The counts stand at the end because only then they are known.
//!
//! Members of equal state write equal bytes, whatever they have flushed and swept so far.

mod blocks;
mod incoming;
mod load;
mod outgoing;

pub use incoming::{SnapshotStatus, snapshot_status};
pub use load::RevisionBump;

#[cfg(test)]
pub(super) use blocks::Sealer;
pub(super) use incoming::Incoming;
pub(super) use load::load;
pub(super) use outgoing::Outgoing;

use super::format::Change;
use super::history::append_hash;

const MAGIC: &[u8; 8] = b"KONTIKIV";

/// The newest format that this version reads, and the one that it writes.
const FORMAT: u32 = 1;

/// What is counted on both ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Totals {
    changes: u64,
    /// Keys that are there at the newest revision.
    keys: u64,
    hash: u32,
}

impl Totals {
    fn add(&mut self, change: &Change, row: &[u8], compacted: i64) {
        self.changes += 1;
        self.hash = append_hash(self.hash, change, row);
        // Where what it replaced or deleted is in the snapshot too, the key was counted before.
        match (&change.put, change.keeps_previous(compacted)) {
            (Some(_), false) => self.keys += 1,
            (None, true) => self.keys = self.keys.saturating_sub(1),
            (Some(_), true) | (None, false) => {}
        }
    }

    fn encode(&self) -> [u8; 20] {
        let mut bytes = [0; 20];
        bytes[..8].copy_from_slice(&self.changes.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.keys.to_be_bytes());
        bytes[16..].copy_from_slice(&self.hash.to_be_bytes());
        bytes
    }
}
