//! Requests as the bytes say, odd ones above all: few keys, so that they meet.

use bytes::Bytes;
use raft_testkit::fuzz::Input;

use crate::proto::etcdserverpb::compare::TargetUnion;
use crate::proto::etcdserverpb::request_op::Request;
use crate::proto::etcdserverpb::{
    CompactionRequest, Compare, DeleteRangeRequest, LeaseGrantRequest, PutRequest, RangeRequest,
    RequestOp, TxnRequest,
};
use crate::proto::kontiki::command::Action;
use crate::proto::kontiki::{LeaseCheckpoint, LeaseExpired, LeaseRemaining, LeaseRevoke};

const KEYS: [&[u8]; 10] =
    [b"a", b"b", b"c", b"ab", b"a\0", b"a\0b", b"\0", b"\xff", b"\xff\xff", b"ba"];
const DEPTH_MAX: u64 = 3;

pub(super) fn action(input: &mut Input<'_>) -> Action {
    match input.below(14) {
        0..6 => Action::Put(put(input)),
        6..8 => Action::DeleteRange(delete_range(input)),
        8..11 => Action::Txn(txn(input, DEPTH_MAX)),
        11 => {
            let revision = input.below(48) as i64 - 2;
            Action::Compact(CompactionRequest { revision, physical: false })
        }
        12 => {
            let (id, ttl) = (lease_id(input), i64::from(input.byte()));
            Action::LeaseGrant(LeaseGrantRequest { id, ttl })
        }
        _ => lease_ends(input),
    }
}

fn lease_id(input: &mut Input<'_>) -> i64 {
    input.below(4) as i64
}

fn lease_ends(input: &mut Input<'_>) -> Action {
    let (id, term, granted_at) = (lease_id(input), 1 + input.below(8) / 7, input.below(24));
    match input.below(3) {
        0 => Action::LeaseRevoke(LeaseRevoke { id, expired: None }),
        1 => {
            let expired = Some(LeaseExpired { term, granted_at });
            Action::LeaseRevoke(LeaseRevoke { id, expired })
        }
        _ => {
            let remaining = i64::from(input.byte());
            let leases = vec![LeaseRemaining { id, granted_at, remaining }];
            Action::LeaseCheckpoint(LeaseCheckpoint { term, leases })
        }
    }
}

fn key(input: &mut Input<'_>) -> Bytes {
    Bytes::from_static(input.pick(&KEYS))
}

fn range_end(input: &mut Input<'_>) -> Bytes {
    match input.below(10) {
        0..4 => Bytes::new(),
        4..6 => Bytes::from_static(b"\0"),
        6..9 => key(input),
        _ => Bytes::from_static(b"\0\0"),
    }
}

fn value(input: &mut Input<'_>) -> Bytes {
    // The long ones are too long to be kept beside their keys.
    let length = input.pick(&[1, 1, 1, 1, 0, 1500, 5000]);
    Bytes::from(vec![b'0' + input.byte() % 3; length])
}

/// Mostly none; else one around those that there are, or one that never is.
fn revision(input: &mut Input<'_>) -> i64 {
    match input.below(12) {
        0..6 => 0,
        6..10 => input.below(48) as i64,
        10 => -1,
        _ => i64::MAX,
    }
}

fn put(input: &mut Input<'_>) -> PutRequest {
    let flags = input.byte();
    let (ignore_value, ignore_lease) = (flags & 0b1110 == 0b0010, flags & 0b1110 == 0b0100);
    let (key, value) = (key(input), value(input));
    PutRequest {
        key,
        value: if ignore_value { Bytes::new() } else { value },
        lease: if flags & 0xc0 == 0x40 && !ignore_lease { lease_id(input) } else { 0 },
        prev_kv: flags & 1 == 1,
        ignore_value,
        ignore_lease,
    }
}

fn delete_range(input: &mut Input<'_>) -> DeleteRangeRequest {
    let (key, range_end) = (key(input), range_end(input));
    DeleteRangeRequest { key, range_end, prev_kv: input.flag() }
}

pub(super) fn range(input: &mut Input<'_>) -> RangeRequest {
    let (key, range_end) = (key(input), range_end(input));
    let choices = input.byte();
    let mut request = RangeRequest { key, range_end, ..RangeRequest::default() };
    request.limit = input.pick(&[0, 0, 1, 2, 3, -1]);
    request.revision = revision(input);
    request.keys_only = choices & 3 == 1;
    request.count_only = choices & 3 == 2;
    if choices & 4 == 4 {
        (request.sort_order, request.sort_target) = (input.below(3) as i32, input.below(5) as i32);
    }
    if choices & 8 == 8 {
        request.min_mod_revision = revision(input);
        request.max_mod_revision = revision(input);
    }
    if choices & 16 == 16 {
        request.min_create_revision = revision(input);
        request.max_create_revision = revision(input);
    }
    request
}

fn compare(input: &mut Input<'_>) -> Compare {
    let (key, range_end) = (key(input), if input.flag() { range_end(input) } else { Bytes::new() });
    let number = input.below(48) as i64;
    let (target, union) = match input.below(6) {
        0 => (0, TargetUnion::Version(number)),
        1 => (1, TargetUnion::CreateRevision(number)),
        2 => (2, TargetUnion::ModRevision(number)),
        3 => (3, TargetUnion::Value(value(input))),
        4 => (4, TargetUnion::Lease(number)),
        // What it compares is not what it brings.
        _ => (input.pick(&[0, 1, 2, 3, 4, 99]), TargetUnion::Version(number)),
    };
    let result = input.pick(&[0, 1, 2, 3, 9]);
    let target_union = (input.byte() < 240).then_some(union);
    Compare { result, target, key, range_end, target_union }
}

fn operation(input: &mut Input<'_>, depth: u64) -> RequestOp {
    let request = match input.below(8) {
        0..2 => Request::RequestRange(range(input)),
        2..5 => Request::RequestPut(put(input)),
        5..7 => Request::RequestDeleteRange(delete_range(input)),
        _ if depth > 0 => Request::RequestTxn(txn(input, depth - 1)),
        _ => Request::RequestRange(range(input)),
    };
    RequestOp { request: Some(request) }
}

fn txn(input: &mut Input<'_>, depth: u64) -> TxnRequest {
    let compare = (0..input.below(3)).map(|_| compare(input)).collect();
    let success = (0..input.below(4)).map(|_| operation(input, depth)).collect();
    let failure = (0..input.below(3)).map(|_| operation(input, depth)).collect();
    TxnRequest { compare, success, failure }
}

/// A transaction of nothing but ranges.
pub(super) fn read_txn(input: &mut Input<'_>) -> TxnRequest {
    let compare = (0..input.below(3)).map(|_| compare(input)).collect();
    let (success, failure) = (ranges(input), ranges(input));
    TxnRequest { compare, success, failure }
}

fn ranges(input: &mut Input<'_>) -> Vec<RequestOp> {
    let count = input.below(4);
    (0..count).map(|_| RequestOp { request: Some(Request::RequestRange(range(input))) }).collect()
}
