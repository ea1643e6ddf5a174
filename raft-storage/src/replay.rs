//! Reads a whole log in the order in which it was written, every cut included, and tells a torn
//! tail from corruption.
//!
//! # Torn or corrupt
//!
//! A batch is synced before it is acknowledged and before the next one is written. So only the
//! last batch can be torn, and when it is torn then nobody was told that it is there. What was
//! being written when the power went is, sector by sector, there or zeros (see `sector.rs`).
//!
//! The tail is *torn*, and will be cut, when all of this holds:
//! 1. it starts where the last complete batch ends, in the last segment;
//! 2. from there to the end of the file every sector is zeros, or is valid, in its place and
//!    stamped with the number of the batch that comes next;
//! 3. a sector that the batch needs is zeros;
//! 4. the sync mark in the meta file does not cover that batch.
//!
//! Everything else is *corruption*: a sector that is neither zeros nor valid (a changed byte), a
//! valid sector of any other batch behind a hole (a later batch means that the hole was synced
//! once), a segment that is missing, shorter or longer than it says, or out of line with the one
//! before it, a log that ends before its sync mark.
//!
//! One thing nobody can decide: whole sectors that turn into zeros inside the very last batch,
//! after it was synced, when the log was not closed and no later batch or segment followed. That
//! looks exactly like a write that the power cut. A disk that loses the last write after it said
//! "synced" can do that; one that changes bits cannot.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use raft_core::{
    HardState, Index, LogPosition, Membership, MembershipDecodeError, NodeId, SnapshotMark, seeded,
};

use crate::check::link;
use crate::disk::{Access, Disk};
use crate::error::{Damage, DiskError};
use crate::frame::{COMMIT_BYTES, Commit, Frame, Kind, Promise, VOTE_BYTES, decode_mark, u64_at};
use crate::map::Map;
use crate::meta::Meta;
use crate::preamble::FORMAT;
use crate::sector::{DATA_BYTES, SECTOR_BYTES, Salt, SectorState, stamp_of};
use crate::segment::{Header, HeaderError, Segment, number_in};
use crate::state::{State, Step};
use crate::stream::{Stop, Stream};

/// Why the replay stopped.
#[derive(Debug)]
pub(crate) enum Failure {
    Corrupt(Damage),
    Newer { file: PathBuf, found: u32 },
    Disk(DiskError),
}

/// How the log ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Tail {
    /// Behind the last batch there is nothing.
    Clean,
    /// Behind the last batch stand parts of one that was never acknowledged, in these sectors.
    Torn { first_sector: u64, end_sector: u64 },
}

/// One segment, as far as it was read.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) segment: Arc<Segment>,
    pub(crate) batches: u64,
    pub(crate) entries: u64,
    /// The positions of its first entry and of its last one, in the order of the file.
    pub(crate) span: Option<(LogPosition, LogPosition)>,
    /// Where its last batch starts, and the sector behind it.
    pub(crate) last_batch: u64,
    pub(crate) end: u64,
}

/// What has been read so far. It stays what it is where the log is damaged.
#[derive(Debug)]
pub(crate) struct Replay<'a> {
    disk: &'a dyn Disk,
    dir: &'a Path,
    meta: &'a Meta,
    access: Access,
    /// The segment to begin with.
    first: u64,
    pub(crate) state: State,
    pub(crate) map: Map,
    pub(crate) found: Vec<Found>,
    steps: Vec<Step>,
}

impl<'a> Replay<'a> {
    pub(crate) fn new(disk: &'a dyn Disk, dir: &'a Path, meta: &'a Meta, access: Access) -> Self {
        Self {
            disk,
            dir,
            meta,
            access,
            first: meta.first_segment,
            state: State::founded(Arc::clone(&meta.founders)),
            map: Map::starting_after(Index::ZERO),
            found: Vec::new(),
            steps: Vec::new(),
        }
    }

    /// Begins with a later segment, as if those before it were not needed.
    pub(crate) fn starting_with(mut self, first: u64) -> Self {
        self.first = first;
        self
    }

    /// Reads the segments among `names`, all of them.
    pub(crate) fn run(&mut self, names: &[String]) -> Result<Tail, Failure> {
        let mut segments: Vec<(u64, &str)> = Vec::new();
        for name in names.iter().filter(|name| name.ends_with(".wal")) {
            let number = number_in(name)
                .ok_or_else(|| self.damage(self.dir.join(name), 0, "no segment has this name"))?;
            segments.push((number, name));
        }
        segments.sort_unstable();
        segments.retain(|(number, _)| *number >= self.first);

        let mut tail = Tail::Clean;
        let mut next = self.first;
        let last = segments.last().map_or(0, |&(number, _)| number).max(self.meta.synced.segment);
        for (number, name) in segments {
            if number != next {
                let reason = format!("segment {next:016x} is missing");
                return Err(self.damage(self.dir.join(name), 0, reason));
            }
            self.open(number, name)?;
            tail = self.segment(number == last)?;
            next += 1;
        }
        if next <= last || self.found.is_empty() {
            let reason = format!("segment {next:016x} is missing");
            return Err(self.damage(self.dir.to_owned(), 0, reason));
        }
        self.reaches_sync_mark()?;
        self.begins_in_time()?;
        Ok(tail)
    }

    /// Opens a segment and compares what its header says with what came before it.
    fn open(&mut self, number: u64, name: &str) -> Result<(), Failure> {
        let path = self.dir.join(name);
        let failed = |error| Failure::Disk(DiskError::new("read", &path, 0, error));
        let file = self.disk.open(&path, self.access).map_err(failed)?;
        let (header, start) = match Header::read(&*file) {
            Ok(read) => read,
            Err(HeaderError::Newer(found)) => return Err(Failure::Newer { file: path, found }),
            Err(HeaderError::Disk(error)) => return Err(failed(error)),
            Err(HeaderError::Bad) => {
                return Err(self.damage(path, 0, "the header of the segment is wrong"));
            }
        };
        let length = file.len().map_err(failed)?;
        if self.found.is_empty() {
            // The oldest segment says what the log starts with.
            self.state = header.before.clone();
            self.map = Map::starting_after(self.state.log.last_index());
        }
        let (identity, before) = (self.meta.first_identity(), self.state.clone());
        let expected = Header { identity, number, bytes: length, before };
        if header != expected || header.file_name() != name {
            let reason = mismatch(&header, &expected, name);
            return Err(self.damage(path, 0, reason));
        }
        let salt = Salt::new(header.identity.incarnation, number);
        let sectors = length / SECTOR_BYTES as u64;
        let segment = Arc::new(Segment { file, path, number, salt, start, sectors });
        self.map.add_segment(Arc::clone(&segment));
        let (batches, entries, span) = (0, 0, None);
        self.found.push(Found { segment, batches, entries, span, last_batch: start, end: start });
        Ok(())
    }

    /// Reads the batches of the segment that was opened last.
    fn segment(&mut self, is_last: bool) -> Result<Tail, Failure> {
        let segment = Arc::clone(&self.newest().segment);
        let mut stream = Stream::new(&segment, segment.start * DATA_BYTES as u64);
        let mut complete = true;
        while complete && stream.sector() < segment.sectors {
            let start = stream.sector();
            complete = match self.batch(&mut stream) {
                Ok(()) => true,
                Err(Stop::Hole { .. }) => {
                    let steps = self.steps.iter().filter(|_| seeded!(TornBatchTaken));
                    steps.for_each(|step| drop(self.state.apply(step)));
                    false
                }
                Err(stop) => return Err(self.failure(&segment, stop)),
            };
            if complete {
                let found = self.newest();
                found.batches += 1;
                (found.last_batch, found.end) = (start, stream.sector());
            }
        }
        self.tail(&segment, &mut stream, is_last)
    }

    /// Reads one batch and takes its steps; takes none where it is not whole and sound.
    fn batch(&mut self, stream: &mut Stream<'_>) -> Result<(), Stop> {
        let (first_offset, number) = (stream.offset(), self.state.batch + 1);
        stream.demand(stamp_of(number));
        self.steps.clear();
        let (mut chain, mut frames) = (self.state.chain, 0);
        loop {
            let (place, offset) = (stream.place(), stream.offset());
            let (frame, check) = stream.frame()?;
            if frame.kind == Kind::Commit {
                let commit = Commit::decode(&stream.fixed::<COMMIT_BYTES>(&frame)?);
                if commit != Commit::linked(number, commit.promise, frames, chain) {
                    let reason = "the commit record does not fit what came before it";
                    return Err(Stop::Bad { offset, reason });
                }
                stream.align();
                return self.take(&frame, commit, first_offset);
            }
            chain = link(chain, check);
            frames += 1;
            read_steps(stream, &frame, place, &mut self.steps)?;
        }
    }

    /// Lets the log take a whole batch.
    fn take(&mut self, frame: &Frame, commit: Commit, offset: u64) -> Result<(), Stop> {
        let Some(found) = self.found.last_mut() else { return Ok(()) };
        // A batch of valid records that the log cannot take was written by a faulty writer.
        let reason = "the records of the batch contradict the log before them";
        for step in &self.steps {
            self.state.apply(step).map_err(|_| Stop::Bad { offset, reason })?;
            self.map.apply(step, found.segment.number, 0, &self.state.log);
            if let Step::Entry { position, .. } = *step {
                found.entries += 1;
                found.span = Some((found.span.map_or(position, |(first, _)| first), position));
            }
        }
        if self.state.log.last() != frame.position
            || Promise::of(&self.state.hard_state) != commit.promise
        {
            return Err(Stop::Bad { offset, reason });
        }
        (self.state.batch, self.state.chain) = (commit.batch, commit.chain);
        Ok(())
    }

    /// Looks at everything behind the last complete batch of a segment.
    fn tail(
        &mut self,
        segment: &Segment,
        stream: &mut Stream<'_>,
        is_last: bool,
    ) -> Result<Tail, Failure> {
        let (start, stamp) = (self.newest().end, stamp_of(self.state.batch + 1));
        let mut torn: Option<(u64, u64)> = None;
        for sector in start..segment.sectors {
            let reason = match stream.state(sector).map_err(Failure::Disk)? {
                SectorState::Zero => continue,
                SectorState::Written(found) if found == stamp && is_last => {
                    let first_sector = torn.map_or(sector, |(first, _)| first);
                    torn = Some((first_sector, sector + 1));
                    continue;
                }
                SectorState::Written(found) if found == stamp => {
                    "a batch is not whole, and a later segment follows"
                }
                SectorState::Written(_) => "a later batch stands behind one that is not whole",
                SectorState::Bad => "the sector is not what was written",
            };
            return Err(self.damage(segment.path.clone(), sector * SECTOR_BYTES as u64, reason));
        }
        Ok(torn.map_or(Tail::Clean, |(first_sector, end_sector)| Tail::Torn {
            first_sector,
            end_sector,
        }))
    }

    fn reaches_sync_mark(&self) -> Result<(), Failure> {
        let (batch, synced) = (self.state.batch, self.meta.synced.batch);
        match self.found.last() {
            Some(found) if batch < synced => {
                let offset = found.end * SECTOR_BYTES as u64;
                let reason = format!("the log ends with batch {batch}, but was synced to {synced}");
                Err(self.damage(found.segment.path.clone(), offset, reason))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Whether the entries behind the base are there, now that older segments are gone.
    fn begins_in_time(&self) -> Result<(), Failure> {
        let (base, first) = (self.state.log.base().index, self.map.range().0);
        // A repair that is under way moves the base at its end.
        let is_all = self.first == self.meta.first_segment && self.meta.repair.is_none();
        match self.found.first() {
            Some(found) if is_all && first != base.next() => {
                let reason = format!("the log begins after {base}, but its first entry is {first}");
                Err(self.damage(found.segment.path.clone(), 0, reason))
            }
            Some(_) | None => Ok(()),
        }
    }

    fn newest(&mut self) -> &mut Found {
        self.found.last_mut().expect("a segment was opened")
    }

    fn failure(&self, segment: &Segment, stop: Stop) -> Failure {
        match stop {
            Stop::Hole { offset } => self.damage(segment.path.clone(), offset, "nothing is there"),
            Stop::Bad { offset, reason } => self.damage(segment.path.clone(), offset, reason),
            Stop::Newer => Failure::Newer { file: segment.path.clone(), found: FORMAT + 1 },
            Stop::Disk(error) => Failure::Disk(error),
        }
    }

    fn damage(&self, file: PathBuf, offset: u64, reason: impl Into<String>) -> Failure {
        let (reason, intact) = (reason.into(), self.state.log.last());
        Failure::Corrupt(Damage { file, offset, reason, intact })
    }
}

/// Reads the payload of a frame and says what it means.
pub(crate) fn read_steps(
    stream: &mut Stream<'_>,
    frame: &Frame,
    place: u64,
    steps: &mut Vec<Step>,
) -> Result<(), Stop> {
    let offset = stream.offset();
    let malformed = Stop::Bad { offset, reason: "a record holds no members, though it should" };
    let position = frame.position;
    match frame.kind {
        Kind::EmptyEntry | Kind::CommandEntry => {
            stream.payload(frame, |_| {})?;
            steps.push(Step::Entry { position, place });
        }
        Kind::MembershipEntry => {
            let membership =
                Membership::decode(&stream.bytes(frame)?).map_err(unreadable(offset))?;
            steps.push(Step::Entry { position, place });
            steps.push(Step::Members(Arc::new(membership)));
        }
        Kind::HardState => {
            let vote = NodeId::new(u64_at(&stream.fixed::<VOTE_BYTES>(frame)?, 0));
            let LogPosition { term, index: commit } = position;
            steps.push(Step::HardState(HardState { term, vote, commit }));
        }
        Kind::Mark => {
            let snapshot = decode_mark(&stream.bytes(frame)?).ok_or(malformed)?;
            let snapshot = snapshot.map_err(unreadable(offset))?;
            steps.push(Step::Mark(SnapshotMark { snapshot, base: position }));
        }
        Kind::Truncate | Kind::Commit => {
            stream.payload(frame, |_| {})?;
            if !seeded!(CutNotReplayed) {
                steps.push(Step::Truncate(position));
            }
        }
    }
    Ok(())
}

/// The checksums hold, so these members were written so.
fn unreadable(offset: u64) -> impl FnOnce(MembershipDecodeError) -> Stop {
    move |error| match error {
        MembershipDecodeError::Newer { .. } => Stop::Newer,
        MembershipDecodeError::Malformed => {
            Stop::Bad { offset, reason: "the members in a record cannot be read" }
        }
    }
}

fn mismatch(header: &Header, expected: &Header, name: &str) -> String {
    if header.identity != expected.identity {
        return format!("the segment belongs to another log, {}", header.identity);
    }
    if header.bytes != expected.bytes {
        let (found, right) = (expected.bytes, header.bytes);
        return format!("the segment has {found} bytes, but was made with {right}");
    }
    if header.number != expected.number || header.file_name() != name {
        return format!("the segment was called {}", header.file_name());
    }
    let (found, right) = (&header.before, &expected.before);
    format!("the segment follows {found:?}, but what stands before it is {right:?}")
}
