//! Makes a log, and opens one: the only code that decides what a directory is.
//!
//! A log is made in this order, each step durable before the next: the directory, the first
//! segment, the copies of the meta file. It exists from the first valid copy on, so a crash
//! before that leaves a directory in which the log can be made again.
//!
//! Opening changes nothing before everything is verified. Then, in this order: the last batch is
//! written again as it is, because it may never have been synced, or the kernel may have dropped
//! its pages after a failed sync and show them nevertheless; what is torn becomes zeros again;
//! both are synced; only then do the meta files say that everything is.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use raft_core::{HardState, Index, Membership, Saved, TermRuns};

use crate::batch::Batch;
use crate::disk::{Access, Disk, DiskLock, list_or_empty, read_full, write_full};
use crate::error::{CreateError, DiskError, OpenError};
use crate::meta::{Copies, Meta, NAMES, SyncMark};
use crate::options::{Identity, Options, Owner};
use crate::preamble::FORMAT;
use crate::prepare::Preparer;
use crate::replay::{Failure, Found, Replay, Tail};
use crate::sector::{SECTOR_BYTES, is_zero};
use crate::segment::{Header, NEXT_NAME, publish};
use crate::state::{Checkpoint, State};
use crate::wal::Wal;

const LOCK_NAME: &str = "LOCK";
const FIRST_SEGMENT: u64 = 1;
/// How much is looked at, written again or zeroed at once.
const CHUNK_BYTES: u64 = 256 << 10;

/// What a log held when it was opened: all of [`Saved`] except what was applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// Whose log it is.
    pub identity: Identity,
    /// The newest hard state.
    pub hard_state: HardState,
    /// The terms of the log.
    pub log: TermRuns,
    /// The voters that the log was made with.
    pub membership: Membership,
    /// What had to be mended, for people to read.
    pub repairs: Vec<String>,
}

impl Recovered {
    /// With what the state machine says it holds, the state to restore a core from.
    pub fn into_saved(self, applied: Index) -> Saved {
        let Self { hard_state, log, membership, .. } = self;
        let memberships = vec![(Index::ZERO, Arc::new(membership))];
        let (snapshot, claim) = (log.base(), None);
        Saved { hard_state, log, memberships, snapshot, applied, claim }
    }
}

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
        let space = preparer.take(0, options.first_bytes())?;
        let (number, before) = (FIRST_SEGMENT, Checkpoint::START);
        let header = Header { identity, number, bytes: space.bytes, before };
        let segment = Arc::new(publish(&**disk, dir, space, &header)?);
        let meta = Meta {
            generation: 1,
            identity,
            synced: SyncMark { batch: 0, segment: number },
            first_segment: number,
            membership: membership.clone(),
        };
        meta.write(&**disk, dir)?;
        tracing::info!(dir = %dir.display(), %identity, "made a new log");

        let state = State::starting_after(before);
        let mut map = crate::map::Map::starting_after(Index::ZERO);
        map.add_segment(Arc::clone(&segment));
        let recovered = recovered(&meta, &state, Vec::new());
        let mut wal = Self {
            preparer,
            disk: Arc::clone(disk),
            dir: dir.to_owned(),
            segment_bytes: options.segment_bytes,
            next_bytes: options.segment_bytes,
            meta,
            state,
            map: Arc::new(Mutex::new(map)),
            segment,
            end: 1,
            batch: Batch::default(),
            checking: false,
            poison: None,
            _lock: lock,
        };
        wal.prepare_next(wal.segment.bytes());
        Ok((wal, recovered))
    }

    /// Opens the log of `owner` and verifies every byte of it. What is given back is durable.
    ///
    /// # Errors
    /// See [`OpenError`]. Except when the disk fails, nothing was changed.
    pub fn open(
        dir: &Path,
        owner: Owner,
        options: &Options,
    ) -> Result<(Self, Recovered), OpenError> {
        options.validate()?;
        let disk = &options.disk;
        if !Self::exists(dir, options)? {
            return Err(OpenError::Absent { dir: dir.to_owned() });
        }
        let lock = lock(&**disk, dir)?.ok_or_else(|| OpenError::Locked { dir: dir.to_owned() })?;
        let copies = Copies::read(&**disk, dir)?;
        let meta = identify(&copies, dir)?;
        let found = meta.identity.owner();
        if found != owner {
            return Err(OpenError::WrongOwner { dir: dir.to_owned(), found, expected: owner });
        }

        let names = disk.list(dir).map_err(|error| DiskError::new("list", dir, 0, error))?;
        let mut replay = Replay::new(&**disk, dir, meta, Access::ReadWrite);
        let tail = replay.run(&names)?;
        let Replay { state, map, found, .. } = replay;
        let last = found.last().expect("a log has a segment, or the replay fails");

        let mut repairs = copies.faults();
        secure(last)?;
        repairs.extend(cut(last, &tail)?);
        last.segment.file.sync_data().map_err(|error| last.segment.error("sync", 0, error))?;
        remove_next(&**disk, dir, &names)?;
        disk.sync_dir(dir).map_err(|error| DiskError::new("sync", dir, 0, error))?;

        let recovered = recovered(meta, &state, repairs);
        let mut wal = Self {
            preparer: preparer(dir, options)?,
            disk: Arc::clone(disk),
            dir: dir.to_owned(),
            segment_bytes: options.segment_bytes,
            next_bytes: options.segment_bytes,
            meta: meta.clone(),
            state,
            map: Arc::new(Mutex::new(map)),
            segment: Arc::clone(&last.segment),
            end: last.end,
            batch: Batch::default(),
            checking: false,
            poison: None,
            _lock: lock,
        };
        let synced = SyncMark { batch: wal.state.batch, segment: wal.segment.number };
        if wal.meta.synced != synced || !copies.faults().is_empty() {
            wal.mark_synced()?;
        }
        wal.prepare_next(wal.segment.bytes());
        for repair in &recovered.repairs {
            tracing::warn!(dir = %dir.display(), repair, "mended the log");
        }
        tracing::info!(
            dir = %dir.display(),
            identity = %recovered.identity,
            last = ?recovered.log.last(),
            hard_state = ?recovered.hard_state,
            segments = found.len(),
            "opened the log"
        );
        Ok((wal, recovered))
    }
}

impl From<Failure> for OpenError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Corrupt(damage) => Self::Corrupt(damage),
            Failure::Newer { file, found } => Self::NewerFormat { file, found, known: FORMAT },
            Failure::Disk(error) => Self::Disk(error),
        }
    }
}

/// The copy of the meta file that counts, or why the log must not be opened.
pub(crate) fn identify<'a>(copies: &'a Copies, dir: &Path) -> Result<&'a Meta, OpenError> {
    if let Some((file, found)) = copies.newer(dir) {
        return Err(OpenError::NewerFormat { file, found, known: FORMAT });
    }
    copies.newest().ok_or_else(|| OpenError::IdentityLost {
        dir: dir.to_owned(),
        reason: copies.faults().join(", "),
    })
}

fn lock(disk: &dyn Disk, dir: &Path) -> Result<Option<Box<dyn DiskLock>>, DiskError> {
    let path = dir.join(LOCK_NAME);
    disk.lock(&path).map_err(|error| DiskError::new("lock", path, 0, error))
}

fn preparer(dir: &Path, options: &Options) -> Result<Preparer, DiskError> {
    Preparer::new(Arc::clone(&options.disk), dir, options.preparation)
        .map_err(|error| DiskError::new("start a thread for", dir, 0, error))
}

fn recovered(meta: &Meta, state: &State, repairs: Vec<String>) -> Recovered {
    Recovered {
        identity: meta.identity,
        hard_state: state.hard_state,
        log: state.log.clone(),
        membership: meta.membership.clone(),
        repairs,
    }
}

/// Whether a segment holds anything behind its header: a node whose log does may have voted.
pub(crate) fn holds_batches(disk: &dyn Disk, dir: &Path) -> Result<bool, DiskError> {
    let names = list_or_empty(disk, dir).map_err(|error| DiskError::new("list", dir, 0, error))?;
    let mut chunk = vec![0; CHUNK_BYTES as usize];
    for name in names.iter().filter(|name| name.ends_with(".wal")) {
        let path = dir.join(name);
        let mut offset = SECTOR_BYTES as u64;
        let failed = |error| DiskError::new("read", &path, offset, error);
        let file = disk.open(&path, Access::Read).map_err(failed)?;
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

/// Removes the space that was being prepared. It never held anything.
fn remove_next(disk: &dyn Disk, dir: &Path, names: &[String]) -> Result<(), DiskError> {
    match names.iter().any(|name| name == NEXT_NAME) {
        true => remove(disk, dir.join(NEXT_NAME)),
        false => Ok(()),
    }
}

fn remove(disk: &dyn Disk, path: PathBuf) -> Result<(), DiskError> {
    disk.remove(&path).map_err(|error| DiskError::new("remove", path, 0, error))
}

/// Writes the last batch again, as it is.
fn secure(last: &Found) -> Result<(), DiskError> {
    let segment = &*last.segment;
    let mut chunk = Vec::new();
    for (offset, length) in chunks(last.last_batch, last.end) {
        chunk.resize(length, 0);
        let read = read_full(&*segment.file, &mut chunk, offset)
            .map_err(|error| segment.error("read", offset, error))?;
        write_full(&*segment.file, &chunk[..read], offset)
            .map_err(|error| segment.error("write", offset, error))?;
    }
    Ok(())
}

/// Turns a torn tail into zeros again.
fn cut(last: &Found, tail: &Tail) -> Result<Option<String>, DiskError> {
    let Tail::Torn { first_sector, end_sector } = *tail else { return Ok(None) };
    let segment = &*last.segment;
    for (offset, length) in chunks(first_sector, end_sector) {
        write_full(&*segment.file, &vec![0; length], offset)
            .map_err(|error| segment.error("zero", offset, error))?;
    }
    let offset = first_sector * SECTOR_BYTES as u64;
    Ok(Some(format!(
        "{}: a batch that was never acknowledged was torn at byte {offset}, and is cut",
        segment.path.display()
    )))
}

/// The bytes of these sectors in pieces: offset and length.
fn chunks(first_sector: u64, end_sector: u64) -> impl Iterator<Item = (u64, usize)> {
    let (start, end) = (first_sector * SECTOR_BYTES as u64, end_sector * SECTOR_BYTES as u64);
    let starts = (start..end).step_by(CHUNK_BYTES as usize);
    starts.map(move |offset| (offset, CHUNK_BYTES.min(end - offset) as usize))
}
