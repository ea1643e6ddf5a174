//! What a log should hold: a log in memory, and the writes that a node in its state might make.

use std::sync::Arc;

use raft_core::{
    Entry, HardState, Index, LogPosition, LogReader, Membership, Payload, Saved, SnapshotMark,
    Term, TermRuns, Write,
};
use rand::{Rng, RngExt};

use super::writes::{command, entries, founders, mark, node};

/// So few that a read seldom gives all.
const READ_BYTES: usize = 3000;

/// A log in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Model {
    /// The newest hard state.
    pub hard_state: HardState,
    /// The end of the newest snapshot that was marked.
    pub snapshot: LogPosition,
    /// The place before the first entry.
    pub base: LogPosition,
    /// The members at the snapshot, or the founders, and then those in the log.
    pub memberships: Vec<(Index, Arc<Membership>)>,
    /// The entries behind the base.
    pub entries: Vec<Entry>,
}

impl Default for Model {
    fn default() -> Self {
        Self {
            hard_state: HardState::default(),
            snapshot: LogPosition::ZERO,
            base: LogPosition::ZERO,
            memberships: vec![(Index::ZERO, Arc::new(founders()))],
            entries: Vec::new(),
        }
    }
}

impl Model {
    /// What a store holds: what its recovery says, and every entry, read through its reader.
    ///
    /// # Errors
    /// An entry cannot be read, or the recovery says something else than the entries.
    pub fn read<R: LogReader>(saved: &Saved, reader: &R) -> Result<Self, String> {
        let (base, last) = (saved.log.base(), saved.log.last_index());
        let (mut entries, mut runs) = (Vec::new(), TermRuns::starting_after(base));
        while runs.last_index() < last {
            let (first, mut more) = (runs.last_index().next(), Vec::new());
            let read = reader.read(first, last, READ_BYTES, &mut more);
            read.map_err(|error| format!("entry {first} cannot be read: {error}"))?;
            if more.is_empty() {
                return Err(format!("entry {first} of {last} cannot be read: none was given"));
            }
            for entry in more {
                if entry.index != runs.last_index().next() || entry.term < runs.last().term {
                    let expected = runs.last_index().next();
                    return Err(format!("{:?} stands where {expected} is due", entry.position()));
                }
                runs.push(entry.index, entry.index, entry.term);
                entries.push(entry);
            }
        }
        if saved.log != runs {
            return Err(format!("the log is said to be {:?}, and is {runs:?}", saved.log));
        }
        Ok(Self {
            hard_state: saved.hard_state,
            snapshot: saved.snapshot,
            base,
            memberships: saved.memberships.clone(),
            entries,
        })
    }

    /// What the recovery of a store says that holds this.
    pub fn saved(&self) -> Saved {
        let mut log = TermRuns::starting_after(self.base);
        for entry in &self.entries {
            log.push(entry.index, entry.index, entry.term);
        }
        Saved {
            hard_state: self.hard_state,
            log,
            memberships: self.memberships.clone(),
            snapshot: self.snapshot,
            applied: Index::ZERO,
            claim: None,
        }
    }

    /// What a reader gives: from `first` to at most `last`, at least one, no more than fit in
    /// `bytes_max` beyond that; none where `first` lies before the first entry, or behind the last.
    pub fn between(&self, first: Index, last: Index, bytes_max: usize) -> &[Entry] {
        let Some(start) = first.0.checked_sub(self.base.index.0 + 1) else { return &[] };
        let rest = self.entries.get(start as usize..).unwrap_or_default();
        let wanted = rest.iter().take_while(|entry| entry.index <= last.max(first));
        let sizes = wanted.scan(0, |sum, entry| {
            *sum += entry.size_bytes();
            Some(*sum)
        });
        let fitting = sizes.take_while(|sum| *sum <= bytes_max).count();
        &rest[..fitting.max(1).min(rest.len())]
    }

    /// Takes a write.
    pub fn apply(&mut self, write: &Write) {
        if let Some(last) = write.truncate {
            self.entries.retain(|entry| entry.index <= last);
            self.memberships.retain(|(index, _)| *index <= last);
        }
        for entry in &*write.entries {
            self.entries.push(entry.clone());
            if let Payload::Membership(membership) = &entry.payload {
                self.memberships.push((entry.index, Arc::clone(membership)));
            }
        }
        self.hard_state = write.hard_state.unwrap_or(self.hard_state);
        let Some(mark) = &write.snapshot else { return };
        let SnapshotMark { snapshot, base } = &**mark;
        if self.term_at(base.index) == Some(base.term) {
            self.entries.retain(|entry| entry.index > base.index);
            self.memberships.retain(|(index, _)| *index > snapshot.membership_index);
        } else {
            self.entries.clear();
            self.memberships.clear();
        }
        let members = (snapshot.membership_index, Arc::clone(&snapshot.membership));
        self.memberships.insert(0, members);
        (self.base, self.snapshot) = (*base, snapshot.last);
    }

    /// The last index.
    pub fn last(&self) -> u64 {
        self.base.index.0 + self.entries.len() as u64
    }

    fn term_at(&self, index: Index) -> Option<Term> {
        let found = self.entries.iter().find(|entry| entry.index == index);
        let base = (self.base.index == index).then_some(self.base.term);
        found.map(|entry| entry.term).or(base)
    }

    /// The members in force at this index.
    pub fn members_at(&self, last: Index) -> (Index, Arc<Membership>) {
        let members = self.memberships.iter().rev().find(|(index, _)| *index <= last);
        members.cloned().unwrap_or_else(|| (Index::ZERO, Arc::new(founders())))
    }

    /// The logs that may be found after a crash in the middle of a call with these writes: after
    /// none of them, after the first, and so on.
    pub fn stages(&self, writes: &[Write]) -> Vec<Self> {
        let mut stages = vec![self.clone()];
        for write in writes {
            let mut next = stages[stages.len() - 1].clone();
            next.apply(write);
            stages.push(next);
        }
        stages
    }

    /// Some writes that a node in this state might make; the model takes them.
    pub fn step(&mut self, random: &mut impl Rng) -> Vec<Write> {
        let count = [1, 1, 1, 2, 4][random.random_range(0..5)];
        let mut writes = Vec::new();
        for _ in 0..count {
            let write = self.write(random);
            self.apply(&write);
            writes.push(write);
        }
        writes
    }

    fn write(&self, random: &mut impl Rng) -> Write {
        let term = self.hard_state.term.0;
        let mut write = entries([]);
        let kind = random.random_range(0..12);
        if kind >= 10 {
            return self.mark(random).unwrap_or(write);
        }
        if kind < 3 {
            write.hard_state = Some(self.promise(random));
        }
        let term = write.hard_state.map_or(term, |hard_state| hard_state.term.0).max(1);
        if kind == 0 {
            return write;
        }
        let mut last = self.last();
        if kind >= 8 {
            last = random.random_range(self.settled()..=last);
            write.truncate = Some(Index(last));
        }
        let count = random.random_range(u64::from(kind < 8)..4);
        write.entries = (1..=count).map(|next| entry(last + next, term, random)).collect();
        write
    }

    /// Up to here nothing is ever cut.
    fn settled(&self) -> u64 {
        self.hard_state.commit.max(self.snapshot.index).0
    }

    /// A snapshot of what was committed, with a tail of the log or without; or one from a leader,
    /// which goes beyond the log, or contradicts it.
    fn mark(&self, random: &mut impl Rng) -> Option<Write> {
        let position = |index| Some(LogPosition { term: self.term_at(index)?, index });
        if random.random_range(0..3) > 0 {
            let last = random.random_range(self.snapshot.index.0..=self.settled());
            let last = position(Index(last)).filter(|last| last.index > Index::ZERO)?;
            let base = position(Index(random.random_range(self.base.index.0..=last.index.0)))?;
            return Some(mark(last, base, self.members_at(last.index)));
        }
        let first = self.settled() + 1;
        let index = Index(random.random_range(first..=self.last().max(first) + 3));
        let term = self.hard_state.term.max(Term(1));
        let last = LogPosition { term, index };
        let members = Membership::new([1, 2, 3, 4].map(node)).expect("voters");
        let is_new = self.term_at(index) != Some(term);
        is_new.then(|| mark(last, last, (Index(index.0 - 1), Arc::new(members))))
    }

    fn promise(&self, random: &mut impl Rng) -> HardState {
        let HardState { term, vote, commit } = self.hard_state;
        let commit = Index(random.random_range(commit.0..=self.last()));
        match (random.random_range(0..3), vote) {
            (0, _) => HardState { term: term.next(), vote: None, commit },
            (1, None) => HardState { term: term.max(Term(1)), vote: Some(node(2)), commit },
            _ => HardState { term: term.next(), vote: Some(node(3)), commit },
        }
    }
}

/// An entry of a random size: none, small, over several sectors, or over a whole segment.
fn entry(index: u64, term: u64, random: &mut impl Rng) -> Entry {
    let size = match random.random_range(0..13) {
        12 => {
            let voters = (1..=random.random_range(1..6)).map(node);
            let payload = Payload::Membership(Arc::new(Membership::new(voters).expect("voters")));
            return Entry { index: Index(index), term: Term(term), payload };
        }
        0 => return Entry { index: Index(index), term: Term(term), payload: Payload::Empty },
        1..=7 => random.random_range(0..60),
        8..=10 => random.random_range(300..1600),
        _ => random.random_range(1600..6000),
    };
    // Half of them all zeros, so that a sector's worth of data is, too.
    let byte = if random.random() { 0 } else { random.random() };
    command(index, term, &vec![byte; size])
}
