//! What a log should hold, and the only helpers that touch the API of the log.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use raft_core::{
    Entry, HardState, Index, LogPosition, LogReader, LogStore, Membership, NodeId, Payload,
    Snapshot, SnapshotMark, SnapshotStore, Term, TermRuns, Ticket, Write,
};
use raft_storage::{
    Disk, Identity, OnDamage, OpenError, Options, Owner, Preparation, Recovered, Wal, WalError,
};
use raft_testkit::disk::SimDisk;
use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

pub const DIR: &str = "/data/wal";

pub fn dir() -> &'static Path {
    Path::new(DIR)
}

pub fn node(id: u64) -> NodeId {
    NodeId::new(id).expect("not zero")
}

pub fn identity() -> Identity {
    Identity { cluster_id: 0xc1, node_id: node(1), incarnation: 0xd15c }
}

pub fn owner() -> Owner {
    identity().owner()
}

pub fn voters() -> Membership {
    Membership::new([1, 2, 3].map(node)).expect("voters")
}

/// Segments as small as they can be, so that everything rotates often.
pub fn options(disk: &SimDisk) -> Options {
    Options {
        segment_bytes: Options::SEGMENT_BYTES_MIN,
        preparation: Preparation::Inline,
        ..Options::on(Arc::new(disk.clone()) as Arc<dyn Disk>)
    }
}

pub fn create(disk: &SimDisk) -> Wal {
    Wal::create(dir(), identity(), &voters(), &options(disk)).expect("a new log").0
}

pub fn try_open(disk: &SimDisk) -> Result<(Wal, Recovered), OpenError> {
    Wal::open(dir(), owner(), &options(disk))
}

/// Opens it, and changes nothing where it is damaged.
pub fn open_strictly(disk: &SimDisk) -> Result<(Wal, Recovered), OpenError> {
    let options = Options { on_damage: OnDamage::Refuse, ..options(disk) };
    Wal::open(dir(), owner(), &options)
}

pub fn open(disk: &SimDisk) -> (Wal, Model) {
    let (wal, recovered) = try_open(disk).unwrap_or_else(|error| panic!("cannot open: {error}"));
    let model = Model::of(&wal, &recovered);
    (wal, model)
}

pub fn random(seed: u64) -> Pcg64Mcg {
    Pcg64Mcg::seed_from_u64(seed)
}

pub fn command(index: u64, term: u64, payload: &[u8]) -> Entry {
    let payload = Payload::Command(Bytes::copy_from_slice(payload));
    Entry { index: Index(index), term: Term(term), payload }
}

pub fn entries(write: impl IntoIterator<Item = Entry>) -> Write {
    Write {
        ticket: Ticket(0),
        truncate: None,
        entries: write.into_iter().collect(),
        hard_state: None,
        snapshot: None,
    }
}

pub fn hard(term: u64, vote: Option<u64>, commit: u64) -> Write {
    let hard_state = HardState { term: Term(term), vote: vote.map(node), commit: Index(commit) };
    Write { hard_state: Some(hard_state), ..entries([]) }
}

pub fn at(index: u64, term: u64) -> LogPosition {
    LogPosition { term: Term(term), index: Index(index) }
}

/// A mark; its members are those that the model has there, for what matters.
pub fn mark(last: LogPosition, base: LogPosition, members: (Index, Arc<Membership>)) -> Write {
    let (membership_index, membership) = members;
    let snapshot = Snapshot { last, membership, membership_index };
    Write { snapshot: Some(SnapshotMark { snapshot, base }), ..entries([]) }
}

/// What a state machine has at this place, for want of one.
pub fn body(last: LogPosition) -> Vec<u8> {
    format!("the state after {last:?}").repeat(40).into_bytes()
}

/// Makes a snapshot durable, as a node does before it marks it.
pub fn publish(wal: &Wal, snapshot: &Snapshot) {
    let mut sink = wal.snapshots().build(snapshot).expect("a healthy disk");
    sink.write(&body(snapshot.last)).expect("a healthy disk");
    sink.publish().expect("a healthy disk");
}

/// Writes, with what belongs before it and after it: snapshots before their marks, and old ones
/// are removed once the new ones are marked.
pub fn persist(wal: &mut Wal, writes: &[Write]) -> Result<(), WalError> {
    let marks = || writes.iter().filter_map(|write| write.snapshot.as_ref());
    marks().for_each(|mark| publish(wal, &mark.snapshot));
    wal.persist(writes)?;
    if let Some(mark) = marks().next_back() {
        wal.snapshots().retain(mark.snapshot.last).expect("a healthy disk");
    }
    Ok(())
}

/// A log in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Model {
    pub hard_state: HardState,
    pub snapshot: LogPosition,
    pub base: LogPosition,
    pub memberships: Vec<(Index, Arc<Membership>)>,
    pub entries: Vec<Entry>,
}

impl Default for Model {
    fn default() -> Self {
        Self {
            hard_state: HardState::default(),
            snapshot: LogPosition::ZERO,
            base: LogPosition::ZERO,
            memberships: vec![(Index::ZERO, Arc::new(voters()))],
            entries: Vec::new(),
        }
    }
}

impl Model {
    /// What a log holds, read entry by entry, and compared with what the recovery said.
    pub fn of(wal: &Wal, recovered: &Recovered) -> Self {
        let (base, last) = (recovered.log.base(), recovered.log.last_index());
        let mut entries = Vec::new();
        while base.index.0 + (entries.len() as u64) < last.0 {
            let first = Index(base.index.0 + entries.len() as u64 + 1);
            wal.reader().read(first, last, 3000, &mut entries).expect("entries that are there");
        }
        let mut runs = TermRuns::starting_after(base);
        for entry in &entries {
            runs.push(entry.index, entry.index, entry.term);
        }
        assert_eq!(recovered.log, runs, "the terms are those of the entries");
        assert_eq!((recovered.identity, &recovered.founders), (identity(), &voters()));
        wal.reader().read(base.index, last, 1, &mut entries.clone()).expect("no error");
        let newest = wal.snapshots().newest().expect("a healthy disk");
        let newest = newest.map(|source| {
            let mut bytes = vec![0; source.len_bytes() as usize];
            assert_eq!(source.read_at(0, &mut bytes).expect("sound blocks"), bytes.len());
            assert_eq!(bytes, body(source.snapshot().last));
            source.snapshot().last
        });
        assert_eq!(newest.unwrap_or(LogPosition::ZERO), recovered.snapshot, "the one that counts");
        Self {
            hard_state: recovered.hard_state,
            snapshot: recovered.snapshot,
            base,
            memberships: recovered.memberships.clone(),
            entries,
        }
    }

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
        let Some(SnapshotMark { snapshot, base }) = &write.snapshot else { return };
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
        members.cloned().unwrap_or_else(|| (Index::ZERO, Arc::new(voters())))
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
