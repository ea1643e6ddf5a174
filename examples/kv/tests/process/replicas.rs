//! Any node answers everything, and a node that was away comes to the same state.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::task::JoinSet;

use crate::kit::{ClientError, Cluster, Swap};

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn any_node_reads_what_any_node_wrote() {
    let trio = Cluster::start().await;
    let mut clients = [0, 1, 2].map(|at| trio.client(at));
    for (writer, key) in (0..3).flat_map(|at| ["a", "b"].map(|key| (at, key))) {
        for round in 0..10 {
            let value = format!("{round} through {writer}");
            clients[writer].put(key, value.clone()).await.expect("a put");
            // The node through which it was written has it even without asking the others.
            let own = clients[writer].get_local(key).await.expect("a local read");
            assert_eq!(own.as_ref(), Some(&value), "node {writer}");
            for (reader, client) in clients.iter_mut().enumerate() {
                let read = client.get(key).await.expect("a read");
                assert_eq!(read.as_ref(), Some(&value), "node {reader} after node {writer}");
            }
        }
    }
    let outcome = clients[0].swap("a", Some("something else"), "never").await.expect("a txn");
    assert_eq!(outcome, Swap::Found(Some("9 through 2".into())));
    let outcome = clients[1].swap("a", Some("9 through 2"), "swapped").await.expect("a txn");
    assert_eq!(outcome, Swap::Done);
    assert_eq!(clients[2].get("a").await.expect("a read").as_deref(), Some("swapped"));
    assert_eq!(trio.settled().await.len(), 2);
}

/// More than the leader keeps in memory for its followers: it has to read its log.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_node_that_missed_thousands_of_writes_catches_up() {
    const WRITES: usize = 3000;
    const VALUE_BYTES: usize = 4096;
    let mut trio = Cluster::start().await;
    let leader = trio.leader().await;
    let away = (leader + 1) % 3;
    trio.nodes[away].kill();

    let next = Arc::new(AtomicUsize::new(0));
    let mut writers = JoinSet::new();
    for _ in 0..32 {
        let (mut client, next) = (trio.client(leader), Arc::clone(&next));
        writers.spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= WRITES {
                    break;
                }
                let value = vec![b'a' + (number % 26) as u8; VALUE_BYTES];
                client.put_surely(&format!("k{number:05}"), value).await;
            }
        });
    }
    writers.join_all().await;

    trio.nodes[away].start();
    let held = trio.settled().await;
    assert_eq!(held.len(), WRITES);
    assert!(held.iter().all(|kv| kv.value.len() == VALUE_BYTES));
    // And it is as good as any other from now on.
    trio.nodes[leader].kill();
    let mut client = trio.client(away);
    client.put_surely("k00000", "new").await;
    assert_eq!(client.get_surely("k00000").await.as_deref(), Some("new"));
    trio.nodes[leader].start();
    assert_eq!(trio.settled().await.len(), WRITES);
}

/// Large values fill many messages of the transport, and several sectors of the log each.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn values_up_to_the_limit_are_replicated() {
    let mut trio = Cluster::start().await;
    let follower = (trio.leader().await + 1) % 3;
    let mut client = trio.client(follower);
    let largest = (3 << 19) - 64;
    for number in 0..4 {
        client.put_surely(&format!("large{number}"), vec![b'a' + number; largest]).await;
    }
    let refusal = client.put("larger", vec![b'x'; 3 << 19]).await.expect_err("over the limit");
    let ClientError::Refused(status) = refusal else { panic!("{refusal:?}") };
    assert_eq!(status.message(), "etcdserver: request is too large");
    let refusal = client.put("", "value").await.expect_err("no key");
    let ClientError::Refused(status) = refusal else { panic!("{refusal:?}") };
    assert_eq!(status.message(), "etcdserver: key is not provided");

    trio.kill_all();
    trio.start_all();
    trio.leader().await;
    let held = trio.settled().await;
    assert_eq!(held.len(), 4);
    assert!(held.iter().all(|kv| kv.value.len() == largest));
}
