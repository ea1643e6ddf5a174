//! Leases in the log: what is refused, which keys go with a lease, and what of it survives.

use bytes::Bytes;
use kontiki::{Entry, Index, Term};

use super::random::refused;
use super::snapshot::{everything, read};
use super::{Fixture, bytes, command, delete, directory, eager, lazy, most, put, txn};
use crate::proto::etcdserverpb::request_op::Request;
use crate::proto::etcdserverpb::{LeaseGrantRequest, PutRequest};
use crate::proto::kontiki::command::Action;
use crate::proto::kontiki::{LeaseCheckpoint, LeaseExpired, LeaseRemaining, LeaseRevoke};
use crate::proto::mvccpb::event::EventType;
use crate::store::base::{Upkeep, decode_mark, encode_mark};
use crate::store::{
    Answer, KvError, LEASE_TTL_MAX, Lease, Response, RevisionBump, Store, StoreReader,
};

fn grant(id: i64, ttl: i64) -> Action {
    Action::LeaseGrant(LeaseGrantRequest { id, ttl })
}

fn revoke(id: i64) -> Action {
    Action::LeaseRevoke(LeaseRevoke { id, expired: None })
}

fn expire(id: i64, term: u64, granted_at: u64) -> Action {
    Action::LeaseRevoke(LeaseRevoke { id, expired: Some(LeaseExpired { term, granted_at }) })
}

fn checkpoint(term: u64, id: i64, granted_at: u64, remaining: i64) -> Action {
    let leases = vec![LeaseRemaining { id, granted_at, remaining }];
    Action::LeaseCheckpoint(LeaseCheckpoint { term, leases })
}

fn with(key: &str, lease: i64) -> PutRequest {
    PutRequest { lease, ..put(key, "v") }
}

fn attach(key: &str, lease: i64) -> Action {
    Action::Put(with(key, lease))
}

fn one(fixture: &mut Fixture, action: Action) -> Response {
    fixture.apply(vec![action]).remove(0)
}

fn keys(fixture: &Fixture, lease: i64) -> Vec<Bytes> {
    fixture.reader().lease_keys(lease)
}

/// A store with the leases 7 and 8, granted by its first two entries.
fn two_leases() -> Fixture {
    let mut fixture = Fixture::new(lazy());
    fixture.apply(vec![grant(7, 60), grant(8, 600)]);
    fixture
}

#[test]
fn grants_that_etcd_refuses_are_refused() {
    let mut fixture = Fixture::new(lazy());
    let Ok(Answer::LeaseGrant(granted)) = one(&mut fixture, grant(7, 60)) else { panic!() };
    assert_eq!((granted.id, granted.ttl), (7, 60));
    assert_eq!(granted.header.expect("a header").revision, 1, "a grant is no revision");
    assert_eq!(one(&mut fixture, grant(7, 60)), Err(KvError::LeaseExists));
    // That it is too long is said before that it exists.
    assert_eq!(one(&mut fixture, grant(7, LEASE_TTL_MAX + 1)), Err(KvError::LeaseTtlTooLarge));
    one(&mut fixture, grant(8, LEASE_TTL_MAX)).expect("as long as they get");
    assert_eq!(one(&mut fixture, grant(0, 5)), Err(KvError::LeaseNotFound));
    let lease = |id| fixture.reader().lease(id);
    assert_eq!(lease(7), Some(Lease { ttl: 60, remaining: 60, granted_at: Index(1) }));
    assert_eq!(lease(0), None);
}

#[test]
fn a_put_needs_its_lease_and_a_transaction_all_of_them() {
    let mut fixture = two_leases();
    assert_eq!(one(&mut fixture, attach("a", 9)), Err(KvError::LeaseNotFound));
    let puts = |leases: [i64; 2]| {
        let puts = ["a", "b"].into_iter().zip(leases);
        Action::Txn(txn(puts.map(|(key, lease)| Request::RequestPut(with(key, lease))).collect()))
    };
    assert_eq!(one(&mut fixture, puts([7, 9])), Err(KvError::LeaseNotFound));
    assert_eq!(fixture.reader().revision(), 1, "nothing of it was done");
    one(&mut fixture, puts([7, 8])).expect("both are there");
    assert_eq!((keys(&fixture, 7), keys(&fixture, 8)), (vec![bytes("a")], vec![bytes("b")]));
}

#[test]
fn a_key_has_the_lease_of_its_newest_version() {
    let mut fixture = two_leases();
    fixture.apply(["d", "b", "a", "c", "e"].map(|key| attach(key, 7)).to_vec());
    let ignoring = PutRequest { ignore_lease: true, ..put("a", "still") };
    fixture.apply(vec![
        Action::Put(ignoring),
        Action::Put(put("b", "without")),
        attach("c", 8),
        Action::DeleteRange(delete("d", "")),
    ]);
    assert_eq!(keys(&fixture, 7), [bytes("a"), bytes("e")]);
    assert_eq!(keys(&fixture, 8), [bytes("c")]);
    // Found again in the tables, and in what is applied again.
    fixture.store().flush().expect("the store works");
    fixture.apply(vec![attach("b", 8), Action::Put(put("e", "without"))]);
    for _ in 0..2 {
        fixture.crash();
        assert_eq!(keys(&fixture, 7), [bytes("a")]);
        assert_eq!(keys(&fixture, 8), [bytes("b"), bytes("c")]);
    }
}

#[test]
fn a_lease_takes_its_keys_along_in_order_and_at_one_revision() {
    let mut fixture = two_leases();
    fixture.apply(["c", "a", "b"].map(|key| attach(key, 7)).to_vec());
    fixture.apply(vec![attach("other", 8), Action::Put(put("none", ""))]);
    let before = fixture.reader().revision();
    let Ok(Answer::LeaseRevoke(7, response)) = one(&mut fixture, revoke(7)) else { panic!() };
    assert_eq!(response.header.expect("a header").revision, before + 1);
    assert_eq!(fixture.reader().revision(), before + 1);
    let events = fixture.reader().events(before + 1, most(10)).expect("it reads").events;
    let seen = events.iter().map(|event| (event.r#type(), event.kv.clone().expect("a key")));
    let seen: Vec<_> = seen.map(|(kind, kv)| (kind, kv.key, kv.mod_revision)).collect();
    let gone = |key| (EventType::Delete, bytes(key), before + 1);
    assert_eq!(seen, [gone("a"), gone("b"), gone("c")]);
    let left = fixture.reader().range(&everything(0)).expect("it reads").kvs;
    assert_eq!(left.iter().map(|kv| &kv.key[..]).collect::<Vec<_>>(), [&b"none"[..], b"other"]);

    assert_eq!(one(&mut fixture, revoke(7)), Err(KvError::LeaseNotFound));
    assert_eq!(one(&mut fixture, attach("a", 7)), Err(KvError::LeaseNotFound));
    // One without keys goes without a revision.
    fixture.apply(vec![grant(7, 5), revoke(7)]);
    assert_eq!(fixture.reader().revision(), before + 1);
    assert_eq!(keys(&fixture, 7), Vec::<Bytes>::new());
}

// scenario B80
#[test]
fn what_a_leader_decided_counts_in_its_own_term_and_for_that_lease_alone() {
    let mut fixture = two_leases();
    fixture.apply(vec![attach("a", 7)]);
    // The fixture's entries are of term 1.
    for term in [0, 2, u64::MAX] {
        assert_eq!(one(&mut fixture, expire(7, term, 1)), Err(KvError::Superseded));
        assert_eq!(one(&mut fixture, checkpoint(term, 7, 1, 5)), Err(KvError::Superseded));
    }
    assert_eq!(one(&mut fixture, expire(7, 1, 2)), Err(KvError::LeaseNotFound));
    one(&mut fixture, checkpoint(1, 7, 2, 5)).expect("nothing is wrong with it");
    let lease = fixture.reader().lease(7).expect("it is there");
    assert_eq!((lease.remaining, keys(&fixture, 7).len()), (60, 1), "and nothing was done");
    one(&mut fixture, expire(7, 1, 1)).expect("now it is over");
    assert_eq!((fixture.reader().lease(7), keys(&fixture, 7).len()), (None, 0));

    // The same under a leader of a later term: an entry that an earlier one decided, late.
    let index = Index(fixture.log.len() as u64 + 1);
    let late = Entry { index, term: Term(2), payload: command(expire(8, 1, 2)) };
    let mut responses = Vec::new();
    fixture.store().apply(&[late], &mut responses).expect("the store works");
    assert_eq!(responses, [Err(KvError::Superseded)]);
    assert!(fixture.reader().lease(8).is_some());
}

// scenario B82
#[test]
fn a_checkpoint_is_kept_within_what_was_granted() {
    let mut fixture = two_leases();
    for (said, expected) in [(400, 400), (0, 1), (-9, 1), (601, 600), (17, 17)] {
        one(&mut fixture, checkpoint(1, 8, 2, said)).expect("it counts");
        let lease = fixture.reader().lease(8).expect("it is there");
        assert_eq!((lease.ttl, lease.remaining), (600, expected));
    }
    let answer = one(&mut fixture, checkpoint(1, 99, 2, 5));
    assert_eq!(answer, Ok(Answer::LeaseCheckpoint(vec![99])), "it has gone meanwhile");
    fixture.store().flush().expect("the store works");
    fixture.crash();
    assert_eq!(fixture.reader().lease(8).expect("it is there").remaining, 17);
}

fn state(reader: &StoreReader) -> impl PartialEq + std::fmt::Debug + use<> {
    let leases = reader.leases();
    let keys: Vec<_> = leases.keys().map(|id| reader.lease_keys(*id)).collect();
    (leases, keys)
}

#[test]
fn a_snapshot_has_the_leases_and_so_has_a_new_cluster() {
    let mut fixture = two_leases();
    fixture.apply(vec![attach("a", 7), attach("b", 8), checkpoint(1, 8, 2, 99)]);
    let snapshot = read(fixture.store().snapshot().expect("the store works"));

    let mut behind = Fixture::new(eager());
    behind.apply(vec![grant(1, 5), attach("mine", 1)]);
    let applied = Index(fixture.log.len() as u64);
    behind.store().restore(applied, &mut &snapshot[..]).expect("a good snapshot");
    assert_eq!(state(behind.reader()), state(fixture.reader()));
    assert_eq!(keys(&behind, 1), Vec::<Bytes>::new());
    assert_eq!(refused(behind.reader().hash(None)), refused(fixture.reader().hash(None)));

    let parent = directory();
    let path = parent.path().join("new");
    let bump = RevisionBump::default();
    Store::restore_for_new_cluster(&path, &snapshot[..], bump).expect("it is made");
    let (_store, reader) = Store::open(&path, &lazy()).expect("it opens");
    assert_eq!(state(&reader), state(fixture.reader()));
}

#[test]
fn whoever_compares_hashes_sees_another_lease() {
    let hash = |actions: Vec<Action>| {
        let mut fixture = Fixture::new(lazy());
        fixture.apply(actions);
        fixture.reader().hash(None).expect("the store works")
    };
    let plain = hash(vec![]);
    let other = [
        hash(vec![grant(7, 60)]),
        hash(vec![grant(7, 61)]),
        hash(vec![grant(8, 60)]),
        hash(vec![revoke(1), grant(7, 60)]),
        hash(vec![grant(7, 60), checkpoint(1, 7, 1, 30)]),
    ];
    for (place, one) in other.iter().enumerate() {
        assert_eq!(one.hash, plain.hash, "that of the keys is another matter");
        assert!(!other[..place].iter().chain([&plain]).any(|it| it.leases == one.leases));
    }
    assert_eq!(hash(vec![grant(7, 60), revoke(7)]), plain);
}

#[test]
fn a_store_without_leases_can_be_read_by_who_knows_none() {
    let mut fixture = Fixture::new(lazy());
    fixture.put("a", "1");
    let encoded =
        |fixture: &Fixture| encode_mark(&fixture.reader().0.read().mark, &Upkeep::default());
    // The mark's first field is its format.
    assert_eq!(encoded(&fixture)[..2], [8, 1]);
    fixture.apply(vec![grant(7, 60)]);
    assert_eq!(encoded(&fixture)[..2], [8, 2]);
    let (mark, _) = decode_mark(&encoded(&fixture)).expect("it reads");
    assert_eq!(mark, fixture.reader().0.read().mark);
    fixture.apply(vec![revoke(7)]);
    assert_eq!(encoded(&fixture)[..2], [8, 1]);
}
