//! A network that swallows packets without a word: through a proxy that stops forwarding.

mod common;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use common::{Node, append, heartbeat, identity, listen, receive};
use raft_grpc::{Config, PeerStats};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Forwards connections to `target`; each can be silenced for good.
#[derive(Default)]
struct Proxy {
    connections: Mutex<Vec<Arc<Connection>>>,
}

#[derive(Default)]
struct Connection {
    forwarded: AtomicU64,
    silent: AtomicBool,
}

impl Proxy {
    async fn start(target: SocketAddr) -> (Arc<Self>, SocketAddr) {
        let (listener, address) = listen().await;
        let proxy = Arc::new(Self::default());
        let accepting = Arc::clone(&proxy);
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let connection = Arc::new(Connection::default());
                accepting.lock().push(Arc::clone(&connection));
                let far = TcpStream::connect(target).await.expect("the target listens");
                let ((near_in, near_out), (far_in, far_out)) =
                    (near.into_split(), far.into_split());
                tokio::spawn(forward(near_in, far_out, Arc::clone(&connection)));
                tokio::spawn(forward(far_in, near_out, connection));
            }
        });
        (proxy, address)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Arc<Connection>>> {
        self.connections.lock().expect("nobody panics")
    }

    /// Silences the connection that carried most.
    fn silence_busiest(&self) {
        let connections = self.lock();
        let busiest = connections.iter().max_by_key(|it| it.forwarded.load(Relaxed));
        busiest.expect("connections").silent.store(true, Relaxed);
    }

    fn silence_all(&self) {
        self.lock().iter().for_each(|it| it.silent.store(true, Relaxed));
    }
}

async fn forward(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    connection: Arc<Connection>,
) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        if connection.silent.load(Relaxed) {
            return std::future::pending().await; // Keeps the sockets: no FIN, no RST.
        }
        connection.forwarded.fetch_add(count as u64, Relaxed);
        if to.write_all(&buffer[..count]).await.is_err() {
            return;
        }
    }
}

async fn through_proxy(config: Config) -> (Node, Node, Arc<Proxy>) {
    let (listener, address) = listen().await;
    let (_, nobody) = listen().await;
    let (proxy, front) = Proxy::start(address).await;
    let b = Node::start(identity(2), config.clone(), &[(1, nobody)]);
    b.serve(listener);
    let a = Node::start(identity(1), config, &[(2, front)]);
    a.until(2, "connection", |peer| peer.connected).await;
    (a, b, proxy)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_bulk_connection_delays_no_heartbeat_and_is_replaced() {
    let config = Config::for_timing(Duration::from_millis(200), Duration::from_millis(2000));
    let (a, mut b, proxy) = through_proxy(config).await;
    a.send([append(1, 2, 1, &[200 << 10])]);
    receive(&mut b.bulk, 1).await;

    proxy.silence_busiest();
    a.send((2..12).map(|first| append(1, 2, first, &[200 << 10])));
    for round in 1..=50 {
        let sent = Instant::now();
        a.send([heartbeat(1, 2, round)]);
        assert_eq!(receive(&mut b.control, 1).await, [heartbeat(1, 2, round)]);
        assert!(sent.elapsed() < Duration::from_millis(900), "{:?}", sent.elapsed());
    }
    a.until(2, "new bulk connection", |peer| peer.bulk.connects == 2).await;
    assert_eq!(a.stats(2).control.connects, 1, "the control lane did not notice");
    a.send([append(1, 2, 20, &[10])]);
    assert_eq!(receive(&mut b.bulk, 1).await, [append(1, 2, 20, &[10])]);
}

/// B73: a peer whose power is cut says nothing, and TCP alone would wait for minutes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_peer_is_noticed_within_about_an_election_timeout() {
    let election_timeout = Duration::from_millis(600);
    let config = Config::for_timing(Duration::from_millis(60), election_timeout);
    let (a, b, proxy) = through_proxy(config).await;
    let begun = Instant::now();
    proxy.silence_all();
    let replaced = |peer: &PeerStats| peer.control.connects == 2 && peer.bulk.connects == 2;
    a.until(2, "new connections", replaced).await;
    // An idle connection is probed as well. Generous: the machine may be busy.
    assert!(begun.elapsed() < election_timeout * 4, "{:?}", begun.elapsed());
    b.until(1, "new streams", |peer| peer.control.reading && peer.bulk.reading).await;
}
