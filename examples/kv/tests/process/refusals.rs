//! What a node refuses when it starts, and whom it refuses to talk to. Each time it says why and
//! what to do, and what was there stays as it was.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tempfile::TempDir;

use crate::kit::{Client, Fault, Node, Serve, Trio, ports, text, until};

/// A node that is alone in its cluster.
pub(crate) fn alone(dir: &TempDir, name: &str) -> Serve {
    let ports = ports(2);
    Serve {
        name: name.to_owned(),
        client_port: ports[0],
        peer_port: ports[1],
        data_dir: dir.path().join(name),
        members: String::new(),
        token: "alone".to_owned(),
        more: Vec::new(),
    }
}

/// Starts a node that is alone and lets it hold one key.
pub(crate) async fn started(serve: Serve) -> Node {
    let mut node = Node::new(serve);
    node.start();
    let mut client = Client::new(node.serve.client_port);
    client.put_surely("kept", "value").await;
    node
}

/// The key is still there.
pub(crate) async fn assert_kept(node: &Node) {
    let mut client = Client::new(node.serve.client_port);
    assert_eq!(client.get_surely("kept").await.as_deref(), Some("value"));
}

/// Expects a start that fails and says all of this on its last line.
pub(crate) fn assert_refused(serve: &Serve, code: i32, expected: &[&str]) {
    let (found, stderr) = serve.refused();
    assert_eq!(found, Some(code), "{stderr}");
    let last = stderr.lines().last().unwrap_or_default();
    assert!(last.starts_with("error: "), "{stderr}");
    for part in expected {
        assert!(last.contains(part), "not {part:?} in\n{last}");
    }
    assert!(!stderr.contains("panicked"), "{stderr}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn ports_and_directories_that_are_in_use_are_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut node = started(alone(&dir, "first")).await;
    let other = alone(&dir, "other");

    let client_port = node.serve.client_port;
    let advice = format!("cannot listen on http://127.0.0.1:{client_port} for clients");
    let taken = Serve { client_port, ..other.clone() };
    assert_refused(&taken, 1, &[&advice, "in use", "--listen-client-urls"]);

    let peer_port = node.serve.peer_port;
    let advice = format!("cannot listen on 127.0.0.1:{peer_port} for peers");
    let taken = Serve { peer_port, ..other.clone() };
    assert_refused(&taken, 1, &[&advice, "in use", "stop the process that uses it"]);
    assert!(!other.data_dir.join("store").exists(), "a store was made");

    // The node's own directory again, at other client ports: its peer port is in the way.
    let twice = Serve { client_port: other.client_port, ..node.serve.clone() };
    assert_refused(&twice, 1, &["for peers", "in use"]);
    // And elsewhere altogether it is the directory itself.
    let elsewhere = Serve { data_dir: node.serve.data_dir.clone(), ..other.clone() };
    assert_refused(&elsewhere, 1, &["first/raft", "in use by another process", "stop it"]);

    assert_kept(&node).await;
    assert_eq!(node.stop(), Some(0));
    node.start();
    assert_kept(&node).await;
}

// scenario B71
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn the_directory_of_another_node_or_cluster_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut node = started(alone(&dir, "first")).await;
    assert_eq!(node.stop(), Some(0));

    let other = Serve { data_dir: node.serve.data_dir.clone(), ..alone(&dir, "other") };
    assert_refused(&other, 1, &["first/raft belongs to node ", "its own directory"]);
    let token = Serve { token: "another".to_owned(), ..node.serve.clone() };
    assert_refused(&token, 1, &["first/raft belongs to node ", " of cluster "]);
    // One node of three is another node than one that is alone.
    let trio = Trio::plan("alone");
    let member = Serve { data_dir: node.serve.data_dir.clone(), ..trio.nodes[0].serve.clone() };
    assert_refused(&member, 1, &["first/raft belongs to node "]);

    node.start();
    assert_kept(&node).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn directories_that_cannot_be_used_are_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let serve = alone(&dir, "file");
    std::fs::write(&serve.data_dir, "no directory").expect("written");
    assert_refused(&serve, 1, &["cannot make the data directory", "--data-dir"]);

    let mut node = started(alone(&dir, "closed")).await;
    assert_eq!(node.stop(), Some(0));
    let set_mode = |path: &Path, mode| {
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).expect("permissions");
    };
    let raft = node.serve.data_dir.join("raft");
    set_mode(&raft, 0);
    if std::fs::read_dir(&raft).is_ok() {
        println!("skipped: this user may read what nobody may read");
    } else {
        assert_refused(&node.serve, 1, &["closed/raft", "ermission denied"]);
    }
    set_mode(&raft, 0o755);
    node.start();
    assert_kept(&node).await;
}

/// Three nodes of another cluster are told of ours, by mistake, and the other way round. They
/// say so, and both clusters stay as they are.
// scenario B71
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn nodes_of_another_cluster_never_join() {
    let mut ours = Trio::start().await;
    let leader = ours.leader().await;
    let stranger_at = (leader + 1) % 3;
    let mut client = ours.client(leader);
    client.put("ours", "1").await.expect("a put");

    // A fresh node with the same URLs takes the place of one of ours, under another token.
    ours.nodes[stranger_at].kill();
    let fresh = tempfile::tempdir().expect("a directory");
    let data_dir = fresh.path().join("stranger");
    let token = "another".to_owned();
    let serve = Serve { data_dir, token, ..ours.nodes[stranger_at].serve.clone() };
    let mut stranger = Node::new(serve);
    stranger.start();
    until("our leader says whom it met", async || {
        ours.nodes[leader].log().contains("of another cluster").then_some(())
    })
    .await;
    until("the stranger says whom it met", async || {
        stranger.log().contains("of another cluster").then_some(())
    })
    .await;
    client.put("ours", "2").await.expect("two of three are a majority");
    let strange = Client::new(stranger.serve.client_port).dump_local().await;
    assert!(strange.expect("it answers for itself").1.is_empty(), "it was given our data");

    drop(stranger);
    ours.nodes[stranger_at].start();
    let held = ours.settled().await;
    assert_eq!(held.iter().map(|kv| text(&kv.value)).collect::<Vec<_>>(), ["2"]);
}

/// A node that lost its disk comes with the name it had. Nobody counts on it any more.
// scenario B70
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_node_with_a_new_disk_is_not_the_node_that_it_was() {
    let mut trio = Trio::start().await;
    let leader = trio.leader().await;
    let wiped = (leader + 1) % 3;
    let mut client = trio.client(leader);
    client.put("key", "1").await.expect("a put");
    trio.settled().await;

    trio.nodes[wiped].kill();
    std::fs::remove_dir_all(&trio.nodes[wiped].serve.data_dir).expect("removed");
    trio.nodes[wiped].start();
    until("the leader says that it is another disk", async || {
        trio.nodes[leader].log().contains("its data was lost or it runs twice").then_some(())
    })
    .await;
    client.put("key", "2").await.expect("two of three are a majority");
    let status = trio.client(wiped).status().await.expect("it answers for itself");
    assert_eq!((status.leader, status.raft_index), (0, 0), "it takes part");

    // Alone with one of the others it makes no majority.
    trio.nodes[(leader + 2) % 3].kill();
    let written = client.put("key", "3").await;
    assert!(matches!(written, Err(Fault::Unknown(_))), "{written:?}");
}
