//! Opens a log: the only code that decides what a directory is.
//!
//! Opening changes nothing before everything is verified. Then, in this order: the last batch is
//! written again as it is, because it may never have been synced, or the kernel may have dropped
//! its pages after a failed sync and show them nevertheless; what is torn becomes zeros again;
//! both are synced; only then do the meta files say that everything is, and what does not count
//! any more is removed: segments before the base, snapshots that no mark names.
//!
//! Where something is damaged, the repair is planned, written into the meta files and carried out
//! (see `repair.rs`); then everything is verified from the start.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use raft_core::{Claim, HardState, Index, LogPosition, Membership, Saved, TermRuns, seeded};

use crate::batch::Batch;
use crate::disk::{Access, Disk, DiskLock, read_full, write_full};
use crate::error::{DiskError, OpenError, SnapshotError, WalError};
use crate::map::Map;
use crate::meta::{Copies, Meta, SyncMark};
use crate::options::{Identity, Options, Owner, StateKept};
use crate::preamble::FORMAT;
use crate::prepare::Preparer;
use crate::repair::{self, Broken};
use crate::replay::{Failure, Found, Replay, Tail};
use crate::sector::SECTOR_BYTES;
use crate::segment::{NEXT_NAME, Segment, number_in};
use crate::snapshots::Snapshots;
use crate::state::State;
use crate::wal::Wal;

const LOCK_NAME: &str = "LOCK";
/// How much is looked at, written again or zeroed at once.
pub(crate) const CHUNK_BYTES: u64 = 256 << 10;

/// What a log held when it was opened: all of [`Saved`] except what was applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// Whose log it is.
    pub identity: Identity,
    /// Whom the log was made with; nobody on a node that joined later.
    pub founders: Membership,
    /// The newest hard state.
    pub hard_state: HardState,
    /// The terms of the log.
    pub log: TermRuns,
    /// The members at the snapshot, or the founders, and then those in the log.
    pub memberships: Vec<(Index, Arc<Membership>)>,
    /// The end of the newest snapshot that was marked; zero where there is none.
    pub snapshot: LogPosition,
    /// What the log held before it was damaged, where it does not hold as much again yet.
    pub claim: Option<Claim>,
    /// What had to be mended, for people to read.
    pub repairs: Vec<String>,
}

impl Recovered {
    pub(crate) fn of(wal: &Wal, repairs: Vec<String>) -> Self {
        let State { log, hard_state, snapshot, memberships, .. } = wal.state.clone();
        Self {
            identity: wal.meta.identity,
            founders: (*wal.meta.founders).clone(),
            hard_state,
            log,
            memberships,
            snapshot,
            claim: wal.meta.claim,
            repairs,
        }
    }

    /// With what the state machine says it holds, the state to restore a core from.
    pub fn into_saved(self, applied: Index) -> Saved {
        let Self { hard_state, log, memberships, snapshot, claim, .. } = self;
        Saved { hard_state, log, memberships, snapshot, applied, claim }
    }
}

/// What a log is put together from.
pub(crate) struct Opening {
    pub(crate) preparer: Preparer,
    pub(crate) meta: Meta,
    pub(crate) state: State,
    pub(crate) map: Map,
    pub(crate) segment: Arc<Segment>,
    pub(crate) end: u64,
    pub(crate) lock: Box<dyn DiskLock>,
}

impl Opening {
    pub(crate) fn wal(self, dir: &Path, options: &Options) -> Wal {
        let Self { preparer, meta, state, map, segment, end, lock } = self;
        let disk = &options.disk;
        let mut wal = Wal {
            preparer,
            disk: Arc::clone(disk),
            dir: dir.to_owned(),
            segment_bytes: options.segment_bytes,
            next_bytes: options.segment_bytes,
            snapshots: Snapshots::new(Arc::clone(disk), dir, meta.first_cluster_id),
            meta,
            ahead: state.clone(),
            state,
            map: Arc::new(Mutex::new(map)),
            segment,
            end,
            batch: Batch::default(),
            meter: Arc::default(),
            checking: false,
            poison: None,
            _lock: lock,
        };
        wal.prepare_next(wal.segment.bytes());
        wal
    }
}

impl Wal {
    /// Opens the log of `owner` and verifies every byte of it. What is given back is durable.
    ///
    /// A damaged log is repaired, where its promises are certain: what is damaged gets another
    /// name (`*.damaged`), the intact beginning goes on, and [`Recovered::claim`] says what the log
    /// held. The claim stays until the log reaches it again. A snapshot that is damaged or missing
    /// counts as damage of the log that begins behind it.
    ///
    /// # Errors
    /// See [`OpenError`]. Except when the disk fails, nothing was changed.
    pub fn open(
        dir: &Path,
        owner: Owner,
        options: &Options,
    ) -> Result<(Self, Recovered), OpenError> {
        Self::open_checked(dir, options, |found| match found.owner() {
            found if found == owner || seeded!(OwnerNotChecked) => Ok(()),
            found => Err(OpenError::WrongOwner { dir: dir.to_owned(), found, expected: owner }),
        })
    }

    /// Opens the log where `check` is content with whose it is.
    pub(crate) fn open_checked(
        dir: &Path,
        options: &Options,
        check: impl FnOnce(Identity) -> Result<(), OpenError>,
    ) -> Result<(Self, Recovered), OpenError> {
        options.validate()?;
        let disk = &*options.disk;
        if !Self::exists(dir, options)? {
            return Err(OpenError::Absent { dir: dir.to_owned() });
        }
        let lock = lock(disk, dir)?.ok_or_else(|| OpenError::Locked { dir: dir.to_owned() })?;
        let copies = Copies::read(disk, dir)?;
        let mut meta = identify(&copies, dir)?.clone();
        check(meta.identity)?;

        let mut repairs = copies.faults();
        let stale = !repairs.is_empty();
        let mut is_planned = false;
        let (found, state, map) = loop {
            if meta.repair.is_some() {
                repair::carry_out(&mut meta, dir, options)?;
            }
            let broken = match verify(&meta, dir, options)? {
                Ok(verified) => break verified,
                Err(broken) => broken,
            };
            // One repair is enough, or the disk is worse than that.
            if is_planned {
                return Err(OpenError::Corrupt(broken.damage));
            }
            is_planned = true;
            repairs.extend(repair::plan(&mut meta, *broken, dir, options)?);
            meta.generation += 1;
            meta.write(disk, dir)?;
        };
        let Sound { found, tail, names } = found;
        let last = found.last().expect("a log has a segment, or the replay fails");
        secure(last)?;
        repairs.extend(cut(last, &tail)?);
        last.segment.file.sync_data().map_err(|error| last.segment.error("sync", 0, error))?;
        remove_unused(&meta, dir, options, &names)?;

        let (segment, end) = (Arc::clone(&last.segment), last.end);
        let preparer = preparer(dir, options)?;
        let mut wal = Opening { preparer, meta, state, map, segment, end, lock }.wal(dir, options);
        wal.settle(stale)?;
        wal.snapshots.keep_only(wal.state.snapshot)?;
        for repair in &repairs {
            tracing::warn!(dir = %dir.display(), repair, "mended the log");
        }
        let recovered = Recovered::of(&wal, repairs);
        tracing::info!(
            dir = %dir.display(),
            identity = %recovered.identity,
            last = ?recovered.log.last(),
            snapshot = ?recovered.snapshot,
            hard_state = ?recovered.hard_state,
            claim = ?recovered.claim,
            segments = found.len(),
            "opened the log"
        );
        Ok((wal, recovered))
    }

    /// Ends a repair, and makes the meta files say what is so.
    fn settle(&mut self, mut stale: bool) -> Result<(), OpenError> {
        if let Some(repair) = self.meta.repair.clone() {
            self.persist_repair(&repair)?;
            self.meta.repair = None;
            stale = true;
        }
        if self.meta.claim.is_some_and(|claim| self.state.log.last() >= claim.last) {
            self.meta.claim = None;
            stale = true;
        }
        let synced = SyncMark { batch: self.state.batch, segment: self.segment.number };
        if self.meta.synced != synced || stale {
            self.mark_synced()?;
        }
        Ok(self.forget_segments()?)
    }
}

/// A log that is as it should be.
struct Sound {
    found: Vec<Found>,
    tail: Tail,
    names: Vec<String>,
}

/// Reads everything that the meta file speaks of, the snapshot's blocks excepted.
#[expect(clippy::type_complexity, reason = "an error that is repaired, inside one that is not")]
fn verify(
    meta: &Meta,
    dir: &Path,
    options: &Options,
) -> Result<Result<(Sound, State, Map), Box<Broken>>, OpenError> {
    let disk = &*options.disk;
    let names = disk.list(dir).map_err(|error| DiskError::new("list", dir, 0, error))?;
    let mut replay = Replay::new(disk, dir, meta, Access::ReadWrite);
    let run = replay.run(&names);
    let Replay { state, map, found, .. } = replay;
    let first = map.range().0;
    let broken = match run {
        Ok(tail) => {
            let snapshots = Snapshots::new(Arc::clone(&options.disk), dir, meta.first_cluster_id);
            // Which snapshot it is, a repair says at its end.
            let snapshot_damage = match (&meta.repair, options.state_kept) {
                (Some(_), _) | (None, StateKept::Elsewhere) => None,
                (None, StateKept::InSnapshot) => repair::snapshot_damage(&snapshots, &state)?,
            };
            match snapshot_damage {
                None => return Ok(Ok((Sound { found, tail, names }, state, map))),
                Some(damage) => Broken { damage, is_log_whole: true, state, first, found, names },
            }
        }
        Err(Failure::Corrupt(_)) if seeded!(DamageTakenForTorn) && !found.is_empty() => {
            let end = found.last().map_or((0, 0), |last| (last.end, last.segment.sectors));
            let tail = Tail::Torn { first_sector: end.0, end_sector: end.1 };
            return Ok(Ok((Sound { found, tail, names }, state, map)));
        }
        Err(Failure::Corrupt(damage)) => {
            Broken { damage, is_log_whole: false, state, first, found, names }
        }
        Err(other) => return Err(other.into()),
    };
    Ok(Err(Box::new(broken)))
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

impl From<SnapshotError> for OpenError {
    fn from(error: SnapshotError) -> Self {
        match error {
            SnapshotError::Disk(error) => Self::Disk(error),
            other => Self::Snapshot(other),
        }
    }
}

impl From<WalError> for OpenError {
    fn from(error: WalError) -> Self {
        match error {
            WalError::Disk(error) => Self::Disk(error),
            WalError::Corrupt(damage) => Self::Corrupt(damage),
            WalError::Snapshot(error) => error.into(),
            WalError::Absent { .. } => unreachable!("nothing is read by its index here"),
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

pub(crate) fn lock(disk: &dyn Disk, dir: &Path) -> Result<Option<Box<dyn DiskLock>>, DiskError> {
    let path = dir.join(LOCK_NAME);
    disk.lock(&path).map_err(|error| DiskError::new("lock", path, 0, error))
}

pub(crate) fn preparer(dir: &Path, options: &Options) -> Result<Preparer, DiskError> {
    Preparer::new(Arc::clone(&options.disk), dir, options.preparation)
        .map_err(|error| DiskError::new("start a thread for", dir, 0, error))
}

/// Removes what does not count: the space that was being prepared, and segments before the base,
/// oldest first.
fn remove_unused(
    meta: &Meta,
    dir: &Path,
    options: &Options,
    names: &[String],
) -> Result<(), DiskError> {
    let is_old = |name: &&String| number_in(name).is_some_and(|it| it < meta.first_segment);
    let mut unused: Vec<&String> = names.iter().filter(is_old).collect();
    unused.sort_unstable();
    unused.extend(names.iter().filter(|name| *name == NEXT_NAME || *name == repair::COPY_NAME));
    for name in unused {
        remove(&*options.disk, dir.join(name))?;
    }
    options.disk.sync_dir(dir).map_err(|error| DiskError::new("sync", dir, 0, error))
}

pub(crate) fn remove(disk: &dyn Disk, path: PathBuf) -> Result<(), DiskError> {
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
    if seeded!(TornTailKept) {
        return Ok(None);
    }
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
pub(crate) fn chunks(first_sector: u64, end_sector: u64) -> impl Iterator<Item = (u64, usize)> {
    let (start, end) = (first_sector * SECTOR_BYTES as u64, end_sector * SECTOR_BYTES as u64);
    let starts = (start..end).step_by(CHUNK_BYTES as usize);
    starts.map(move |offset| (offset, CHUNK_BYTES.min(end - offset) as usize))
}
