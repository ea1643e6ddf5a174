//! Encodes what is handed together as one batch: whole sectors, ready for one write.

use std::sync::Arc;

use raft_core::{Entry, HardState, LogPosition, NodeId, Payload, SnapshotMark, Write, seeded};

use crate::check::link;
use crate::frame::{Commit, Frame, Kind, Promise, encode_mark};
use crate::sector::{DATA_BYTES, HEAD_BYTES, SECTOR_BYTES, Salt, seal, stamp_of};
use crate::state::{State, Step};

/// What the buffer keeps of its size after a large batch.
const KEPT_BYTES: usize = 4 << 20;

/// A buffer that is used again for every batch, so that the steady state allocates nothing.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    sectors: Vec<u8>,
    steps: Vec<Step>,
    frames: u32,
    chain: u32,
}

impl Batch {
    /// Encodes `writes` behind `state`, which takes every step of them. Without anything to
    /// write, the batch stays empty and the state as it is.
    ///
    /// # Panics
    /// When a write cannot follow what is in the log: that is a fault of the caller, and must
    /// not reach the disk.
    pub(crate) fn encode(&mut self, writes: &[Write], state: &mut State) {
        self.clear(state.chain);
        // Of several hard states that become durable together only the last one matters.
        let newest = writes.iter().rposition(|write| write.hard_state.is_some());
        let newest = newest.filter(|_| !seeded!(HardStateLost));
        for (number, write) in writes.iter().enumerate() {
            if let Some(last) = write.truncate.filter(|&last| last < state.log.last_index()) {
                let term = state.log.term_at(last).expect("a cut stays inside the log");
                self.truncate(LogPosition { term, index: last }, state);
            }
            for entry in &*write.entries {
                self.entry(entry, state);
            }
            if let Some(hard_state) = write.hard_state {
                take(state, &Step::HardState(hard_state));
                if newest == Some(number) {
                    self.hard_state(hard_state);
                }
            }
            if let Some(mark) = &write.snapshot {
                self.mark(mark, state);
            }
        }
        if self.frames > 0 {
            self.commit(state);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.frames == 0
    }

    /// How many sectors it takes.
    pub(crate) fn sectors(&self) -> u64 {
        (self.sectors.len() / SECTOR_BYTES) as u64
    }

    /// The steps that it makes; the places count from the batch's own start.
    pub(crate) fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Its bytes, for exactly this place.
    pub(crate) fn sealed(&mut self, salt: Salt, first_sector: u64, batch: u64) -> &[u8] {
        let stamp = stamp_of(batch);
        for (sector, bytes) in (first_sector..).zip(self.sectors.chunks_exact_mut(SECTOR_BYTES)) {
            seal(bytes, salt, sector, stamp);
        }
        &self.sectors
    }

    fn clear(&mut self, chain: u32) {
        if self.sectors.capacity() > KEPT_BYTES {
            self.sectors = Vec::new();
        }
        self.sectors.clear();
        self.steps.clear();
        (self.frames, self.chain) = (0, chain);
    }

    fn truncate(&mut self, last: LogPosition, state: &mut State) {
        let step = Step::Truncate(last);
        take(state, &step);
        self.steps.push(step);
        self.frame(Kind::Truncate, last, &[]);
    }

    fn entry(&mut self, entry: &Entry, state: &mut State) {
        let step = Step::Entry { position: entry.position(), place: self.place() };
        take(state, &step);
        self.steps.push(step);
        match &entry.payload {
            Payload::Empty => self.frame(Kind::EmptyEntry, entry.position(), &[]),
            Payload::Command(bytes) => self.frame(Kind::CommandEntry, entry.position(), bytes),
            Payload::Membership(membership) => {
                let step = Step::Members(Arc::clone(membership));
                take(state, &step);
                self.steps.push(step);
                self.frame(Kind::MembershipEntry, entry.position(), &membership.encode());
            }
        }
    }

    fn hard_state(&mut self, hard_state: HardState) {
        self.steps.push(Step::HardState(hard_state));
        let vote = hard_state.vote.map_or(0, NodeId::get).to_le_bytes();
        let position = LogPosition { term: hard_state.term, index: hard_state.commit };
        self.frame(Kind::HardState, position, &vote);
    }

    fn mark(&mut self, mark: &SnapshotMark, state: &mut State) {
        let step = Step::Mark(mark.clone());
        take(state, &step);
        self.steps.push(step);
        self.frame(Kind::Mark, mark.base, &encode_mark(&mark.snapshot));
    }

    /// Closes the batch: all of it counts, or nothing.
    fn commit(&mut self, state: &mut State) {
        let promise = Promise::of(&state.hard_state);
        let commit = Commit::linked(state.batch + 1, promise, self.frames, self.chain);
        self.frame(Kind::Commit, state.log.last(), &commit.encode());
        let padding = self.sectors.len().next_multiple_of(SECTOR_BYTES);
        self.sectors.resize(padding, 0);
        (state.batch, state.chain) = (commit.batch, commit.chain);
    }

    fn frame(&mut self, kind: Kind, position: LogPosition, payload: &[u8]) {
        let (header, check) = Frame::new(kind, position, payload).encode();
        self.chain = link(self.chain, check);
        self.frames += 1;
        self.put(&header);
        self.put(payload);
    }

    /// Where the next byte goes, in the stream that the sectors carry.
    fn place(&self) -> u64 {
        let (sector, offset) =
            (self.sectors.len() / SECTOR_BYTES, self.sectors.len() % SECTOR_BYTES);
        (sector * DATA_BYTES + offset.saturating_sub(HEAD_BYTES)) as u64
    }

    fn put(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let used = self.sectors.len() % SECTOR_BYTES;
            let room = if used == 0 {
                self.sectors.extend_from_slice(&[0; HEAD_BYTES]);
                DATA_BYTES
            } else {
                SECTOR_BYTES - used
            };
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.sectors.extend_from_slice(now);
            bytes = later;
        }
    }
}

fn take(state: &mut State, step: &Step) {
    if let Err(reason) = state.apply(step) {
        panic!("a write must follow what is in the log: {reason}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use raft_core::{Index, Membership, Term, Ticket};

    use crate::frame::HEADER_BYTES;

    fn state() -> State {
        State::founded(Arc::new(Membership::unknown()))
    }

    fn write(truncate: Option<u64>, lengths: &[usize], first: u64) -> Write {
        let entries = (first..).zip(lengths).map(|(index, length)| Entry {
            index: Index(index),
            term: Term(1),
            payload: Payload::Command(vec![7; *length].into()),
        });
        Write {
            ticket: Ticket(0),
            truncate: truncate.map(Index),
            entries: entries.collect::<Vec<_>>().into(),
            hard_state: None,
            snapshot: None,
        }
    }

    #[test]
    fn places_count_the_bytes_of_the_frames_before() {
        let (mut batch, lengths) = (Batch::default(), [10, DATA_BYTES, 1000, 3, 2000, 5]);
        batch.encode(&[write(None, &lengths, 1)], &mut state());
        let mut place = 0;
        for (step, length) in batch.steps().iter().zip(lengths) {
            let Step::Entry { place: found, .. } = step else { panic!("{step:?}") };
            assert_eq!(*found, place);
            place += (HEADER_BYTES + length) as u64;
        }
        assert_eq!(batch.steps().len(), lengths.len());
    }

    #[test]
    fn a_cut_behind_which_there_is_nothing_is_not_written() {
        let (mut batch, mut state) = (Batch::default(), state());
        batch.encode(&[write(None, &[1, 1], 1)], &mut state);
        for last in [2, 3] {
            batch.encode(&[write(Some(last), &[], 3)], &mut state);
            assert!(batch.is_empty(), "{last}");
        }
        batch.encode(&[write(Some(1), &[], 3)], &mut state);
        assert!(!batch.is_empty());
    }
}
