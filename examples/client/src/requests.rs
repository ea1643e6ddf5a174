//! Requests written in a line. Whatever has no word here is a public field of the message.

use bytes::Bytes;

use crate::proto::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use crate::proto::etcdserverpb::request_op::Request;
use crate::proto::etcdserverpb::{
    Compare, DeleteRangeRequest, PutRequest, RangeRequest, RequestOp, TxnRequest,
    WatchCreateRequest,
};

/// The first key behind all that start with `prefix`, as `range_end` wants it; for an empty
/// prefix, or one of 0xff only, everything that follows.
pub fn prefix_end(prefix: &[u8]) -> Vec<u8> {
    match prefix.iter().rposition(|&byte| byte < 0xff) {
        None => vec![0],
        Some(last) => {
            let mut end = prefix[..=last].to_vec();
            end[last] += 1;
            end
        }
    }
}

/// `key` and `range_end` of all that starts with `prefix`. The empty key is none to etcd: "all
/// keys" begins at the byte zero.
fn prefix_range(prefix: impl Into<Bytes>) -> (Bytes, Bytes) {
    let prefix = prefix.into();
    let end = prefix_end(&prefix).into();
    (if prefix.is_empty() { Bytes::from_static(&[0]) } else { prefix }, end)
}

impl PutRequest {
    /// Writes `value` under `key`, without a lease.
    pub fn new(key: impl Into<Bytes>, value: impl Into<Bytes>) -> Self {
        Self { key: key.into(), value: value.into(), ..Self::default() }
    }

    /// The same, gone when the lease is.
    #[must_use]
    pub fn with_lease(self, lease: i64) -> Self {
        Self { lease, ..self }
    }
}

impl RangeRequest {
    /// One key.
    pub fn key(key: impl Into<Bytes>) -> Self {
        Self { key: key.into(), ..Self::default() }
    }

    /// All keys that start with `prefix`.
    pub fn prefix(prefix: impl Into<Bytes>) -> Self {
        let (key, range_end) = prefix_range(prefix);
        Self { key, range_end, ..Self::default() }
    }
}

impl DeleteRangeRequest {
    /// One key.
    pub fn key(key: impl Into<Bytes>) -> Self {
        Self { key: key.into(), ..Self::default() }
    }

    /// All keys that start with `prefix`.
    pub fn prefix(prefix: impl Into<Bytes>) -> Self {
        let (key, range_end) = prefix_range(prefix);
        Self { key, range_end, ..Self::default() }
    }
}

impl WatchCreateRequest {
    /// One key, from now on.
    pub fn key(key: impl Into<Bytes>) -> Self {
        Self { key: key.into(), ..Self::default() }
    }

    /// All keys that start with `prefix`, from now on.
    pub fn prefix(prefix: impl Into<Bytes>) -> Self {
        let (key, range_end) = prefix_range(prefix);
        Self { key, range_end, ..Self::default() }
    }

    /// The same, from `revision` on, which may be long past.
    #[must_use]
    pub fn from_revision(self, revision: i64) -> Self {
        Self { start_revision: revision, ..self }
    }
}

impl Compare {
    /// The key was created at this revision; zero: it is absent.
    pub fn create_revision(key: impl Into<Bytes>, revision: i64) -> Self {
        Self::equal(key, CompareTarget::Create, TargetUnion::CreateRevision(revision))
    }

    /// The key was last written at this revision; zero: it is absent.
    pub fn mod_revision(key: impl Into<Bytes>, revision: i64) -> Self {
        Self::equal(key, CompareTarget::Mod, TargetUnion::ModRevision(revision))
    }

    /// The key has been written this often since it was created; zero: it is absent.
    pub fn version(key: impl Into<Bytes>, version: i64) -> Self {
        Self::equal(key, CompareTarget::Version, TargetUnion::Version(version))
    }

    /// The key is there, with this value.
    pub fn value(key: impl Into<Bytes>, value: impl Into<Bytes>) -> Self {
        Self::equal(key, CompareTarget::Value, TargetUnion::Value(value.into()))
    }

    /// The key goes with this lease; zero: with none, or it is absent.
    pub fn lease(key: impl Into<Bytes>, lease: i64) -> Self {
        Self::equal(key, CompareTarget::Lease, TargetUnion::Lease(lease))
    }

    /// The same with another relation than equality.
    #[must_use]
    pub fn that_is(self, result: CompareResult) -> Self {
        Self { result: result.into(), ..self }
    }

    fn equal(key: impl Into<Bytes>, target: CompareTarget, value: TargetUnion) -> Self {
        Self {
            result: CompareResult::Equal.into(),
            target: target.into(),
            key: key.into(),
            range_end: Bytes::new(),
            target_union: Some(value),
        }
    }
}

impl TxnRequest {
    /// Writes `new` where the key holds `old`, absent for `None`; reads it where it does not.
    pub fn swap(key: &Bytes, old: Option<Bytes>, new: Bytes) -> Self {
        let held = match old {
            Some(old) => Compare::value(key.clone(), old),
            None => Compare::create_revision(key.clone(), 0),
        };
        Self::when([held])
            .then(PutRequest::new(key.clone(), new))
            .otherwise(RangeRequest::key(key.clone()))
    }

    /// Succeeds when all of `compares` hold; without any, always.
    pub fn when(compares: impl IntoIterator<Item = Compare>) -> Self {
        Self { compare: compares.into_iter().collect(), ..Self::default() }
    }

    /// One more thing to do when it succeeds, after the others.
    #[must_use]
    pub fn then(mut self, operation: impl Into<RequestOp>) -> Self {
        self.success.push(operation.into());
        self
    }

    /// One more thing to do when it fails, after the others.
    #[must_use]
    pub fn otherwise(mut self, operation: impl Into<RequestOp>) -> Self {
        self.failure.push(operation.into());
        self
    }
}

impl From<RangeRequest> for RequestOp {
    fn from(request: RangeRequest) -> Self {
        Self { request: Some(Request::RequestRange(request)) }
    }
}

impl From<PutRequest> for RequestOp {
    fn from(request: PutRequest) -> Self {
        Self { request: Some(Request::RequestPut(request)) }
    }
}

impl From<DeleteRangeRequest> for RequestOp {
    fn from(request: DeleteRangeRequest) -> Self {
        Self { request: Some(Request::RequestDeleteRange(request)) }
    }
}

impl From<TxnRequest> for RequestOp {
    fn from(request: TxnRequest) -> Self {
        Self { request: Some(Request::RequestTxn(request)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_where_its_last_growable_byte_grows() {
        assert_eq!(prefix_end(b"a"), b"b");
        assert_eq!(prefix_end(b"a\xff"), b"b");
        assert_eq!(prefix_end(b"\xff\xff"), b"\0");
        assert_eq!(prefix_end(b""), b"\0");
    }

    #[test]
    fn the_empty_prefix_is_all_keys() {
        let all = RangeRequest::prefix("");
        assert_eq!((&all.key[..], &all.range_end[..]), (&b"\0"[..], &b"\0"[..]));
    }

    #[test]
    fn a_transaction_keeps_the_order_of_its_operations() {
        let txn = TxnRequest::when([Compare::version("k", 3).that_is(CompareResult::Less)])
            .then(PutRequest::new("k", "v").with_lease(7))
            .then(DeleteRangeRequest::key("l"))
            .otherwise(RangeRequest::key("k"));
        assert_eq!(txn.compare[0].result, i32::from(CompareResult::Less));
        assert_eq!(txn.compare[0].target_union, Some(TargetUnion::Version(3)));
        let put = PutRequest { lease: 7, ..PutRequest::new("k", "v") };
        assert_eq!(txn.success, [put.into(), DeleteRangeRequest::key("l").into()]);
        assert_eq!(txn.failure, [RangeRequest::key("k").into()]);
    }
}
