//! Makes a log, and says whether there is one.
//!
//! A log is made in this order, each step durable before the next: the directory, the first
//! segment, the copies of the meta file. It exists from the first valid copy on, so a crash
//! before that leaves a directory in which the log can be made again.

use std::path::Path;
use std::sync::Arc;

use raft_core::{Index, Membership};

use crate::disk::{Access, Disk, list_or_empty, read_full};
use crate::error::{CreateError, DiskError, OpenError};
use crate::map::Map;
use crate::meta::{Copies, Meta, NAMES, SyncMark};
use crate::open::{CHUNK_BYTES, Opening, Recovered, identify, lock, preparer, remove};
use crate::options::{Identity, Options};
use crate::sector::{SECTOR_BYTES, is_zero};
use crate::segment::{Header, NEXT_NAME, header_bytes, publish};
use crate::state::State;
use crate::wal::Wal;

const FIRST_SEGMENT: u64 = 1;

impl Wal {
    /// Whether the directory holds a log, or the remains of one: then [`open`](Self::open) it,
    /// else [`create`](Self::create) one. A creation that a crash cut short counts as none: it
    /// never promised anything.
    ///
    /// # Errors
    /// The disk failed.
    pub fn exists(dir: &Path, options: &Options) -> Result<bool, DiskError> {
        let disk = &*options.disk;
        let copies = Copies::read(disk, dir)?;
        if copies.newest().is_some() || copies.newer(dir).is_some() {
            return Ok(true);
        }
        holds_batches(disk, dir)
    }

    /// Whose log the directory holds; `None` where it holds none. Takes no lock.
    ///
    /// # Errors
    /// The disk failed, the files are of a newer format, or nobody knows any more whose it is.
    pub fn identity_in(dir: &Path, options: &Options) -> Result<Option<Identity>, OpenError> {
        if !Self::exists(dir, options)? {
            return Ok(None);
        }
        let copies = Copies::read(&*options.disk, dir)?;
        Ok(Some(identify(&copies, dir)?.identity))
    }

    /// Makes a new log, empty and durable, in a directory that holds none. Other files in the
    /// directory are left alone.
    ///
    /// # Errors
    /// See [`CreateError`].
    pub fn create(
        dir: &Path,
        identity: Identity,
        membership: &Membership,
        options: &Options,
    ) -> Result<(Self, Recovered), CreateError> {
        options.validate()?;
        let disk = &options.disk;
        disk.create_dir(dir).map_err(|error| DiskError::new("create", dir, 0, error))?;
        let lock =
            lock(&**disk, dir)?.ok_or_else(|| CreateError::Locked { dir: dir.to_owned() })?;
        if Self::exists(dir, options)? {
            let found = Copies::read(&**disk, dir)?.newest().map(|meta| meta.identity);
            return Err(CreateError::Exists { dir: dir.to_owned(), identity: found });
        }
        clear(&**disk, dir)?;

        let preparer = preparer(dir, options)?;
        let founders = Arc::new(membership.clone());
        let (number, before) = (FIRST_SEGMENT, State::founded(Arc::clone(&founders)));
        let space = preparer.take(header_bytes(&before), options.first_bytes())?;
        let header = Header { identity, number, bytes: space.bytes, before };
        let segment = Arc::new(publish(&**disk, dir, space, &header)?);
        let meta = Meta {
            generation: 1,
            identity,
            synced: SyncMark { batch: 0, segment: number },
            first_segment: number,
            first_cluster_id: identity.cluster_id,
            founders,
            claim: None,
            repair: None,
        };
        meta.write(&**disk, dir)?;
        tracing::info!(dir = %dir.display(), %identity, "made a new log");

        let mut map = Map::starting_after(Index::ZERO);
        map.add_segment(Arc::clone(&segment));
        let (state, end) = (header.before, segment.start);
        let wal = Opening { preparer, meta, state, map, segment, end, lock }.wal(dir, options);
        let recovered = Recovered::of(&wal, Vec::new());
        Ok((wal, recovered))
    }
}

/// Whether a segment holds anything behind its header: a node whose log does may have voted.
pub(crate) fn holds_batches(disk: &dyn Disk, dir: &Path) -> Result<bool, DiskError> {
    let names = list_or_empty(disk, dir).map_err(|error| DiskError::new("list", dir, 0, error))?;
    let mut chunk = vec![0; CHUNK_BYTES as usize];
    for name in names.iter().filter(|name| name.ends_with(".wal")) {
        let path = dir.join(name);
        let failed = |error| DiskError::new("read", &path, 0, error);
        let file = disk.open(&path, Access::Read).map_err(failed)?;
        let mut offset = match Header::read(&*file) {
            Ok((header, _)) if header.before.batch > 0 => return Ok(true),
            Ok((_, sectors)) => sectors * SECTOR_BYTES as u64,
            Err(_) => SECTOR_BYTES as u64,
        };
        loop {
            let failed = |error| DiskError::new("read", &path, offset, error);
            let read = read_full(&*file, &mut chunk, offset).map_err(failed)?;
            if !chunk[..read].chunks(SECTOR_BYTES).all(is_zero) {
                return Ok(true);
            }
            if read < chunk.len() {
                break;
            }
            offset += read as u64;
        }
    }
    Ok(false)
}

/// Removes what a creation that was cut short has left.
fn clear(disk: &dyn Disk, dir: &Path) -> Result<(), DiskError> {
    let names = disk.list(dir).map_err(|error| DiskError::new("list", dir, 0, error))?;
    for name in names {
        if name.ends_with(".wal") || name == NEXT_NAME || NAMES.contains(&&*name) {
            remove(disk, dir.join(name))?;
        }
    }
    disk.sync_dir(dir).map_err(|error| DiskError::new("sync", dir, 0, error))
}
