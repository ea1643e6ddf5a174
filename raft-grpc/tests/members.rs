//! Members come, move and go; and nodes talk that do not know each other yet.

mod common;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{Node, PATIENCE, disk, heartbeat, id, identity, listen, pair, receive};
use raft_core::{Index, Membership};
use raft_grpc::{ClusterId, Config, Identity, PeerEvent, PeerStats, Refused};

fn advertising(address: SocketAddr) -> Config {
    Config { advertised: address.to_string(), ..Config::default() }
}

fn refused(event: &PeerEvent) -> Option<(Refused, String)> {
    match event {
        PeerEvent::RefusedUs { reason, message, .. } => Some((*reason, message.clone())),
        _ => None,
    }
}

#[tokio::test]
async fn a_removed_node_is_told_so_and_a_program_understands_it() {
    let (mut a, b) = pair(Config::default()).await;
    b.transport.mark_removed(id(1));
    let (reason, message) = a.event("refusal", refused).await;
    assert_eq!(reason, Refused::Removed, "{message}");
    assert!(message.contains("node 1 was removed from the cluster, says node 2"), "{message}");
    assert!(b.transport.stats().is_empty(), "forgotten");
    // Told once, not at every attempt.
    tokio::time::sleep(Duration::from_millis(300)).await;
    while let Ok(event) = a.events.try_recv() {
        assert_eq!(refused(&event), None);
    }
}

/// Starts `caller` against a node 2 that knows node 1 with disk 1001.
async fn refusal(caller: Identity) -> Refused {
    let (listener, address) = listen().await;
    let (_, nobody) = listen().await;
    let called = Node::start(identity(2), Config::default(), &[(1, nobody)]);
    called.transport.expect_incarnation(id(1), disk(1001));
    called.serve(listener);
    let mut caller = Node::start(caller, Config::default(), &[(2, address)]);
    caller.event("refusal", refused).await.0
}

#[tokio::test]
async fn the_reason_of_a_refusal_names_the_cluster_or_the_disk() {
    let stranger = Identity { cluster: ClusterId(8), ..identity(1) };
    assert_eq!(refusal(stranger).await, Refused::Cluster { theirs: ClusterId(7) });
    let wiped = Identity { incarnation: disk(5), ..identity(1) };
    assert_eq!(refusal(wiped).await, Refused::Incarnation { known: disk(1001) });
}

#[tokio::test]
async fn each_side_is_told_the_others_disk_once() {
    let (mut a, mut b) = pair(Config::default()).await;
    for (node, other) in [(&mut a, 2), (&mut b, 1)] {
        let (peer, incarnation) = (id(other), disk(1000 + other));
        let identified = PeerEvent::Identified { peer, incarnation };
        assert_eq!(node.events.recv().await, Some(identified));
        assert!(node.events.try_recv().is_err(), "of four streams, once");
    }
}

/// A known disk that turns out to be another one.
#[tokio::test]
async fn streams_of_another_disk_than_expected_end() {
    let (a, b) = pair(Config::default()).await;
    b.transport.expect_incarnation(id(1), disk(1001));
    assert!(b.stats(1).connected && b.stats(1).control.reading, "as expected");
    b.transport.expect_incarnation(id(1), disk(5));
    let gone = |peer: &PeerStats| !peer.connected && !peer.control.reading && !peer.bulk.reading;
    b.until(1, "end", gone).await;
    a.until(2, "refusal", |peer| peer.control.last_error.is_some()).await;
}

/// B49: a node that knows nobody has to answer a leader, or a candidate of a newer
/// configuration.
#[tokio::test]
async fn who_is_not_known_is_heard_and_answered() {
    let ((first, first_address), (third, third_address)) = (listen().await, listen().await);
    let mut joining = Node::start(identity(3), Config::default(), &[]);
    joining.serve(third);
    let mut leader = Node::start(identity(1), advertising(first_address), &[(3, third_address)]);
    leader.serve(first);

    leader.send([heartbeat(1, 3, 1)]);
    assert_eq!(receive(&mut joining.control, 1).await, [heartbeat(1, 3, 1)]);
    joining.until(1, "way back", |peer| peer.connected).await;
    joining.send([heartbeat(3, 1, 1)]);
    assert_eq!(receive(&mut leader.control, 1).await, [heartbeat(3, 1, 1)]);
    let address = joining
        .event("unknown", |event| match event {
            PeerEvent::Unknown { node, address } if *node == id(1) => Some(address.clone()),
            _ => None,
        })
        .await;
    assert_eq!(address, first_address.to_string());
    assert!(joining.stats(1).guest);

    // Once it is a member, the streams go on.
    joining.transport.set_peer(id(1), &first_address.to_string()).expect("valid");
    let stats = joining.stats(1);
    assert!(!stats.guest && stats.connected && stats.control.connects == 1, "{stats:?}");
}

/// Neither wants the other any more, and neither goes on because the other does.
#[tokio::test]
async fn a_guest_goes_when_it_calls_no_more() {
    let ((first, first_address), (third, third_address)) = (listen().await, listen().await);
    let brief =
        |address| Config { handshake_timeout: Duration::from_millis(100), ..advertising(address) };
    let host = Node::start(identity(3), brief(third_address), &[]);
    host.serve(third);
    let caller = Node::start(identity(1), brief(first_address), &[(3, third_address)]);
    caller.serve(first);
    caller.until(3, "connection", |peer| peer.connected).await;
    host.until(1, "way back", |peer| peer.connected).await;
    assert!(!caller.stats(3).guest && host.stats(1).guest);

    caller.transport.remove_peer(id(3));
    let deadline = Instant::now() + PATIENCE;
    while !host.transport.stats().is_empty() {
        assert!(Instant::now() < deadline, "{:#?}", host.transport.stats());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(caller.transport.stats().is_empty(), "no guest in its turn");
}

#[tokio::test]
async fn guests_are_few_and_one_that_has_gone_makes_room() {
    let (listener, address) = listen().await;
    let config = Config {
        guests_max: 2,
        handshake_timeout: Duration::from_millis(100),
        ..Config::default()
    };
    let host = Node::start(identity(9), config, &[]);
    host.serve(listener);
    let mut guests = Vec::new();
    for node in 1..=2 {
        let (own, own_address) = listen().await;
        let guest = Node::start(identity(node), advertising(own_address), &[(9, address)]);
        guest.serve(own);
        guest.until(9, "connection", |peer| peer.connected).await;
        guests.push(guest);
    }
    let (_, nowhere) = listen().await;
    let third = Node::start(identity(3), advertising(nowhere), &[(9, address)]);
    third.until(9, "refusal", |peer| peer.control.last_error.is_some()).await;
    let said = third.stats(9).control.last_error.expect("refused");
    assert!(said.contains("listens to 2 such nodes already"), "{said}");
    assert_eq!(host.transport.stats().len(), 2);

    drop(guests.remove(0));
    third.until(9, "connection", |peer| peer.connected).await;
    assert!(host.transport.stats().len() <= 2);
}

#[tokio::test]
async fn addresses_are_tried_in_turn() {
    let (listener, address) = listen().await;
    let dead = {
        let (closed, address) = listen().await;
        drop(closed);
        address
    };
    let mut b = Node::start(identity(2), Config::default(), &[(1, dead)]);
    b.serve(listener);
    let a = Node::start(identity(1), Config::default(), &[]);
    a.transport.set_peer(id(2), &format!("{dead}, http://{address}")).expect("valid");
    a.until(2, "connection", |peer| peer.connected).await;
    a.send([heartbeat(1, 2, 1)]);
    assert_eq!(receive(&mut b.control, 1).await, [heartbeat(1, 2, 1)]);
    assert!(a.transport.set_peer(id(2), &format!("{address},")).is_err());
}

#[tokio::test]
async fn a_stream_stays_when_its_address_stays_and_what_waits_survives_a_move() {
    let (listener, address) = listen().await;
    let (_, nobody) = listen().await;
    let mut b = Node::start(identity(2), Config::default(), &[(1, nobody)]);
    b.serve(listener);
    let config = Config { stale_after: PATIENCE, ..Config::default() };
    let a = Node::start(identity(1), config, &[(2, address)]);
    a.until(2, "connection", |peer| peer.connected).await;

    a.transport.set_peer(id(2), &format!("{nobody},{address}")).expect("valid");
    assert!(a.stats(2).connected);
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(a.stats(2).control.connects, 1, "no new stream");

    a.transport.set_peer(id(2), &nobody.to_string()).expect("valid");
    assert!(!a.stats(2).connected, "nobody is there");
    a.until(2, "failure", |peer| peer.control.last_error.is_some()).await;
    a.send([heartbeat(1, 2, 7)]);
    a.transport.set_peer(id(2), &address.to_string()).expect("valid");
    assert_eq!(receive(&mut b.control, 1).await, [heartbeat(1, 2, 7)]);
}

#[tokio::test]
async fn the_peers_follow_the_membership() {
    let group = |members: &[(u64, &str)]| {
        let voters = members.iter().map(|&(node, address)| (id(node), address));
        Arc::new(Membership::founded(voters).expect("voters"))
    };
    let a = Node::start(identity(1), Config::default(), &[]);
    a.transport.follow(&group(&[(1, "a:1"), (2, "b:1"), (3, "c:1"), (4, "")]));
    let known = |node: &Node| -> Vec<(u64, String)> {
        let stats = node.transport.stats();
        stats.into_iter().map(|(peer, it)| (peer.get(), it.address)).collect()
    };
    let at = |address: &str| format!("http://{address}/");
    assert_eq!(known(&a), [(2, at("b:1")), (3, at("c:1"))]);
    a.transport.follow(&group(&[(1, "a:1"), (3, "c:2"), (5, "e:1,f:1")]));
    assert_eq!(known(&a), [(3, at("c:2")), (5, format!("{},{}", at("e:1"), at("f:1")))]);
    a.transport.follow(&group(&[(1, "a:1"), (3, "")]));
    assert_eq!(known(&a), [(3, at("c:2"))], "the old address is better than none");
    a.transport.publish_membership(Index(9), group(&[(1, "a:1")]));
    assert_eq!(known(&a), [(3, at("c:2"))], "publishing names no peers");
}
