//! What becomes of a log, or of its snapshot, that is damaged.
//!
//! The log may have held acknowledged entries where the damage is now, so it is not enough to cut
//! it: as a voter this node would help to elect somebody who lacks them. But three things are
//! known of a log whose *end* is intact, and with them it can go on:
//! - its newest promise: each commit and each segment's header states term and vote anew;
//! - its last entry: the *claim*. Until the log reaches it again the node does not stand for
//!   election, and votes only for logs that reach as far; so whatever it acknowledged is counted
//!   as if it still had it, and its peers bring it back;
//! - which entries of its intact beginning are not out of date.
//!
//! Where the end of the log is damaged, the newest vote may be lost, and nothing can be done.
//!
//! ```text
//!   plan       claim and repair are written into the meta files: from here on they count
//!   carry out  cut:      later segments get another name, and this one a copy; what follows the
//!                        intact batches becomes zeros
//!              restart:  all segments get another name; a new one begins after the snapshot, or
//!                        with nothing
//!   settle     the promise and the snapshot are written into the log; the repair is done
//! ```
//!
//! Each step can be done again, and comes to the same: a repair that is cut short is begun anew.

use std::path::Path;
use std::sync::Arc;

use raft_core::{Claim, Entries, HardState, Index, LogPosition, LogStore, SnapshotMark};
use raft_core::{SnapshotSource, TermRuns, Ticket, Write, seeded};

use crate::disk::{Access, Disk, read_full, write_full};
use crate::error::{Damage, DiskError, OpenError, SnapshotError, WalError};
use crate::meta::{Meta, Repair, RepairKind, SyncMark};
use crate::open::{chunks, preparer, remove};
use crate::options::{OnDamage, Options};
use crate::reader::lock;
use crate::replay::Found;
use crate::sector::{SECTOR_BYTES, is_zero};
use crate::segment::{Header, header_bytes, number_in, publish};
use crate::snapshots::{SnapshotFile, Snapshots};
use crate::state::{State, Step};
use crate::survey::{self, Ending};
use crate::wal::Wal;

/// A copy that is being made of a damaged segment.
pub(crate) const COPY_NAME: &str = "damaged.tmp";

/// A damaged log, as far as it could be read.
#[derive(Debug)]
pub(crate) struct Broken {
    pub(crate) damage: Damage,
    /// Only the snapshot is damaged.
    pub(crate) is_log_whole: bool,
    /// The log before the damage.
    pub(crate) state: State,
    /// Its first entry that is there. Later than the log says, where the mark that let go of
    /// those before it stands behind the damage.
    pub(crate) first: Index,
    pub(crate) found: Vec<Found>,
    pub(crate) names: Vec<String>,
}

/// What is wrong with the snapshot that the log needs, if anything.
pub(crate) fn snapshot_damage(
    snapshots: &Snapshots,
    state: &State,
) -> Result<Option<Damage>, OpenError> {
    if state.snapshot == LogPosition::ZERO {
        return Ok(None);
    }
    let missing =
        |file, reason: String| Some(Damage { file, offset: 0, reason, intact: LogPosition::ZERO });
    match snapshots.at(state.snapshot) {
        Ok(_) => Ok(None),
        Err(SnapshotError::Damaged(damage)) => Ok(Some(damage)),
        Err(SnapshotError::Missing { file }) => {
            Ok(missing(file, "the snapshot that the log begins behind is missing".to_owned()))
        }
        Err(foreign @ SnapshotError::Foreign { .. }) => {
            let SnapshotError::Foreign { file, .. } = &foreign else { return Ok(None) };
            Ok(missing(file.clone(), foreign.to_string()))
        }
        Err(other) => Err(other.into()),
    }
}

/// Decides what becomes of a damaged log, and says it in words. Changes nothing but `meta`.
pub(crate) fn plan(
    meta: &mut Meta,
    broken: Broken,
    dir: &Path,
    options: &Options,
) -> Result<Vec<String>, OpenError> {
    let Broken { damage, is_log_whole, state, first, found, names } = broken;
    // A second damage, met while the first one is being repaired, is beyond this.
    if options.on_damage == OnDamage::Refuse || meta.repair.is_some() {
        return Err(OpenError::Corrupt(damage));
    }
    let ending = match is_log_whole {
        true => Some(Ending::of(&state)),
        false => survey::ending(&*options.disk, dir, meta, &names, &state, &found)?,
    };
    let Some(ending) = ending else { return Err(OpenError::PromiseLost(damage)) };

    // No two repairs begin in one generation.
    let number = meta.generation;
    let snapshots = Snapshots::new(Arc::clone(&options.disk), dir, meta.first_cluster_id);
    let snapshot = snapshots.newest_from(state.snapshot.max(ending.snapshot))?;
    let end = found.last().map(|found| (found.segment.number, found.end));
    let kind = match end {
        Some((segment, end)) if goes_on(&state, first, &ending, snapshot.as_ref()) => {
            meta.synced = SyncMark { batch: state.batch, segment };
            RepairKind::Cut { segment, end, keep: ending.keep }
        }
        Some(_) | None => {
            let newest = names.iter().filter_map(|name| number_in(name)).max();
            RepairKind::Restart { segment: newest.unwrap_or(0).max(meta.synced.segment) + 1 }
        }
    };
    let snapshot = snapshot.map(|source| source.snapshot().clone());
    // The log is known to have held this; an older claim may reach further still.
    let claim = meta.claim.map_or(ending.last, |claim| claim.last.max(ending.last));
    let words = words(&damage, kind, claim, snapshot.as_ref().map(|it| it.last));
    meta.claim = (!seeded!(DamageTakenForAbsence)).then_some(Claim { last: claim });
    meta.repair = Some(Repair { number, kind, promise: ending.promise, snapshot });
    Ok(vec![words])
}

/// Whether the intact beginning of the log is of use, together with the snapshot there is.
fn goes_on(state: &State, first: Index, ending: &Ending, snapshot: Option<&SnapshotFile>) -> bool {
    match snapshot.map(|source| source.snapshot().last) {
        Some(last) => {
            (first.prev()..=ending.keep).contains(&last.index)
                && state.log.term_at(last.index) == Some(last.term)
        }
        // Unless the log begins behind a snapshot that there is no more.
        None => {
            state.snapshot.max(ending.snapshot) == LogPosition::ZERO
                && first == state.log.base().index.next()
        }
    }
}

fn words(
    damage: &Damage,
    kind: RepairKind,
    claim: LogPosition,
    snapshot: Option<LogPosition>,
) -> String {
    let goes_on = match (kind, snapshot) {
        (RepairKind::Cut { keep, .. }, _) => format!("goes on from index {keep}"),
        (RepairKind::Restart { .. }, Some(last)) => format!("goes on from the snapshot {last:?}"),
        (RepairKind::Restart { .. }, None) => "begins anew, with nothing".to_owned(),
    };
    let Damage { file, offset, reason, .. } = damage;
    format!(
        "{} is damaged at byte {offset}: {reason}. What is damaged was set aside (*.damaged); the \
         log held entries up to {claim:?} and {goes_on}; until it reaches as far again, this node \
         does not stand for election and votes only for logs that do",
        file.display()
    )
}

/// Does what was planned, up to where the log can be read again.
pub(crate) fn carry_out(meta: &mut Meta, dir: &Path, options: &Options) -> Result<(), DiskError> {
    let Some(repair) = meta.repair.clone() else { return Ok(()) };
    let disk = &*options.disk;
    let listed = disk.list(dir).map_err(|error| DiskError::new("list", dir, 0, error))?;
    let mut segments: Vec<(u64, String)> =
        listed.into_iter().filter_map(|name| Some((number_in(&name)?, name))).collect();
    segments.sort_unstable();
    segments.retain(|(number, _)| *number >= meta.first_segment);
    Snapshots::new(Arc::clone(&options.disk), dir, meta.first_cluster_id).set_unsound_aside()?;
    match repair.kind {
        RepairKind::Cut { segment, end, .. } => {
            // A first try may have gone on into a new segment.
            meta.synced.segment = segment;
            for (number, name) in segments.iter().rev() {
                if *number > segment {
                    set_aside(disk, dir, name, repair.number)?;
                } else if *number == segment {
                    cut(disk, dir, name, end, repair.number)?;
                }
            }
            disk.sync_dir(dir).map_err(|error| DiskError::new("sync", dir, 0, error))
        }
        RepairKind::Restart { segment } => {
            for (number, name) in &segments {
                match *number < segment {
                    true => set_aside(disk, dir, name, repair.number)?,
                    // Made by this repair, before it was cut short.
                    false => remove(disk, dir.join(name))?,
                }
            }
            disk.sync_dir(dir).map_err(|error| DiskError::new("sync", dir, 0, error))?;
            restart(meta, &repair, segment, dir, options)
        }
    }
}

fn aside(name: &str, number: u64) -> String {
    format!("{name}.{number:x}.damaged")
}

/// Gives a segment a name that does not count.
fn set_aside(disk: &dyn Disk, dir: &Path, name: &str, number: u64) -> Result<(), DiskError> {
    let (source, target) = (dir.join(name), dir.join(aside(name, number)));
    match disk.open(&target, Access::Read) {
        // This one was made by the repair itself, before it was cut short.
        Ok(_) => remove(disk, source),
        Err(_) => disk
            .rename(&source, &target)
            .map_err(|error| DiskError::new("rename", source, 0, error)),
    }
}

/// Turns what follows the intact batches into zeros; first makes a copy of the segment.
fn cut(disk: &dyn Disk, dir: &Path, name: &str, end: u64, number: u64) -> Result<(), DiskError> {
    let (path, target) = (dir.join(name), dir.join(aside(name, number)));
    let error = |verb, offset| {
        let path = path.clone();
        move |error| DiskError::new(verb, path, offset, error)
    };
    let file = disk.open(&path, Access::ReadWrite).map_err(error("open", 0))?;
    let sectors = file.len().map_err(error("read", 0))? / SECTOR_BYTES as u64;
    let mut chunk = Vec::new();
    // A copy that is there already is of what stood here before the first try.
    if disk.open(&target, Access::Read).is_err() {
        let copy = disk.create(&dir.join(COPY_NAME)).map_err(error("copy", 0))?;
        for (offset, length) in chunks(0, sectors) {
            chunk.resize(length, 0);
            let read = read_full(&*file, &mut chunk, offset).map_err(error("read", offset))?;
            write_full(&*copy, &chunk[..read], offset).map_err(error("copy", offset))?;
        }
        copy.sync_data().map_err(error("copy", 0))?;
        disk.rename(&dir.join(COPY_NAME), &target).map_err(error("copy", 0))?;
        disk.sync_dir(dir).map_err(|error| DiskError::new("sync", dir, 0, error))?;
    }
    for (offset, length) in chunks(end, sectors) {
        chunk.resize(length, 0);
        let read = read_full(&*file, &mut chunk, offset).map_err(error("read", offset))?;
        if !chunk[..read].chunks(SECTOR_BYTES).all(is_zero) {
            chunk.fill(0);
            write_full(&*file, &chunk[..read], offset).map_err(error("zero", offset))?;
        }
    }
    file.sync_data().map_err(error("sync", 0))
}

/// Begins a log anew, after the snapshot or with nothing. That ends the repair.
fn restart(
    meta: &mut Meta,
    repair: &Repair,
    number: u64,
    dir: &Path,
    options: &Options,
) -> Result<(), DiskError> {
    let mut before = State::founded(Arc::clone(&meta.founders));
    if let Some(snapshot) = &repair.snapshot {
        before.log = TermRuns::starting_after(snapshot.last);
        before.snapshot = snapshot.last;
        let members = (snapshot.membership_index, Arc::clone(&snapshot.membership));
        before.memberships = vec![members];
    }
    let commit = before.snapshot.index;
    before.hard_state = HardState { term: repair.promise.term, vote: repair.promise.vote, commit };
    let space = preparer(dir, options)?.take(header_bytes(&before), options.first_bytes())?;
    let header = Header { identity: meta.first_identity(), number, bytes: space.bytes, before };
    publish(&*options.disk, dir, space, &header)?;
    (meta.first_segment, meta.repair) = (number, None);
    meta.synced = SyncMark { batch: 0, segment: number };
    meta.generation += 1;
    meta.write(&*options.disk, dir)
}

impl Wal {
    /// Writes what a repair knows and the intact beginning of the log does not say.
    pub(crate) fn persist_repair(&mut self, repair: &Repair) -> Result<(), WalError> {
        let RepairKind::Cut { keep, .. } = repair.kind else { return Ok(()) };
        let old = self.state.hard_state;
        // A later commit index may belong to entries that are not these.
        let hard_state = HardState { term: repair.promise.term, vote: repair.promise.vote, ..old };
        // The log may begin later than it knows.
        let base = lock(&self.map).range().0.prev();
        let base = self.state.log.term_at(base).map(|term| LogPosition { term, index: base });
        let base = base.unwrap_or(self.state.log.base());
        let is_new = |last| last != self.state.snapshot || base != self.state.log.base();
        let snapshot = repair.snapshot.clone().filter(|snapshot| is_new(snapshot.last));
        let mark = snapshot.map(|snapshot| SnapshotMark { snapshot, base });
        // What was planned on has to be here still; a log that nobody wrote may hold less.
        if let Err(reason) = fits(self.state.clone(), keep, mark.as_ref()) {
            let (file, intact) = (self.segment.path.clone(), self.state.log.last());
            return Err(Damage { file, offset: 0, reason, intact }.into());
        }
        self.persist(&[Write {
            ticket: Ticket(0),
            truncate: Some(keep),
            entries: Entries::EMPTY,
            hard_state: (hard_state != old).then_some(hard_state),
            snapshot: mark.map(Box::new),
        }])
    }
}

/// Whether a log can be cut after `keep`, where it goes on beyond that, and then be marked.
fn fits(mut state: State, keep: Index, mark: Option<&SnapshotMark>) -> Result<(), String> {
    if keep < state.log.last_index()
        && let Some(term) = state.log.term_at(keep)
    {
        state.apply(&Step::Truncate(LogPosition { term, index: keep }))?;
    }
    mark.map_or(Ok(()), |mark| state.apply(&Step::Mark(mark.clone())))
}
