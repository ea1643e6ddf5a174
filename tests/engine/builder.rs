//! Nodes on the real log and the real transport, and the settings that are refused.

use bytes::Bytes;
use kontiki::{Builder, Consistency, Index, Node, StartError, StopReason};
use std::time::Duration;
use tokio::time::timeout;

use crate::kit::{ELECTION, HEARTBEAT, LIMIT, List, id};

fn builder(id: u64) -> Builder {
    Builder::new(id).cluster_id(7).heartbeat_interval(HEARTBEAT).election_timeout(ELECTION)
}

async fn refusal(builder: Builder) -> String {
    builder.start(List::default()).await.expect_err("refused").to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_that_cannot_work_are_refused_with_the_reason() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("never made");
    let base = |id| builder(id).data_dir(&path);
    let cases = [
        (base(0), "a node has the id 0; give it another number"),
        (base(1).member(0, "a:1").member(1, "b:1"), "a node has the id 0; give it another number"),
        (base(1).member(2, "a:1"), "this node, 1, is not among the members; add it"),
        (base(1).member(1, "a:1").member(1, "b:1"), "two members have the id 1; give each its own"),
        (
            base(1).member(1, "a:1").member(2, "a:1"),
            "members 1 and 2 have the same address, \"a:1\"; give each its own",
        ),
        (
            base(1).heartbeat_interval(Duration::ZERO),
            "the heartbeat interval is zero; 100 ms is usual",
        ),
        (
            base(1).election_timeout(HEARTBEAT * 4),
            "the election timeout (80ms) is less than five heartbeats (20ms); one late heartbeat \
             would depose a healthy leader, so make it at least 100ms",
        ),
        (base(1).entry_bytes_max(0), "entry_bytes_max is zero; give it at least one"),
    ];
    for (builder, reason) in cases {
        assert_eq!(refusal(builder).await, reason);
    }
    assert!(!path.exists(), "nothing was made");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_is_one_nodes_alone_and_survives_its_restart() {
    let dir = tempfile::tempdir().expect("a directory");
    let one = || builder(1).data_dir(dir.path());
    let list = List::default();
    let node: Node<usize> = one().start(list.clone()).await.expect("starts");
    timeout(LIMIT, node.leader()).await.expect("in time").expect("running");
    for text in ["a", "b", "c"] {
        node.propose(Bytes::from_static(text.as_bytes())).await.expect("committed");
    }
    let second = one().start(List::default()).await.expect_err("the log is in use");
    assert!(matches!(second, StartError::Storage(_)), "{second}");
    assert_eq!(timeout(LIMIT, node.shutdown()).await, Ok(StopReason::Shutdown));

    for (other, what) in [
        (builder(2).data_dir(dir.path()), "another node"),
        (one().cluster_id(8), "another cluster"),
    ] {
        let error = refusal(other).await;
        assert!(error.contains(&dir.path().display().to_string()), "{what}: {error}");
    }

    // Who belongs to the group is in the log, whoever is named now; and so is the cluster.
    let restarted = List::default();
    let again = Builder::new(1).heartbeat_interval(HEARTBEAT).election_timeout(ELECTION);
    let again = again.data_dir(dir.path()).member(1, "127.0.0.1:0").member(2, "127.0.0.1:1");
    let node = again.start(restarted.clone()).await.expect("starts again");
    assert_eq!(node.status().members.membership.voters().collect::<Vec<_>>(), [id(1)]);
    timeout(LIMIT, node.leader()).await.expect("in time").expect("running");
    let permit = node.read(Consistency::Linearizable).await.expect("leads");
    assert!(permit.index > Index(4), "a new term, a new entry");
    assert_eq!(restarted.contents(), ["a", "b", "c"], "everything is applied again, once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_in_use_is_a_clear_error() {
    let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = taken.local_addr().expect("bound").to_string();
    let dir = tempfile::tempdir().expect("a directory");
    let error = refusal(builder(1).member(1, &address).data_dir(dir.path())).await;
    assert!(error.starts_with(&format!("cannot listen on {address} for peers: ")), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_listens_wherever_it_is_told_to() {
    let dir = tempfile::tempdir().expect("a directory");
    let free = || {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        listener.local_addr().expect("bound")
    };
    let (first, second) = (free(), free());
    let addresses = [first.to_string(), second.to_string()];
    let node: Node<usize> = addresses
        .iter()
        .fold(builder(1).data_dir(dir.path()), |builder, address| builder.listen(address))
        .start(List::default())
        .await
        .expect("starts");
    for address in addresses {
        tokio::net::TcpStream::connect(&address).await.expect("it listens");
    }
    assert_eq!(node.shutdown().await, StopReason::Shutdown);
}
