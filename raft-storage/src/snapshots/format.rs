//! The names and the bytes of snapshot files; drawn at the top of `snapshots.rs`.

use std::sync::Arc;

use raft_core::{Index, LogPosition, Membership, MembershipDecodeError, Snapshot, Term};

use crate::check::crc;
use crate::frame::{NUMBER_MAX, is_possible, u32_at, u64_at};
use crate::preamble::{self, Preamble};
use crate::sector::SECTOR_BYTES;

pub(crate) const MAGIC: [u8; 8] = *b"KONTSNAP";
pub(crate) const END_MAGIC: [u8; 8] = *b"KONTSEND";
const MEMBERS_OFFSET: usize = 56;
const CHECK_BYTES: usize = 4;
pub(super) const BLOCK_BYTES: usize = 64 << 10;
pub(super) const BLOCK_HEAD_BYTES: usize = 8;
/// How much of the body a whole block holds.
pub(super) const BLOCK_DATA_BYTES: usize = BLOCK_BYTES - BLOCK_HEAD_BYTES;
pub(crate) const TRAILER_BYTES: usize = 24;
/// No header is longer: more members than any group has.
const HEADER_BYTES_MAX: usize = 16 << 20;

/// What a file in the directory is, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Name {
    Whole(LogPosition),
    Building(LogPosition),
    /// With the number of the transfer.
    Receiving(LogPosition, u64),
}

impl Name {
    pub(super) fn file(&self) -> String {
        let stem = |last: &LogPosition| format!("{:016x}-{:016x}", last.index.0, last.term.0);
        match self {
            Self::Whole(last) => format!("{}.snap", stem(last)),
            Self::Building(last) => format!("{}.snap.tmp", stem(last)),
            Self::Receiving(last, transfer) => format!("{}-{transfer:x}.part", stem(last)),
        }
    }

    /// `None` where the name is none of ours.
    pub(super) fn parse(name: &str) -> Option<Self> {
        let (stem, ending) = name.split_once('.')?;
        let mut numbers = stem.split('-').map(|digits| u64::from_str_radix(digits, 16).ok());
        let index = Index(numbers.next()??);
        let last = LogPosition { index, term: Term(numbers.next()??) };
        let found = match ending {
            "snap" => Self::Whole(last),
            "snap.tmp" => Self::Building(last),
            "part" => Self::Receiving(last, numbers.next()??),
            _ => return None,
        };
        // One way to write it.
        (found.file() == name).then_some(found)
    }
}

/// The start of a snapshot file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) first_cluster_id: u64,
    pub(crate) snapshot: Snapshot,
}

/// Why a header cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeaderError {
    /// It takes so many bytes, and there are fewer.
    Longer(usize),
    Newer(u32),
    Bad,
}

impl Header {
    /// Whole sectors.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let Snapshot { last, membership, membership_index } = &self.snapshot;
        let members = membership.encode();
        let length = (MEMBERS_OFFSET + members.len() + CHECK_BYTES).next_multiple_of(SECTOR_BYTES);
        let mut bytes = vec![0; length];
        preamble::put(&mut bytes, MAGIC);
        for (offset, number) in [
            (16, length as u64 | (members.len() as u64) << 32),
            (24, self.first_cluster_id),
            (32, last.index.0),
            (40, last.term.0),
            (48, membership_index.0),
        ] {
            bytes[offset..offset + 8].copy_from_slice(&number.to_le_bytes());
        }
        bytes[MEMBERS_OFFSET..][..members.len()].copy_from_slice(&members);
        let check = crc(&bytes[..length - CHECK_BYTES]);
        bytes[length - CHECK_BYTES..].copy_from_slice(&check.to_le_bytes());
        bytes
    }

    /// Reads the header at the start of `bytes`.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, HeaderError> {
        match preamble::read(bytes, MAGIC) {
            Preamble::Known => {}
            Preamble::Newer(format) => return Err(HeaderError::Newer(format)),
            Preamble::Bad => return Err(HeaderError::Bad),
        }
        if bytes.len() < SECTOR_BYTES {
            return Err(HeaderError::Bad);
        }
        let length = u32_at(bytes, 16) as usize;
        if !(SECTOR_BYTES..=HEADER_BYTES_MAX).contains(&length) {
            return Err(HeaderError::Bad);
        }
        let bytes = bytes.get(..length).ok_or(HeaderError::Longer(length))?;
        let (checked, check) = bytes.split_at(length - CHECK_BYTES);
        if crc(checked).to_le_bytes() != check {
            return Err(HeaderError::Bad);
        }
        let members = checked[MEMBERS_OFFSET..].get(..u32_at(bytes, 20) as usize);
        let membership =
            Membership::decode(members.ok_or(HeaderError::Bad)?).map_err(|error| match error {
                MembershipDecodeError::Newer { format } => HeaderError::Newer(u32::from(format)),
                MembershipDecodeError::Malformed => HeaderError::Bad,
            })?;
        let number = |offset| u64_at(bytes, offset);
        let snapshot = Snapshot {
            last: LogPosition { index: Index(number(32)), term: Term(number(40)) },
            membership: Arc::new(membership),
            membership_index: Index(number(48)),
        };
        if !is_possible(snapshot.last) || snapshot.membership_index.0 > NUMBER_MAX {
            return Err(HeaderError::Bad);
        }
        Ok(Self { first_cluster_id: number(24), snapshot })
    }
}

/// Binds the blocks of a snapshot to it: the check of its header.
pub(super) fn salt_of(header: &[u8]) -> u32 {
    u32_at(header, header.len() - CHECK_BYTES)
}

/// Completes a block whose data stands behind its head.
pub(super) fn seal(block: &mut [u8], salt: u32, number: u64) {
    let length = (block.len() - BLOCK_HEAD_BYTES) as u32;
    block[4..8].copy_from_slice(&length.to_le_bytes());
    let check = crc(&block[4..]) ^ salt ^ number as u32;
    block[..4].copy_from_slice(&check.to_le_bytes());
}

/// Whether a block is what was written.
pub(super) fn is_sound(block: &[u8], salt: u32, number: u64) -> bool {
    block.len() > BLOCK_HEAD_BYTES
        && u32_at(block, 4) as usize == block.len() - BLOCK_HEAD_BYTES
        && u32_at(block, 0) == crc(&block[4..]) ^ salt ^ number as u32
}

/// How many bytes the blocks take that hold so much data.
pub(super) fn blocks_bytes(data: u64) -> u64 {
    data + data.div_ceil(BLOCK_DATA_BYTES as u64) * BLOCK_HEAD_BYTES as u64
}

/// The end of a snapshot file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Trailer {
    pub(super) len_bytes: u64,
    pub(super) check: u32,
}

impl Trailer {
    pub(crate) fn encode(&self) -> [u8; TRAILER_BYTES] {
        let mut bytes = [0; TRAILER_BYTES];
        bytes[..8].copy_from_slice(&END_MAGIC);
        bytes[8..16].copy_from_slice(&self.len_bytes.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.check.to_le_bytes());
        let check = crc(&bytes[..20]);
        bytes[20..].copy_from_slice(&check.to_le_bytes());
        bytes
    }

    pub(crate) fn decode(bytes: &[u8; TRAILER_BYTES]) -> Option<Self> {
        let is_sound = bytes[..8] == END_MAGIC && u32_at(bytes, 20) == crc(&bytes[..20]);
        is_sound.then(|| Self { len_bytes: u64_at(bytes, 8), check: u32_at(bytes, 16) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use raft_core::NodeId;

    #[test]
    fn names_come_back_and_others_are_left_alone() {
        let last = LogPosition { index: Index(10), term: Term(2) };
        for name in [Name::Whole(last), Name::Building(last), Name::Receiving(last, 0x5eed)] {
            assert_eq!(Name::parse(&name.file()), Some(name));
        }
        for name in [
            "snapshot",
            "0000000000000001-0000000000000001.wal",
            "1-1.snap",
            "000000000000000A-0000000000000001.snap",
            "000000000000000a-0000000000000001.snap.damaged",
            "000000000000000a-0000000000000001-05.part",
            "000000000000000a-0000000000000001-5.snap",
        ] {
            assert_eq!(Name::parse(name), None, "{name}");
        }
    }

    #[test]
    fn a_header_comes_back_and_every_changed_bit_is_seen() {
        for members in [3, 60] {
            let membership = Membership::new((1..=members).filter_map(NodeId::new));
            let snapshot = Snapshot {
                last: LogPosition { index: Index(10), term: Term(2) },
                membership: Arc::new(membership.expect("voters")),
                membership_index: Index(4),
            };
            let header = Header { first_cluster_id: 7, snapshot };
            let mut bytes = header.encode();
            assert_eq!(Header::decode(&bytes), Ok(header));
            for bit in 0..bytes.len() * 8 {
                bytes[bit / 8] ^= 1 << (bit % 8);
                assert!(Header::decode(&bytes).is_err(), "bit {bit}");
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
        }
    }

    #[test]
    fn a_trailer_comes_back_and_every_changed_bit_is_seen() {
        let trailer = Trailer { len_bytes: 5, check: 6 };
        let mut bytes = trailer.encode();
        assert_eq!(Trailer::decode(&bytes), Some(trailer));
        for bit in 0..TRAILER_BYTES * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Trailer::decode(&bytes), None, "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }
}
