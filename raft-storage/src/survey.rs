//! Looks behind the damage of a log: what is certain about its end.

use std::path::Path;
use std::sync::Arc;

use raft_core::{Index, LogPosition, TermRuns};

use crate::disk::{Access, Disk};
use crate::error::DiskError;
use crate::frame::{COMMIT_BYTES, Commit, Kind, Promise};
use crate::meta::Meta;
use crate::replay::{Found, Replay, read_steps};
use crate::sector::{DATA_BYTES, SECTOR_BYTES, Salt, SectorState, stamp_of};
use crate::segment::{Header, HeaderError, Segment, number_in};
use crate::state::{State, Step};
use crate::stream::{Stop, Stream};

/// What is known of the end of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ending {
    pub(crate) promise: Promise,
    /// Its last entry.
    pub(crate) last: LogPosition,
    /// The newest snapshot that is known to have been marked.
    pub(crate) snapshot: LogPosition,
    /// Up to where the intact beginning is not out of date.
    pub(crate) keep: Index,
}

impl Ending {
    /// Of a log that is whole.
    pub(crate) fn of(state: &State) -> Self {
        Self {
            promise: Promise::of(&state.hard_state),
            last: state.log.last(),
            snapshot: state.snapshot,
            keep: state.log.last_index(),
        }
    }
}

/// What is certain about the end of a log whose intact beginning is `state`; `None` where the end
/// itself is damaged, so that nobody can say what the node promised last.
pub(crate) fn ending(
    disk: &dyn Disk,
    dir: &Path,
    meta: &Meta,
    names: &[String],
    state: &State,
    found: &[Found],
) -> Result<Option<Ending>, DiskError> {
    let mut numbers: Vec<u64> = names.iter().filter_map(|name| number_in(name)).collect();
    numbers.sort_unstable();
    let broken = found.last().map_or(meta.first_segment, |found| found.segment.number);
    // A later segment says everything that came before it; if it and all after it are intact,
    // their end is the end of the log.
    for &first in numbers.iter().filter(|number| **number > broken) {
        let mut replay = Replay::new(disk, dir, meta, Access::Read).starting_with(first);
        match replay.run(names) {
            Ok(_) => {
                let keep = agreement(&state.log, &replay.state.log);
                return Ok(Some(Ending { keep, ..Ending::of(&replay.state) }));
            }
            Err(crate::replay::Failure::Disk(error)) => return Err(error),
            Err(_) => {}
        }
    }
    let Some(&newest) = numbers.last() else { return Ok(None) };
    if newest < meta.synced.segment {
        return Ok(None);
    }
    salvage(disk, dir, meta, names, newest, state, found)
}

/// Up to where two states of one log hold the same entries: as far as their terms agree (Raft
/// §5.3, Log Matching).
fn agreement(old: &TermRuns, new: &TermRuns) -> Index {
    let mut last = old.last_index().min(new.last_index());
    while last > old.base().index && old.term_at(last) != new.term_at(last) {
        last = last.prev();
    }
    last
}

/// Looks for whole batches behind the damage in the newest segment.
fn salvage(
    disk: &dyn Disk,
    dir: &Path,
    meta: &Meta,
    names: &[String],
    number: u64,
    state: &State,
    found: &[Found],
) -> Result<Option<Ending>, DiskError> {
    let Some(name) = names.iter().find(|name| number_in(name) == Some(number)) else {
        return Ok(None);
    };
    let path = dir.join(name);
    let failed = |error| DiskError::new("read", &path, 0, error);
    let file = disk.open(&path, Access::Read).map_err(failed)?;
    let length = file.len().map_err(failed)?;
    let (start, before) = match Header::read(&*file) {
        Ok((header, _)) if header.bytes != length => return Ok(None),
        Ok((header, start)) => (start, header.before.batch),
        Err(HeaderError::Disk(error)) => return Err(failed(error)),
        Err(HeaderError::Bad | HeaderError::Newer(_)) => (1, state.batch),
    };
    let salt = Salt::new(meta.identity.incarnation, number);
    let sectors = length / SECTOR_BYTES as u64;
    let segment = Arc::new(Segment { file, path: path.clone(), number, salt, start, sectors });
    let scan = match found.last() {
        // The batch that begins here is the one that is damaged.
        Some(found) if found.segment.number == number => {
            Scan::starting(found.end, state.batch + 1, Spare::Left)
        }
        Some(_) | None => Scan::starting(start, before, Spare::Used),
    };
    let is_same_segment = found.last().is_some_and(|found| found.segment.number == number);
    let scan = scan.run(&segment)?;
    if scan.is_untouched && is_same_segment && state.batch >= meta.synced.batch {
        // Where the next batch would begin there is nothing, and nothing of a batch behind it:
        // what is damaged was never used.
        return Ok(Some(Ending::of(state)));
    }
    let Some(whole) = scan.whole.filter(|whole| {
        scan.is_clean && whole.commit.batch >= meta.synced.batch && whole.commit.batch > state.batch
    }) else {
        return Ok(None);
    };
    let kept = match state.log.last() {
        // All entries of a term come from one leader, who never takes one back: they are only cut
        // for entries of a later term.
        last if last.term == whole.last.term => last.index,
        _ => state.hard_state.commit.max(state.snapshot.index).min(state.log.last_index()),
    };
    Ok(Some(Ending {
        promise: whole.commit.promise,
        last: whole.last,
        snapshot: scan.snapshot,
        keep: kept,
    }))
}

/// A batch that is whole.
#[derive(Clone, Copy, Debug)]
struct Whole {
    commit: Commit,
    last: LogPosition,
}

/// Whether one more sector that cannot be read may be taken for a part of the batch before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spare {
    Left,
    Used,
}

/// Goes over sectors and looks for whole batches. A batch is only looked for where one surely
/// begins: an entry may hold bytes that look like one.
struct Scan {
    sector: u64,
    /// The stamp of the batch that the sector before this one belongs to, where that is certain.
    previous: Option<u16>,
    spare: Spare,
    /// The newest one that was found.
    whole: Option<Whole>,
    snapshot: LogPosition,
    /// Behind the newest whole batch there is nothing, or a torn one.
    is_clean: bool,
    /// No batch begins at the start, and no sector behind it belongs to any.
    is_untouched: bool,
}

impl Scan {
    /// From this sector on, before which stands a sector of the batch `previous`.
    fn starting(sector: u64, previous: u64, spare: Spare) -> Self {
        Self {
            sector,
            previous: Some(stamp_of(previous)),
            spare,
            whole: None,
            snapshot: LogPosition::ZERO,
            is_clean: true,
            is_untouched: true,
        }
    }

    fn run(mut self, segment: &Segment) -> Result<Self, DiskError> {
        let mut stream = Stream::new(segment, 0);
        let first = self.sector;
        while self.sector < segment.sectors {
            let state = stream.state(self.sector)?;
            if self.sector == first && state != SectorState::Zero {
                self.is_untouched = false;
            }
            match state {
                SectorState::Written(stamp) => self.on_written(segment, stamp)?,
                SectorState::Zero => self.on_lost(),
                SectorState::Bad => {
                    self.on_lost();
                    self.is_clean = false;
                }
            }
        }
        Ok(self)
    }

    fn on_lost(&mut self) {
        match self.spare {
            Spare::Left => self.spare = Spare::Used,
            Spare::Used => self.previous = None,
        }
        self.sector += 1;
    }

    fn on_written(&mut self, segment: &Segment, stamp: u16) -> Result<(), DiskError> {
        self.is_untouched = false;
        if self.previous.is_some_and(|previous| previous != stamp) {
            if let Some((whole, snapshot, end)) = batch_at(segment, self.sector, stamp)? {
                self.snapshot = self.snapshot.max(snapshot);
                (self.whole, self.is_clean) = (Some(whole), true);
                (self.sector, self.previous, self.spare) = (end, Some(stamp), Spare::Used);
                return Ok(());
            }
            self.spare = Spare::Left;
        }
        // The batch that comes after a whole one may be torn.
        self.is_clean &= self.whole.is_some_and(|it| stamp == stamp_of(it.commit.batch + 1));
        self.previous = Some(stamp);
        self.sector += 1;
        Ok(())
    }
}

/// Reads the batch that begins at this sector: it, the newest snapshot that it marks, and the
/// sector behind it. `None` where it is not whole.
fn batch_at(
    segment: &Segment,
    sector: u64,
    stamp: u16,
) -> Result<Option<(Whole, LogPosition, u64)>, DiskError> {
    let mut stream = Stream::new(segment, sector * DATA_BYTES as u64);
    stream.demand(stamp);
    match read_batch(&mut stream) {
        Ok((whole, snapshot)) if stamp_of(whole.commit.batch) == stamp => {
            Ok(Some((whole, snapshot, stream.sector())))
        }
        Err(Stop::Disk(error)) => Err(error),
        Ok(_) | Err(_) => Ok(None),
    }
}

fn read_batch(stream: &mut Stream<'_>) -> Result<(Whole, LogPosition), Stop> {
    let (mut frames, mut steps, mut snapshot) = (0, Vec::new(), LogPosition::ZERO);
    loop {
        let (place, offset) = (stream.place(), stream.offset());
        let (frame, _) = stream.frame()?;
        if frame.kind == Kind::Commit {
            let commit = Commit::decode(&stream.fixed::<COMMIT_BYTES>(&frame)?);
            if commit.frames != frames {
                return Err(Stop::Bad { offset, reason: "the batch is not whole" });
            }
            stream.align();
            return Ok((Whole { commit, last: frame.position }, snapshot));
        }
        frames += 1;
        steps.clear();
        read_steps(stream, &frame, place, &mut steps)?;
        for step in &steps {
            if let Step::Mark(mark) = step {
                snapshot = snapshot.max(mark.snapshot.last);
            }
        }
    }
}
