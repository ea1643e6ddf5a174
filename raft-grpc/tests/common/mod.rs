//! A node of a test: a transport, what it received, and its server, on loopback.
#![allow(dead_code, reason = "each test binary uses its part")]

pub mod proxy;
pub mod store;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use raft_core::{
    Append, Entries, Entry, Envelope, Index, Instant, LogPosition, Message, NodeId, Payload, Round,
    SnapshotStore, Term, Transport as _,
};
use raft_grpc::{
    ClusterId, Config, GrpcTransport, Identity, Inbound, Incarnation, PeerEvent, PeerStats,
};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

/// What no test may exceed: a machine busy with other things is slow, not broken.
pub const PATIENCE: Duration = Duration::from_secs(20);

pub fn id(node: u64) -> NodeId {
    NodeId::new(node).expect("ids of tests are not zero")
}

pub fn identity(node: u64) -> Identity {
    Identity { cluster: ClusterId(7), node: id(node), incarnation: disk(1000 + node) }
}

pub fn disk(number: u64) -> Incarnation {
    Incarnation::new(number).expect("disks of tests are not zero")
}

pub struct Node {
    pub id: NodeId,
    pub transport: GrpcTransport,
    pub control: mpsc::Receiver<Vec<Envelope>>,
    pub bulk: mpsc::Receiver<Vec<Envelope>>,
    pub events: mpsc::Receiver<PeerEvent>,
}

impl Node {
    pub fn start(identity: Identity, config: Config, peers: &[(u64, SocketAddr)]) -> Self {
        Self::with_capacity(identity, config, peers, 1024)
    }

    /// One that takes snapshots.
    pub fn with_store(
        identity: Identity,
        config: Config,
        peers: &[(u64, SocketAddr)],
        store: Arc<dyn SnapshotStore>,
    ) -> Self {
        Self::begin(identity, config, peers, 1024, Some(store))
    }

    pub fn with_capacity(
        identity: Identity,
        config: Config,
        peers: &[(u64, SocketAddr)],
        capacity: usize,
    ) -> Self {
        Self::begin(identity, config, peers, capacity, None)
    }

    fn begin(
        identity: Identity,
        config: Config,
        peers: &[(u64, SocketAddr)],
        capacity: usize,
        snapshots: Option<Arc<dyn SnapshotStore>>,
    ) -> Self {
        let (control_in, control) = mpsc::channel(capacity);
        let (bulk_in, bulk) = mpsc::channel(capacity);
        let (events_in, events) = mpsc::channel(256);
        let inbound = Inbound { control: control_in, bulk: bulk_in, events: events_in, snapshots };
        let peers: BTreeMap<_, _> =
            peers.iter().map(|(node, address)| (id(*node), address.to_string())).collect();
        let transport = GrpcTransport::start(identity, config, &peers, inbound).expect("valid");
        Self { id: identity.node, transport, control, bulk, events }
    }

    pub fn serve(&self, listener: TcpListener) -> Serving {
        let (stop, stopped) = oneshot::channel::<()>();
        let serving = self.transport.serve(listener, async {
            if stopped.await.is_err() {
                std::future::pending().await // Dropped: the test does not stop it.
            }
        });
        Serving { stop, task: tokio::spawn(serving) }
    }

    pub fn send(&self, messages: impl IntoIterator<Item = Envelope>) {
        let mut messages: Vec<_> = messages.into_iter().collect();
        self.transport.send(&mut messages);
        assert!(messages.is_empty(), "send takes or drops all");
    }

    pub fn stats(&self, peer: u64) -> PeerStats {
        self.transport.stats().remove(&id(peer)).expect("a peer")
    }

    /// Waits for an event like this; others before it are skipped.
    pub async fn event<T>(&mut self, what: &str, wanted: impl Fn(&PeerEvent) -> Option<T>) -> T {
        let search = async {
            loop {
                let event = self.events.recv().await.expect("the transport lives");
                if let Some(found) = wanted(&event) {
                    return found;
                }
            }
        };
        let found = tokio::time::timeout(PATIENCE, search).await;
        found.unwrap_or_else(|_| panic!("no event: {what}"))
    }

    /// Waits until the peer's state is as wanted.
    pub async fn until(&self, peer: u64, what: &str, wanted: impl Fn(&PeerStats) -> bool) {
        let end = std::time::Instant::now() + PATIENCE;
        while !wanted(&self.stats(peer)) {
            assert!(std::time::Instant::now() < end, "no {what}: {:#?}", self.stats(peer));
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

pub struct Serving {
    stop: oneshot::Sender<()>,
    task: JoinHandle<std::io::Result<()>>,
}

impl Serving {
    pub async fn stop(self) {
        self.stop.send(()).ok();
        let ended = tokio::time::timeout(PATIENCE, self.task).await;
        ended.expect("stops in time").expect("no panic").expect("no error");
    }
}

pub async fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
    let address = listener.local_addr().expect("bound");
    (listener, address)
}

/// Two nodes that know each other; both serve.
pub async fn pair(config: Config) -> (Node, Node) {
    let ((first, first_address), (second, second_address)) = (listen().await, listen().await);
    let a = Node::start(identity(1), config.clone(), &[(2, second_address)]);
    let b = Node::start(identity(2), config, &[(1, first_address)]);
    a.serve(first);
    b.serve(second);
    a.until(2, "connection", |peer| peer.connected).await;
    b.until(1, "connection", |peer| peer.connected).await;
    (a, b)
}

/// The next `count` messages of a lane.
pub async fn receive(lane: &mut mpsc::Receiver<Vec<Envelope>>, count: usize) -> Vec<Envelope> {
    let mut received = Vec::new();
    while received.len() < count {
        let batch = tokio::time::timeout(PATIENCE, lane.recv()).await;
        received.extend(batch.expect("messages arrive in time").expect("the transport lives"));
    }
    received
}

pub fn heartbeat(from: u64, to: u64, round: u64) -> Envelope {
    let message = Message::Heartbeat { commit: Index(3), round: Round(round), sent_at: Instant(0) };
    Envelope { from: id(from), to: id(to), term: Term(5), message }
}

/// An append of entries `first..`, one for each size.
pub fn append(from: u64, to: u64, first: u64, sizes: &[usize]) -> Envelope {
    let entry = |(index, &size): (u64, &usize)| Entry {
        index: Index(index),
        term: Term(5),
        payload: Payload::Command(Bytes::from(vec![index as u8; size])),
    };
    let entries: Entries = (first..).zip(sizes).map(entry).collect();
    let previous = LogPosition { term: Term(5), index: Index(first - 1) };
    let message = Message::Append(Append { previous, entries, commit: Index(first - 1) });
    Envelope { from: id(from), to: id(to), term: Term(5), message }
}

pub fn appended(envelope: &Envelope) -> &Append {
    match &envelope.message {
        Message::Append(append) => append,
        other => panic!("an append, not {other:?}"),
    }
}
