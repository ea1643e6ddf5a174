//! Snapshots of the store beside the model, with everything going on that may; restored over other
//! data, broken in the middle, and damaged.

use std::io::{self, Read};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fjall::Readable;
use kontiki::{Entry, Index, Membership, Payload, Term};
use proptest::collection::vec;
use proptest::prelude::*;

use super::crash::Story;
use super::model::Model;
use super::random::{events, is_valid, refused};
use super::requests::{Asked, action};
use super::{Fixture, bytes, compact, delete, directory, eager, lazy, put, range};
use crate::proto::etcdserverpb::RangeRequest;
use crate::proto::etcdserverpb::request_op::Request;
use crate::proto::kontiki::SetMember;
use crate::proto::kontiki::command::Action;
use crate::store::error::SnapshotError;
use crate::store::snapshot::{Incoming, load};
use crate::store::tables::Tables;
use crate::store::{
    KvError, Options, Progress, RevisionBump, SnapshotStatus, StateHash, Store, StoreError,
    StoreReader, snapshot_status,
};

#[derive(Clone, Debug)]
enum Step {
    Apply(Vec<Action>),
    Snapshot,
    Flush,
    Crash,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => vec(action(Asked::Model), 1..6).prop_map(Step::Apply),
        3 => Just(Step::Snapshot),
        1 => Just(Step::Flush),
        1 => Just(Step::Crash),
    ]
}

/// How long a test waits for what should come at once.
const PATIENCE: Duration = Duration::from_secs(20);

fn wait_for_sweep(reader: &StoreReader, compacted: i64) {
    let deadline = Instant::now() + PATIENCE;
    while reader.progress().borrow().swept < compacted {
        assert!(Instant::now() < deadline, "nothing is swept");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn read(mut snapshot: impl Read) -> Vec<u8> {
    let mut bytes = Vec::new();
    snapshot.read_to_end(&mut bytes).expect("the store works");
    bytes
}

fn everything(revision: i64) -> RangeRequest {
    RangeRequest { revision, ..range("\0", "\0") }
}

/// Whether the store shows what the model has, at every revision that is kept.
fn shows(reader: &StoreReader, model: &Model) -> Result<(), TestCaseError> {
    prop_assert_eq!(reader.revision(), model.revision());
    for revision in 0..=model.revision() + 1 {
        let request = everything(revision);
        prop_assert_eq!(refused(reader.range(&request)), model.range(&request));
        prop_assert_eq!(events(reader, revision), model.events(revision));
    }
    Ok(())
}

/// Takes snapshots and reads them only when everything else has happened. One store that lags
/// behind is brought up by each of them in turn.
fn run(steps: Vec<Step>) -> Result<(), TestCaseError> {
    let (mut model, mut fixture) = (Model::new(), Fixture::new(eager()));
    let mut taken: Vec<(Model, usize, StateHash, Box<dyn Read + Send>)> = Vec::new();
    for step in steps {
        match step {
            Step::Apply(mut actions) => {
                actions.retain(is_valid);
                actions.iter().for_each(|action| drop(model.apply(action)));
                fixture.apply(actions);
            }
            Step::Snapshot => {
                let snapshot = fixture.store().snapshot().expect("the store works");
                let hash = fixture.reader().hash(None).expect("the store works");
                taken.push((model.clone(), fixture.log.len(), hash, snapshot));
            }
            Step::Flush => fixture.store().flush().expect("the store works"),
            // A snapshot that is being read holds on to the tables, so that the store cannot be
            // opened again before.
            Step::Crash if taken.is_empty() => fixture.crash(),
            Step::Crash => {}
        }
    }
    let mut behind = Fixture::new(eager());
    if !taken.is_empty() {
        behind.put("z", "something else");
    }
    for (model, len, hash, snapshot) in taken {
        let bytes = read(snapshot);
        let applied = Index(len as u64);
        behind.store().restore(applied, &mut &bytes[..]).expect("a good snapshot");
        prop_assert_eq!(behind.store().applied(), applied);
        prop_assert_eq!(behind.store().durable_applied(), applied);
        shows(behind.reader(), &model)?;
        // It is on disk, and goes on from there.
        behind.log = fixture.log[..len].to_vec();
        behind.answers = fixture.answers[..len].to_vec();
        behind.crash();
        shows(behind.reader(), &model)?;
        prop_assert_eq!(refused(behind.reader().hash(None)), Ok(hash));
        prop_assert_eq!(read(behind.store().snapshot().expect("the store works")), bytes);
    }
    let (rest, mut answers) = (behind.log.len(), Vec::new());
    behind.store().apply(&fixture.log[rest..], &mut answers).expect("the store works");
    prop_assert_eq!(&answers[..], &fixture.answers[rest..]);
    shows(behind.reader(), &model)?;
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20, ..ProptestConfig::default() })]

    #[test]
    fn a_snapshot_is_the_state_at_its_index_whatever_happens_while_it_is_read(
        steps in vec(step(), 1..40),
    ) {
        run(steps)?;
    }
}

#[test]
fn snapshots_are_whole_however_long_they_wait_to_be_read() {
    let mut fixture = Fixture::new(lazy());
    let mut taken = Vec::new();
    for round in 0..40 {
        let compacted = fixture.reader().revision();
        fixture.apply(vec![compact(compacted)]);
        let snapshot = fixture.store().snapshot().expect("the store works");
        let hash = fixture.reader().hash(None).expect("the store works");
        taken.push((hash, snapshot));
        for key in 0..10 {
            fixture.put(&format!("{key}"), &format!("{round}"));
        }
        fixture.store().flush().expect("the store works");
    }
    for (hash, snapshot) in taken {
        let status = snapshot_status(snapshot).expect("a good snapshot");
        assert_eq!((status.revision, status.hash), (hash.revision, hash.hash));
    }
}

/// A store with a bit of everything, and its snapshot.
fn sample() -> (Fixture, Vec<u8>) {
    let mut fixture = Fixture::new(lazy());
    let member = SetMember { id: 7, name: "seven".into(), ..SetMember::default() };
    fixture.apply(vec![Action::SetMember(member)]);
    for value in ["1", "2", "3"] {
        fixture.apply(["a", "b", "c"].map(|key| Action::Put(put(key, value))).to_vec());
    }
    fixture.apply(vec![Action::DeleteRange(delete("a", "c")), compact(8)]);
    fixture.put("d", &"long".repeat(500));
    let snapshot = read(fixture.store().snapshot().expect("the store works"));
    (fixture, snapshot)
}

#[test]
fn stores_that_flushed_and_swept_differently_write_the_same_bytes() {
    for seed in 50..58 {
        let story = Story::new(seed, 120);
        let (mut never, mut eager) = (Fixture::new(lazy()), Fixture::new(eager()));
        never.store().apply(&story.log, &mut Vec::new()).expect("the store works");
        for entry in &story.log {
            let entry = std::slice::from_ref(entry);
            eager.store().apply(entry, &mut Vec::new()).expect("the store works");
        }
        eager.store().flush().expect("the store works");
        let compacted = eager.reader().compacted();
        wait_for_sweep(eager.reader(), compacted);
        let snapshot = read(never.store().snapshot().expect("the store works"));
        assert_eq!(read(eager.store().snapshot().expect("the store works")), snapshot);

        let status = snapshot_status(&snapshot[..]).expect("a good snapshot");
        let everything = eager.reader().range(&everything(0)).expect("the store works");
        let expected = SnapshotStatus {
            format: 1,
            applied: Index(story.log.len() as u64),
            revision: story.hash.revision,
            compacted,
            keys: everything.kvs.len() as u64,
            changes: status.changes,
            bytes: snapshot.len() as u64,
            hash: story.hash.hash,
        };
        assert_eq!(status, expected);
    }
}

#[test]
fn a_restored_store_has_the_rows_of_one_that_is_swept() {
    let story = Story::new(70, 150);
    let mut source = Fixture::new(lazy());
    source.store().apply(&story.log, &mut Vec::new()).expect("the store works");
    let snapshot = read(source.store().snapshot().expect("the store works"));
    let compacted = source.reader().compacted();
    assert!(compacted > 2, "there is something that was given up");
    source.store().flush().expect("the store works");
    wait_for_sweep(source.reader(), compacted);
    let mut restored = Fixture::new(Options { flush_bytes: 3000, ..lazy() });
    let applied = Index(story.log.len() as u64);
    restored.store().restore(applied, &mut &snapshot[..]).expect("a good snapshot");
    assert_eq!(rows(restored.reader()), rows(source.reader()));
    assert_eq!(restored.reader().size().bytes_in_use, source.reader().size().bytes_in_use);
    let progress = *restored.reader().progress().borrow();
    assert_eq!(progress, Progress { durable_applied: applied, swept: compacted });
}

/// The names of all rows of the three tables.
fn rows(reader: &StoreReader) -> Vec<Vec<u8>> {
    let base = Arc::clone(&reader.0.read().base);
    let tables = [&base.tables.keys, &base.tables.revisions, &base.tables.index];
    let rows = tables.into_iter().flat_map(|table| base.snapshot.iter(table));
    rows.map(|row| row.key().expect("the store works").to_vec()).collect()
}

#[test]
fn what_was_written_exactly_at_the_compacted_revision_is_kept_whole() {
    let nested = |request| Request::RequestTxn(super::txn(vec![request]));
    let request = super::txn(vec![
        nested(Request::RequestPut(put("a", "for a moment"))),
        nested(Request::RequestDeleteRange(delete("a", ""))),
    ]);
    let mut fixture = Fixture::new(lazy());
    fixture.put("a", "before");
    fixture.apply(vec![Action::Txn(request), compact(3)]);
    let expected = fixture.reader().events(3, 10).expect("it reads");
    assert_eq!(expected.len(), 2);
    let sweep = |fixture: &mut Fixture, revision| {
        fixture.store().flush().expect("the store works");
        wait_for_sweep(fixture.reader(), revision);
    };
    let count = |fixture: &Fixture| {
        let snapshot = fixture.store.as_ref().expect("it is open").snapshot();
        let status = snapshot_status(snapshot.expect("the store works")).expect("it is good");
        (status.changes, status.keys)
    };
    assert_eq!(count(&fixture), (2, 0));
    sweep(&mut fixture, 3);
    assert_eq!(fixture.reader().events(3, 10).expect("it reads"), expected);
    assert_eq!(count(&fixture), (2, 0));
    fixture.put("b", "after");
    fixture.apply(vec![compact(4)]);
    sweep(&mut fixture, 4);
    assert_eq!(rows(fixture.reader()).len(), 3, "of `b` two rows, and the mark");
    assert_eq!(count(&fixture), (1, 1));
}

#[test]
fn a_snapshot_that_is_damaged_anywhere_is_refused() {
    let (_, snapshot) = sample();
    snapshot_status(&snapshot[..]).expect("it is good");
    for at in 0..snapshot.len() {
        for bit in 0..8 {
            let mut damaged = snapshot.clone();
            damaged[at] ^= 1 << bit;
            let error = snapshot_status(&damaged[..]).expect_err("it is damaged");
            assert!(matches!(error, StoreError::Snapshot(_)), "byte {at}: {error}");
        }
        let error = snapshot_status(&snapshot[..at]).expect_err("it is cut off");
        match error {
            StoreError::Snapshot(SnapshotError::Foreign) if at < 8 => {}
            StoreError::Snapshot(SnapshotError::Cut { at: end }) => assert_eq!(end, at as u64),
            error => panic!("cut at {at}: {error}"),
        }
    }
    let longer = [&snapshot[..], b"\0"].concat();
    snapshot_status(&longer[..]).expect_err("something is behind its end");
}

#[test]
fn what_is_no_snapshot_is_refused_by_name() {
    let (_, snapshot) = sample();
    let mut newer = snapshot.clone();
    newer[11] = 9;
    let error = |snapshot: &[u8]| snapshot_status(snapshot).expect_err("refused").to_string();
    assert_eq!(error(&newer), "the snapshot has format 9, and this program knows 1: upgrade it");
    assert_eq!(
        error(b"not ours at all"),
        "this is no snapshot of the key-value store: name one that Kontiki has written"
    );
    let size = snapshot.len() - 1;
    assert_eq!(
        error(&snapshot[..size]),
        format!("the snapshot is cut off after {size} bytes: copy it again, or use another one")
    );
}

#[test]
fn a_store_is_what_it_was_after_a_snapshot_that_cannot_be_restored() {
    let (source, snapshot) = sample();
    let applied = Index(source.log.len() as u64);
    let mut fixture = Fixture::new(Options { flush_bytes: 300, ..lazy() });
    fixture.put("a", "mine");
    let before = fixture.reader().hash(None).expect("the store works");
    for at in (0..snapshot.len()).step_by(97).chain([snapshot.len() - 1]) {
        let mut damaged = snapshot.clone();
        damaged[at] ^= 0x40;
        fixture.store().restore(applied, &mut &damaged[..]).expect_err("it is damaged");
        fixture.store().restore(applied, &mut &snapshot[..at]).expect_err("it is cut off");
        let failing = io::Error::other("the disk is sick");
        let mut failing = (&snapshot[..at]).chain(Failing(Some(failing)));
        let error = fixture.store().restore(applied, &mut failing).expect_err("it fails");
        assert_eq!(error.to_string(), "the snapshot cannot be read: the disk is sick");
    }
    let other = fixture.store().restore(Index(99), &mut &snapshot[..]).expect_err("not its own");
    assert!(matches!(other, StoreError::Snapshot(SnapshotError::OtherIndex { .. })), "{other}");
    assert_eq!(fixture.reader().hash(None).expect("the store works"), before);
    fixture.put("b", "and on");
    fixture.crash();
    fixture.store().restore(applied, &mut &snapshot[..]).expect("a good one");
    let restored = fixture.reader().hash(None).expect("the store works");
    assert_eq!(restored, source.reader().hash(None).expect("the store works"));
    assert_eq!(fixture.reader().members(), source.reader().members());
}

/// Fails once, and is at its end then.
struct Failing(Option<io::Error>);

impl Read for Failing {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        self.0.take().map_or(Ok(0), Err)
    }
}

/// What a restore does to the disk until a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Crash {
    /// Some changes were written.
    InTheMiddle(usize),
    /// Everything but the mark was.
    BeforeTheMark,
    AfterTheMark,
    /// The old tables are being deleted.
    WithoutOldKeys,
    WithoutOldKeysAndIndex,
}

#[test]
fn a_crash_in_the_middle_of_a_restore_leaves_the_old_state_or_the_new_one() {
    let story = Story::new(60, 150);
    let mut source = Fixture::new(lazy());
    source.store().apply(&story.log, &mut Vec::new()).expect("the store works");
    let snapshot = read(source.store().snapshot().expect("the store works"));
    let (new, last) = (story.hash, Index(story.log.len() as u64));
    let middle = (0..snapshot.len()).step_by(snapshot.len() / 12).map(Crash::InTheMiddle);
    let late = [
        Crash::BeforeTheMark,
        Crash::AfterTheMark,
        Crash::WithoutOldKeys,
        Crash::WithoutOldKeysAndIndex,
    ];
    for crash in middle.chain(late) {
        let mut fixture = Fixture::new(lazy());
        fixture.put("a", "mine");
        fixture.store().flush().expect("the store works");
        let old = fixture.reader().hash(None).expect("the store works");
        (fixture.store, fixture.reader) = (None, None);
        restore_until(crash, &fixture, &snapshot);

        let opened = Store::open(fixture.directory.path(), &lazy()).expect("it opens");
        let (mut store, reader) = opened;
        let is_new = !matches!(crash, Crash::InTheMiddle(_) | Crash::BeforeTheMark);
        let (applied, hash) = if is_new { (last, new) } else { (Index(1), old) };
        assert_eq!((store.applied(), store.durable_applied()), (applied, applied), "{crash:?}");
        assert_eq!(reader.hash(None).expect("the store works"), hash, "{crash:?}");
        // It is done again, where it is not done.
        store.restore(last, &mut &snapshot[..]).expect("a good snapshot");
        assert_eq!(reader.hash(None).expect("the store works"), new);
        let tables = reader.0.read().base.tables.clone();
        assert_eq!(tables.db.keyspace_count(), 3, "no rest is left");
    }
}

fn restore_until(crash: Crash, fixture: &Fixture, snapshot: &[u8]) {
    let old = Tables::open(fixture.directory.path(), 1 << 20).expect("it opens");
    let new = old.next_generation().expect("the store works");
    let cut = match crash {
        Crash::InTheMiddle(len) => &snapshot[..len],
        Crash::BeforeTheMark => &snapshot[..snapshot.len() - 1],
        _ => snapshot,
    };
    let mut source = cut;
    let Ok(mut incoming) = Incoming::open(&mut source) else { return };
    let mark = incoming.mark.clone();
    let loaded = load(&mut incoming, &new, &mark, 2000);
    assert_eq!(loaded.is_ok(), cut.len() == snapshot.len());
    let delete = |table| old.db.delete_keyspace(table).expect("the store works");
    match crash {
        Crash::WithoutOldKeys => delete(old.keys.clone()),
        Crash::WithoutOldKeysAndIndex => {
            delete(old.keys.clone());
            delete(old.index.clone());
        }
        Crash::InTheMiddle(_) | Crash::BeforeTheMark | Crash::AfterTheMark => {}
    }
}

#[test]
fn readers_see_all_of_the_old_state_or_all_of_the_new_one() {
    let fill = |fixture: &mut Fixture, value: &str| {
        for key in 0..300 {
            fixture.put(&format!("{key:03}"), value);
        }
    };
    let (mut old, mut new) = (Fixture::new(eager()), Fixture::new(eager()));
    fill(&mut old, "old");
    fill(&mut new, "old");
    fill(&mut new, "new");
    let snapshot = read(new.store().snapshot().expect("the store works"));
    let before = old.store().snapshot().expect("the store works");
    let expected = read(old.store().snapshot().expect("the store works"));

    let reading = std::thread::spawn({
        let reader = old.reader().clone();
        move || {
            let mut seen = Vec::new();
            let deadline = Instant::now() + PATIENCE;
            while seen.last() != Some(&(601, bytes("new"))) {
                assert!(Instant::now() < deadline, "the new state never came: {seen:?}");
                let response = reader.range(&everything(0)).expect("it reads");
                let revision = response.header.expect("a header").revision;
                assert_eq!(response.kvs.len(), 300);
                let value = response.kvs[0].value.clone();
                assert!(response.kvs.iter().all(|kv| kv.value == value));
                seen.push((revision, value));
                seen.dedup();
            }
            seen
        }
    });
    let applied = new.store().applied();
    old.store().restore(applied, &mut &snapshot[..]).expect("a good snapshot");
    let seen = reading.join().expect("the reader saw whole states");
    assert!(seen.len() <= 2, "{seen:?}");
    // What began to be read before goes on to be what it was.
    assert_eq!(read(before), expected);
}

#[test]
fn a_new_cluster_shows_no_revision_twice() {
    let (mut source, snapshot) = sample();
    let parent = directory();
    let path = parent.path().join("new");
    let bump = RevisionBump::default();
    let status = Store::restore_for_new_cluster(&path, &snapshot[..], bump).expect("it is made");
    assert_eq!(status, snapshot_status(&snapshot[..]).expect("a good snapshot"));
    let (old, first) = (source.reader().revision(), source.reader().revision() + 1_000_000_000);

    let (mut store, reader) = Store::open(&path, &eager()).expect("it opens");
    assert_eq!((store.applied(), reader.revision()), (Index::ZERO, first));
    assert!(reader.members().is_empty(), "the members of the old cluster stay there");
    let content = |reader: &StoreReader| reader.range(&everything(0)).expect("it reads").kvs;
    assert_eq!(content(&reader), content(source.reader()));
    // Watches from revisions of the old cluster end.
    assert_eq!(refused(reader.events(old, 10)), Err(KvError::Compacted));
    assert_eq!(refused(reader.range(&everything(old))), Err(KvError::Compacted));
    assert_eq!(refused(reader.events(first + 1, 10)), Ok(Vec::new()));

    source.put("a", "what the old cluster did after its backup");
    let put = Action::Put(put("a", "what the new one does"));
    let entry = Entry { index: Index(1), term: Term(1), payload: super::command(put) };
    store.apply(&[entry], &mut Vec::new()).expect("the store works");
    assert_eq!(reader.revision(), first + 1);
    let events = reader.events(first + 1, 10).expect("it reads");
    assert_eq!(events.len(), 1);
    wait_for_sweep(&reader, first);
    assert_eq!(content(&reader).len(), content(source.reader()).len());
}

#[test]
fn a_new_cluster_can_keep_its_history_and_is_made_only_where_nothing_is() {
    let (source, snapshot) = sample();
    let parent = directory();
    let path = parent.path().join("new");
    let bump = RevisionBump { by: 10, mark_compacted: false, ..RevisionBump::default() };
    let make = |snapshot: &[u8], bump| Store::restore_for_new_cluster(&path, snapshot, bump);

    let mut damaged = snapshot.clone();
    damaged[snapshot.len() / 2] ^= 1;
    make(&damaged, bump).expect_err("it is damaged");
    let too_far = RevisionBump { by: u64::MAX, ..bump };
    make(&snapshot, too_far).expect_err("there would be no revision left");
    assert_eq!(
        std::fs::read_dir(parent.path()).expect("a directory").count(),
        0,
        "nothing is left"
    );

    make(&snapshot, bump).expect("it is made");
    let (store, reader) = Store::open(&path, &lazy()).expect("it opens");
    assert_eq!(reader.revision(), source.reader().revision() + 10);
    assert_eq!(reader.compacted(), 8);
    assert_eq!(events(&reader, 8), events(source.reader(), 8));
    drop((store, reader));
    let error = make(&snapshot, bump).expect_err("there is a store already");
    assert!(error.to_string().ends_with("name a directory that does not exist yet"), "{error}");
}

// scenario B74
#[test]
fn who_was_removed_is_forgotten_on_every_member() {
    let mut fixture = Fixture::new(lazy());
    let member = |id| SetMember { id, name: format!("n{id}"), ..SetMember::default() };
    fixture.apply([1, 2, 3].map(|id| Action::SetMember(member(id))).to_vec());
    // Nobody left, and two removed: 2, and 9 of which nothing is known.
    let mut encoded = vec![1];
    encoded.extend_from_slice(&[0_u32.to_le_bytes(), 2_u32.to_le_bytes()].concat());
    encoded.extend_from_slice(&[2_u64.to_le_bytes(), 9_u64.to_le_bytes()].concat());
    let membership = Membership::decode(&encoded).expect("a membership");
    let entry = Entry {
        index: Index(4),
        term: Term(1),
        payload: Payload::Membership(Arc::new(membership)),
    };
    let mut responses = Vec::new();
    fixture.store().apply(&[entry], &mut responses).expect("the store works");
    assert!(responses.is_empty(), "nobody waits for an answer");
    assert_eq!(fixture.store().applied(), Index(4));
    let known = |fixture: &Fixture| fixture.reader().members().keys().copied().collect::<Vec<_>>();
    assert_eq!(known(&fixture), [1, 3]);

    let snapshot = read(fixture.store().snapshot().expect("the store works"));
    let mut other = Fixture::new(lazy());
    other.store().restore(Index(4), &mut &snapshot[..]).expect("a good snapshot");
    assert_eq!(known(&other), [1, 3]);
}
