//! A segment: one file of the log. Its header says what came before it; the batches follow, and
//! behind them zeros up to the end of the file.
//!
//! ```text
//!   byte   the header, one sector or more
//!     0  preamble, magic "KONTWAL\0"
//!    16  length of the file             u64
//!    24  number of the segment          u64
//!    32  length of the header, sectors  u32
//!    36  length of the state            u32
//!    40  cluster id                     u64   as it was when the log was made
//!    48  node id                        u64
//!    56  disk incarnation               u64
//!    64  the state of the log before the first batch of this segment: see checkpoint.rs
//!        zeros; and in the last four bytes of the header a CRC-32C of everything before them
//! ```
//!
//! The name is `{number:016x}-{index after last:016x}.wal`. A file gets its name only when its
//! header and all of its zeros are durable. Nothing in it changes but for batches that are added,
//! and a torn batch that is zeroed again.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use raft_core::{NodeId, seeded};

use crate::Identity;
use crate::check::crc;
use crate::disk::{Disk, DiskFile, read_full, write_full};
use crate::error::DiskError;
use crate::frame::{NUMBER_MAX, u32_at, u64_at};
use crate::preamble::{self, Preamble};
use crate::sector::{SECTOR_BYTES, Salt};
use crate::state::State;

pub(crate) const MAGIC: [u8; 8] = *b"KONTWAL\0";
const STATE_OFFSET: usize = 64;
const CHECK_BYTES: usize = 4;
/// No header is longer: more members than any group has.
const HEADER_BYTES_MAX: usize = 64 << 20;

/// The name of the segment that is being filled with zeros.
pub(crate) const NEXT_NAME: &str = "next.tmp";

/// An open segment.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) file: Arc<dyn DiskFile>,
    pub(crate) path: PathBuf,
    pub(crate) number: u64,
    pub(crate) salt: Salt,
    /// The first sector behind the header.
    pub(crate) start: u64,
    /// How many sectors it has, the header among them.
    pub(crate) sectors: u64,
}

impl Segment {
    pub(crate) fn bytes(&self) -> u64 {
        self.sectors * SECTOR_BYTES as u64
    }

    /// An error of this file.
    pub(crate) fn error(&self, verb: &'static str, offset: u64, source: io::Error) -> DiskError {
        DiskError::new(verb, &self.path, offset, source)
    }
}

/// What its first sectors say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// Whose log it was when the log was made.
    pub(crate) identity: Identity,
    pub(crate) number: u64,
    pub(crate) bytes: u64,
    /// What came before it.
    pub(crate) before: State,
}

/// Why a header cannot be read.
#[derive(Debug)]
pub(crate) enum HeaderError {
    Newer(u32),
    Bad,
    Disk(io::Error),
}

impl Header {
    /// The header as it stands on disk: whole sectors.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let state = self.before.encode();
        let length = (STATE_OFFSET + state.len() + CHECK_BYTES).next_multiple_of(SECTOR_BYTES);
        let mut bytes = vec![0; length];
        preamble::put(&mut bytes, MAGIC);
        let sectors = (length / SECTOR_BYTES) as u64;
        for (offset, number) in [
            (16, self.bytes),
            (24, self.number),
            (32, sectors | (state.len() as u64) << 32),
            (40, self.identity.cluster_id),
            (48, self.identity.node_id.get()),
            (56, self.identity.incarnation),
        ] {
            bytes[offset..offset + 8].copy_from_slice(&number.to_le_bytes());
        }
        bytes[STATE_OFFSET..STATE_OFFSET + state.len()].copy_from_slice(&state);
        let check = crc(&bytes[..length - CHECK_BYTES]);
        bytes[length - CHECK_BYTES..].copy_from_slice(&check.to_le_bytes());
        bytes
    }

    /// Reads the header of a file; says too how many sectors it takes.
    pub(crate) fn read(file: &dyn DiskFile) -> Result<(Self, u64), HeaderError> {
        let mut bytes = vec![0; SECTOR_BYTES];
        let read = read_full(file, &mut bytes, 0).map_err(HeaderError::Disk)?;
        match preamble::read(&bytes[..read], MAGIC) {
            Preamble::Known => {}
            Preamble::Newer(format) => return Err(HeaderError::Newer(format)),
            Preamble::Bad => return Err(HeaderError::Bad),
        }
        let sectors = if read == SECTOR_BYTES { u32_at(&bytes, 32) } else { 0 };
        let length = sectors as usize * SECTOR_BYTES;
        if !(SECTOR_BYTES..=HEADER_BYTES_MAX).contains(&length) {
            return Err(HeaderError::Bad);
        }
        // A damaged length asks for no more memory than the file has bytes.
        let rest = file.len().map_err(HeaderError::Disk)?;
        bytes.resize(length.min(usize::try_from(rest).unwrap_or(length)), 0);
        let read = read_full(file, &mut bytes, 0).map_err(HeaderError::Disk)?;
        let header = (read == length).then(|| Self::decode(&bytes)).flatten();
        header.map(|header| (header, u64::from(sectors))).ok_or(HeaderError::Bad)
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (checked, check) = bytes.split_last_chunk::<CHECK_BYTES>()?;
        if checked.len() < STATE_OFFSET || crc(checked) != u32::from_le_bytes(*check) {
            return None;
        }
        let number = |offset| u64_at(checked, offset);
        let state = STATE_OFFSET..STATE_OFFSET.checked_add(u32_at(checked, 36) as usize)?;
        Some(Self {
            identity: Identity {
                cluster_id: number(40),
                node_id: NodeId::new(number(48))?,
                incarnation: number(56),
            },
            bytes: number(16),
            number: Some(number(24)).filter(|number| *number <= NUMBER_MAX)?,
            before: State::decode(checked.get(state)?)?,
        })
    }

    pub(crate) fn file_name(&self) -> String {
        format!("{:016x}-{:016x}.wal", self.number, self.before.log.last_index().next().0)
    }
}

/// How long the header of a segment is that goes on after this.
pub(crate) fn header_bytes(before: &State) -> u64 {
    let used = STATE_OFFSET + before.encode().len() + CHECK_BYTES;
    used.next_multiple_of(SECTOR_BYTES) as u64
}

/// The number in the name of a segment; `None` where the name is none of ours.
pub(crate) fn number_in(name: &str) -> Option<u64> {
    let (number, index) = name.strip_suffix(".wal")?.split_once('-')?;
    let hex = |digits: &str| {
        let lower = digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        (digits.len() == 16 && lower).then(|| u64::from_str_radix(digits, 16).ok()).flatten()
    };
    hex(index)?;
    hex(number).filter(|number| *number <= NUMBER_MAX)
}

/// Space that was taken and zero-filled under [`NEXT_NAME`].
#[derive(Debug)]
pub(crate) struct Space {
    pub(crate) file: Arc<dyn DiskFile>,
    pub(crate) bytes: u64,
}

/// Makes a segment out of space: the header becomes durable, then the name.
pub(crate) fn publish(
    disk: &dyn Disk,
    dir: &Path,
    space: Space,
    header: &Header,
) -> Result<Segment, DiskError> {
    let source = dir.join(NEXT_NAME);
    let path = dir.join(header.file_name());
    let error = |verb, path: &Path, error| DiskError::new(verb, path, 0, error);
    let bytes = header.encode();
    write_full(&*space.file, &bytes, 0).map_err(|e| error("write", &source, e))?;
    space.file.sync_data().map_err(|e| error("sync", &source, e))?;
    disk.rename(&source, &path).map_err(|e| error("rename", &source, e))?;
    if !seeded!(SegmentNameNotSynced) {
        disk.sync_dir(dir).map_err(|e| error("sync", dir, e))?;
    }
    let salt = Salt::new(header.identity.incarnation, header.number);
    let (start, sectors) = (whole_sectors(bytes.len() as u64), whole_sectors(space.bytes));
    Ok(Segment { file: space.file, path, number: header.number, salt, start, sectors })
}

fn whole_sectors(bytes: u64) -> u64 {
    bytes / SECTOR_BYTES as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use raft_core::{Index, Membership, Term};

    fn header(members: u64) -> Header {
        let node_id = NodeId::new(2).expect("not zero");
        let group = Membership::new((1..=members).filter_map(NodeId::new)).expect("voters");
        let mut before = State::founded(Arc::new(group));
        (before.batch, before.chain) = (6, 7);
        before.log.push(Index(1), Index(8), Term(9));
        let identity = Identity { cluster_id: 1, node_id, incarnation: 3 };
        Header { identity, number: 4, bytes: 5, before }
    }

    #[test]
    fn a_header_comes_back_and_every_changed_bit_is_seen() {
        for members in [3, 40] {
            let header = header(members);
            let mut bytes = header.encode();
            assert_eq!(bytes.len(), if members == 3 { 512 } else { 1024 });
            assert_eq!(Header::decode(&bytes), Some(header.clone()));
            assert_eq!(number_in(&header.file_name()), Some(4));
            for bit in 0..bytes.len() * 8 {
                bytes[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(Header::decode(&bytes), None, "bit {bit}");
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
        }
    }

    #[test]
    fn only_names_as_we_write_them_are_ours() {
        assert_eq!(number_in("000000000000000a-0000000000000001.wal"), Some(10));
        for name in [
            "LOCK",
            "a-1.wal",
            "000000000000000A-0000000000000001.wal",
            "+00000000000000a-0000000000000001.wal",
            "000000000000000a-0000000000000001.wal.bak",
        ] {
            assert_eq!(number_in(name), None, "{name}");
        }
    }
}
