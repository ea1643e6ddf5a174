//! Reads a snapshot, one checked block at a time.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use raft_core::{LogPosition, Snapshot, SnapshotSource, seeded};

use super::StoreError;
use super::format::{
    BLOCK_BYTES, BLOCK_DATA_BYTES, BLOCK_HEAD_BYTES, Header, HeaderError, TRAILER_BYTES, Trailer,
    blocks_bytes, is_sound, salt_of,
};
use crate::check::Running;
use crate::disk::{Access, Disk, DiskFile, RealDisk, read_full};
use crate::error::{Damage, DiskError, SnapshotError};
use crate::preamble::FORMAT;
use crate::sector::SECTOR_BYTES;

/// A snapshot that is whole. Keeps its file open, so that it can be read to the end even when a
/// newer one takes its place. Holds one block in memory.
#[derive(Debug)]
pub struct SnapshotFile {
    file: Arc<dyn DiskFile>,
    path: PathBuf,
    header: Header,
    /// Where the blocks start.
    start: u64,
    salt: u32,
    trailer: Trailer,
    /// The block that was read last: most reads want the one after another.
    block: Mutex<Block>,
}

#[derive(Debug, Default)]
struct Block {
    number: Option<u64>,
    bytes: Vec<u8>,
}

impl SnapshotFile {
    /// Opens one, wherever it lies and whosever it is. Checks its header and its end.
    ///
    /// # Errors
    /// The disk failed, or it is damaged, or of a newer format.
    pub fn open(path: &Path) -> Result<Self, SnapshotError> {
        Self::open_on(&RealDisk, path)
    }

    /// Opens one on this disk.
    ///
    /// # Errors
    /// See [`open`](Self::open).
    pub fn open_on(disk: &dyn Disk, path: &Path) -> Result<Self, SnapshotError> {
        let failed = |error: std::io::Error| match error.kind() {
            std::io::ErrorKind::NotFound => SnapshotError::Missing { file: path.to_owned() },
            _ => DiskError::new("read", path, 0, error).into(),
        };
        let file = disk.open(path, Access::Read).map_err(failed)?;
        let (header, bytes) = read_header(&*file, path)?;
        let (start, length) = (bytes.len() as u64, file.len().map_err(failed)?);
        let damage = |offset, reason: &str| damage(path, header.snapshot.last, offset, reason);
        let end = length
            .checked_sub(TRAILER_BYTES as u64)
            .filter(|end| *end >= start)
            .ok_or_else(|| damage(length, "the file is too short"))?;
        let mut trailer = [0; TRAILER_BYTES];
        let read = read_full(&*file, &mut trailer, end)
            .map_err(|error| DiskError::new("read", path, end, error))?;
        let trailer = Trailer::decode(&trailer).filter(|_| read == TRAILER_BYTES);
        let trailer = trailer.ok_or_else(|| damage(end, "the end of the file is wrong"))?;
        if trailer.len_bytes > length || start + blocks_bytes(trailer.len_bytes) != end {
            return Err(damage(end, "the file has another length than it says"));
        }
        let (salt, block) = (salt_of(&bytes), Mutex::default());
        Ok(Self { file, path: path.to_owned(), header, start, salt, trailer, block })
    }

    pub(crate) fn header(&self) -> &Header {
        &self.header
    }

    /// The cluster that the log was made for in which it was written.
    pub fn first_cluster_id(&self) -> u64 {
        self.header.first_cluster_id
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How many blocks it has.
    pub(crate) fn blocks(&self) -> u64 {
        self.trailer.len_bytes.div_ceil(BLOCK_DATA_BYTES as u64)
    }

    /// Reads all of it.
    ///
    /// # Errors
    /// The disk failed, or what it holds is not what was written.
    pub fn verify(&self) -> Result<(), SnapshotError> {
        let mut running = Running::new();
        let mut bytes = Vec::new();
        for number in 0..self.blocks() {
            self.read_block(number, &mut bytes)?;
            running.update(&bytes[BLOCK_HEAD_BYTES..]);
        }
        if running.finish() != self.trailer.check {
            let offset = self.start + blocks_bytes(self.trailer.len_bytes);
            let reason = "the blocks together are not what was written";
            return Err(damage(&self.path, self.header.snapshot.last, offset, reason));
        }
        Ok(())
    }

    /// Reads a block, head included, and checks it.
    pub(crate) fn read_block(&self, number: u64, bytes: &mut Vec<u8>) -> Result<(), SnapshotError> {
        let offset = self.start + number * BLOCK_BYTES as u64;
        let data = self.trailer.len_bytes - number * BLOCK_DATA_BYTES as u64;
        let length = (data as usize).min(BLOCK_DATA_BYTES) + BLOCK_HEAD_BYTES;
        bytes.resize(length, 0);
        let read = read_full(&*self.file, bytes, offset)
            .map_err(|error| DiskError::new("read", &self.path, offset, error))?;
        let is_sound = is_sound(bytes, self.salt, number) || seeded!(SnapshotBlocksNotChecked);
        if read != length || !is_sound {
            let reason = "the block is not what was written";
            return Err(damage(&self.path, self.header.snapshot.last, offset, reason));
        }
        Ok(())
    }
}

impl SnapshotSource for SnapshotFile {
    fn snapshot(&self) -> &Snapshot {
        &self.header.snapshot
    }

    fn len_bytes(&self) -> u64 {
        self.trailer.len_bytes
    }

    fn check(&self) -> u32 {
        self.trailer.check
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<usize, StoreError> {
        let mut block = self.block.lock().unwrap_or_else(PoisonError::into_inner);
        let mut done = 0;
        while done < into.len() && offset + (done as u64) < self.trailer.len_bytes {
            let at = offset + done as u64;
            let number = at / BLOCK_DATA_BYTES as u64;
            if block.number != Some(number) {
                block.number = None;
                self.read_block(number, &mut block.bytes)?;
                block.number = Some(number);
            }
            let within = BLOCK_HEAD_BYTES + (at % BLOCK_DATA_BYTES as u64) as usize;
            let piece = &block.bytes[within..];
            let count = piece.len().min(into.len() - done);
            into[done..done + count].copy_from_slice(&piece[..count]);
            done += count;
        }
        Ok(done)
    }
}

/// The header of a file, and its bytes.
pub(super) fn read_header(
    file: &dyn DiskFile,
    path: &Path,
) -> Result<(Header, Vec<u8>), SnapshotError> {
    let failed = |error| DiskError::new("read", path, 0, error);
    let mut wanted = SECTOR_BYTES;
    loop {
        let length = file.len().map_err(failed)?;
        // A damaged length asks for no more memory than the file has bytes.
        let mut bytes = vec![0; wanted.min(usize::try_from(length).unwrap_or(wanted))];
        let read = read_full(file, &mut bytes, 0).map_err(failed)?;
        match Header::decode(&bytes[..read]) {
            Ok(header) => return Ok((header, bytes)),
            Err(HeaderError::Longer(length)) if length > wanted && read == wanted => {
                wanted = length;
            }
            Err(HeaderError::Newer(found)) => {
                let file = path.to_owned();
                return Err(SnapshotError::NewerFormat { file, found, known: FORMAT });
            }
            Err(HeaderError::Longer(_) | HeaderError::Bad) => {
                return Err(damage(path, LogPosition::ZERO, 0, "the header is wrong"));
            }
        }
    }
}

fn damage(path: &Path, intact: LogPosition, offset: u64, reason: &str) -> SnapshotError {
    let (file, reason) = (path.to_owned(), reason.to_owned());
    SnapshotError::Damaged(Damage { file, offset, reason, intact })
}
