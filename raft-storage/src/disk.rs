//! The few file operations that a log needs, as a trait, so that a simulated disk can drop, tear
//! and reorder whatever was not synced.
//!
//! What an implementation promises:
//! - `write_at` is visible to `read_at` at once and durable only after a `sync_data` that returns
//!   `Ok`. Until then a power cut keeps any subset of the 512-byte sectors that were written;
//!   within one sector, all of the old bytes or all of the new.
//! - `create`, `rename` and `remove` are durable only after a `sync_dir` of the directory.

use std::fmt::Debug;
use std::io;
use std::path::Path;
use std::sync::Arc;

mod real;

pub use real::RealDisk;

/// A file system, as far as a log needs one.
pub trait Disk: Debug + Send + Sync + 'static {
    /// Opens an existing file.
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn DiskFile>>;
    /// Makes an empty file, or empties the one that stands there, to read and write.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>>;
    /// Gives a file another name, over whatever has that name.
    fn rename(&self, source: &Path, target: &Path) -> io::Result<()>;
    /// Takes a file out of its directory.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// The names in a directory, in no particular order.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;
    /// Makes a directory and its parents where they do not exist, durably.
    fn create_dir(&self, dir: &Path) -> io::Result<()>;
    /// Makes durable which names the directory holds.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// Locks this file, making it where it does not exist, or returns `None` when another one,
    /// in this process or elsewhere, holds the lock. Dropping the result unlocks.
    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn DiskLock>>>;
}

/// An open file. Every offset is explicit, so readers and the writer share one handle.
pub trait DiskFile: Debug + Send + Sync {
    /// Reads into `buffer` from `offset`; says how many bytes, none at the end of the file.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes from `buffer` at `offset`; says how many bytes it took.
    fn write_at(&self, buffer: &[u8], offset: u64) -> io::Result<usize>;
    /// Makes durable what was written, and the length.
    fn sync_data(&self) -> io::Result<()>;
    /// The length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Whether the file holds no byte.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
    /// Cuts the file, or makes it longer by zeros.
    fn set_len(&self, len: u64) -> io::Result<()>;
}

/// A lock that ends when it is dropped.
pub trait DiskLock: Debug + Send + Sync {}

/// What a file is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// To read only.
    Read,
    /// To read and to write.
    ReadWrite,
}

/// Reads until `buffer` is full or the file ends; says how many bytes.
pub(crate) fn read_full(file: &dyn DiskFile, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        match file.read_at(&mut buffer[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// Writes all of `buffer`, however many pieces the disk takes it in.
pub(crate) fn write_full(file: &dyn DiskFile, buffer: &[u8], offset: u64) -> io::Result<()> {
    let mut done = 0;
    while done < buffer.len() {
        match file.write_at(&buffer[done..], offset + done as u64) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The names in `dir`; none where there is no such directory.
pub(crate) fn list_or_empty(disk: &dyn Disk, dir: &Path) -> io::Result<Vec<String>> {
    match disk.list(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        listed => listed,
    }
}
