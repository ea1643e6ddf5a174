//! Snapshots of the store beside the model, with everything going on that may; and damaged ones.

use std::io::Read;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fjall::Readable;
use kontiki::Index;
use proptest::collection::vec;
use proptest::prelude::*;

use super::crash::Story;
use super::model::Model;
use super::random::{events, has_the_leases, is_valid, refused};
use super::requests::{Asked, action};
use super::{Fixture, compact, delete, eager, lazy, most, put, range};
use crate::proto::etcdserverpb::RangeRequest;
use crate::proto::etcdserverpb::request_op::Request;
use crate::proto::kontiki::SetMember;
use crate::proto::kontiki::command::Action;
use crate::store::base::{Upkeep, encode_mark};
use crate::store::error::SnapshotError;
use crate::store::snapshot::Sealer;
use crate::store::{
    Options, Progress, SnapshotStatus, StateHash, StoreError, StoreReader, snapshot_status,
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
pub(super) const PATIENCE: Duration = Duration::from_secs(20);

pub(super) fn wait_for_sweep(reader: &StoreReader, compacted: i64) {
    let deadline = Instant::now() + PATIENCE;
    while reader.progress().borrow().swept < compacted {
        assert!(Instant::now() < deadline, "nothing is swept");
        std::thread::sleep(Duration::from_millis(1));
    }
}

pub(super) fn read(mut snapshot: impl Read) -> Vec<u8> {
    let mut bytes = Vec::new();
    snapshot.read_to_end(&mut bytes).expect("the store works");
    bytes
}

pub(super) fn everything(revision: i64) -> RangeRequest {
    RangeRequest { revision, ..range("\0", "\0") }
}

/// Whether the store shows what the model has, at every revision that is kept.
fn shows(reader: &StoreReader, model: &Model) -> Result<(), TestCaseError> {
    prop_assert_eq!(reader.revision(), model.revision());
    has_the_leases(reader, model)?;
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
pub(super) fn sample() -> (Fixture, Vec<u8>) {
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
    let expected = fixture.reader().events(3, most(10)).expect("it reads");
    assert_eq!(expected.events.len(), 2);
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
    assert_eq!(fixture.reader().events(3, most(10)).expect("it reads"), expected);
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
fn counts_that_do_not_fit_are_noticed_though_every_sum_does() {
    let state = Fixture::new(lazy()).reader().0.read().view();
    let mut header = encode_mark(&state.mark, &Upkeep::default());
    let mut content = u32::try_from(header.len()).expect("small").to_be_bytes().to_vec();
    content.append(&mut header);
    content.extend_from_slice(&[0; 32]);
    let sealed = |content: &[u8]| {
        let (mut sealer, mut bytes) = (Sealer::default(), Vec::new());
        sealer.start(&mut bytes);
        sealer.block(content, &mut bytes);
        sealer.block(&[], &mut bytes);
        snapshot_status(&bytes[..])
    };
    assert_eq!(sealed(&content).expect("an empty store").changes, 0);
    let len = content.len();
    for at in len - 20..len {
        content[at] = 1;
        let error = sealed(&content).expect_err("there is nothing to count");
        assert!(matches!(error, StoreError::Snapshot(SnapshotError::Damaged { .. })), "{error}");
        content[at] = 0;
    }
}

// Fjall would let go of what other views need.
#[test]
fn no_view_of_the_tables_has_number_zero() {
    let fixture = Fixture::new(lazy());
    assert!(fixture.reader().0.read().base.snapshot.seqno() > 0);
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
