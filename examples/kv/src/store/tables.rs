//! The three tables on disk: how they are made and opened. `format.rs` says what is in them.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

use fjall::config::FilterPolicy;
use fjall::{Database, Keyspace, KeyspaceCreateOptions};

use super::base::{Mark, Upkeep};
use super::error::StoreError;
use super::flush::write_mark;
use super::format::MARK;

/// The tables, and the database that they are in. A restored snapshot is a generation of tables
/// of its own. The newest one that has a mark is the store; any other is a rest.
#[derive(Clone)]
pub(super) struct Tables {
    pub db: Database,
    generation: u64,
    pub keys: Keyspace,
    pub revisions: Keyspace,
    pub index: Keyspace,
}

impl Tables {
    /// Opens the tables in `path`, and makes them first where there is nothing.
    pub fn open(path: &Path, cache_bytes: u64) -> Result<Self, StoreError> {
        if is_vacant(path)? {
            // With a first row no view of the tables has number 0: while one with that number is
            // open, fjall 3.1 lets go of what other views need.
            Self::make(path, cache_bytes, |tables| {
                write_mark(tables, &Mark::fresh(), &Upkeep::default())
            })?;
        }
        Self::open_in(path, cache_bytes)
    }

    /// Makes tables in `path`, and fills them. Fjall cannot open what it had only begun to make,
    /// so they get their name when they are complete: whatever a crash leaves before that is made
    /// again.
    pub fn make(
        path: &Path,
        cache_bytes: u64,
        fill: impl FnOnce(&Self) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let mut begun = path.as_os_str().to_owned();
        begun.push(".new");
        let begun = Path::new(&begun);
        remove(begun)?;
        let filled = Self::open_in(begun, cache_bytes).and_then(|tables| fill(&tables));
        if filled.is_err() {
            remove(begun)?;
        }
        filled?;
        Ok(rename(begun, path).map_err(fjall::Error::Io)?)
    }

    fn open_in(path: &Path, cache_bytes: u64) -> Result<Self, StoreError> {
        // One worker merges tables in the background. Fjall's own journal and memtables stay
        // empty, because flushes write whole tables.
        let db = Database::builder(path).cache_size(cache_bytes).worker_threads(1).open()?;
        let mut newest: Option<Self> = None;
        for generation in generations(&db) {
            let tables = Self::generation(&db, generation)?;
            let is_whole = tables.keys.contains_key(MARK)?;
            let rest = if is_whole { newest.replace(tables) } else { Some(tables) };
            rest.map_or(Ok(()), Self::delete)?;
        }
        newest.map_or_else(|| Self::generation(&db, 0), Ok)
    }

    /// Makes the empty tables that are to replace these. Without a mark they are nothing yet.
    pub fn next_generation(&self) -> Result<Self, StoreError> {
        Self::generation(&self.db, self.generation + 1)
    }

    /// Deletes these tables. Who still reads them can go on: the files go when nobody does.
    pub fn delete(self) -> Result<(), StoreError> {
        // The mark goes first: what is left after a crash is not taken for a store.
        for table in [self.keys, self.index, self.revisions] {
            self.db.delete_keyspace(table)?;
        }
        Ok(())
    }

    /// Opens tables, or makes empty ones.
    fn generation(db: &Database, generation: u64) -> Result<Self, StoreError> {
        let searched = KeyspaceCreateOptions::default;
        // Rows of these two are found by a scan, or are known to be there: no Bloom filter.
        let scanned = || {
            KeyspaceCreateOptions::default()
                .filter_policy(FilterPolicy::disabled())
                .expect_point_read_hits(true)
        };
        let name = |name: &str| match generation {
            0 => name.to_owned(),
            _ => format!("{name}.{generation}"),
        };
        let keys = db.keyspace(&name("keys"), searched)?;
        let revisions = db.keyspace(&name("revisions"), scanned)?;
        let index = db.keyspace(&name("index"), scanned)?;
        Ok(Self { db: db.clone(), generation, keys, revisions, index })
    }

    /// Writes the tables anew, without what no view can see any more. Takes long, and holds up
    /// nobody.
    pub fn rewrite(&self) -> Result<(), StoreError> {
        for table in [&self.revisions, &self.index, &self.keys] {
            // Adds nothing, but has fjall look which views are still there.
            table.start_ingestion()?.finish()?;
            table.major_compact()?;
        }
        Ok(())
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

/// The generations that are there, whole or not, ascending.
fn generations(db: &Database) -> BTreeSet<u64> {
    let generation = |name: &str| match name.split_once('.') {
        Some((_, number)) => number.parse().ok(),
        None => Some(0),
    };
    db.list_keyspace_names().iter().filter_map(|name| generation(name)).collect()
}

/// Removes a directory, if it is there.
fn remove(path: &Path) -> Result<(), StoreError> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(fjall::Error::Io(error).into()),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Renames, and makes sure that the new name is what a power cut leaves.
fn rename(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)?;
    let parent = to.parent().filter(|parent| !parent.as_os_str().is_empty());
    fs::File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
}

/// Whether nothing is there, or an empty directory.
pub(super) fn is_vacant(path: &Path) -> Result<bool, StoreError> {
    match fs::read_dir(path) {
        Ok(mut entries) => Ok(entries.next().is_none()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(true),
        Err(error) => Err(fjall::Error::Io(error).into()),
    }
}
