//! `cargo bench -p raft-grpc`: what a message costs on loopback, one way.
//!
//! Reports messages a second and CPU time a message, of sender and receiver together, for
//! appends of one entry. `paced` sends single messages, each after the last one arrived: the
//! latency. `stream` keeps a window of them under way: the throughput.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bytes::Bytes;
use raft_core::{
    Append, Entry, Envelope, Index, LogPosition, Message, NodeId, Payload, Term, Transport as _,
};
use raft_grpc::{ClusterId, Config, GrpcTransport, Identity, Inbound, Incarnation};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

type Received = mpsc::Receiver<Vec<Envelope>>;

fn main() {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let two_workers = builder.worker_threads(2).enable_all().build().expect("a runtime");
    println!("two workers:");
    // Spawned, so that the measuring task runs on a worker, as an engine's driver does.
    two_workers.block_on(async { tokio::spawn(all()).await }).expect("no panic");
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let one_thread = builder.enable_all().build().expect("a runtime");
    println!("one thread:");
    one_thread.block_on(all());
}

async fn all() {
    let (sender, mut received, _receiver) = connect().await;
    for (name, window) in [("paced", 1), ("stream", 16), ("stream", 256), ("stream", 4096)] {
        measure(name, window, &sender, &mut received).await;
    }
}

async fn connect() -> (GrpcTransport, Received, GrpcTransport) {
    let id = |node| NodeId::new(node).expect("not zero");
    let identity = |node| {
        let disk = Incarnation::new(node).expect("not zero");
        Identity { cluster: ClusterId(1), node: id(node), incarnation: disk }
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
    let address = listener.local_addr().expect("bound").to_string();
    let start = |node, peer, address| {
        let (control, _) = mpsc::channel(1024);
        let (bulk, received) = mpsc::channel(1024);
        let peers = BTreeMap::from([(id(peer), address)]);
        let (events, _) = mpsc::channel(1024);
        let inbound = Inbound { control, bulk, events, snapshots: None };
        let transport = GrpcTransport::start(identity(node), Config::default(), &peers, inbound);
        (transport.expect("valid"), received)
    };
    let (receiver, received) = start(2, 1, "127.0.0.1:9".to_owned());
    tokio::spawn(receiver.serve(listener, std::future::pending()));
    let (sender, _) = start(1, 2, address);
    while !sender.stats().values().all(|peer| peer.connected) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    (sender, received, receiver)
}

fn append(index: u64, payload: &Bytes) -> Envelope {
    let id = |node| NodeId::new(node).expect("not zero");
    let entry =
        Entry { index: Index(index), term: Term(3), payload: Payload::Command(payload.clone()) };
    let previous = LogPosition { term: Term(3), index: Index(index - 1) };
    let append = Append { previous, entries: entry.into(), commit: previous.index };
    Envelope { from: id(1), to: id(2), term: Term(3), message: Message::Append(append) }
}

async fn measure(name: &str, window: u64, sender: &GrpcTransport, received: &mut Received) {
    let payload = Bytes::from(vec![7; 256]);
    let mut envelopes = Vec::new();
    let (mut sent, mut arrived, mut batches) = (0, 0, 0);
    let (begun, cpu) = (Instant::now(), cpu_time());
    while begun.elapsed() < Duration::from_secs(2) {
        while sent < arrived + window {
            sent += 1;
            envelopes.push(append(sent, &payload));
            sender.send(&mut envelopes); // One by one, as a driver under little load.
        }
        let batch = received.recv().await.expect("the transport lives");
        arrived += batch.len() as u64;
        batches += 1;
    }
    let (elapsed, cpu) = (begun.elapsed().as_secs_f64(), (cpu_time() - cpu).as_secs_f64());
    println!(
        "{name:>8} window {window:>5}: {:>9.0} messages/s, {:>6.2} µs of CPU each, \
         {:>6.1} in a batch",
        arrived as f64 / elapsed,
        cpu * 1e6 / arrived as f64,
        arrived as f64 / batches as f64,
    );
    while arrived < sent {
        arrived += received.recv().await.expect("the transport lives").len() as u64;
    }
}

/// The CPU time of this process, user and system.
fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace().skip(11).take(2);
    let ticks: u64 = fields.filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10) // USER_HZ is 100 on Linux.
}
