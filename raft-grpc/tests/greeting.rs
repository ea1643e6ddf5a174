//! Nodes that do not belong together do not talk, and say why.

mod common;

use common::{Node, disk, identity, listen};
use raft_grpc::{ClusterId, Config, Identity};

/// Starts `caller` against a node 2 that knows node 1, and waits for what the caller is told.
async fn refusal(caller: Identity, called_as: u64) -> String {
    let (listener, address) = listen().await;
    let (_, nobody) = listen().await;
    let called = Node::start(identity(2), Config::default(), &[(1, nobody)]);
    let _serving = called.serve(listener);
    let caller = Node::start(caller, Config::default(), &[(called_as, address)]);
    let refused = |error: &Option<String>| error.as_ref().is_some_and(|it| it.contains("node"));
    caller
        .until(called_as, "refusal", |peer| {
            refused(&peer.control.last_error) && refused(&peer.bulk.last_error)
        })
        .await;
    let stats = caller.stats(called_as);
    assert!(!stats.connected && stats.control.connects == 0);
    assert_eq!(called.stats(1).control.received_messages, 0);
    stats.control.last_error.expect("refused")
}

#[tokio::test]
async fn another_cluster_is_refused() {
    let stranger = Identity { cluster: ClusterId(8), ..identity(1) };
    let said = refusal(stranger, 2).await;
    assert!(said.contains("node 1 belongs to cluster 0000000000000008"), "{said}");
    assert!(said.contains("node 2 to cluster 0000000000000007"), "{said}");
}

#[tokio::test]
async fn a_call_to_the_wrong_node_is_refused() {
    let said = refusal(identity(1), 3).await;
    assert!(said.contains("node 1 wants to talk to node 3, but here is node 2"), "{said}");
    assert!(said.contains("correct the peer address of node 3 at node 1"), "{said}");
}

#[tokio::test]
async fn an_unknown_node_is_refused() {
    let said = refusal(identity(9), 2).await;
    assert!(said.contains("node 9 is not a member as far as node 2 knows"), "{said}");
}

/// B70: a voter whose disk was wiped comes back under its old id.
#[tokio::test]
async fn a_known_node_with_another_disk_is_refused_and_reported() {
    let (listener, address) = listen().await;
    let (_, nobody) = listen().await;
    let called = Node::start(identity(2), Config::default(), &[(1, nobody)]);
    let _serving = called.serve(listener);
    let before = Node::start(identity(1), Config::default(), &[(2, address)]);
    before.until(2, "connection", |peer| peer.connected).await;
    drop(before);

    let wiped = Identity { incarnation: disk(0xbad), ..identity(1) };
    let after = Node::start(wiped, Config::default(), &[(2, address)]);
    after.until(2, "refusal", |peer| peer.control.last_error.is_some()).await;
    let said = after.stats(2).control.last_error.expect("refused");
    assert!(said.contains("was here with disk 3e9"), "{said}");
    assert!(said.contains("comes with disk bad"), "{said}");
    assert_eq!(called.stats(1).refused_incarnation, Some(disk(0xbad)));
    assert_eq!(called.stats(1).incarnation, Some(disk(1001)));
}

#[tokio::test]
async fn the_caller_checks_who_answers() {
    let (listener, address) = listen().await;
    let (_, nobody) = listen().await;
    let called = Node::start(identity(2), Config::default(), &[(1, nobody)]);
    let _serving = called.serve(listener);
    let caller = Node::start(identity(1), Config::default(), &[]);
    caller.transport.set_peer(common::id(2), &nobody.to_string()).expect("valid");
    caller.transport.expect_incarnation(common::id(2), disk(5));
    caller.transport.set_peer(common::id(2), &address.to_string()).expect("valid");
    let refused = |error: &Option<String>| error.as_ref().is_some_and(|it| it.contains("disk"));
    caller.until(2, "refusal", |peer| refused(&peer.bulk.last_error)).await;
    assert_eq!(caller.stats(2).refused_incarnation, Some(disk(1002)));
}
