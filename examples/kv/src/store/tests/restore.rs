//! Snapshots restored over other data: refused, broken off at any point, and beside readers.

use std::io::{self, Read};
use std::sync::Arc;
use std::time::Instant;

use kontiki::{Entry, Index, Membership, Payload, Term};

use super::crash::Story;
use super::random::{events, refused};
use super::snapshot::{PATIENCE, everything, read, sample, wait_for_sweep};
use super::{Fixture, bytes, directory, eager, lazy, most, put};
use crate::proto::kontiki::SetMember;
use crate::proto::kontiki::command::Action;
use crate::store::base::Base;
use crate::store::error::SnapshotError;
use crate::store::snapshot::{Incoming, load};
use crate::store::tables::Tables;
use crate::store::{
    Events, KvError, Options, RevisionBump, Store, StoreError, StoreReader, snapshot_status,
};

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
    assert_eq!(fixture.reader().0.read().base.tables.db.keyspace_count(), 3, "no rest is left");
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
fn a_flush_that_was_under_way_does_not_bring_the_old_state_back() {
    let (source, snapshot) = sample();
    let mut fixture = Fixture::new(lazy());
    fixture.put("a", "mine");
    let shared = Arc::clone(&fixture.reader().0);
    let old = Arc::clone(&shared.read().base);
    let applied = Index(source.log.len() as u64);
    fixture.store().restore(applied, &mut &snapshot[..]).expect("a good snapshot");
    let late = Base::read(old.tables.clone()).expect("they can still be read");
    shared.advance(&old, late);
    assert_eq!(fixture.store().durable_applied(), applied);
    let restored = fixture.reader().hash(None).expect("the store works");
    assert_eq!(restored, source.reader().hash(None).expect("the store works"));
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
    assert_eq!(refused(reader.events(old, most(10))), Err(KvError::Compacted));
    assert_eq!(refused(reader.range(&everything(old))), Err(KvError::Compacted));
    let nothing = Events { events: Vec::new(), until: first };
    assert_eq!(refused(reader.events(first + 1, most(10))), Ok(nothing));

    source.put("a", "what the old cluster did after its backup");
    let put = Action::Put(put("a", "what the new one does"));
    let entry = Entry { index: Index(1), term: Term(1), payload: super::command(put) };
    store.apply(&[entry], &mut Vec::new()).expect("the store works");
    assert_eq!(reader.revision(), first + 1);
    let events = reader.events(first + 1, most(10)).expect("it reads").events;
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
