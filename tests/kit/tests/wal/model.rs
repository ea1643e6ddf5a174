//! What a log should hold, and the only helpers that touch the API of the log.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use raft_core::{
    Entry, HardState, Index, LogPosition, LogReader, LogStore, Membership, NodeId, Payload, Term,
    TermRuns, Ticket, Write,
};
use raft_storage::{Disk, Identity, OpenError, Options, Owner, Preparation, Recovered, Wal};
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

/// A log in memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Model {
    pub hard_state: HardState,
    pub entries: Vec<Entry>,
}

impl Model {
    /// What a log holds, read entry by entry, and compared with what the recovery said.
    pub fn of(wal: &Wal, recovered: &Recovered) -> Self {
        let last = recovered.log.last_index();
        let mut entries = Vec::new();
        while entries.len() < last.0 as usize {
            let first = Index(entries.len() as u64 + 1);
            wal.reader().read(first, last, 3000, &mut entries).expect("entries that are there");
        }
        let mut runs = TermRuns::starting_after(LogPosition::ZERO);
        for entry in &entries {
            runs.push(entry.index, entry.index, entry.term);
        }
        assert_eq!(recovered.log, runs, "the terms are those of the entries");
        assert_eq!((recovered.identity, &recovered.membership), (identity(), &voters()));
        Self { hard_state: recovered.hard_state, entries }
    }

    pub fn apply(&mut self, write: &Write) {
        if let Some(last) = write.truncate {
            self.entries.truncate(last.0 as usize);
        }
        self.entries.extend(write.entries.iter().cloned());
        self.hard_state = write.hard_state.unwrap_or(self.hard_state);
    }

    pub fn last(&self) -> u64 {
        self.entries.len() as u64
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
        let kind = random.random_range(0..10);
        if kind < 3 {
            write.hard_state = Some(self.promise(random));
        }
        let term = write.hard_state.map_or(term, |hard_state| hard_state.term.0).max(1);
        if kind == 0 {
            return write;
        }
        let mut last = self.last();
        if kind >= 8 {
            last = random.random_range(self.hard_state.commit.0..=last);
            write.truncate = Some(Index(last));
        }
        let count = random.random_range(u64::from(kind < 8)..4);
        write.entries = (1..=count).map(|next| entry(last + next, term, random)).collect();
        write
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
    let size = match random.random_range(0..12) {
        0 => return Entry { index: Index(index), term: Term(term), payload: Payload::Empty },
        1..=7 => random.random_range(0..60),
        8..=10 => random.random_range(300..1600),
        _ => random.random_range(1600..6000),
    };
    // Half of them all zeros, so that a sector's worth of data is, too.
    let byte = if random.random() { 0 } else { random.random() };
    command(index, term, &vec![byte; size])
}
