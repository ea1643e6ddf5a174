//! The file of a backup: a snapshot of the store, closed as the backups of etcd are, so that
//! etcd's clients can fetch it. What is inside is Kontiki's own, and no database of etcd's.
//!
//! ```text
//!   snapshot (store/snapshot.rs)
//!   zeros, up to 16 bytes before the end of a block of 512
//!   magic "KONTIKIB"   length of the snapshot:8
//!   SHA-256 of all that:32
//! ```
//! Numbers are big-endian. A file is checked from its first byte to its last before anything is
//! made of it.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::store::{SnapshotStatus, StoreError, snapshot_status};

mod restore;

pub use restore::{Restoration, RestoreError, Restored, restore};

const MAGIC: &[u8; 8] = b"KONTIKIB";
/// etcd's clients take a backup for whole when its length is a multiple of this and a hash.
const BLOCK_BYTES: u64 = 512;
const TRAILER_BYTES: u64 = 16;
const HASH_BYTES: u64 = 32;
const BUFFER_BYTES: usize = 256 << 10;

/// Why a file is no backup that could be used.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// It cannot be read.
    #[error("cannot read {}: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// What it holds is no snapshot that could be used.
    #[error("{}: {error}", path.display())]
    Snapshot {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        error: StoreError,
    },
    /// Its end is missing.
    #[error("{} ends too early: copy it again, or use another one", path.display())]
    Cut {
        /// The file.
        path: PathBuf,
    },
    /// Its hash is not that of its content.
    #[error("{} is damaged: its hash is not that of its content; use another copy", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
    },
}

/// A snapshot as the bytes of a backup.
pub struct Sealed<R> {
    snapshot: R,
    len: u64,
    hash: Sha256,
    /// What comes behind the snapshot, once that was read.
    end: Option<io::Cursor<Vec<u8>>>,
}

impl<R: Read> Sealed<R> {
    /// Closes `snapshot`, which is read to its end.
    pub fn new(snapshot: R) -> Self {
        Self { snapshot, len: 0, hash: Sha256::new(), end: None }
    }

    fn close(&mut self) -> io::Cursor<Vec<u8>> {
        let padding = BLOCK_BYTES - (self.len + TRAILER_BYTES) % BLOCK_BYTES;
        let mut end = vec![0; usize::try_from(padding % BLOCK_BYTES).expect("less than a block")];
        end.extend_from_slice(MAGIC);
        end.extend_from_slice(&self.len.to_be_bytes());
        self.hash.update(&end);
        end.extend_from_slice(&self.hash.finalize_reset());
        io::Cursor::new(end)
    }
}

impl<R: Read> Read for Sealed<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if let Some(end) = &mut self.end {
            return end.read(into);
        }
        let count = self.snapshot.read(into)?;
        if count == 0 && !into.is_empty() {
            let mut end = self.close();
            let count = end.read(into)?;
            self.end = Some(end);
            return Ok(count);
        }
        self.len += count as u64;
        self.hash.update(&into[..count]);
        Ok(count)
    }
}

/// A backup that was checked.
#[derive(Debug)]
pub struct Backup {
    path: PathBuf,
    file: File,
    /// Of the snapshot in it.
    len: u64,
    /// What it is worth.
    pub status: SnapshotStatus,
}

impl Backup {
    /// Opens a backup and checks all of it.
    ///
    /// # Errors
    /// See [`BackupError`].
    pub fn open(path: &Path) -> Result<Self, BackupError> {
        let unreadable = |error| BackupError::Read { path: path.to_owned(), error };
        let mut file = File::open(path).map_err(unreadable)?;
        let trailer = trailer(&mut file).map_err(unreadable)?;
        file.seek(SeekFrom::Start(0)).map_err(unreadable)?;
        let inner = BufReader::with_capacity(BUFFER_BYTES, &file);
        let mut hashing = Hashing { inner, hash: Sha256::new() };
        // Without an end, it is read as far as it goes: that tells a foreign file from a cut one.
        let len = trailer.as_ref().map_or(u64::MAX, |trailer| trailer.len);
        let status = snapshot_status((&mut hashing).take(len))
            .map_err(|error| BackupError::Snapshot { path: path.to_owned(), error })?;
        let Some(Trailer { hashed, hash, .. }) = trailer else {
            return Err(BackupError::Cut { path: path.to_owned() });
        };
        io::copy(&mut (&mut hashing).take(hashed - len), &mut io::sink()).map_err(unreadable)?;
        if hashing.hash.finalize()[..] != hash {
            return Err(BackupError::Damaged { path: path.to_owned() });
        }
        Ok(Self { path: path.to_owned(), file, len, status })
    }

    /// The snapshot in it, from its beginning.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn snapshot(&mut self) -> Result<impl Read + '_, BackupError> {
        let unreadable = |error| BackupError::Read { path: self.path.clone(), error };
        self.file.seek(SeekFrom::Start(0)).map_err(unreadable)?;
        Ok(BufReader::with_capacity(BUFFER_BYTES, &self.file).take(self.len))
    }

    /// The length of the file.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn bytes(&self) -> Result<u64, BackupError> {
        let length = self.file.metadata().map(|metadata| metadata.len());
        length.map_err(|error| BackupError::Read { path: self.path.clone(), error })
    }
}

/// What stands at the end of a backup.
struct Trailer {
    /// Of the snapshot.
    len: u64,
    /// So many bytes are hashed.
    hashed: u64,
    hash: [u8; HASH_BYTES as usize],
}

/// The end of the file; `None` where it has none.
fn trailer(file: &mut File) -> io::Result<Option<Trailer>> {
    let bytes = file.metadata()?.len();
    let Some(hashed) = bytes.checked_sub(HASH_BYTES) else { return Ok(None) };
    if hashed == 0 || hashed % BLOCK_BYTES != 0 {
        return Ok(None);
    }
    let (mut end, mut hash) = ([0; TRAILER_BYTES as usize], [0; HASH_BYTES as usize]);
    file.seek(SeekFrom::Start(hashed - TRAILER_BYTES))?;
    file.read_exact(&mut end)?;
    file.read_exact(&mut hash)?;
    let (magic, rest) = end.split_at(MAGIC.len());
    let len = rest.first_chunk().map_or(0, |len| u64::from_be_bytes(*len));
    let is_sound = magic == MAGIC && len <= hashed - TRAILER_BYTES;
    Ok(is_sound.then_some(Trailer { len, hashed, hash }))
}

/// Hashes what is read.
struct Hashing<R> {
    inner: R,
    hash: Sha256,
}

impl<R: Read> Read for Hashing<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(into)?;
        self.hash.update(&into[..count]);
        Ok(count)
    }
}

#[cfg(test)]
mod tests;
