//! The hub between a real store and clients that are only queues: no network, no clock.

mod model;
mod stories;

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use kontiki::{Entry, Index, Payload, Term};

use super::hub::{Hub, On, Step};
use super::index::Keys;
use super::queue::{Bounds, Next, Queue, Reply};
use super::registry::{Create, StreamSlot, Wants};
use crate::proto::etcdserverpb::request_op::Request;
use crate::proto::etcdserverpb::{
    CompactionRequest, DeleteRangeRequest, PutRequest, RequestOp, TxnRequest,
};
use crate::proto::kontiki::command::Action;
use crate::store::{Failure, Options, Store, StoreReader, encode};

/// A store and its hub.
struct Node {
    store: Store,
    reader: StoreReader,
    hub: Arc<Hub>,
    applied: u64,
    _directory: tempfile::TempDir,
}

/// A client's stream.
struct Client {
    queue: Arc<Queue>,
    stream: StreamSlot,
}

impl Node {
    fn new() -> Self {
        let memory = tempfile::tempdir_in("/dev/shm");
        let directory = memory.or_else(|_| tempfile::tempdir()).expect("a directory");
        let options = Options {
            flush_bytes: 4 << 10,
            flush_interval: std::time::Duration::from_millis(2),
            cache_bytes: 1 << 20,
        };
        let opened = Store::open(&directory.path().join("store"), &options);
        let (store, reader) = opened.expect("a fresh store");
        let hub = Hub::new(reader.clone());
        Self { store, reader, hub, applied: 0, _directory: directory }
    }

    fn apply(&mut self, action: Action) {
        self.applied += 1;
        let payload = Payload::Command(encode(action));
        let entry = Entry { index: Index(self.applied), term: Term(1), payload };
        self.store.apply(&[entry], &mut Vec::new()).expect("the store works");
    }

    fn put(&mut self, key: &str, value: &str) {
        self.apply(Action::Put(put(key, value)));
    }

    fn client(&self, bounds: Bounds) -> Client {
        let queue = Arc::new(Queue::new(bounds));
        let stream = self.hub.open(Arc::clone(&queue));
        Client { queue, stream }
    }

    fn watch(&self, client: &Client, key: &str, range_end: &str, start: i64) {
        self.hub.create(client.stream, create(key, range_end, start));
    }

    /// What happens until there is nothing to do.
    fn settle(&self) {
        let step = |step: fn(&Hub, On) -> Result<Step, Failure>| {
            step(&self.hub, On::Thread).expect("the store works")
        };
        while step(Hub::live) == Step::Done || step(Hub::past) == Step::Done {}
    }

    /// The next reply, if there is one.
    fn read(&self, client: &Client) -> Option<Reply> {
        match client.queue.poll_next(&mut Context::from_waker(Waker::noop())) {
            Poll::Pending | Poll::Ready(None | Some(Next::End(_))) => None,
            Poll::Ready(Some(Next::Reply(reply))) => Some(reply),
            Poll::Ready(Some(Next::Starved(reply))) => {
                self.hub.on_room(client.stream);
                Some(reply)
            }
        }
    }

    /// All there is to be told, in short.
    fn told(&self, client: &Client) -> Vec<String> {
        let mut told = Vec::new();
        self.settle();
        while let Some(reply) = self.read(client) {
            told.push(short(&reply));
            self.settle();
        }
        told
    }
}

const ROOMY: Bounds = Bounds { replies: 1000, bytes: 1 << 20 };

fn put(key: &str, value: &str) -> PutRequest {
    let (key, value) = (key.to_owned().into(), value.to_owned().into());
    PutRequest { key, value, ..PutRequest::default() }
}

fn delete(key: &str, range_end: &str) -> DeleteRangeRequest {
    let (key, range_end) = (key.to_owned().into(), range_end.to_owned().into());
    DeleteRangeRequest { key, range_end, prev_kv: false }
}

fn compact(revision: i64) -> Action {
    Action::Compact(CompactionRequest { revision, physical: false })
}

fn txn(requests: Vec<Request>) -> Action {
    let success = requests.into_iter().map(|request| RequestOp { request: Some(request) });
    Action::Txn(TxnRequest { success: success.collect(), ..TxnRequest::default() })
}

fn create(key: &str, range_end: &str, start: i64) -> Create {
    let wants = Wants { puts: true, deletions: true, ..Wants::default() };
    Create { keys: Keys::new(key.as_bytes(), range_end.as_bytes()), watch_id: 0, start, wants }
}

/// `0@5 created`, `0@7 6a=1 7b`: watch, revision of the header, and what it is told.
fn short(reply: &Reply) -> String {
    use super::queue::Content;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let what = match &reply.content {
        Content::Created => "created".to_owned(),
        Content::Refused(reason) => (*reason).to_owned(),
        Content::Canceled => "canceled".to_owned(),
        Content::Compacted(revision) => format!("compacted {revision}"),
        Content::Progress => "progress".to_owned(),
        Content::Events(happenings, _) => {
            let event = |it: &Arc<super::queue::Happening>| {
                let kv = it.event.kv.as_ref().expect("an event has a key");
                let value =
                    if kv.version == 0 { String::new() } else { format!("={}", text(&kv.value)) };
                format!("{}{}{value}", kv.mod_revision, text(&kv.key))
            };
            happenings.iter().map(event).collect::<Vec<_>>().join(" ")
        }
    };
    format!("{}@{} {what}", reply.watch_id, reply.revision)
}
