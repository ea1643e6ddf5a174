//! What can be said of a request without looking at the store: run before it is proposed.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use super::error::KvError;
use super::format::KEY_BYTES_MAX;
use crate::proto::etcdserverpb::range_request::{SortOrder, SortTarget};
use crate::proto::etcdserverpb::request_op::Request;
use crate::proto::etcdserverpb::{
    DeleteRangeRequest, PutRequest, RangeRequest, RequestOp, TxnRequest,
};

/// How deep transactions may be nested: well within what the wire format's reader follows.
const DEPTH_MAX: usize = 32;

/// Checks a range request.
///
/// # Errors
/// What etcd answers.
pub fn validate_range(request: &RangeRequest) -> Result<(), KvError> {
    if request.key.is_empty() {
        return Err(KvError::EmptyKey);
    }
    let order = SortOrder::try_from(request.sort_order);
    let target = SortTarget::try_from(request.sort_target);
    if order.is_err() || target.is_err() {
        return Err(KvError::InvalidSortOption);
    }
    Ok(())
}

/// Checks a put.
///
/// # Errors
/// What etcd answers; a key longer than [`KEY_BYTES_MAX`] is refused too.
pub fn validate_put(request: &PutRequest) -> Result<(), KvError> {
    if request.key.is_empty() {
        return Err(KvError::EmptyKey);
    }
    if request.ignore_value && !request.value.is_empty() {
        return Err(KvError::ValueProvided);
    }
    if request.ignore_lease && request.lease != 0 {
        return Err(KvError::LeaseProvided);
    }
    if request.key.len() > KEY_BYTES_MAX {
        return Err(KvError::RequestTooLarge);
    }
    Ok(())
}

/// Checks a deletion.
///
/// # Errors
/// What etcd answers.
pub fn validate_delete_range(request: &DeleteRangeRequest) -> Result<(), KvError> {
    if request.key.is_empty() { Err(KvError::EmptyKey) } else { Ok(()) }
}

/// Checks a transaction of at most `operations_max` operations.
///
/// # Errors
/// What etcd answers; transactions nested more than 32 deep are refused too.
pub fn validate_txn(request: &TxnRequest, operations_max: usize) -> Result<(), KvError> {
    validate_operations(request, operations_max, DEPTH_MAX)?;
    Writes::of(&request.success)?;
    Writes::of(&request.failure)?;
    Ok(())
}

/// The longest of the three lists counts, and what it takes is missing to those nested in it.
fn validate_operations(request: &TxnRequest, max: usize, depth: usize) -> Result<(), KvError> {
    let lists = [request.compare.len(), request.success.len(), request.failure.len()];
    let longest = lists.into_iter().max().unwrap_or(0);
    let Some(max) = max.checked_sub(longest) else { return Err(KvError::TooManyOperations) };
    let Some(depth) = depth.checked_sub(1) else { return Err(KvError::TooManyOperations) };
    if request.compare.iter().any(|compare| compare.key.is_empty()) {
        return Err(KvError::EmptyKey);
    }
    for operation in request.success.iter().chain(&request.failure) {
        match &operation.request {
            None => return Err(KvError::KeyNotFound),
            Some(Request::RequestRange(range)) => validate_range(range)?,
            Some(Request::RequestPut(put)) => validate_put(put)?,
            Some(Request::RequestDeleteRange(delete)) => validate_delete_range(delete)?,
            Some(Request::RequestTxn(nested)) => validate_operations(nested, max, depth)?,
        }
    }
    Ok(())
}

/// What a list of operations may write. The two branches of a nested transaction exclude each
/// other, and both count for the list around it.
#[derive(Default)]
struct Writes {
    puts: BTreeSet<Bytes>,
    deletions: Intervals,
}

impl Writes {
    /// Looks for a key that is put twice, or put and deleted. As in etcd, a nested transaction
    /// is compared with the deletions of those before it, not of those behind it.
    fn of(operations: &[RequestOp]) -> Result<Self, KvError> {
        let mut all = Self::default();
        for operation in operations {
            if let Some(Request::RequestDeleteRange(delete)) = &operation.request {
                all.deletions.insert(&delete.key, &delete.range_end);
            }
        }
        for operation in operations {
            if let Some(Request::RequestTxn(nested)) = &operation.request {
                all.add_nested(Self::of(&nested.success)?, Self::of(&nested.failure)?)?;
            }
        }
        for operation in operations {
            if let Some(Request::RequestPut(put)) = &operation.request {
                all.add_put(put.key.clone(), None)?;
            }
        }
        Ok(all)
    }

    fn add_nested(&mut self, success: Self, failure: Self) -> Result<(), KvError> {
        for key in &success.puts {
            self.add_put(key.clone(), None)?;
        }
        for key in failure.puts {
            self.add_put(key, Some(&success.puts))?;
        }
        self.deletions.extend(success.deletions);
        self.deletions.extend(failure.deletions);
        Ok(())
    }

    fn add_put(&mut self, key: Bytes, other: Option<&BTreeSet<Bytes>>) -> Result<(), KvError> {
        let is_new = !self.puts.contains(&key);
        let is_excluded = other.is_some_and(|other| other.contains(&key));
        if !(is_new || is_excluded) || self.deletions.contains(&key) {
            return Err(KvError::DuplicateKey);
        }
        self.puts.insert(key);
        Ok(())
    }
}

/// Half-open intervals of keys, kept apart from each other: from the start of each to its end.
#[derive(Default)]
struct Intervals(BTreeMap<Bytes, Bytes>);

impl Intervals {
    /// As in etcd's check, a `range_end` of one zero byte is no "everything" here: it ends
    /// before any key, and so the interval is empty.
    fn insert(&mut self, key: &Bytes, range_end: &Bytes) {
        let end = match &range_end[..] {
            [] => [key, &b"\0"[..]].concat().into(),
            _ => range_end.clone(),
        };
        self.add(key.clone(), end);
    }

    fn extend(&mut self, other: Self) {
        other.0.into_iter().for_each(|(start, end)| self.add(start, end));
    }

    fn contains(&self, key: &Bytes) -> bool {
        self.0.range(..=key.clone()).next_back().is_some_and(|(_, end)| key < end)
    }

    fn add(&mut self, mut start: Bytes, mut end: Bytes) {
        if start >= end {
            return;
        }
        while let Some((left, right)) = self.0.range(..=end.clone()).next_back() {
            if *right < start {
                break;
            }
            let left = left.clone();
            start = start.min(left.clone());
            if let Some(right) = self.0.remove(&left) {
                end = end.max(right);
            }
        }
        self.0.insert(start, end);
    }
}
