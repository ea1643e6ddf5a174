//! The receiving half against senders that make mistakes (B56).

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use raft_core::{Index, SnapshotSink, SnapshotSource, SnapshotStore, Term};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Request, Streaming};

use super::*;
use crate::event::PeerEvent;
use crate::hello::{Hello, Motive, Purpose};
use crate::proto::{peer_client::PeerClient, snapshot_part::Part, snapshot_receipt::State};
use crate::{ClusterId, Config, GrpcTransport, Identity, Inbound, Incarnation};

type Failed = Box<dyn std::error::Error + Send + Sync>;

type Partial = Option<(SnapshotOffer, Vec<u8>)>;

const PATIENCE: Duration = Duration::from_secs(20);

/// Keeps the bytes of the transfer that is under way, and of those that were published.
#[derive(Clone, Default)]
struct Store {
    partial: Arc<Mutex<Partial>>,
    published: Arc<Mutex<Vec<Vec<u8>>>>,
}

struct Sink(Store, SnapshotOffer, Vec<u8>);

impl SnapshotStore for Store {
    fn newest(&self) -> Result<Option<Arc<dyn SnapshotSource>>, Failed> {
        Ok(None)
    }

    fn build(&self, _: &Snapshot) -> Result<Box<dyn SnapshotSink>, Failed> {
        Err("nothing is built here".into())
    }

    fn receive(&self, offer: &SnapshotOffer) -> Result<Box<dyn SnapshotSink>, Failed> {
        let kept = self.partial.lock().expect("no panic").take();
        let bytes = kept.filter(|(of, _)| of == offer).map_or(Vec::new(), |(_, bytes)| bytes);
        Ok(Box::new(Sink(self.clone(), offer.clone(), bytes)))
    }

    fn retain(&self, _: LogPosition) -> Result<(), Failed> {
        Ok(())
    }
}

impl SnapshotSink for Sink {
    fn offset(&self) -> u64 {
        self.2.len() as u64
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Failed> {
        self.2.extend(bytes);
        *self.0.partial.lock().expect("no panic") = Some((self.1.clone(), self.2.clone()));
        Ok(())
    }

    fn publish(self: Box<Self>) -> Result<(), Failed> {
        if self.2.len() as u64 != self.1.len_bytes || check(&self.2) != self.1.check {
            return Err("the bytes do not add up".into());
        }
        self.0.published.lock().expect("no panic").push(self.2);
        Ok(())
    }
}

/// A node 2 that takes snapshots from nodes 1 and 3.
struct Receiver {
    store: Store,
    events: mpsc::Receiver<PeerEvent>,
    address: String,
    _transport: GrpcTransport,
}

fn identity(node: u64) -> Identity {
    let node = NodeId::new(node).expect("not zero");
    let incarnation = Incarnation::new(9).expect("not zero");
    Identity { cluster: ClusterId(7), node, incarnation }
}

impl Receiver {
    async fn start() -> Self {
        let (control, _) = mpsc::channel(8);
        let (bulk, _) = mpsc::channel(8);
        let (events_in, events) = mpsc::channel(64);
        let store = Store::default();
        let snapshots = Some(Arc::new(store.clone()) as Arc<dyn SnapshotStore>);
        let inbound = Inbound { control, bulk, events: events_in, snapshots };
        let nowhere = "127.0.0.1:1".to_owned();
        let peers =
            BTreeMap::from([(identity(1).node, nowhere.clone()), (identity(3).node, nowhere)]);
        let transport =
            GrpcTransport::start(identity(2), Config::default(), &peers, inbound).expect("valid");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
        let address = format!("http://{}", listener.local_addr().expect("bound"));
        tokio::spawn(transport.serve(listener, std::future::pending()));
        Self { store, events, address, _transport: transport }
    }

    /// Opens a stream as node `from`, and offers this much.
    async fn offer(&self, from: u64, offer: proto::SnapshotOffer) -> Sender {
        let mut sender = self.connect(from).await;
        sender.say(Part::Offer(offer)).await;
        sender
    }

    async fn connect(&self, from: u64) -> Sender {
        let (parts, outgoing) = mpsc::channel(8);
        let mut request = Request::new(ReceiverStream::new(outgoing));
        let hello = Hello {
            from: identity(from),
            to: identity(2).node,
            purpose: Purpose::Ship,
            session: 1,
            address: String::new(),
            motive: Motive::Peer,
        };
        hello.write(request.metadata_mut());
        let client = PeerClient::connect(self.address.clone()).await;
        let response = client.expect("it listens").ship(request).await.expect("greeted");
        Sender { parts, receipts: response.into_inner() }
    }

    fn published(&self) -> Vec<Vec<u8>> {
        self.store.published.lock().expect("no panic").clone()
    }

    fn snapshots_told(&mut self) -> usize {
        let events = std::iter::from_fn(|| self.events.try_recv().ok());
        events.filter(|it| matches!(it, PeerEvent::SnapshotReceived { .. })).count()
    }
}

struct Sender {
    parts: mpsc::Sender<proto::SnapshotPart>,
    receipts: Streaming<proto::SnapshotReceipt>,
}

impl Sender {
    async fn say(&mut self, part: Part) {
        self.parts.send(proto::SnapshotPart { part: Some(part) }).await.expect("open");
    }

    async fn chunk(&mut self, offset: u64, bytes: &[u8]) {
        let (check, bytes) = (check(bytes), bytes.to_vec().into());
        self.say(Part::Chunk(proto::SnapshotChunk { offset, bytes, check })).await;
    }

    async fn heard(&mut self) -> Result<State, Code> {
        let receipt = timeout(PATIENCE, self.receipts.message()).await.expect("in time");
        receipt.map_err(|status| status.code())?.and_then(|it| it.state).ok_or(Code::Ok)
    }
}

const DELIVERED: Result<State, Code> = Ok(State::Delivered(proto::Delivered {}));

fn received(bytes: u64) -> Result<State, Code> {
    Ok(State::Received(bytes))
}

/// The transfer of `bytes` in `term`.
fn offer(term: u64, transfer: u64, bytes: &[u8]) -> proto::SnapshotOffer {
    let membership = Arc::new(Membership::new([identity(1).node]).expect("a voter"));
    let last = LogPosition { term: Term(2), index: Index(40) };
    encode_offer(&SnapshotOffer {
        from: identity(1).node,
        term: Term(term),
        transfer,
        snapshot: Snapshot { last, membership, membership_index: Index(1) },
        len_bytes: bytes.len() as u64,
        check: check(bytes),
    })
}

#[tokio::test]
async fn a_chunk_that_is_lost_in_the_middle_ends_the_stream_and_is_asked_for_again() {
    let receiver = Receiver::start().await;
    let mut sender = receiver.offer(1, offer(4, 9, b"one two three")).await;
    assert_eq!(sender.heard().await, received(0));
    sender.chunk(0, b"one ").await;
    assert_eq!(sender.heard().await, received(4));
    sender.chunk(8, b"three").await;
    assert_eq!(sender.heard().await, Err(Code::Aborted));

    let mut sender = receiver.offer(1, offer(4, 9, b"one two three")).await;
    assert_eq!(sender.heard().await, received(4), "it has what came before the gap");
    sender.chunk(4, b"two three").await;
    assert_eq!(sender.heard().await, received(13));
    assert_eq!(sender.heard().await, DELIVERED);
    assert_eq!(receiver.published(), [b"one two three"]);
}

#[tokio::test]
async fn a_chunk_that_comes_twice_is_taken_once() {
    let receiver = Receiver::start().await;
    let mut sender = receiver.offer(1, offer(4, 9, b"one two")).await;
    assert_eq!(sender.heard().await, received(0));
    for _ in 0..3 {
        sender.chunk(0, b"one").await;
        assert_eq!(sender.heard().await, received(3));
    }
    sender.chunk(3, b" two").await;
    assert_eq!(sender.heard().await, received(7));
    assert_eq!(sender.heard().await, DELIVERED);
    assert_eq!(receiver.published(), [b"one two"]);
}

#[tokio::test]
async fn a_damaged_chunk_is_not_written() {
    let receiver = Receiver::start().await;
    let mut sender = receiver.offer(1, offer(4, 9, b"one two")).await;
    assert_eq!(sender.heard().await, received(0));
    let chunk = proto::SnapshotChunk { offset: 0, bytes: "one".into(), check: 1 };
    sender.say(Part::Chunk(chunk)).await;
    assert_eq!(sender.heard().await, Err(Code::DataLoss));
    let mut sender = receiver.offer(1, offer(4, 9, b"one two")).await;
    assert_eq!(sender.heard().await, received(0));
}

#[tokio::test]
async fn chunks_of_two_transfers_never_mix() {
    let receiver = Receiver::start().await;
    let mut first = receiver.offer(1, offer(4, 8, b"aaaaaa")).await;
    assert_eq!(first.heard().await, received(0));
    first.chunk(0, b"aaa").await;
    assert_eq!(first.heard().await, received(3));
    // As many bytes, in as many chunks, and another transfer: it begins at zero.
    let mut second = receiver.offer(1, offer(4, 9, b"bbbbbb")).await;
    assert_eq!(second.heard().await, received(0));
    assert_eq!(first.heard().await, Err(Code::Aborted), "the older stream ends");
    second.chunk(0, b"bbb").await;
    assert_eq!(second.heard().await, received(3));
    second.chunk(3, b"bbb").await;
    assert_eq!(second.heard().await, received(6));
    assert_eq!(second.heard().await, DELIVERED);
    assert_eq!(receiver.published(), [b"bbbbbb"]);
}

#[tokio::test]
async fn after_an_election_the_older_leader_is_told_that_it_is_one() {
    let receiver = Receiver::start().await;
    let mut old = receiver.offer(1, offer(4, 8, b"aaaaaa")).await;
    assert_eq!(old.heard().await, received(0));
    let mut new = receiver.offer(3, offer(5, 9, b"bbbbbb")).await;
    assert_eq!(new.heard().await, received(0));
    assert_eq!(old.heard().await, Err(Code::Aborted));

    let mut again = receiver.offer(1, offer(4, 8, b"aaaaaa")).await;
    assert_eq!(again.heard().await, Ok(State::Outdated(5)));
    let mut impostor = receiver.offer(1, offer(5, 10, b"aaaaaa")).await;
    assert_eq!(impostor.heard().await, Err(Code::FailedPrecondition), "one leader of a term");
    new.chunk(0, b"bbbbbb").await;
    assert_eq!(new.heard().await, received(6), "undisturbed");
    assert_eq!(new.heard().await, DELIVERED);
}

/// The receipt was lost with its connection.
#[tokio::test]
async fn what_was_delivered_is_not_taken_again() {
    let mut receiver = Receiver::start().await;
    let mut sender = receiver.offer(1, offer(4, 9, b"one")).await;
    assert_eq!(sender.heard().await, received(0));
    sender.chunk(0, b"one").await;
    assert_eq!(sender.heard().await, received(3));
    assert_eq!(sender.heard().await, DELIVERED);
    let mut again = receiver.offer(1, offer(4, 9, b"one")).await;
    assert_eq!(again.heard().await, DELIVERED);
    assert_eq!((receiver.published().len(), receiver.snapshots_told()), (1, 1));
}

#[tokio::test]
async fn bytes_that_do_not_add_up_are_not_published() {
    let mut receiver = Receiver::start().await;
    let wrong = proto::SnapshotOffer { check: 1, ..offer(4, 9, b"one") };
    let mut sender = receiver.offer(1, wrong).await;
    assert_eq!(sender.heard().await, received(0));
    sender.chunk(0, b"one").await;
    assert_eq!(sender.heard().await, received(3));
    assert_eq!(sender.heard().await, Ok(State::Spoiled("the bytes do not add up".to_owned())));
    assert_eq!((receiver.published().len(), receiver.snapshots_told()), (0, 0));
}

#[tokio::test]
async fn parts_that_make_no_sense_are_refused() {
    let receiver = Receiver::start().await;
    let mut sender = receiver.connect(1).await;
    sender.chunk(0, b"one").await;
    assert_eq!(sender.heard().await, Err(Code::InvalidArgument), "no offer");

    let damaged = proto::SnapshotOffer { membership: "??".into(), ..offer(4, 9, b"one") };
    let mut sender = receiver.offer(1, damaged).await;
    assert_eq!(sender.heard().await, Err(Code::InvalidArgument), "no membership");

    let mut sender = receiver.offer(1, offer(4, 9, b"one")).await;
    assert_eq!(sender.heard().await, received(0));
    sender.chunk(0, b"one and more").await;
    assert_eq!(sender.heard().await, Err(Code::InvalidArgument), "too many bytes");

    for part in [Part::Offer(offer(4, 9, b"one")), Part::Chunk(proto::SnapshotChunk::default())] {
        let mut sender = receiver.offer(1, offer(4, 9, b"one")).await;
        assert_eq!(sender.heard().await, received(0));
        sender.say(part).await;
        assert_eq!(sender.heard().await, Err(Code::InvalidArgument));
    }
    assert!(receiver.published().is_empty());
}
