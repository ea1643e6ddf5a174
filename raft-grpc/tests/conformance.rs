//! The suite for transports, on loopback.

mod common;

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{PATIENCE, disk};
use raft_core::{Envelope, NodeId, Transport};
use raft_grpc::{ClusterId, Config, GrpcTransport, Identity, Inbound, PeerEvent};
use raft_testkit::conformance::transport::{self, Who};
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

/// Nothing more comes once nothing came for so long.
const QUIET: Duration = Duration::from_millis(300);
const BULK_BYTES_MAX: usize = 4 << 20;

/// Three places on loopback.
struct Loopback {
    runtime: Runtime,
    places: BTreeMap<NodeId, SocketAddr>,
}

struct End {
    transport: Arc<GrpcTransport>,
    control: mpsc::Receiver<Vec<Envelope>>,
    bulk: mpsc::Receiver<Vec<Envelope>>,
    _events: mpsc::Receiver<PeerEvent>,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<std::io::Result<()>>,
}

impl Loopback {
    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("a runtime");
        // All are held at once, so that they are different; each is free again when it is needed.
        let free: Vec<_> =
            (0..3).map(|_| TcpListener::bind("127.0.0.1:0").expect("loopback")).collect();
        let addresses = free.iter().map(|it| it.local_addr().expect("it is bound"));
        let places = (1..=3).map(common::id).zip(addresses).collect();
        Self { runtime, places }
    }

    async fn listen(&self, place: NodeId) -> tokio::net::TcpListener {
        let begun = Instant::now();
        loop {
            match tokio::net::TcpListener::bind(self.places[&place]).await {
                Ok(listener) => return listener,
                Err(error) => assert!(begun.elapsed() < PATIENCE, "{error}"),
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

impl transport::Harness for Loopback {
    type End = End;

    fn start(&self, place: NodeId, who: Who) -> Option<End> {
        let (control_in, control) = mpsc::channel(64);
        let (bulk_in, bulk) = mpsc::channel(64);
        let (events_in, events) = mpsc::channel(256);
        let inbound =
            Inbound { control: control_in, bulk: bulk_in, events: events_in, snapshots: None };
        let incarnation = disk(1000 + who.node.get());
        let identity = Identity { cluster: ClusterId(who.cluster), node: who.node, incarnation };
        let config = Config {
            bulk_bytes_max: BULK_BYTES_MAX,
            message_bytes_max: 2 << 20,
            // A machine busy with other things is slow, not broken.
            connect_timeout: PATIENCE,
            handshake_timeout: PATIENCE,
            keepalive_interval: PATIENCE,
            keepalive_timeout: PATIENCE,
            advertised: self.places[&place].to_string(),
            ..Config::default()
        };
        let peers = self.places.iter().map(|(id, address)| (*id, address.to_string())).collect();
        self.runtime.block_on(async {
            let listener = self.listen(place).await;
            let transport = GrpcTransport::start(identity, config, &peers, inbound);
            let transport = Arc::new(transport.expect("valid"));
            let (stop, stopped) = oneshot::channel::<()>();
            let serving = tokio::spawn(transport.serve(listener, async { drop(stopped.await) }));
            Some(End { transport, control, bulk, _events: events, stop, serving })
        })
    }

    fn stop(&self, end: End) {
        end.transport.shutdown();
        end.stop.send(()).expect("it serves");
        let ended =
            self.runtime.block_on(async { tokio::time::timeout(PATIENCE, end.serving).await });
        ended.expect("it stops in time").expect("no panic").expect("no error");
    }

    fn transport(&self, end: &End) -> Arc<dyn Transport> {
        Arc::clone(&end.transport) as Arc<dyn Transport>
    }

    fn take(&self, end: &mut End, count: usize) -> Vec<Envelope> {
        self.runtime.block_on(async {
            let mut taken = Vec::new();
            while taken.len() < count {
                let quiet = tokio::time::sleep(QUIET);
                tokio::select! {
                    Some(more) = end.control.recv() => taken.extend(more),
                    Some(more) = end.bulk.recv() => taken.extend(more),
                    () = quiet => break,
                }
            }
            taken
        })
    }

    fn until(&self, done: &mut dyn FnMut() -> bool) -> bool {
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            if done() {
                return true;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        false
    }

    fn bytes_max(&self) -> usize {
        // What waits, and what is encoded and under way.
        2 * BULK_BYTES_MAX
    }
}

#[test]
fn our_transport_passes() {
    let checked = transport::check(&Loopback::new());
    let figures = checked.unwrap_or_else(|violation| panic!("{violation}"));
    assert!(figures.left_out.is_empty(), "{figures}");
    println!("{figures}");
}
