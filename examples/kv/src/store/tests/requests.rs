//! Random requests, odd ones above all: few keys, so that they meet.

use bytes::Bytes;
use proptest::collection::vec;
use proptest::option::weighted;
use proptest::prelude::*;

use crate::proto::etcdserverpb::compare::TargetUnion;
use crate::proto::etcdserverpb::request_op::Request;
use crate::proto::etcdserverpb::{
    CompactionRequest, Compare, DeleteRangeRequest, LeaseGrantRequest, PutRequest, RangeRequest,
    RequestOp, TxnRequest,
};
use crate::proto::kontiki::command::Action;
use crate::proto::kontiki::{LeaseCheckpoint, LeaseExpired, LeaseRemaining, LeaseRevoke};

/// Who is asked. Etcd 3.4 has a fault that is not ours: it stops at some transactions in
/// transactions in transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Model,
    Etcd,
}

pub(super) fn key() -> impl Strategy<Value = Bytes> {
    let keys: [&[u8]; 10] =
        [b"a", b"b", b"c", b"ab", b"a\0", b"a\0b", b"\0", b"\xff", b"\xff\xff", b"ba"];
    (0..keys.len()).prop_map(move |key| Bytes::from_static(keys[key]))
}

fn range_end() -> impl Strategy<Value = Bytes> {
    prop_oneof![
        4 => Just(Bytes::new()),
        2 => Just(Bytes::from_static(b"\0")),
        3 => key(),
        1 => Just(Bytes::from_static(b"\0\0")),
    ]
}

fn value() -> impl Strategy<Value = Bytes> {
    prop_oneof![
        4 => (0u8..3).prop_map(|value| Bytes::from(vec![b'0' + value])),
        1 => Just(Bytes::new()),
        // Too long to be kept beside its key.
        1 => (0u8..3).prop_map(|value| Bytes::from(vec![b'0' + value; 1500])),
        1 => (0u8..3).prop_map(|value| Bytes::from(vec![b'0' + value; 5000])),
    ]
}

/// Revisions around those that a test reaches, and some that never are.
fn revision() -> impl Strategy<Value = i64> {
    prop_oneof![6 => Just(0), 4 => 1i64..40, 1 => -3i64..0, 1 => Just(i64::MAX)]
}

fn bound() -> impl Strategy<Value = i64> {
    prop_oneof![6 => Just(0), 3 => 1i64..40, 1 => Just(-1)]
}

pub(super) fn put() -> impl Strategy<Value = PutRequest> {
    let lease = weighted(0.3, lease_id()).prop_map(Option::unwrap_or_default);
    let flags = (any::<bool>(), weighted(0.2, 0u8..3));
    (key(), value(), lease, flags).prop_map(|(key, value, lease, (prev_kv, ignore))| {
        let ignore_value = matches!(ignore, Some(0 | 2));
        let ignore_lease = matches!(ignore, Some(1 | 2));
        PutRequest {
            key,
            value: if ignore_value { Bytes::new() } else { value },
            lease: if ignore_lease { 0 } else { lease },
            prev_kv,
            ignore_value,
            ignore_lease,
        }
    })
}

fn lease_id() -> impl Strategy<Value = i64> {
    prop_oneof![8 => 1i64..4, 1 => -1i64..1]
}

/// Leases come and go, by the wish of a client or of a leader, of this term or another.
fn lease() -> impl Strategy<Value = Action> {
    let ttl = prop_oneof![8 => -1i64..100, 1 => Just(9_000_000_001)];
    let grant = (lease_id(), ttl).prop_map(|(id, ttl)| LeaseGrantRequest { id, ttl });
    let term = || prop_oneof![6 => Just(1u64), 1 => Just(2)];
    // One of the first entries may have granted it.
    let expired =
        (term(), 0u64..30).prop_map(|(term, granted_at)| LeaseExpired { term, granted_at });
    let revoke =
        (lease_id(), weighted(0.5, expired)).prop_map(|(id, expired)| LeaseRevoke { id, expired });
    let remaining = (lease_id(), 0u64..30, -1i64..100)
        .prop_map(|(id, granted_at, remaining)| LeaseRemaining { id, granted_at, remaining });
    let checkpoint =
        (term(), vec(remaining, 0..5)).prop_map(|(term, leases)| LeaseCheckpoint { term, leases });
    prop_oneof![
        4 => grant.prop_map(Action::LeaseGrant),
        2 => revoke.prop_map(Action::LeaseRevoke),
        2 => checkpoint.prop_map(Action::LeaseCheckpoint),
    ]
}

pub(super) fn delete_range() -> impl Strategy<Value = DeleteRangeRequest> {
    (key(), range_end(), any::<bool>()).prop_map(|(key, range_end, prev_kv)| DeleteRangeRequest {
        key,
        range_end,
        prev_kv,
    })
}

pub(super) fn range() -> impl Strategy<Value = RangeRequest> {
    let limit = prop_oneof![3 => Just(0), 3 => 1i64..5, 1 => Just(-1)];
    let sort = (0i32..3, 0i32..5);
    let flags = (weighted(0.3, any::<bool>()), any::<bool>());
    let bounds = (bound(), bound(), bound(), bound());
    (key(), range_end(), limit, revision(), sort, flags, bounds).prop_map(
        move |(key, range_end, limit, revision, sort, flags, bounds)| RangeRequest {
            key,
            range_end,
            limit,
            revision,
            sort_order: sort.0,
            sort_target: sort.1,
            serializable: false,
            keys_only: flags.0 == Some(true),
            count_only: flags.0 == Some(false) && flags.1,
            min_mod_revision: bounds.0,
            max_mod_revision: bounds.1,
            min_create_revision: bounds.2,
            max_create_revision: bounds.3,
        },
    )
}

fn compare() -> impl Strategy<Value = Compare> {
    let number = || prop_oneof![0i64..6, 0i64..40];
    let union = prop_oneof![
        number().prop_map(TargetUnion::Version),
        number().prop_map(TargetUnion::CreateRevision),
        number().prop_map(TargetUnion::ModRevision),
        value().prop_map(TargetUnion::Value),
        (0i64..4).prop_map(TargetUnion::Lease),
    ];
    let matching = (union, 0u8..20);
    let result = prop_oneof![12 => 0i32..4, 1 => Just(9)];
    let ends = prop_oneof![3 => Just(Bytes::new()), 1 => range_end()];
    (key(), ends, result, matching).prop_map(|(key, range_end, result, (union, odd))| {
        let target = match union {
            _ if odd == 0 => 4,
            _ if odd == 1 => 99,
            TargetUnion::Version(_) => 0,
            TargetUnion::CreateRevision(_) => 1,
            TargetUnion::ModRevision(_) => 2,
            TargetUnion::Value(_) => 3,
            TargetUnion::Lease(_) => 4,
        };
        let target_union = if odd == 2 { None } else { Some(union) };
        Compare { result, target, key, range_end, target_union }
    })
}

fn operation() -> impl Strategy<Value = RequestOp> {
    let request = prop_oneof![
        range().prop_map(Request::RequestRange),
        put().prop_map(Request::RequestPut),
        delete_range().prop_map(Request::RequestDeleteRange),
    ];
    weighted(0.995, request).prop_map(|request| RequestOp { request })
}

pub(super) fn txn(asked: Asked) -> impl Strategy<Value = TxnRequest> {
    let leaf = (vec(compare(), 0..3), vec(operation(), 0..4), vec(operation(), 0..3))
        .prop_map(|(compare, success, failure)| TxnRequest { compare, success, failure });
    let depth = if asked == Asked::Etcd { 1 } else { 3 };
    leaf.prop_recursive(depth, 16, 2, move |inner| {
        let nested = inner.prop_map(|txn| RequestOp { request: Some(Request::RequestTxn(txn)) });
        let operation = prop_oneof![operation(), nested];
        (vec(compare(), 0..2), vec(operation.clone(), 0..4), vec(operation, 0..3))
            .prop_map(|(compare, success, failure)| TxnRequest { compare, success, failure })
    })
}

/// A transaction of nothing but ranges.
pub(super) fn read_txn() -> impl Strategy<Value = TxnRequest> {
    let operations = || {
        let operation =
            range().prop_map(|range| RequestOp { request: Some(Request::RequestRange(range)) });
        vec(operation, 0..4)
    };
    (vec(compare(), 0..3), operations(), operations())
        .prop_map(|(compare, success, failure)| TxnRequest { compare, success, failure })
}

pub(super) fn action(asked: Asked) -> impl Strategy<Value = Action> {
    prop_oneof![
        6 => put().prop_map(Action::Put),
        2 => delete_range().prop_map(Action::DeleteRange),
        3 => txn(asked).prop_map(Action::Txn),
        3 => lease(),
        1 => prop_oneof![1i64..40, -2i64..2].prop_map(|revision| {
            Action::Compact(CompactionRequest { revision, physical: false })
        }),
    ]
}
