//! Crashes at every point of a flush and of a sweep. What is on disk afterwards, with the rest of
//! the log applied again, is what a store that never crashed has.

use std::path::Path;
use std::sync::Arc;

use kontiki::{Entry, Index, Term};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;

use super::random::is_valid;
use super::requests::{Asked, action};
use super::{Fixture, command, compact, directory, lazy, put};
use crate::proto::kontiki::command::Action;
use crate::store::base::Base;
use crate::store::flush::{flush, write_index, write_revisions};
use crate::store::format::Revision;
use crate::store::state::State;
use crate::store::tables::Tables;
use crate::store::{Response, StateHash, Store, StoreError, apply, sweep};

/// A log of random commands, some of them refused, and what becomes of it without a crash.
pub(super) struct Story {
    pub log: Vec<Entry>,
    answers: Vec<Response>,
    pub hash: StateHash,
}

impl Story {
    pub fn new(seed: u64, len: usize) -> Self {
        let mut runner = TestRunner::new_with_rng(
            Default::default(),
            proptest::test_runner::TestRng::from_seed(
                proptest::test_runner::RngAlgorithm::ChaCha,
                &std::array::from_fn::<u8, 32, _>(|place| seed.to_le_bytes()[place % 8]),
            ),
        );
        let actions = action(Asked::Model);
        let mut fixture = Fixture::new(lazy());
        while fixture.log.len() < len {
            let action = actions.new_tree(&mut runner).expect("a strategy").current();
            if is_valid(&action) {
                fixture.apply(vec![action]);
            }
        }
        let hash = fixture.reader().hash(None).expect("the store works");
        Self { log: fixture.log, answers: fixture.answers, hash }
    }

    /// Opens a store that crashed, applies what it lacks, and compares.
    fn ends_well(&self, path: &Path) {
        let (mut store, reader) = Store::open(path, &lazy()).expect("it opens");
        let applied = usize::try_from(store.applied().0).expect("small");
        assert_eq!(store.durable_applied(), store.applied(), "what is read is on disk");
        let mut answers = Vec::new();
        store.apply(&self.log[applied..], &mut answers).expect("the store works");
        assert_eq!(answers[..], self.answers[applied..]);
        assert_eq!(reader.hash(None).expect("the store works"), self.hash);
    }
}

/// The parts of a store without its thread.
struct Bare {
    directory: tempfile::TempDir,
    state: State,
}

impl Bare {
    fn new() -> Self {
        let directory = directory();
        let state = open(directory.path());
        Self { directory, state }
    }

    fn tables(&self) -> Tables {
        self.state.base.tables.clone()
    }

    fn apply(&mut self, log: &[Entry]) {
        for entry in log {
            apply::apply(&mut self.state, entry).expect("the store works");
        }
    }

    fn flush(&mut self) {
        self.state.freeze();
        let frozen = self.state.frozen.take().expect("it was frozen");
        self.state.base = Arc::new(flush(&self.state.base, &frozen).expect("the store works"));
    }

    fn sweep(&mut self, changes_max: usize) {
        let swept = sweep::step(&self.state.base, changes_max).expect("the store works");
        self.state.base = Arc::new(swept);
    }

    /// Closes the store as it is on disk.
    fn crash(self) -> tempfile::TempDir {
        self.directory
    }
}

fn open(path: &Path) -> State {
    let tables = Tables::open(path, 1 << 20).expect("it opens");
    State::new(Base::read(tables).expect("it can be read")).expect("it can be read")
}

#[test]
fn a_crash_after_any_flush_loses_only_what_is_applied_again() {
    let story = Story::new(1, 60);
    for crash_at in 0..=60 {
        let mut bare = Bare::new();
        bare.apply(&story.log[..crash_at / 2]);
        bare.flush();
        bare.apply(&story.log[crash_at / 2..crash_at]);
        bare.flush();
        bare.apply(&story.log[crash_at..]);
        story.ends_well(bare.crash().path());
    }
}

#[test]
fn a_crash_between_the_tables_of_a_flush_shows_nothing_of_it() {
    let story = Story::new(2, 60);
    for crash_at in 0..60 {
        for tables in 1..=2 {
            let mut bare = Bare::new();
            bare.apply(&story.log[..crash_at]);
            bare.flush();
            bare.apply(&story.log[crash_at..]);
            write_revisions(&bare.tables(), &bare.state.active).expect("the store works");
            if tables == 2 {
                write_index(&bare.tables(), &bare.state.active, bare.state.mark.compacted)
                    .expect("the store works");
            }
            let directory = bare.crash();

            let mut before = Bare::new();
            before.apply(&story.log[..crash_at]);
            let after = open(directory.path());
            for at in 1..=after.mark.revision {
                for key in [&b"a"[..], b"b", b"c", b"ab", b"a\0", b"\0", b"\xff"] {
                    let (found, expected) = (after.find(key, at), before.state.find(key, at));
                    let shown = |found: Result<_, StoreError>| {
                        let found: Option<crate::store::format::Version> = found.expect("works");
                        found.map(|found| (found.create, found.modified, found.version))
                    };
                    assert_eq!(shown(found), shown(expected), "{key:?} at {at}");
                }
            }
            let changes = after.base.changes(Revision::NONE);
            let changes = changes.map(|change| change.expect("it reads").at.main);
            assert!(changes.max().unwrap_or(0) <= after.mark.revision);
            drop(after);
            story.ends_well(directory.path());
        }
    }
}

#[test]
fn a_sweep_goes_on_after_a_crash_at_any_step_and_leaves_what_compaction_keeps() {
    let mut story = Story::new(3, 80);
    // Delete, compact exactly there, and once more later.
    let mut fixture = Fixture::new(lazy());
    fixture.apply(vec![Action::Put(put("a", "1")), Action::Put(put("b", "1"))]);
    for _ in 0..20 {
        fixture.apply(vec![Action::Put(put("a", "2")), Action::Put(put("c", "2"))]);
    }
    fixture.apply(vec![Action::DeleteRange(super::delete("a", "c"))]);
    let deleted = fixture.reader().revision();
    fixture.apply(vec![compact(deleted)]);
    let hash = fixture.reader().hash(None).expect("the store works");
    (story.log, story.answers, story.hash) = (fixture.log, fixture.answers, hash);

    for steps in 0..40 {
        let mut bare = Bare::new();
        bare.apply(&story.log);
        bare.flush();
        for _ in 0..steps {
            if sweep::is_due(&bare.state.base) {
                bare.sweep(2);
            }
        }
        let directory = bare.crash();
        story.ends_well(directory.path());

        let mut again = Bare { state: open(directory.path()), directory };
        again.flush();
        while sweep::is_due(&again.state.base) {
            again.sweep(3);
        }
        // Of `a` and `b` their deletions, of `c` its newest version.
        let rows = |base: &Base| base.changes(Revision::NONE).count();
        assert_eq!(rows(&again.state.base), 3);
        // The next compaction lets the deletions go.
        let next = Entry {
            index: Index(story.log.len() as u64 + 1),
            term: Term(1),
            payload: command(Action::Put(put("d", "1"))),
        };
        let last = Entry {
            index: Index(story.log.len() as u64 + 2),
            term: Term(1),
            payload: command(compact(deleted + 1)),
        };
        again.apply(&[next, last]);
        again.flush();
        while sweep::is_due(&again.state.base) {
            again.sweep(2);
        }
        assert_eq!(rows(&again.state.base), 2, "c and d");
        let snapshot = &again.state.base.snapshot;
        assert_eq!(fjall::Readable::iter(snapshot, &again.tables().index).count(), 0);
        assert_eq!(again.state.base.upkeep.kept_bytes, kept(&again.state.base));
    }
}

/// What the versions on disk take, counted.
fn kept(base: &Base) -> u64 {
    let changes = base.changes(Revision::NONE);
    changes.map(|change| change.expect("it reads").kept_bytes()).sum()
}

#[test]
fn random_stories_end_well_after_flushes_sweeps_and_crashes_anywhere() {
    for seed in 10..40 {
        let story = Story::new(seed, 70);
        let mut bare = Bare::new();
        for (place, entry) in story.log.iter().enumerate() {
            bare.apply(std::slice::from_ref(entry));
            let dice = (seed + place as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 60;
            match dice {
                0 | 1 => bare.flush(),
                2 | 3 if sweep::is_due(&bare.state.base) => bare.sweep(3),
                4 => {
                    let directory = bare.crash();
                    let state = open(directory.path());
                    let applied = usize::try_from(state.mark.applied.0).expect("small");
                    bare = Bare { state, directory };
                    bare.apply(&story.log[applied..=place]);
                }
                _ => {}
            }
        }
        story.ends_well(bare.crash().path());
    }
}
