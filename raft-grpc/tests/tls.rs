//! Only nodes with a certificate of the cluster's authority talk, and only as themselves.
#![cfg(feature = "tls")]

mod common;

use std::sync::Arc;

use common::store::{Source, Store, snapshot};
use common::{Node, PATIENCE, heartbeat, id, identity, listen, receive};
use raft_core::{Index, Membership, Term};
use raft_grpc::{Config, DiscoverError, Identity, TlsConfig, discover};
use tokio::time::timeout;

macro_rules! certificate {
    ($name:literal) => {
        config(
            include_bytes!(concat!("certificates/", $name, ".pem")),
            include_bytes!(concat!("certificates/", $name, ".key")),
        )
    };
}

fn config(certificate_pem: &[u8], key_pem: &[u8]) -> Config {
    let tls = TlsConfig {
        authority_pem: include_bytes!("certificates/authority.pem").to_vec(),
        certificate_pem: certificate_pem.to_vec(),
        key_pem: key_pem.to_vec(),
        node_domain: Some("raft.test".to_owned()),
    };
    Config { tls: Some(tls), ..Config::default() }
}

/// Node 2 serves, and knows node 1; `caller` calls it as `called_as`.
async fn call(caller: Identity, config: Config, called_as: u64) -> (Node, Node) {
    let (listener, address) = listen().await;
    let (_, nobody) = listen().await;
    let peers = [(1, nobody), (3, nobody)];
    let called = Node::start(identity(2), certificate!("node2"), &peers);
    called.serve(listener);
    (Node::start(caller, config, &[(called_as, address)]), called)
}

async fn refusal(caller: Identity, config: Config, called_as: u64) -> String {
    let (caller, _called) = call(caller, config, called_as).await;
    caller.until(called_as, "refusal", |peer| peer.control.last_error.is_some()).await;
    caller.stats(called_as).control.last_error.expect("refused")
}

#[tokio::test]
async fn nodes_of_one_authority_talk() {
    let (caller, mut called) = call(identity(1), certificate!("node1"), 2).await;
    caller.until(2, "connection", |peer| peer.connected).await;
    caller.send([heartbeat(1, 2, 1)]);
    assert_eq!(receive(&mut called.control, 1).await, [heartbeat(1, 2, 1)]);
}

#[tokio::test]
async fn a_node_cannot_pass_for_another() {
    let said = refusal(identity(3), certificate!("node1"), 2).await;
    assert!(said.contains("certificate of node 3 does not name 3.raft.test"), "{said}");
}

#[tokio::test]
async fn the_called_node_must_be_the_one_in_its_certificate() {
    let said = refusal(identity(1), certificate!("node1"), 3).await;
    assert!(said.contains("certificate"), "{said}");
}

#[tokio::test]
async fn a_certificate_of_another_authority_is_refused() {
    let said = refusal(identity(1), certificate!("stranger1"), 2).await;
    assert!(!said.is_empty());
}

#[tokio::test]
async fn without_encryption_nobody_gets_in() {
    let (listener, address) = listen().await;
    let (_, nobody) = listen().await;
    let called = Node::start(identity(2), certificate!("node2"), &[(1, nobody)]);
    called.serve(listener);
    let caller = Node::start(identity(1), Config::default(), &[(2, address)]);
    caller.until(2, "refusal", |peer| peer.control.last_error.is_some()).await;
    assert_eq!(caller.stats(2).control.connects, 0);
}

#[tokio::test]
async fn snapshots_and_introductions_are_encrypted_too() {
    let (listener, address) = listen().await;
    let (_, nobody) = listen().await;
    let store = Store::default();
    let shared = Arc::new(store.clone());
    let member = Node::with_store(identity(2), certificate!("node2"), &[(1, nobody)], shared);
    member.serve(listener);
    let leader = Node::start(identity(1), certificate!("node1"), &[(2, address)]);
    let source = Arc::new(Source::new(90, 1 << 20));
    let sent = leader.transport.send_snapshot(id(2), Term(4), source);
    assert_eq!(timeout(PATIENCE, sent).await.expect("in time"), Ok(snapshot(90).last));
    assert_eq!(store.lock().published.len(), 1);

    let group = Membership::new([id(1), id(2)]).expect("voters");
    member.transport.publish_membership(Index(1), Arc::new(group.clone()));
    let address = address.to_string();
    let found = discover(&address, &certificate!("node1")).await.expect("answers");
    assert_eq!(found.membership, group);
    for stranger in [certificate!("stranger1"), Config::default()] {
        let refused = discover(&address, &stranger).await;
        assert!(matches!(refused, Err(DiscoverError::Unreachable { .. })), "{refused:?}");
    }
}
