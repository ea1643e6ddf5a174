//! What a node refuses when it starts, and whom it refuses to talk to. Each time it says why and
//! what to do, and what was there stays as it was.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use tempfile::TempDir;

use crate::files::write_until_flushed;
use crate::kit::{Client, Cluster, ELECTION_MS, Node, Serve, ports, text, until};

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
        host: "127.0.0.1".to_owned(),
        inside: None,
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

/// A directory says whose it is: no flag makes it another's, and none founds its cluster anew.
// scenario B71
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn the_directory_of_another_node_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut node = started(alone(&dir, "first")).await;
    // A name is known at the start once the store has written it to its tables.
    write_until_flushed(&node).await;
    assert_eq!(node.stop(), Some(0));

    let whose = ["first belongs to the node first", "--data-dir"];
    let other = Serve { data_dir: node.serve.data_dir.clone(), ..alone(&dir, "other") };
    assert_refused(&other, 1, &whose);
    let trio = Cluster::plan("alone");
    let member = Serve { data_dir: node.serve.data_dir.clone(), ..trio.nodes[0].serve.clone() };
    assert_refused(&member, 1, &whose);

    // What is said of a cluster to be founded does not count where there is one.
    node.serve.token = "another".to_owned();
    node.start();
    assert_kept(&node).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn directories_that_cannot_be_used_are_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let serve = alone(&dir, "file");
    std::fs::write(&serve.data_dir, "no directory").expect("written");
    assert_refused(&serve, 1, &["/file", "ot a directory"]);

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
    let mut ours = Cluster::start().await;
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

/// A node that lost its disk comes with the name it had. It is told the way back, and ends;
/// nobody counts on it any more.
// scenario B70
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_node_with_a_new_disk_is_not_the_node_that_it_was() {
    let mut trio = Cluster::start().await;
    let leader = trio.leader().await;
    let wiped = (leader + 1) % 3;
    let mut client = trio.client(leader);
    client.put("key", "1").await.expect("a put");
    trio.settled().await;

    trio.nodes[wiped].kill();
    wipe(&trio.nodes[wiped]);
    trio.nodes[wiped].start();
    assert_eq!(trio.nodes[wiped].ended(), Some(4));
    let said = trio.nodes[wiped].last_lines(1);
    assert!(said.contains("its data was lost") && said.contains("member replace"), "{said}");
    client.put("key", "2").await.expect("two of three are a majority");
}

/// The same when all stop, and the wiped one comes back together with one of the others: alone
/// they make no majority. With the third, everything that was acknowledged is there.
// scenario B70
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_wiped_node_and_one_other_make_no_majority() {
    let mut trio = Cluster::start().await;
    let leader = trio.leader().await;
    let (wiped, behind) = ((leader + 1) % 3, (leader + 2) % 3);
    let mut client = trio.client(leader);
    client.put("early", "1").await.expect("a put");
    trio.settled().await;
    trio.nodes[behind].kill();
    client.put("late", "1").await.expect("the leader and the one to be wiped are a majority");
    trio.kill_all();

    wipe(&trio.nodes[wiped]);
    trio.nodes[behind].start();
    trio.nodes[wiped].start();
    let mut lagging = trio.client(behind).within(Duration::from_millis(6 * ELECTION_MS));
    let write = lagging.put("never", "1").await;
    assert!(write.is_err(), "a majority without what was acknowledged: {write:?}");
    assert_eq!(trio.nodes[wiped].ended(), Some(4), "{}", trio.nodes[wiped].last_lines(3));

    trio.nodes[leader].start();
    let held = client.get_surely("late").await;
    assert_eq!(held.as_deref(), Some("1"));
}

/// Two of three are wiped. They would be a majority; the one that is left is not rolled back.
// scenario B71
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn two_wiped_nodes_do_not_roll_back_the_third() {
    let mut trio = Cluster::start().await;
    let mut client = trio.client(0);
    client.put_surely("kept", "value").await;
    trio.settled().await;
    let last = client.inspect().await.expect("it answers").last;
    trio.kill_all();
    wipe(&trio.nodes[1]);
    wipe(&trio.nodes[2]);
    // They come first, and have all the time to agree.
    trio.nodes[1].start();
    trio.nodes[2].start();
    tokio::time::sleep(Duration::from_millis(4 * ELECTION_MS)).await;
    trio.nodes[0].start();
    tokio::time::sleep(Duration::from_millis(4 * ELECTION_MS)).await;
    let left = trio.client(0).inspect().await.expect("it answers for itself");
    assert_eq!(left.last, last, "the survivor was rolled back: {left:?}");
    for at in [1, 2] {
        assert_eq!(trio.nodes[at].ended(), Some(4), "{}", trio.nodes[at].last_lines(3));
    }
}

/// A copy of a node's directory runs beside it: one of the two ends, and says why, and no write
/// is lost.
// scenario B70
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_copy_of_a_node_is_noticed() {
    let mut trio = Cluster::start().await;
    let leader = trio.leader().await;
    let twin_of = (leader + 1) % 3;
    let mut client = trio.client(leader);
    client.put("key", "1").await.expect("a put");
    trio.nodes[twin_of].stop();
    let copy = trio.dir().join("copy");
    copy_directory(&trio.nodes[twin_of].serve.data_dir, &copy);
    trio.nodes[twin_of].start();
    trio.leader().await;

    let ports = ports(2);
    let serve = Serve {
        data_dir: copy,
        client_port: ports[0],
        peer_port: ports[1],
        ..trio.nodes[twin_of].serve.clone()
    };
    let mut twin = Node::new(serve);
    twin.start();
    until("somebody says that two are alive", async || {
        let logs = trio.nodes.iter().map(Node::log).chain([twin.log()]);
        logs.into_iter().any(|log| log.contains("two processes of this member")).then_some(())
    })
    .await;
    client.put_surely("key", "2").await;
    twin.kill();
    assert_eq!(trio.settled().await.len(), 1);
}

fn wipe(node: &Node) {
    std::fs::remove_dir_all(&node.serve.data_dir).expect("removed");
}

fn copy_directory(from: &Path, to: &Path) {
    std::fs::create_dir(to).expect("made");
    for entry in std::fs::read_dir(from).expect("a directory") {
        let path = entry.expect("read").path();
        let target = to.join(path.file_name().expect("a name"));
        if path.is_dir() {
            copy_directory(&path, &target);
        } else {
            std::fs::copy(&path, &target).expect("copied");
        }
    }
}
