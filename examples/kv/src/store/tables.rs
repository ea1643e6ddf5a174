//! The three tables on disk: how they are made and opened. `format.rs` says what is in them.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

use fjall::config::FilterPolicy;
use fjall::{Database, Keyspace, KeyspaceCreateOptions};

use super::error::StoreError;

/// The tables, and the database that they are in.
#[derive(Clone)]
pub(super) struct Tables {
    pub db: Database,
    pub keys: Keyspace,
    pub revisions: Keyspace,
    pub index: Keyspace,
}

impl Tables {
    /// Opens the tables in `path`, and makes them first where there is nothing.
    pub fn open(path: &Path, cache_bytes: u64) -> Result<Self, StoreError> {
        if is_vacant(path).map_err(fjall::Error::Io)? {
            make(path, cache_bytes)?;
        }
        Self::open_in(path, cache_bytes)
    }

    fn open_in(path: &Path, cache_bytes: u64) -> Result<Self, StoreError> {
        // One worker merges tables in the background. Fjall's own journal and memtables stay
        // empty, because flushes write whole tables.
        let db = Database::builder(path).cache_size(cache_bytes).worker_threads(1).open()?;
        let searched = KeyspaceCreateOptions::default;
        // Rows of these two are found by a scan, or are known to be there: no Bloom filter.
        let scanned = || {
            KeyspaceCreateOptions::default()
                .filter_policy(FilterPolicy::disabled())
                .expect_point_read_hits(true)
        };
        let keys = db.keyspace("keys", searched)?;
        let revisions = db.keyspace("revisions", scanned)?;
        let index = db.keyspace("index", scanned)?;
        Ok(Self { db, keys, revisions, index })
    }

    /// Bytes of the tables on disk.
    pub fn disk_bytes(&self) -> u64 {
        [&self.keys, &self.revisions, &self.index].into_iter().map(Keyspace::disk_space).sum()
    }

    /// How many sorted runs of one table a read may have to look into.
    pub fn runs(&self) -> usize {
        [&self.keys, &self.revisions, &self.index]
            .into_iter()
            .map(Keyspace::l0_table_count)
            .max()
            .unwrap_or(0)
    }
}

/// Makes empty tables in `path`. Fjall cannot open what it had only begun to make, so they get
/// their name when they are complete: whatever a crash leaves before that is made again.
fn make(path: &Path, cache_bytes: u64) -> Result<(), StoreError> {
    let mut begun = path.as_os_str().to_owned();
    begun.push(".new");
    let begun = Path::new(&begun);
    match fs::remove_dir_all(begun) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(fjall::Error::Io(error).into());
        }
        Ok(()) | Err(_) => {}
    }
    drop(Tables::open_in(begun, cache_bytes)?);
    rename(begun, path).map_err(fjall::Error::Io)?;
    Ok(())
}

/// Renames, and makes sure that the new name is what a power cut leaves.
fn rename(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)?;
    let parent = to.parent().filter(|parent| !parent.as_os_str().is_empty());
    fs::File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
}

/// Whether nothing is there, or an empty directory.
fn is_vacant(path: &Path) -> io::Result<bool> {
    match fs::read_dir(path) {
        Ok(mut entries) => Ok(entries.next().is_none()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error),
    }
}
