//! The bytes of what files hold, read and written without a file: for tests and fuzzing.
//!
//! Whatever changes a byte of a file is met by a checksum first. [`seal`](Format::seal) and
//! [`seal_segment`] make the checksums right again, so that a fuzzer reaches what lies behind.

use crate::check::{crc, link};
use crate::frame::{COMMIT_BYTES, Commit, Frame, HEADER_BYTES, Kind, decode_mark, encode_mark};
use crate::frame::{u32_at, u64_at};
use crate::meta::{self, Copy};
use crate::preamble;
use crate::sector::{DATA_BYTES, HEAD_BYTES, SECTOR_BYTES, Salt, is_zero, seal};
use crate::segment;
use crate::snapshots::format as snapshot;
use crate::state::State;

const CHECK_BYTES: usize = 4;

/// Something that files hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A meta file.
    Meta,
    /// The header of a segment.
    Segment,
    /// The state of a log, inside that header.
    State,
    /// The header of a record.
    Frame,
    /// What closes a batch.
    Commit,
    /// What marks a snapshot.
    Mark,
    /// The header of a snapshot.
    Snapshot,
    /// The end of a snapshot.
    Trailer,
}

impl Format {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Meta,
        Self::Segment,
        Self::State,
        Self::Frame,
        Self::Commit,
        Self::Mark,
        Self::Snapshot,
        Self::Trailer,
    ];

    /// Reads what stands at the start of `bytes`, and writes it again; `None` where it cannot be
    /// read. Never panics.
    pub fn rewritten(self, bytes: &[u8]) -> Option<Vec<u8>> {
        match self {
            Self::Meta => match meta::decode(bytes) {
                Copy::Valid(meta) => Some(meta.encode()),
                Copy::Newer(_) | Copy::Damaged | Copy::Missing => None,
            },
            Self::Segment => segment::Header::decode(bytes).map(|header| header.encode()),
            Self::State => State::decode(bytes).map(|state| state.encode()),
            Self::Frame => {
                let (frame, _) = Frame::decode(bytes.first_chunk()?).ok()?;
                Some(frame.encode().0.to_vec())
            }
            Self::Commit => Some(Commit::decode(bytes.first_chunk()?).encode().to_vec()),
            Self::Mark => decode_mark(bytes)?.ok().map(|mark| encode_mark(&mark)),
            Self::Snapshot => snapshot::Header::decode(bytes).ok().map(|header| header.encode()),
            Self::Trailer => {
                let trailer = snapshot::Trailer::decode(bytes.first_chunk()?)?;
                Some(trailer.encode().to_vec())
            }
        }
    }

    /// Whether there is one way to write it: what can be read is written as it was.
    pub fn is_canonical(self) -> bool {
        match self {
            Self::Frame | Self::Commit | Self::Mark | Self::Trailer => true,
            // They end with zeros that nobody looks at.
            Self::Meta | Self::Segment | Self::State | Self::Snapshot => false,
        }
    }

    /// Makes the magic numbers, the lengths and the checks right, as far as `bytes` reach.
    pub fn seal(self, bytes: &mut [u8]) {
        match self {
            Self::Meta => {
                put(bytes, 16, &(bytes.len() as u64).to_le_bytes());
                seal_whole(bytes, meta::MAGIC);
            }
            Self::Segment => {
                put(bytes, 32, &((bytes.len() / SECTOR_BYTES) as u32).to_le_bytes());
                seal_whole(bytes, segment::MAGIC);
            }
            Self::Snapshot => {
                put(bytes, 16, &(bytes.len() as u32).to_le_bytes());
                seal_whole(bytes, snapshot::MAGIC);
            }
            Self::Frame => {
                if let Some(header) = bytes.first_chunk_mut() {
                    seal_frame(header);
                }
            }
            Self::Trailer => {
                if let Some(trailer) = bytes.first_chunk_mut::<{ snapshot::TRAILER_BYTES }>() {
                    trailer[..8].copy_from_slice(&snapshot::END_MAGIC);
                    let check = crc(&trailer[..20]);
                    trailer[20..].copy_from_slice(&check.to_le_bytes());
                }
            }
            Self::State | Self::Commit | Self::Mark => {}
        }
    }
}

/// Makes a whole segment right, as far as its records can be walked through: its header, the
/// number, the chain and the check of each batch, and the checks of records and sectors.
pub fn seal_segment(file: &mut [u8]) {
    let sectors = file.len() / SECTOR_BYTES;
    if sectors == 0 {
        return;
    }
    let start = (u32_at(file, 32) as usize).clamp(1, sectors);
    let length = file.len() as u64;
    file[16..24].copy_from_slice(&length.to_le_bytes());
    let (header, rest) = file.split_at_mut(start * SECTOR_BYTES);
    Format::Segment.seal(header);

    let salt = Salt::new(u64_at(header, 56), u64_at(header, 24));
    let (batch, chain) = (u64_at(header, 64), u32_at(header, 72));
    let used = |sector: &&[u8]| !is_zero(sector);
    let count = rest.chunks_exact(SECTOR_BYTES).take_while(used).count();
    let written = &mut rest[..count * SECTOR_BYTES];
    let mut stream: Vec<u8> = written
        .chunks_exact(SECTOR_BYTES)
        .flat_map(|sector| &sector[HEAD_BYTES..])
        .copied()
        .collect();
    let stamps = seal_batches(&mut stream, batch, chain);
    let sectors = written.chunks_exact_mut(SECTOR_BYTES).zip(stream.chunks_exact(DATA_BYTES));
    for ((at, (sector, data)), stamp) in sectors.enumerate().zip(stamps) {
        sector[HEAD_BYTES..].copy_from_slice(data);
        seal(sector, salt, (start + at) as u64, stamp);
    }
}

/// Makes the records of all batches right. Gives the stamp of each sector.
fn seal_batches(stream: &mut [u8], batch: u64, mut chain: u32) -> Vec<u16> {
    let mut stamps = vec![0; stream.len() / DATA_BYTES];
    let (mut number, mut frames, mut at) = (batch.saturating_add(1), 0, 0);
    while let Some((header, rest)) = stream[at..].split_first_chunk_mut::<HEADER_BYTES>() {
        let length = u32_at(header, 4) as usize;
        let Some(payload) = rest.get_mut(..length) else { break };
        let commit = commit_of(header, payload);
        let commit = commit.map(|it| Commit::linked(number, it.promise, frames, chain));
        if let Some(commit) = &commit {
            payload.copy_from_slice(&commit.encode());
        }
        header[8..12].copy_from_slice(&crc(payload).to_le_bytes());
        let (check, first, end) = (seal_frame(header), at / DATA_BYTES, at + HEADER_BYTES + length);
        stamps[first..end.div_ceil(DATA_BYTES)].fill(number as u16);
        match commit {
            Some(commit) => {
                (number, chain, frames) = (number.saturating_add(1), commit.chain, 0);
                at = end.next_multiple_of(DATA_BYTES);
            }
            None => (chain, frames, at) = (link(chain, check), frames + 1, end),
        }
    }
    stamps[at / DATA_BYTES..].fill(number as u16);
    stamps
}

fn commit_of(header: &[u8; HEADER_BYTES], payload: &[u8]) -> Option<Commit> {
    let is_commit = header[12..14] == Kind::Commit.code() && payload.len() == COMMIT_BYTES;
    is_commit.then(|| payload.first_chunk().map(Commit::decode)).flatten()
}

fn seal_frame(header: &mut [u8; HEADER_BYTES]) -> u32 {
    let check = crc(&header[4..]);
    header[..4].copy_from_slice(&check.to_le_bytes());
    check
}

/// Makes right what begins with a preamble and ends with a check over everything before it.
fn seal_whole(bytes: &mut [u8], magic: [u8; 8]) {
    let checked = bytes.len().saturating_sub(CHECK_BYTES);
    if checked < preamble::PREAMBLE_BYTES {
        return;
    }
    preamble::put(bytes, magic);
    let check = crc(&bytes[..checked]);
    bytes[checked..].copy_from_slice(&check.to_le_bytes());
}

fn put(bytes: &mut [u8], offset: usize, number: &[u8]) {
    if let Some(place) = bytes.get_mut(offset..offset + number.len()) {
        place.copy_from_slice(number);
    }
}
