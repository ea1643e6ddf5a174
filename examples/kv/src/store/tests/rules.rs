//! The rules of the API that surprise, one by one. Each was asked of etcd 3.4.23.

use std::collections::BTreeSet;

use bytes::Bytes;
use kontiki::{Entry, Index, Payload, Term};
use prost::Message;
use tonic::Code;

use super::{Fixture, compact, delete, directory, eager, lazy, most, put, range, txn};
use crate::proto::etcdserverpb::compare::TargetUnion;
use crate::proto::etcdserverpb::request_op::Request;
use crate::proto::etcdserverpb::response_op::Response as OpResponse;
use crate::proto::etcdserverpb::{
    Compare, PutRequest, RangeRequest, RangeResponse, RequestOp, TxnRequest, TxnResponse,
};
use crate::proto::kontiki::command::Action;
use crate::proto::kontiki::{Command, SetMember, StoreMark};
use crate::proto::mvccpb::event::EventType;
use crate::store::KvError::{
    Compacted, DuplicateKey, EmptyKey, FutureRevision, InvalidSortOption, KeyNotFound,
    LeaseNotFound, LeaseProvided, NotCapable, RequestTooLarge, TooManyOperations, ValueProvided,
};
use crate::store::{
    Answer, Failure, KEY_BYTES_MAX, KvError, Options, Store, StoreError, is_serializable,
    only_reads, validate_put, validate_range, validate_txn,
};

fn p(key: &str) -> Request {
    Request::RequestPut(put(key, "v"))
}

fn d(key: &str, range_end: &str) -> Request {
    Request::RequestDeleteRange(delete(key, range_end))
}

fn r(key: &str, revision: i64) -> Request {
    Request::RequestRange(RangeRequest { revision, ..range(key, "") })
}

fn t(success: Vec<Request>) -> Request {
    Request::RequestTxn(txn(success))
}

/// A nested transaction with something in both branches.
fn either(success: Request, failure: Request) -> Request {
    let failure = vec![RequestOp { request: Some(failure) }];
    Request::RequestTxn(TxnRequest { failure, ..txn(vec![success]) })
}

#[test]
fn transactions_that_write_a_key_twice_are_refused_as_etcd_does() {
    let cases: [(Vec<Request>, Result<(), KvError>); 21] = [
        (vec![p("a"), p("b")], Ok(())),
        (vec![p("a"), p("a")], Err(DuplicateKey)),
        (vec![d("a", ""), p("a")], Err(DuplicateKey)),
        (vec![p("a"), d("a", "")], Err(DuplicateKey)),
        (vec![d("a", ""), d("a", "")], Ok(())),
        (vec![d("a", "c"), p("b")], Err(DuplicateKey)),
        (vec![d("a", "c"), p("c")], Ok(())),
        (vec![d("c", "a"), p("b")], Ok(())),
        // "All keys from a on" is not seen by the check.
        (vec![d("a", "\0"), p("b")], Ok(())),
        (vec![d("\0", "\0"), p("b")], Ok(())),
        (vec![t(vec![d("a", "")]), p("a")], Err(DuplicateKey)),
        (vec![t(vec![p("a")]), p("a")], Err(DuplicateKey)),
        (vec![t(vec![p("a")]), t(vec![p("a")])], Err(DuplicateKey)),
        // The order of nested transactions matters.
        (vec![t(vec![p("a")]), t(vec![d("a", "")])], Ok(())),
        (vec![t(vec![d("a", "")]), t(vec![p("a")])], Err(DuplicateKey)),
        // The two branches exclude each other.
        (vec![either(p("a"), p("a"))], Ok(())),
        (vec![either(p("a"), d("a", ""))], Ok(())),
        // Both count for the list around them.
        (vec![either(r("x", 0), d("a", "")), p("a")], Err(DuplicateKey)),
        (vec![either(d("a", ""), r("x", 0)), t(vec![p("a")])], Err(DuplicateKey)),
        (vec![either(p("a"), r("x", 0)), p("a")], Err(DuplicateKey)),
        (vec![either(r("x", 0), p("a")), p("a")], Err(DuplicateKey)),
    ];
    for (operations, expected) in cases {
        let shown = format!("{operations:?}");
        let request = txn(operations);
        assert_eq!(validate_txn(&request, 128), expected, "{shown}");
        let failure = request.success;
        let other_way = TxnRequest { failure, ..TxnRequest::default() };
        assert_eq!(validate_txn(&other_way, 128), expected, "in the other branch: {shown}");
    }
}

#[test]
fn overlapping_deletions_are_kept_as_one_interval() {
    let deletions = || vec![d("b", "d"), d("f", "h"), d("c", "g"), d("x", ""), d("a", "b")];
    for (key, expected) in
        [("a", Err(DuplicateKey)), ("e", Err(DuplicateKey)), ("h", Ok(())), ("x\0", Ok(()))]
    {
        let mut operations = deletions();
        operations.push(p(key));
        assert_eq!(validate_txn(&txn(operations), 128), expected, "{key}");
    }
}

#[test]
fn malformed_requests_are_refused_before_they_are_proposed() {
    let with = |change: fn(&mut PutRequest)| {
        let mut request = put("a", "");
        change(&mut request);
        validate_put(&request)
    };
    assert_eq!(with(|_| {}), Ok(()));
    assert_eq!(with(|put| put.key = Bytes::new()), Err(EmptyKey));
    assert_eq!(with(|put| (put.ignore_value, put.value) = (true, "x".into())), Err(ValueProvided));
    assert_eq!(with(|put| (put.ignore_lease, put.lease) = (true, 1)), Err(LeaseProvided));
    assert_eq!(with(|put| put.key = vec![7; KEY_BYTES_MAX].into()), Ok(()));
    assert_eq!(with(|put| put.key = vec![7; KEY_BYTES_MAX + 1].into()), Err(RequestTooLarge));

    let with = |change: fn(&mut RangeRequest)| {
        let mut request = range("a", "");
        change(&mut request);
        validate_range(&request)
    };
    assert_eq!(with(|range| range.key = Bytes::new()), Err(EmptyKey));
    assert_eq!(with(|range| range.sort_order = 3), Err(InvalidSortOption));
    assert_eq!(with(|range| range.sort_target = 5), Err(InvalidSortOption));

    let empty = TxnRequest { success: vec![RequestOp::default()], ..TxnRequest::default() };
    assert_eq!(validate_txn(&empty, 128), Err(KeyNotFound));
    let compare = TxnRequest { compare: vec![Compare::default()], ..TxnRequest::default() };
    assert_eq!(validate_txn(&compare, 128), Err(EmptyKey));
    let many = |count| (0..count).map(|_| r("a", 0)).collect::<Vec<_>>();
    assert_eq!(validate_txn(&txn(many(128)), 128), Ok(()));
    assert_eq!(validate_txn(&txn(many(129)), 128), Err(TooManyOperations));
    // Nested operations share what those around them leave.
    let nested = |count| txn(many(63).into_iter().chain([t(many(count))]).collect());
    assert_eq!(validate_txn(&nested(64), 128), Ok(()));
    assert_eq!(validate_txn(&nested(65), 128), Err(TooManyOperations));
    let mut deep = txn(many(1));
    for _ in 0..40 {
        deep = txn(vec![Request::RequestTxn(deep)]);
    }
    assert_eq!(validate_txn(&deep, 128), Err(TooManyOperations));
}

#[test]
fn errors_have_etcds_codes_and_words() {
    for (error, code, message) in [
        (EmptyKey, Code::InvalidArgument, "etcdserver: key is not provided"),
        (KeyNotFound, Code::InvalidArgument, "etcdserver: key not found"),
        (LeaseNotFound, Code::NotFound, "etcdserver: requested lease not found"),
        (Compacted, Code::OutOfRange, "etcdserver: mvcc: required revision has been compacted"),
        (
            FutureRevision,
            Code::OutOfRange,
            "etcdserver: mvcc: required revision is a future revision",
        ),
    ] {
        let status = tonic::Status::from(Failure::from(error));
        assert_eq!((status.code(), status.message()), (code, message));
    }
}

fn answer(fixture: &mut Fixture, request: TxnRequest) -> Result<TxnResponse, KvError> {
    match fixture.apply(vec![Action::Txn(request)]).remove(0)? {
        Answer::Txn(response) => Ok(response),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_transaction_that_is_refused_leaves_nothing_behind() {
    let mut fixture = Fixture::new(lazy());
    let revision = fixture.put("a", "1");
    let ignore = PutRequest { ignore_value: true, lease: 5, ..put("absent", "") };
    let lease = PutRequest { lease: 5, ..put("b", "") };
    for (last, error) in [
        (Request::RequestPut(ignore.clone()), KeyNotFound),
        (Request::RequestPut(lease), LeaseNotFound),
        (r("a", revision + 1), FutureRevision),
        (r("a", -2), Compacted),
        // Puts are looked at before ranges.
        (t(vec![r("a", 99), Request::RequestPut(ignore.clone())]), KeyNotFound),
    ] {
        let request = txn(vec![p("x"), d("a", ""), last]);
        assert_eq!(answer(&mut fixture, request), Err(error));
        assert_eq!(fixture.reader().revision(), revision);
        assert_eq!(fixture.reader().range(&range("\0", "\0")).expect("it reads").count, 1);
    }
    // On its own, a put looks for its lease first.
    let response = fixture.apply(vec![Action::Put(ignore)]);
    assert_eq!(response, [Err(LeaseNotFound)]);
}

#[test]
fn inner_headers_hold_the_revision_at_their_step() {
    let mut fixture = Fixture::new(lazy());
    let before = fixture.put("a", "1");
    let request = txn(vec![
        d("nothing", ""),
        r("a", 0),
        p("b"),
        t(vec![p("c"), r("c", 0)]),
        r("a", before),
        d("nothing", ""),
    ]);
    let response = answer(&mut fixture, request).expect("it is fine");
    let revision = |response: &OpResponse| match response {
        OpResponse::ResponseRange(range) => range.header.map(|header| header.revision),
        OpResponse::ResponsePut(put) => put.header.map(|header| header.revision),
        OpResponse::ResponseDeleteRange(delete) => delete.header.map(|header| header.revision),
        OpResponse::ResponseTxn(txn) => txn.header.map(|header| header.revision),
    };
    let revisions = |response: &TxnResponse| -> Vec<Option<i64>> {
        let inner = response.responses.iter().map(|op| op.response.as_ref());
        inner.map(|response| response.and_then(revision)).collect()
    };
    assert_eq!(response.header.expect("a header").revision, before + 1);
    let at = |step: i64| Some(before + step);
    assert_eq!(revisions(&response), [at(0), at(0), at(1), Some(0), at(1), at(1)]);
    let Some(OpResponse::ResponseTxn(nested)) = &response.responses[3].response else {
        panic!("{response:?}")
    };
    assert_eq!(revisions(nested), [at(1), at(1)]);
}

#[test]
fn a_compare_of_a_value_never_holds_where_there_is_no_key() {
    let mut fixture = Fixture::new(lazy());
    fixture.put("a", "1");
    fixture.put("b", "");
    let compare = |key: &str, end: &str, result: i32, target: i32, union: Option<TargetUnion>| {
        let (key, range_end) = (super::bytes(key), super::bytes(end));
        Compare { result, target, key, range_end, target_union: union }
    };
    let value = |value: &str| Some(TargetUnion::Value(super::bytes(value)));
    let version = |version| Some(TargetUnion::Version(version));
    let (equal, greater, less, not_equal) = (0, 1, 2, 3);
    let (by_version, by_value) = (0, 3);
    for (compare, expected) in [
        (compare("absent", "", equal, by_value, value("")), false),
        (compare("absent", "", not_equal, by_value, value("x")), false),
        (compare("absent", "absent2", not_equal, by_value, value("x")), false),
        (compare("absent", "", equal, by_version, version(0)), true),
        (compare("absent", "", less, by_version, version(1)), true),
        (compare("b", "", equal, by_value, value("")), true),
        (compare("b", "", equal, by_value, None), true),
        (compare("a", "\0", equal, by_version, version(1)), true),
        (compare("a", "c", greater, by_value, value("")), false),
        (compare("a", "", equal, by_version, value("1")), false),
        (compare("a", "", equal, 77, version(9)), true),
        (compare("a", "", 77, by_version, version(9)), true),
    ] {
        let shown = format!("{compare:?}");
        let request = TxnRequest { compare: vec![compare], ..TxnRequest::default() };
        let response = answer(&mut fixture, request.clone()).expect("it is fine");
        assert_eq!(response.succeeded, expected, "{shown}");
        let response = fixture.reader().txn(request).expect("it is fine");
        assert_eq!(response.succeeded, expected, "read only: {shown}");
    }
}

#[test]
fn only_what_changes_something_takes_a_revision() {
    let mut fixture = Fixture::new(eager());
    assert_eq!((fixture.reader().revision(), fixture.reader().compacted()), (1, -1));
    assert_eq!(fixture.put("a", "1"), 2);
    fixture.apply(vec![
        Action::DeleteRange(delete("absent", "")),
        Action::Txn(txn(vec![r("a", 0), d("absent", "")])),
        Action::Txn(TxnRequest::default()),
        Action::SetMember(SetMember { id: 7, ..SetMember::default() }),
        compact(99),
        compact(2),
    ]);
    assert_eq!(fixture.reader().revision(), 2);
    assert_eq!(fixture.put("a", "1"), 3, "a put takes one, even of the same value");
    fixture.apply(vec![Action::Txn(txn(vec![p("b"), p("c"), d("a", "")]))]);
    assert_eq!(fixture.reader().revision(), 4, "one for all of a transaction");
}

#[test]
fn compaction_has_bounds_and_reads_at_it_are_fine() {
    let mut fixture = Fixture::new(eager());
    for value in ["1", "2", "3"] {
        fixture.put("a", value);
    }
    for (revision, expected) in [
        (-1, Err(Compacted)),
        (5, Err(FutureRevision)),
        (0, Ok(())),
        (0, Err(Compacted)),
        (3, Ok(())),
        (2, Err(Compacted)),
    ] {
        let response = fixture.apply(vec![compact(revision)]).remove(0);
        assert_eq!(response.map(|_| ()), expected, "{revision}");
    }
    fixture.store().flush().expect("the store works");
    let read = |revision| {
        let response = fixture.reader().range(&RangeRequest { revision, ..range("a", "") });
        match response {
            Ok(RangeResponse { kvs, .. }) => Ok(kvs[0].value.clone()),
            Err(Failure::Refused(error)) => Err(error),
            Err(Failure::Store(error)) => panic!("{error}"),
        }
    };
    assert_eq!(read(-5), Ok(Bytes::from("3")), "no revision at all: now");
    assert_eq!(read(2), Err(Compacted));
    assert_eq!(read(3), Ok(Bytes::from("2")));
    assert_eq!(read(5), Err(FutureRevision));
}

#[test]
fn a_deletion_exactly_at_the_compacted_revision_is_still_seen() {
    let mut fixture = Fixture::new(eager());
    fixture.put("a", "1");
    fixture.put("b", "1");
    fixture.apply(vec![Action::DeleteRange(delete("a", "c"))]);
    let deleted = fixture.reader().revision();
    fixture.put("a", "2");
    fixture.apply(vec![compact(deleted)]);
    let expected = [(EventType::Delete, "a"), (EventType::Delete, "b"), (EventType::Put, "a")];
    let expected = expected.map(|(kind, key)| (kind, super::bytes(key)));
    let events = |fixture: &Fixture| -> Vec<_> {
        let reader = fixture.reader();
        let mut events = reader.events(deleted, most(1)).expect("it is not compacted").events;
        assert_eq!(events.len(), 2, "a revision is never split");
        events.extend(reader.events(deleted + 1, most(1)).expect("it is not compacted").events);
        let kv = |event: &crate::proto::mvccpb::Event| event.kv.clone().expect("a key");
        events.iter().map(|event| (event.r#type(), kv(event).key)).collect()
    };
    assert_eq!(events(&fixture), expected);
    wait_for_sweep(&fixture, deleted);
    assert_eq!(events(&fixture), expected);
    fixture.crash();
    assert_eq!(events(&fixture), expected);
    let error = fixture.reader().events(deleted - 1, most(1)).expect_err("compacted");
    assert!(matches!(error, Failure::Refused(Compacted)));
}

fn wait_for_sweep(fixture: &Fixture, revision: i64) {
    let shared = &fixture.reader().0;
    shared.wait_until(|state| state.base.upkeep.sweep.done >= revision).expect("it works");
    assert!(fixture.reader().progress().borrow().swept >= revision);
}

#[test]
fn a_large_range_is_read_sorted_and_deleted() {
    const COUNT: usize = if cfg!(debug_assertions) { 20_000 } else { 100_000 };
    let mut fixture = Fixture::new(Options { flush_bytes: 8 << 20, ..eager() });
    for batch in 0..COUNT / 1000 {
        let key = |place| format!("key-{:06}", batch * 1000 + place);
        let puts = (0..1000).map(|place| Action::Put(put(&key(place), &key(place))));
        fixture.apply(puts.collect());
    }
    let reader = fixture.reader().clone();
    let all = reader.range(&range("key-", "key.")).expect("it reads");
    assert_eq!((all.count, all.kvs.len(), all.more), (COUNT as i64, COUNT, false));
    assert!(all.kvs.is_sorted_by(|a, b| a.key < b.key));
    let newest = RangeRequest { sort_order: 2, sort_target: 3, limit: 3, ..range("key-", "key.") };
    let newest = reader.range(&newest).expect("it reads");
    assert_eq!((newest.count, newest.kvs.len(), newest.more), (COUNT as i64, 3, true));
    assert_eq!(newest.kvs[0], all.kvs[COUNT - 1]);
    let response = fixture.apply(vec![Action::DeleteRange(delete("key-", "key."))]).remove(0);
    let Ok(Answer::DeleteRange(response)) = response else { panic!("{response:?}") };
    assert_eq!((response.deleted, response.prev_kvs.len()), (COUNT as i64, COUNT));
    assert_eq!(reader.range(&range("\0", "\0")).expect("it reads").count, 0);
    let before = RangeRequest { revision: reader.revision() - 1, ..range("\0", "\0") };
    assert_eq!(reader.range(&before).expect("it reads").kvs, all.kvs);
}

#[test]
fn readers_beside_the_writer_never_see_half_a_batch() {
    let mut fixture = Fixture::new(eager());
    let keys = ["a", "b", "c"];
    let reading = std::thread::spawn({
        let reader = fixture.reader().clone();
        move || {
            let mut seen = BTreeSet::new();
            while seen.last() != Some(&601) {
                let response = reader.range(&range("a", "d")).expect("it reads");
                let revision = response.header.expect("a header").revision;
                assert!(seen.last().is_none_or(|last| *last <= revision));
                // Each batch puts all three, and each put takes a revision.
                assert_eq!((revision - 1) % 3, 0, "between two batches");
                let newest = response.kvs.iter().map(|kv| kv.mod_revision).max();
                assert_eq!(newest.unwrap_or(1), revision);
                assert!(response.kvs.windows(2).all(|pair| pair[0].value == pair[1].value));
                seen.insert(revision);
            }
        }
    });
    for value in 0..200 {
        let value = value.to_string();
        fixture.apply(keys.map(|key| Action::Put(put(key, &value))).to_vec());
    }
    reading.join().expect("the reader saw whole batches");
}

#[test]
fn members_are_replicated_and_survive() {
    let mut fixture = Fixture::new(lazy());
    let member = |id, name: &str| SetMember {
        id,
        name: name.into(),
        client_urls: vec![format!("http://{name}:2379")],
        peer_urls: vec![format!("http://{name}:2380")],
    };
    let set = [member(2, "b"), member(1, "a"), member(2, "c")].map(Action::SetMember);
    fixture.apply(set.to_vec());
    fixture.store().flush().expect("the store works");
    fixture.crash();
    let members: Vec<_> = fixture.reader().members().values().cloned().collect();
    assert_eq!(members, [member(1, "a"), member(2, "c")]);
}

#[test]
fn entries_out_of_order_are_not_applied() {
    let mut fixture = Fixture::new(lazy());
    let entry = Entry { index: Index(2), term: Term(1), payload: Payload::Empty };
    let error = fixture.store().apply(&[entry], &mut Vec::new()).expect_err("1 is next");
    assert!(matches!(error, StoreError::OutOfOrder { expected: Index(1), found: Index(2) }));
}

#[test]
fn commands_of_a_later_version_are_refused_and_entries_without_one_have_no_answer() {
    let mut fixture = Fixture::new(lazy());
    let entries = [
        Payload::Empty,
        Payload::Command(Command::default().encode_to_vec().into()),
        Payload::Command(Bytes::from_static(b"\xff\xff not a command")),
        Payload::Command(Bytes::from_static(&[0xf2, 0x07, 0])),
    ];
    let entries = entries.into_iter().zip(1..).map(|(payload, index)| Entry {
        index: Index(index),
        term: Term(1),
        payload,
    });
    let mut responses = Vec::new();
    let entries: Vec<_> = entries.collect();
    fixture.store().apply(&entries, &mut responses).expect("the store works");
    assert_eq!(responses, [Err(NotCapable), Err(NotCapable), Err(NotCapable)]);
    assert_eq!(fixture.reader().applied(), Index(4));
}

#[test]
fn a_store_of_a_later_version_is_not_opened() {
    let directory = directory();
    let open = || Store::open(directory.path(), &lazy());
    {
        let (store, _) = open().expect("a fresh store");
        let keys = store.shared.read().base.tables.keys.clone();
        let mut rows = keys.start_ingestion().expect("it works");
        let mark = StoreMark { format: 3, ..StoreMark::default() }.encode_to_vec();
        rows.write(super::super::format::MARK, mark).expect("it works");
        rows.finish().expect("it works");
    }
    let error = open().err().expect("a later version");
    assert!(matches!(error, StoreError::NewerFormat { found: 3, known: 2 }));
    assert!(error.to_string().contains("upgrade"));
}

#[test]
fn a_directory_has_one_store_at_a_time() {
    let fixture = Fixture::new(lazy());
    let second = Store::open(fixture.directory.path(), &lazy());
    assert!(matches!(second, Err(StoreError::InUse)));
}

#[test]
fn only_ranges_make_a_transaction_that_only_reads() {
    let local = |key| Request::RequestRange(RangeRequest { serializable: true, ..range(key, "") });
    for (request, reads, serializable) in [
        (txn(vec![]), true, true),
        (txn(vec![r("a", 0)]), true, false),
        (txn(vec![local("a"), r("a", 0)]), true, false),
        (txn(vec![local("a"), t(vec![local("b")])]), true, true),
        (txn(vec![local("a"), p("a")]), false, false),
        (txn(vec![either(local("a"), d("a", ""))]), false, false),
    ] {
        let is = (only_reads(&request), is_serializable(&request));
        assert_eq!(is, (reads, serializable), "{request:?}");
    }
}
