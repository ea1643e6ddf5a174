//! Two processes of one identity: a copied data directory, or a restart?

mod common;

use std::time::{Duration, Instant};

use common::proxy::Proxy;
use common::{Node, heartbeat, id, identity, listen, receive};
use raft_grpc::{Config, PeerEvent, Refused};

/// Nothing is noticed by keepalive: only the greeting tells.
fn config() -> Config {
    Config { keepalive_interval: Duration::from_secs(600), ..Config::default() }
}

fn is_twins(event: &PeerEvent) -> Option<()> {
    (*event == PeerEvent::Twins { peer: id(1) }).then_some(())
}

fn saw_twins(node: &mut Node) -> bool {
    std::iter::from_fn(|| node.events.try_recv().ok()).any(|event| is_twins(&event).is_some())
}

async fn host() -> (Node, std::net::SocketAddr) {
    let (listener, address) = listen().await;
    let (_, nobody) = listen().await;
    let host = Node::start(identity(2), config(), &[(1, nobody)]);
    host.serve(listener);
    (host, address)
}

#[tokio::test]
async fn a_copied_data_directory_is_noticed_and_the_first_process_keeps_its_place() {
    let (mut host, address) = host().await;
    let first = Node::start(identity(1), config(), &[(2, address)]);
    first.until(2, "connection", |peer| peer.connected).await;

    let mut copy = Node::start(identity(1), config(), &[(2, address)]);
    let (reason, message) = copy
        .event("refusal", |event| match event {
            PeerEvent::RefusedUs { reason, message, .. } => Some((*reason, message.clone())),
            _ => None,
        })
        .await;
    assert_eq!(reason, Refused::Twin, "{message}");
    assert!(message.contains("another process of node 1"), "{message}");
    host.event("twins", is_twins).await;
    tokio::time::sleep(Duration::from_millis(500)).await; // The copy tries again and again.
    assert_eq!(copy.stats(2).control.connects, 0);
    first.send([heartbeat(1, 2, 1)]);
    assert_eq!(receive(&mut host.control, 1).await, [heartbeat(1, 2, 1)]);
    let stats = first.stats(2);
    assert_eq!((stats.control.connects, stats.bulk.connects), (1, 1), "undisturbed");

    // When the first one has gone, the copy is as good as it was.
    drop(first);
    copy.until(2, "connection", |peer| peer.connected).await;
}

#[tokio::test]
async fn a_restart_is_no_twin() {
    let (mut host, address) = host().await;
    let before = Node::start(identity(1), config(), &[(2, address)]);
    before.until(2, "connection", |peer| peer.connected).await;
    drop(before);
    let after = Node::start(identity(1), config(), &[(2, address)]);
    after.until(2, "connection", |peer| peer.connected).await;
    after.send([heartbeat(1, 2, 1)]);
    assert_eq!(receive(&mut host.control, 1).await, [heartbeat(1, 2, 1)]);
    assert!(!saw_twins(&mut host));
}

/// The power was cut: nobody has closed the old streams, and they look open for minutes.
#[tokio::test]
async fn a_restart_takes_over_from_streams_that_are_half_open() {
    let (mut host, address) = host().await;
    let (proxy, front) = Proxy::start(address).await;
    let before = Node::start(identity(1), config(), &[(2, front)]);
    before.until(2, "connection", |peer| peer.connected).await;
    proxy.silence_all();
    assert!(host.stats(1).control.reading && host.stats(1).bulk.reading, "they look open");

    let begun = Instant::now();
    let after = Node::start(identity(1), config(), &[(2, address)]);
    after.until(2, "connection", |peer| peer.connected).await;
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    after.send([heartbeat(1, 2, 1)]);
    assert_eq!(receive(&mut host.control, 1).await, [heartbeat(1, 2, 1)]);
    assert!(!saw_twins(&mut host));
    assert_eq!(after.stats(2).control.connects, 1);
}
