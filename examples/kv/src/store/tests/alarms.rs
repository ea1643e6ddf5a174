//! Alarms are state like any other: replicated, kept through crashes and snapshots, and the same
//! verdict comes of them everywhere. And defragmentation gives space back.

use kontiki::Index;

use super::snapshot::{read, wait_for_sweep};
use super::{Fixture, compact, delete, eager, lazy, put, range, txn};
use crate::proto::etcdserverpb::alarm_request::AlarmAction;
use crate::proto::etcdserverpb::request_op::Request;
use crate::proto::etcdserverpb::{
    AlarmMember, AlarmRequest, AlarmType, LeaseGrantRequest, RequestOp, TxnRequest,
};
use crate::proto::kontiki::command::Action;
use crate::proto::kontiki::{LeaseRevoke, SetMember};
use crate::store::{Answer, KvError, Response, StoreReader, cost};

fn alarm(action: AlarmAction, member_id: u64, kind: AlarmType) -> Action {
    let (action, alarm) = (action.into(), kind.into());
    Action::Alarm(AlarmRequest { action, member_id, alarm })
}

fn raise(member_id: u64, kind: AlarmType) -> Action {
    alarm(AlarmAction::Activate, member_id, kind)
}

fn standing(member_id: u64, kind: AlarmType) -> AlarmMember {
    AlarmMember { member_id, alarm: kind.into() }
}

fn named(response: Response) -> Vec<AlarmMember> {
    match response {
        Ok(Answer::Alarm(answer)) => {
            assert_eq!(answer.header.map(|header| header.revision), Some(1));
            answer.alarms
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn alarms_are_listed_raised_and_put_down_as_in_etcd() {
    use AlarmAction::{Activate, Deactivate, Get};
    use AlarmType::{Corrupt, None, Nospace};
    let mut fixture = Fixture::new(lazy());
    let (one, two) = (standing(1, Nospace), standing(2, Nospace));
    let corrupt = standing(1, Corrupt);
    for (action, member, kind, expected) in [
        (Get, 0, None, vec![]),
        (Deactivate, 1, Nospace, vec![]),
        (Activate, 1, None, vec![]),
        (Activate, 2, Nospace, vec![two]),
        (Activate, 1, Nospace, vec![one]),
        (Activate, 1, Nospace, vec![one]),
        (Activate, 1, Corrupt, vec![corrupt]),
        (Get, 0, None, vec![one, two, corrupt]),
        (Get, 9, Nospace, vec![one, two]),
        (Get, 0, Corrupt, vec![corrupt]),
        (Deactivate, 3, Nospace, vec![]),
        (Deactivate, 1, None, vec![]),
        (Deactivate, 1, Nospace, vec![one]),
        (Deactivate, 1, Nospace, vec![]),
        (Get, 0, None, vec![two, corrupt]),
    ] {
        let response = fixture.apply(vec![alarm(action, member, kind)]).remove(0);
        assert_eq!(named(response), expected, "{action:?} {member} {kind:?}");
    }
    assert_eq!(fixture.reader().alarms(), [two, corrupt]);
    // A kind that a later version may have: nobody has raised it, and nobody can.
    for action in [Get, Activate, Deactivate] {
        let (action, member_id, alarm) = (action.into(), 2, 7);
        let unknown = Action::Alarm(AlarmRequest { action, member_id, alarm });
        assert_eq!(named(fixture.apply(vec![unknown]).remove(0)), []);
    }
}

/// What each of a few actions comes to.
fn verdicts(fixture: &mut Fixture) -> Vec<Option<KvError>> {
    let operation = |request| RequestOp { request: Some(request) };
    let in_failure = TxnRequest {
        failure: vec![operation(Request::RequestPut(put("b", "")))],
        ..TxnRequest::default()
    };
    let nested = txn(vec![Request::RequestTxn(txn(vec![Request::RequestPut(put("b", ""))]))]);
    let revision = fixture.reader().revision();
    let actions = vec![
        Action::Put(put("a", "1")),
        Action::Txn(txn(vec![Request::RequestPut(put("b", ""))])),
        Action::Txn(in_failure),
        Action::Txn(nested),
        Action::Txn(txn(vec![Request::RequestDeleteRange(delete("c", ""))])),
        Action::DeleteRange(delete("c", "")),
        compact(revision),
        Action::LeaseGrant(LeaseGrantRequest { id: 5, ttl: 9 }),
        Action::LeaseRevoke(LeaseRevoke { id: 5, ..LeaseRevoke::default() }),
        Action::SetMember(SetMember::default()),
    ];
    fixture.apply(actions).into_iter().map(Result::err).collect()
}

#[test]
fn an_alarm_forbids_what_would_make_it_worse_and_nothing_else() {
    use AlarmType::{Corrupt, Nospace};
    let mut fixture = Fixture::new(lazy());
    fixture.put("a", "0");
    assert_eq!(verdicts(&mut fixture), [None; 10]);
    let revision = fixture.reader().revision();

    let full = Some(KvError::NoSpace);
    fixture.apply(vec![raise(7, Nospace)]);
    let unknown = Some(KvError::LeaseNotFound);
    let some = [full, full, full, full, None, None, None, full, unknown, None];
    assert_eq!(verdicts(&mut fixture), some);
    assert_eq!(fixture.reader().revision(), revision, "what is refused changes nothing");

    let corrupt = Some(KvError::CorruptCluster);
    fixture.apply(vec![raise(7, Corrupt)]);
    let mut all = [corrupt; 10];
    all[9] = None;
    assert_eq!(verdicts(&mut fixture), all);

    for kind in [Corrupt, Nospace] {
        assert!(fixture.reader().range(&range("a", "")).is_ok(), "reads go on");
        fixture.apply(vec![alarm(AlarmAction::Deactivate, 7, kind)]);
    }
    fixture.put("a", "2");
}

#[test]
fn alarms_survive_crashes_and_go_with_snapshots() {
    for options in [lazy(), eager()] {
        let mut fixture = Fixture::new(options);
        fixture.apply(vec![raise(7, AlarmType::Nospace)]);
        fixture.store().flush().expect("the store works");
        fixture.apply(vec![raise(3, AlarmType::Nospace), Action::Put(put("a", "1"))]);
        fixture.crash();
        let expected = [standing(3, AlarmType::Nospace), standing(7, AlarmType::Nospace)];
        assert_eq!(fixture.reader().alarms(), expected);

        let snapshot = read(fixture.store().snapshot().expect("the store works"));
        let mut other = Fixture::new(lazy());
        other.put("gone", "soon");
        let applied = Index(fixture.log.len() as u64);
        other.store().restore(applied, &mut &snapshot[..]).expect("a good snapshot");
        assert_eq!(other.reader().alarms(), expected);
        other.log = fixture.log.clone();
        let refused = other.apply(vec![Action::Put(put("a", "2"))]).remove(0);
        assert_eq!(refused.err(), Some(KvError::NoSpace));
    }
}

#[test]
fn a_request_costs_what_its_puts_are_long() {
    let puts = |keys: &[&str]| keys.iter().map(|key| Request::RequestPut(put(key, "12"))).collect();
    assert_eq!(cost(&Action::Put(put("key", "value"))), 256 + 3 + 5);
    assert_eq!(cost(&Action::Txn(txn(puts(&["a", "b"])))), 2 * (256 + 1 + 2));
    let success = txn(puts(&["a"])).success;
    let failure = txn(puts(&["b", "c"])).success;
    let either = TxnRequest { success, failure, ..TxnRequest::default() };
    assert_eq!(cost(&Action::Txn(either)), 2 * (256 + 1 + 2), "the larger way");
    assert_eq!(cost(&Action::Txn(txn(vec![Request::RequestDeleteRange(delete("a", ""))]))), 0);
    assert_eq!(cost(&Action::DeleteRange(delete("a", ""))), 0);
    assert_eq!(cost(&raise(1, AlarmType::Nospace)), 0);
    assert_eq!(cost(&Action::LeaseGrant(LeaseGrantRequest { id: 5, ttl: 9 })), 64);
}

/// Something that cannot be pressed.
fn noise(seed: u64, bytes: usize) -> String {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut letter = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from(b' ' + (state >> 32) as u8 % 95)
    };
    (0..bytes).map(|_| letter()).collect()
}

fn fill(fixture: &mut Fixture, versions: u64) {
    for version in 0..versions {
        for key in 0..8 {
            fixture.put(&format!("key {key}"), &noise(version * 8 + key, 4096));
        }
        fixture.store().flush().expect("the store works");
    }
}

#[test]
fn the_size_falls_when_what_was_compacted_is_defragmented() {
    let mut fixture = Fixture::new(lazy());
    fill(&mut fixture, 32);
    let reader: StoreReader = fixture.reader().clone();
    let full = reader.size();
    assert!(full.bytes > 32 * 8 * 3000, "{full:?}");
    reader.defragment().expect("the store works");
    let kept = reader.size();
    assert!(kept.bytes > 32 * 8 * 3000, "nothing was given up: {kept:?}");

    let revision = reader.revision();
    let hash = reader.hash(None).expect("the store works");
    fixture.apply(vec![compact(revision)]);
    wait_for_sweep(&reader, revision);
    let compacted = reader.hash(None).expect("the store works");
    reader.defragment().expect("the store works");
    let after = reader.size();
    assert!(after.bytes < full.bytes / 8, "{full:?} became {after:?}");
    assert!(after.bytes_in_use <= full.bytes / 8, "{after:?}");
    assert_eq!(reader.hash(None).expect("the store works"), compacted);
    assert_ne!(hash, compacted);

    drop(reader);
    fixture.crash();
    let reader = fixture.reader();
    assert_eq!(reader.hash(None).expect("the store works"), compacted);
    assert!(reader.size().bytes < full.bytes / 8);
}

#[test]
fn a_defragmentation_sees_to_compactions_that_are_not_carried_out_yet() {
    let mut fixture = Fixture::new(lazy());
    fixture.put("before", "the view");
    fixture.store().flush().expect("the store works");
    let view = || fixture.reader().snapshot().expect("the store works");
    let (seen, view) = (read(view()), view());
    fill(&mut fixture, 8);
    let (revision, before) = (fixture.reader().revision(), fixture.reader().size());
    fixture.apply(vec![Action::DeleteRange(delete("a", "z")), compact(revision + 1)]);
    fixture.reader().defragment().expect("the store works");
    assert_eq!(fixture.reader().progress().borrow().swept, revision + 1);
    assert_eq!(read(view), seen, "who reads goes on reading the same");

    // What had to stay for him goes once he has ended, though nothing else happened.
    fixture.reader().defragment().expect("the store works");
    let after = fixture.reader().size();
    assert!(after.bytes < before.bytes / 8, "{before:?} became {after:?}");
    fixture.put("goes", "on");
    fixture.crash();
}

#[test]
fn nothing_is_left_of_keys_that_are_gone() {
    let mut fixture = Fixture::new(lazy());
    for key in 0..4000 {
        fixture.put(&format!("a key of some length {key}"), "");
    }
    fixture.apply(vec![Action::DeleteRange(delete("a", "b"))]);
    fixture.store().flush().expect("the store works");
    let revision = fixture.put("last", "");
    fixture.apply(vec![compact(revision)]);
    fixture.reader().defragment().expect("the store works");
    let size = fixture.reader().size();
    assert!(size.bytes < 16 << 10, "the mark of a deletion takes space too: {size:?}");
}

#[test]
fn there_is_room_until_the_size_comes_to_the_quota() {
    let mut fixture = Fixture::new(lazy());
    fill(&mut fixture, 1);
    let bytes = fixture.reader().size().bytes;
    assert!(fixture.reader().has_room(100, bytes + 101));
    assert!(!fixture.reader().has_room(101, bytes + 101));
    assert!(!fixture.reader().has_room(u64::MAX, u64::MAX), "and no sum overflows");
    // What is in memory counts at once.
    fixture.put("more", &noise(1, 1000));
    assert!(!fixture.reader().has_room(100, bytes + 101));
}
