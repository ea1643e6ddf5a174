//! The store beside a model of etcd's MVCC, and through crashes.

mod alarms;
mod crash;
mod flush;
mod lease;
mod model;
mod random;
mod requests;
mod restore;
mod rules;
mod snapshot;

use std::time::Duration;

use bytes::Bytes;
use kontiki::{Entry, Index, Payload, Term};

use super::{Answer, Most, Options, Response, Store, StoreReader, encode};
use crate::proto::etcdserverpb::request_op::Request;
use crate::proto::etcdserverpb::{
    CompactionRequest, DeleteRangeRequest, PutRequest, RangeRequest, RequestOp, TxnRequest,
};
use crate::proto::kontiki::command::Action;

/// Options that flush often, so that small tests reach every part of the store.
pub(super) fn eager() -> Options {
    Options { flush_bytes: 4 << 10, flush_interval: Duration::from_millis(2), cache_bytes: 1 << 20 }
}

/// Options that flush only when told to.
pub(super) fn lazy() -> Options {
    Options { flush_bytes: 64 << 20, flush_interval: Duration::from_secs(3600), ..eager() }
}

/// A store in a directory of its own, and the log of what was applied to it.
pub(super) struct Fixture {
    pub directory: tempfile::TempDir,
    pub options: Options,
    pub store: Option<Store>,
    pub reader: Option<StoreReader>,
    pub log: Vec<Entry>,
    pub answers: Vec<Response>,
}

impl Fixture {
    pub fn new(options: Options) -> Self {
        let directory = directory();
        let (store, reader) = Store::open(directory.path(), &options).expect("a fresh store");
        let (store, reader) = (Some(store), Some(reader));
        Self { directory, options, store, reader, log: Vec::new(), answers: Vec::new() }
    }

    pub fn reader(&self) -> &StoreReader {
        self.reader.as_ref().expect("it is open")
    }

    pub fn store(&mut self) -> &mut Store {
        self.store.as_mut().expect("it is open")
    }

    /// Applies the commands in one batch.
    pub fn apply(&mut self, actions: Vec<Action>) -> Vec<Response> {
        let first = self.log.len();
        for action in actions {
            let index = Index(self.log.len() as u64 + 1);
            self.log.push(Entry { index, term: Term(1), payload: command(action) });
        }
        let mut responses = Vec::new();
        let store = self.store.as_mut().expect("it is open");
        store.apply(&self.log[first..], &mut responses).expect("the store works");
        self.answers.extend(responses.iter().cloned());
        responses
    }

    pub fn put(&mut self, key: &str, value: &str) -> i64 {
        let response = self.apply(vec![Action::Put(put(key, value))]).remove(0);
        let Ok(Answer::Put(response)) = response else { panic!("{response:?}") };
        response.header.expect("a header").revision
    }

    /// Leaves the disk as a crash would, opens the store again and applies what it has lost.
    pub fn crash(&mut self) {
        (self.store, self.reader) = (None, None);
        let opened = Store::open(self.directory.path(), &self.options).expect("it opens again");
        let (mut store, reader) = opened;
        let applied = usize::try_from(store.applied().0).expect("small");
        let mut again = Vec::new();
        store.apply(&self.log[applied..], &mut again).expect("the store works");
        assert_eq!(again[..], self.answers[applied..], "entries do the same when applied again");
        (self.store, self.reader) = (Some(store), Some(reader));
    }
}

/// A directory for a store: in memory where there is such a file system, because nothing here is
/// about the disk below it.
pub(super) fn directory() -> tempfile::TempDir {
    let memory = tempfile::tempdir_in("/dev/shm");
    memory.or_else(|_| tempfile::tempdir()).expect("a directory")
}

pub(super) fn command(action: Action) -> Payload {
    Payload::Command(encode(action))
}

pub(super) fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

pub(super) fn put(key: &str, value: &str) -> PutRequest {
    PutRequest { key: bytes(key), value: bytes(value), ..PutRequest::default() }
}

pub(super) fn delete(key: &str, range_end: &str) -> DeleteRangeRequest {
    DeleteRangeRequest { key: bytes(key), range_end: bytes(range_end), prev_kv: true }
}

pub(super) fn range(key: &str, range_end: &str) -> RangeRequest {
    RangeRequest { key: bytes(key), range_end: bytes(range_end), ..RangeRequest::default() }
}

pub(super) fn compact(revision: i64) -> Action {
    Action::Compact(CompactionRequest { revision, physical: false })
}

/// So many events, however large.
pub(super) fn most(events: usize) -> Most {
    Most { events, bytes: usize::MAX }
}

pub(super) fn txn(success: Vec<Request>) -> TxnRequest {
    let success = success.into_iter().map(|request| RequestOp { request: Some(request) });
    TxnRequest { success: success.collect(), ..TxnRequest::default() }
}
