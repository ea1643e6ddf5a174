//! Requests in few words.

use bytes::Bytes;
use kontiki_kv::proto::etcdserverpb::compare::TargetUnion;
use kontiki_kv::proto::etcdserverpb::request_op::Request;
use kontiki_kv::proto::etcdserverpb::{
    CompactionRequest, Compare, DeleteRangeRequest, PutRequest, RangeRequest, RequestOp, TxnRequest,
};

pub fn bytes(text: impl AsRef<[u8]>) -> Bytes {
    Bytes::copy_from_slice(text.as_ref())
}

pub fn get(key: impl AsRef<[u8]>) -> RangeRequest {
    range(key, "")
}

pub fn range(key: impl AsRef<[u8]>, range_end: impl AsRef<[u8]>) -> RangeRequest {
    RangeRequest { key: bytes(key), range_end: bytes(range_end), ..RangeRequest::default() }
}

pub fn put(key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> PutRequest {
    PutRequest { key: bytes(key), value: bytes(value), ..PutRequest::default() }
}

/// Deletes, and asks for what was there.
pub fn delete(key: impl AsRef<[u8]>, range_end: impl AsRef<[u8]>) -> DeleteRangeRequest {
    DeleteRangeRequest { key: bytes(key), range_end: bytes(range_end), prev_kv: true }
}

pub fn compact(revision: i64) -> CompactionRequest {
    CompactionRequest { revision, physical: false }
}

pub fn compare(
    (key, range_end): (&str, &str),
    target: i32,
    result: i32,
    target_union: Option<TargetUnion>,
) -> Compare {
    Compare { result, target, key: bytes(key), target_union, range_end: bytes(range_end) }
}

/// Holds if there is such a key.
pub fn exists(key: &str) -> Compare {
    compare((key, ""), 0, 1, Some(TargetUnion::Version(0)))
}

/// A transaction without a compare: it succeeds.
pub fn always(success: Vec<RequestOp>) -> TxnRequest {
    when(vec![], success, vec![])
}

pub fn when(compare: Vec<Compare>, success: Vec<RequestOp>, failure: Vec<RequestOp>) -> TxnRequest {
    TxnRequest { compare, success, failure }
}

/// A request as an operation of a transaction.
pub trait Operation {
    fn op(self) -> RequestOp;
}

impl Operation for RangeRequest {
    fn op(self) -> RequestOp {
        RequestOp { request: Some(Request::RequestRange(self)) }
    }
}

impl Operation for PutRequest {
    fn op(self) -> RequestOp {
        RequestOp { request: Some(Request::RequestPut(self)) }
    }
}

impl Operation for DeleteRangeRequest {
    fn op(self) -> RequestOp {
        RequestOp { request: Some(Request::RequestDeleteRange(self)) }
    }
}

impl Operation for TxnRequest {
    fn op(self) -> RequestOp {
        RequestOp { request: Some(Request::RequestTxn(self)) }
    }
}
