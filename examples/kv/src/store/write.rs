//! Puts and deletions: what makes a revision.

use bytes::Bytes;

use super::error::{Failure, KvError, StoreError};
use super::format::{Change, KEY_BYTES_MAX, Put, Revision, Version, kept_bytes};
use super::range::key_value;
use super::span::Span;
use super::state::{NEWEST, State};
use crate::proto::etcdserverpb::{
    DeleteRangeRequest, DeleteRangeResponse, PutRequest, PutResponse, ResponseHeader,
};
use crate::proto::mvccpb::KeyValue;

/// A header with the revision alone: the rest of it is the server's to fill in.
pub(super) fn header(revision: i64) -> Option<ResponseHeader> {
    Some(ResponseHeader { revision, ..Default::default() })
}

/// One request that writes. Its changes share one revision, which is taken only when there is
/// a change.
pub(super) struct Writer<'a> {
    pub state: &'a mut State,
    /// How many bytes the entry has of which the request is a part.
    entry_len: usize,
    changes: u32,
}

impl<'a> Writer<'a> {
    pub fn new(state: &'a mut State, entry_len: usize) -> Self {
        Self { state, entry_len, changes: 0 }
    }

    /// The revision that the store is at, this request's changes included.
    pub fn revision(&self) -> i64 {
        self.state.mark.revision
    }

    pub fn put(&mut self, request: PutRequest) -> Result<PutResponse, StoreError> {
        let newest = self.state.find(&request.key, NEWEST)?;
        let mut response = PutResponse::default();
        if let Some(version) = &newest
            && request.prev_kv
        {
            response.prev_kv = Some(self.shown(request.key.clone(), version)?);
        }
        let at = self.next();
        let (create, version) = match &newest {
            Some(newest) => (newest.create, newest.version + 1),
            None => (at.main, 1),
        };
        let value = match &newest {
            Some(newest) if request.ignore_value => self.value(newest)?,
            _ => self.own(request.value),
        };
        let lease = match &newest {
            Some(newest) if request.ignore_lease => newest.lease,
            _ => request.lease,
        };
        let key = Bytes::copy_from_slice(&request.key);
        self.state.attached.detach(&key, newest.as_ref().map_or(0, |newest| newest.lease));
        self.state.attached.attach(&key, lease);
        self.state.active.push(Change {
            key,
            at,
            previous: newest.as_ref().map_or(Revision::NONE, |newest| newest.modified),
            previous_bytes: newest.map_or(0, |newest| kept_bytes(&request.key, newest.value_len())),
            put: Some(Put { create, version, lease, value }),
        });
        response.header = header(self.revision());
        Ok(response)
    }

    pub fn delete_range(
        &mut self,
        request: &DeleteRangeRequest,
    ) -> Result<DeleteRangeResponse, StoreError> {
        let mut response = DeleteRangeResponse::default();
        let mut cut = self.state.cut(Span::new(&request.key, &request.range_end), NEWEST);
        for row in cut.rows() {
            let (key, version) = row?;
            if request.prev_kv {
                response.prev_kvs.push(self.shown(key.clone(), &version)?);
            }
            self.delete(&key, &version);
            response.deleted += 1;
        }
        response.header = header(self.revision());
        Ok(response)
    }

    /// Deletes keys that are there, in the order given.
    pub fn delete_keys(&mut self, keys: impl IntoIterator<Item = Bytes>) -> Result<(), StoreError> {
        for key in keys {
            let missing = StoreError::Corrupt("a lease holds a key that is not there");
            let version = self.state.find(&key, NEWEST)?.ok_or(missing)?;
            self.delete(&key, &version);
        }
        Ok(())
    }

    fn delete(&mut self, key: &Bytes, version: &Version) {
        let at = self.next();
        self.state.attached.detach(key, version.lease);
        self.state.active.push(Change {
            key: Bytes::copy_from_slice(key),
            at,
            previous: version.modified,
            previous_bytes: kept_bytes(key, version.value_len()),
            put: None,
        });
    }

    fn next(&mut self) -> Revision {
        if self.changes == 0 {
            self.state.mark.revision += 1;
        }
        let at = Revision { main: self.state.mark.revision, sub: self.changes };
        self.changes += 1;
        at
    }

    fn shown(&self, key: Bytes, version: &Version) -> Result<KeyValue, StoreError> {
        Ok(key_value(key, version, self.value(version)?))
    }

    fn value(&self, version: &Version) -> Result<Bytes, StoreError> {
        self.state.base.value(version)
    }

    /// A value is kept as part of its entry only where it is most of it: a few bytes must not
    /// hold on to a large request.
    fn own(&self, value: Bytes) -> Bytes {
        let is_most = value.len() >= 4096 && value.len() >= self.entry_len / 2;
        if is_most { value } else { Bytes::copy_from_slice(&value) }
    }
}

/// What is checked of a put against the state in which its request finds the store.
pub(super) fn check_put(state: &State, request: &PutRequest) -> Result<(), Failure> {
    if request.key.is_empty() {
        return Err(KvError::EmptyKey.into());
    }
    if request.key.len() > KEY_BYTES_MAX {
        return Err(KvError::RequestTooLarge.into());
    }
    let ignores = request.ignore_value || request.ignore_lease;
    if ignores && state.find(&request.key, NEWEST)?.is_none() {
        return Err(KvError::KeyNotFound.into());
    }
    check_lease(state, request)
}

/// A put on its own looks for its lease before it looks for its key.
pub(super) fn check_lease(state: &State, request: &PutRequest) -> Result<(), Failure> {
    let is_known = request.lease == 0 || state.mark.leases.contains_key(&request.lease);
    if is_known { Ok(()) } else { Err(KvError::LeaseNotFound.into()) }
}
