//! Backups, and what is left when a majority is gone for good: by the commands of an operator.

use std::path::Path;
use std::process::Output;

use crate::files::change;
use crate::kit::{
    Acknowledged, Client, Cluster, Load, Node, Serve, command, lost_or_doubled, run_to_end, until,
};

const WRITERS: usize = 3;

fn kontiki(args: &[&str]) -> Output {
    run_to_end(command().args(args))
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Expects an end with this code, and gives what was said.
fn ends(args: &[&str], code: i32) -> String {
    let output = kontiki(args);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{args:?}: {stderr}");
    stdout(&output) + &stderr
}

/// ```text
/// cluster ── save ── goes on writing          file ── status ── restore × 3 ── new cluster
/// ```
/// Everything that was acknowledged before the backup is in the new cluster, on every node, and
/// its revisions are ones that no client of the old cluster has seen.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_backup_of_a_busy_cluster_makes_a_new_one() {
    let old = Cluster::start().await;
    let load = Load::start("before", &old.endpoints(), WRITERS);
    load.more(300).await;
    let before = load.stop().await;
    let meanwhile = Load::start("meanwhile", &old.endpoints(), WRITERS);
    meanwhile.more(20).await;
    // A follower saves as well as the leader; it may be a moment behind.
    old.client(1).get_surely("before").await;
    let file = old.dir().join("backup").display().to_string();
    let said = ends(&["snapshot", "save", &file, &format!("--endpoints={}", old.endpoint(1))], 0);
    assert!(said.starts_with("Snapshot saved at "), "{said}");
    meanwhile.more(20).await;
    meanwhile.stop().await;
    let last = old.client(0).status().await.expect("it answers").header.expect("a header").revision;
    let status: serde_json::Value =
        serde_json::from_str(&ends(&["snapshot", "status", "--json", &file], 0)).expect("JSON");
    assert!(status["keys"].as_u64() >= Some(before.len() as u64), "{status}");

    refuse_bad_files(&file, old.dir());
    let mut new = Cluster::plan("restored");
    for node in &new.nodes {
        let Serve { name, data_dir, members, token, .. } = &node.serve;
        let args = [
            "snapshot",
            "restore",
            &file,
            &format!("--name={name}"),
            &format!("--data-dir={}", data_dir.display()),
            &format!("--initial-cluster={members}"),
            &format!("--initial-cluster-token={token}"),
            &format!("--initial-advertise-peer-urls={}", node.serve.peer_url()),
        ];
        ends(&args, 0);
        let said = ends(&args, 1);
        assert!(said.contains("is there already"), "{said}");
    }
    new.start_all();
    new.leader().await;
    let held = new.settled().await;
    assert_eq!(lost(&before, &held), Vec::<String>::new());
    let revision = new.client(0).put("after", "1").await.expect("a put");
    assert!(revision > last, "revision {revision} was used up to {last} by the old cluster");
    // A node of the old cluster is a stranger to the new one, and the other way round.
    assert_ne!(cluster_id(&old).await, cluster_id(&new).await);
    new.same_hash().await;
}

/// Revisions are moved on, so that values alone can be compared.
fn lost(acknowledged: &Acknowledged, held: &[kontiki_kv::proto::mvccpb::KeyValue]) -> Vec<String> {
    let held: std::collections::BTreeMap<_, _> =
        held.iter().map(|kv| (crate::kit::text(&kv.key), crate::kit::text(&kv.value))).collect();
    let lost = acknowledged.iter().filter(|(key, write)| held.get(*key) != Some(&write.value));
    lost.map(|(key, _)| key.clone()).collect()
}

async fn cluster_id(cluster: &Cluster) -> u64 {
    cluster.client(0).inspect().await.expect("it answers").cluster_id
}

/// A file that is cut, flipped, or something else makes nothing.
fn refuse_bad_files(file: &str, dir: &Path) {
    let whole = std::fs::read(file).expect("read");
    let bad = dir.join("bad");
    let target = dir.join("nothing");
    let restore = |what: &str| {
        let bad = bad.display().to_string();
        let said = ends(&["snapshot", "status", &bad], 1);
        assert!(said.contains("error: ") && said.contains(&bad), "{what}: {said}");
        let data_dir = format!("--data-dir={}", target.display());
        let said = ends(&["snapshot", "restore", &bad, &data_dir], 1);
        assert!(said.contains("error: ") && said.contains(&bad), "{what}: {said}");
        assert!(!target.exists(), "{what}: something was made");
    };
    std::fs::write(&bad, &whole).expect("written");
    for at in [0, 9, whole.len() / 2, whole.len() - 1] {
        change(&bad, |bytes| bytes[at] ^= 1);
        restore("a flipped bit");
        change(&bad, |bytes| bytes[at] ^= 1);
    }
    change(&bad, |bytes| bytes.truncate(bytes.len() - 512));
    restore("a block is missing");
    std::fs::write(&bad, "no backup").expect("written");
    restore("another file");
    std::fs::write(&bad, "").expect("written");
    restore("an empty file");
}

/// ```text
/// 1   all it had ── recover ── one-node cluster ── grows again
/// 2 3 lost for good … and not: they come back, and are refused
/// ```
// scenario B71
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn the_last_of_three_goes_on_alone_when_told_to() {
    let mut cluster = Cluster::start().await;
    let load = Load::start("load", &cluster.endpoints(), WRITERS);
    load.more(200).await;
    let acknowledged = load.stop().await;
    cluster.settled().await;
    let [survivor, lost, _] = cluster.ids().await;
    cluster.kill_all();

    let data_dir = format!("--data-dir={}", cluster.nodes[0].serve.data_dir.display());
    let said = ends(&["recover", "--force-new-cluster", &data_dir], 2);
    assert!(said.contains("nothing was changed") && said.contains(&format!("{lost:x}")), "{said}");
    cluster.nodes[0].start();
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    assert_eq!(cluster.client(0).inspect().await.expect("it answers").leader, 0, "{said}");
    let forced = ["recover", "--force-new-cluster", &data_dir, "--accept-that-data-may-be-lost"];
    let said = ends(&forced, 1);
    assert!(said.contains("in use by another process"), "{said}");
    cluster.nodes[0].kill();
    let said = ends(&forced, 0);
    println!("{said}");

    cluster.nodes[0].start();
    cluster.leader_among(&[0]).await;
    let mut client = cluster.client(0);
    client.put_surely("after", "1").await;
    let held = client.dump_local().await.expect("it answers").1;
    assert_eq!(lost_or_doubled(&acknowledged, &held), Vec::<String>::new());
    cluster.voters(0, &[survivor]).await;

    // Those that were given up come back, and are told that they belong elsewhere.
    cluster.nodes[1].start();
    cluster.nodes[2].start();
    until("they are refused", async || {
        cluster.nodes[0].log().contains("of another cluster").then_some(())
    })
    .await;
    client.put_surely("alone", "1").await;
    cluster.nodes[1].kill();
    cluster.nodes[2].kill();

    // And it grows again.
    let mut serve = cluster.plan_joiner("n4");
    let first = cluster.nodes[0].serve.as_member();
    serve.members = format!("{first},{}", serve.as_member());
    let url = serve.peer_url();
    let endpoint = format!("--endpoints={}", cluster.endpoint(0));
    ends(&["member", "add", "n4", &format!("--peer-urls={url}"), &endpoint], 0);
    let mut node = Node::new(serve);
    node.start();
    until("the new one votes", async || {
        let members = cluster.client(0).inspect().await.ok()?.members;
        (members.len() == 2 && members.iter().all(|it| it.standing == "voter")).then_some(())
    })
    .await;
    let held = Client::new(node.serve.client_port).get_surely("alone").await;
    assert_eq!(held.as_deref(), Some("1"));
}
