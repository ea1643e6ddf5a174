//! A node that has not joined asks who is there.

mod common;

use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{Node, id, identity, listen};
use raft_core::{Index, Membership};
use raft_grpc::{ClusterId, Config, DiscoverError, discover};

fn group() -> Membership {
    Membership::founded([(id(1), "a:1"), (id(2), "b:1")]).expect("voters")
}

fn config() -> Config {
    let short = Duration::from_millis(200);
    Config { connect_timeout: short, handshake_timeout: short, ..Config::default() }
}

#[tokio::test]
async fn a_member_tells_the_cluster_and_its_members_at_the_first_address_that_answers() {
    let (listener, address) = listen().await;
    let member = Node::start(identity(2), Config::default(), &[]);
    member.serve(listener);
    member.transport.publish_membership(Index(8), Arc::new(group()));
    let dead = {
        let (closed, address) = listen().await;
        drop(closed);
        address
    };
    let found = discover(&format!("{dead},{address}"), &config()).await.expect("answers");
    assert_eq!((found.cluster, found.node, found.index), (ClusterId(7), id(2), Index(8)));
    assert_eq!(found.membership, group());
    assert!(member.transport.stats().is_empty(), "asking makes no guest");
}

#[tokio::test]
async fn who_does_not_know_says_so_and_who_is_silent_is_not_waited_for() {
    let (listener, address) = listen().await;
    let (_silent, nobody) = listen().await;
    let member = Node::start(identity(2), Config::default(), &[]);
    member.serve(listener);
    let begun = Instant::now();
    let asked = discover(&format!("{address},{nobody}"), &config()).await;
    let Err(DiscoverError::Unreachable { tried }) = asked else { panic!("{asked:?}") };
    assert!(tried.contains(&format!("http://{address}/: ")), "{tried}");
    assert!(tried.contains("node 2 has not joined a cluster yet"), "{tried}");
    assert!(tried.contains("was not answered in time"), "{tried}");
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    assert!(matches!(discover("", &config()).await, Err(DiscoverError::Address { .. })));
}
