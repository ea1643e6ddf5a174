//! A segment: one file of the log. Its first sector says what came before it; the batches follow,
//! and behind them zeros up to the end of the file.
//!
//! ```text
//!   byte   sector 0: the header           byte
//!     0  preamble, magic "KONTWAL\0"        72  last: index   u64  \
//!    16  length of the file  u64            80  last: term    u64   | the state of the log
//!    24  number              u64            88  hard: term    u64   | before the first batch
//!    32  batch before it     u64            96  hard: vote    u64   | of this segment
//!    40  chain before it     u32           104  hard: commit  u64  /
//!    44  0                   u32           112  zeros
//!    48  cluster id          u64           508  CRC-32C of the bytes 0..508
//!    56  node id             u64
//!    64  disk incarnation    u64
//! ```
//!
//! The name is `{number:016x}-{index after last:016x}.wal`. A file gets its name only when its
//! header and all of its zeros are durable. Nothing in it changes but for batches that are added,
//! and a torn batch that is zeroed again.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use raft_core::{HardState, Index, LogPosition, NodeId, Term};

use crate::Identity;
use crate::check::crc;
use crate::disk::{Disk, DiskFile, write_full};
use crate::error::DiskError;
use crate::frame::{u32_at, u64_at};
use crate::preamble::{self, Preamble};
use crate::sector::{SECTOR_BYTES, Salt};
use crate::state::Checkpoint;

const MAGIC: [u8; 8] = *b"KONTWAL\0";
const CHECKED_BYTES: usize = SECTOR_BYTES - 4;

/// The name of the segment that is being filled with zeros.
pub(crate) const NEXT_NAME: &str = "next.tmp";

/// An open segment.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) file: Arc<dyn DiskFile>,
    pub(crate) path: PathBuf,
    pub(crate) number: u64,
    pub(crate) salt: Salt,
    /// How many sectors it has, the header among them.
    pub(crate) sectors: u64,
}

impl Segment {
    pub(crate) fn bytes(&self) -> u64 {
        self.sectors * SECTOR_BYTES as u64
    }

    /// An error of this file.
    pub(crate) fn error(
        &self,
        verb: &'static str,
        offset: u64,
        source: std::io::Error,
    ) -> DiskError {
        DiskError::new(verb, &self.path, offset, source)
    }
}

/// What the first sector says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) identity: Identity,
    pub(crate) number: u64,
    pub(crate) bytes: u64,
    /// What came before it.
    pub(crate) before: Checkpoint,
}

/// Why a header cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeaderError {
    Newer(u32),
    Bad,
}

impl Header {
    pub(crate) fn encode(&self) -> [u8; SECTOR_BYTES] {
        let mut bytes = [0; SECTOR_BYTES];
        preamble::put(&mut bytes, MAGIC);
        let Checkpoint { batch, chain, last, hard_state } = self.before;
        let vote = hard_state.vote.map_or(0, NodeId::get);
        for (offset, number) in [
            (16, self.bytes),
            (24, self.number),
            (32, batch),
            (40, u64::from(chain)),
            (48, self.identity.cluster_id),
            (56, self.identity.node_id.get()),
            (64, self.identity.incarnation),
            (72, last.index.0),
            (80, last.term.0),
            (88, hard_state.term.0),
            (96, vote),
            (104, hard_state.commit.0),
        ] {
            bytes[offset..offset + 8].copy_from_slice(&number.to_le_bytes());
        }
        let check = crc(&bytes[..CHECKED_BYTES]);
        bytes[CHECKED_BYTES..].copy_from_slice(&check.to_le_bytes());
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, HeaderError> {
        match preamble::read(bytes, MAGIC) {
            Preamble::Known => {}
            Preamble::Newer(format) => return Err(HeaderError::Newer(format)),
            Preamble::Bad => return Err(HeaderError::Bad),
        }
        if bytes.len() != SECTOR_BYTES
            || u32_at(bytes, CHECKED_BYTES) != crc(&bytes[..CHECKED_BYTES])
        {
            return Err(HeaderError::Bad);
        }
        let number = |offset| u64_at(bytes, offset);
        Ok(Self {
            identity: Identity {
                cluster_id: number(48),
                node_id: NodeId::new(number(56)).ok_or(HeaderError::Bad)?,
                incarnation: number(64),
            },
            bytes: number(16),
            number: number(24),
            before: Checkpoint {
                batch: number(32),
                chain: u32_at(bytes, 40),
                last: LogPosition { index: Index(number(72)), term: Term(number(80)) },
                hard_state: HardState {
                    term: Term(number(88)),
                    vote: NodeId::new(number(96)),
                    commit: Index(number(104)),
                },
            },
        })
    }

    pub(crate) fn file_name(&self) -> String {
        format!("{:016x}-{:016x}.wal", self.number, self.before.last.index.next().0)
    }
}

/// The number in the name of a segment; `None` where the name is none of ours.
pub(crate) fn number_in(name: &str) -> Option<u64> {
    let (number, index) = name.strip_suffix(".wal")?.split_once('-')?;
    let hex = |digits: &str| {
        let lower = digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        (digits.len() == 16 && lower).then(|| u64::from_str_radix(digits, 16).ok()).flatten()
    };
    hex(index)?;
    hex(number)
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
    write_full(&*space.file, &header.encode(), 0).map_err(|e| error("write", &source, e))?;
    space.file.sync_data().map_err(|e| error("sync", &source, e))?;
    disk.rename(&source, &path).map_err(|e| error("rename", &source, e))?;
    disk.sync_dir(dir).map_err(|e| error("sync", dir, e))?;
    let salt = Salt::new(header.identity.incarnation, header.number);
    let sectors = space.bytes / SECTOR_BYTES as u64;
    Ok(Segment { file: space.file, path, number: header.number, salt, sectors })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_comes_back_and_every_changed_bit_is_seen() {
        let node_id = NodeId::new(2).expect("not zero");
        let header = Header {
            identity: Identity { cluster_id: 1, node_id, incarnation: 3 },
            number: 4,
            bytes: 5,
            before: Checkpoint {
                batch: 6,
                chain: 7,
                last: LogPosition { index: Index(8), term: Term(9) },
                hard_state: HardState { term: Term(10), vote: Some(node_id), commit: Index(11) },
            },
        };
        let mut bytes = header.encode();
        assert_eq!(Header::decode(&bytes), Ok(header.clone()));
        assert_eq!(number_in(&header.file_name()), Some(4));
        for bit in 0..SECTOR_BYTES * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Header::decode(&bytes), Err(HeaderError::Bad), "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
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
