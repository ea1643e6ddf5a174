//! Where entries stand: one mark for each stretch of at most 64 KiB or so, never one for each
//! entry, so that ten gigabytes of log cost four megabytes of memory.
//!
//! A mark says "index `i` is at this place, and the entries after it follow, up to the next mark".
//! Whatever breaks a stretch (a cut, a new segment) makes the next entry start a new one, so that
//! a reader that walks along a stretch never meets an entry that was cut.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use raft_core::{Index, TermRuns};

use crate::segment::Segment;
use crate::state::Step;

/// How far a reader has to walk at most, in bytes of the stream.
const STRETCH_BYTES: u64 = 64 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark {
    first: Index,
    segment: u64,
    place: u64,
}

/// What the readers know of the log.
#[derive(Debug)]
pub(crate) struct Map {
    segments: BTreeMap<u64, Arc<Segment>>,
    marks: VecDeque<Mark>,
    /// The index before the first entry that is known to stand somewhere.
    base: Index,
    last: Index,
    /// How often the log was cut.
    cuts: u64,
    /// Whether the next entry has to start a stretch.
    broken: bool,
}

/// Consecutive entries, one frame after another.
#[derive(Clone, Debug)]
pub(crate) struct Stretch {
    pub(crate) segment: Arc<Segment>,
    /// Where the walk starts.
    pub(crate) place: u64,
    /// The last index of the stretch.
    pub(crate) last: Index,
    /// See [`Map::cuts`]: stretches of equal number belong to one log.
    pub(crate) cuts: u64,
}

impl Map {
    /// Of a log without entries, after `base`.
    pub(crate) fn starting_after(base: Index) -> Self {
        let (segments, marks) = (BTreeMap::new(), VecDeque::new());
        Self { segments, marks, base, last: base, cuts: 0, broken: true }
    }

    pub(crate) fn add_segment(&mut self, segment: Arc<Segment>) {
        self.segments.insert(segment.number, segment);
        self.broken = true;
    }

    /// Takes a step that was made durable; places count from `origin` in this segment. `log` is
    /// the log after it.
    pub(crate) fn apply(&mut self, step: &Step, segment: u64, origin: u64, log: &TermRuns) {
        match step {
            Step::Truncate(last) => self.truncate(last.index),
            Step::Entry { position, place } => {
                let mark = Mark { first: position.index, segment, place: origin + place };
                let goes_on = self
                    .marks
                    .back()
                    .is_some_and(|back| !self.broken && mark.place < back.place + STRETCH_BYTES);
                if !goes_on {
                    self.marks.push_back(mark);
                }
                (self.last, self.broken) = (position.index, false);
            }
            Step::Mark(_) => self.begin_after(log.base().index, log.last_index()),
            Step::Members(_) | Step::HardState(_) => {}
        }
    }

    fn truncate(&mut self, last: Index) {
        while self.marks.back().is_some_and(|mark| mark.first > last) {
            self.marks.pop_back();
        }
        (self.last, self.broken) = (last, true);
        // Where the log is read from its middle on, a cut may reach into what was not read.
        self.base = self.base.min(last);
        self.cuts += 1;
    }

    /// Forgets what lies up to `base`; all of it where the log ends there.
    fn begin_after(&mut self, base: Index, last: Index) {
        if last == base {
            self.marks.clear();
            (self.base, self.last, self.broken) = (base, last, true);
            self.cuts += 1;
            return;
        }
        self.base = self.base.max(base);
        while self.marks.get(1).is_some_and(|next| next.first <= self.base.next()) {
            self.marks.pop_front();
        }
    }

    /// Takes the segments before the one that the first entry stands in, oldest first; the newest
    /// one always stays.
    pub(crate) fn take_unused(&mut self) -> Vec<Arc<Segment>> {
        let newest = self.segments.last_key_value().map_or(0, |(number, _)| *number);
        let first = self.marks.front().map_or(newest, |mark| mark.segment);
        let used = self.segments.split_off(&first);
        std::mem::replace(&mut self.segments, used).into_values().collect()
    }

    /// The first segment of at least this number that gets no more batches.
    pub(crate) fn full_segment(&self, number: u64) -> Option<Arc<Segment>> {
        let newest = self.segments.last_key_value().map(|(newest, _)| *newest)?;
        let mut full = self.segments.range(number..newest.max(number));
        full.next().map(|(_, segment)| Arc::clone(segment))
    }

    /// The first and the last index.
    pub(crate) fn range(&self) -> (Index, Index) {
        (self.base.next(), self.last)
    }

    /// The stretch that holds `index`.
    pub(crate) fn stretch(&self, index: Index) -> Option<Stretch> {
        if index <= self.base || index > self.last {
            return None;
        }
        let after = self.marks.partition_point(|mark| mark.first <= index);
        let mark = self.marks.get(after.checked_sub(1)?)?;
        let last = self.marks.get(after).map_or(self.last, |next| next.first.prev());
        let segment = Arc::clone(self.segments.get(&mark.segment)?);
        Some(Stretch { segment, place: mark.place, last, cuts: self.cuts })
    }
}
