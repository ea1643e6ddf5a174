//! A network that swallows packets without a word: through a proxy that stops forwarding.

mod common;

use std::sync::Arc;
use std::time::{Duration, Instant};

use common::proxy::Proxy;
use common::{Node, append, heartbeat, identity, listen, receive};
use raft_grpc::{Config, PeerStats};

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
