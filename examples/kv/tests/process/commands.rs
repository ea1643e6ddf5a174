//! The small commands against a cluster that runs, and the log of a node that does not.

use std::process::Output;

use crate::files::{change, segment};
use crate::kit::{Client, Cluster, command, run_to_end, until};
use crate::refusals::{alone, started};

fn kontiki(args: &[&str]) -> Output {
    run_to_end(command().args(args))
}

/// Expects success and this output.
fn gives(args: &[&str], expected: &str) {
    let output = kontiki(args);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{args:?}: {stderr}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{args:?}");
}

fn refused(args: &[&str], expected: &str) {
    let output = kontiki(args);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{args:?}: {stderr}");
    assert!(stderr.starts_with("error: ") && stderr.contains(expected), "{args:?}: {stderr}");
    assert_eq!(output.stdout, b"", "{args:?}");
}

fn json(args: &[&str]) -> serde_json::Value {
    let output = kontiki(args);
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn keys_are_written_read_and_deleted_through_any_node() {
    let mut trio = Cluster::start().await;
    let endpoint = |port: &u16| format!("127.0.0.1:{port}");
    let ports = trio.client_ports();
    let endpoints: Vec<_> =
        ports.iter().map(|at| format!("--endpoints={}", endpoint(at))).collect();
    gives(&["put", "a", "1", &endpoints[0]], "OK\n");
    gives(&["put", "a", "2", "--prev-kv", &endpoints[1]], "OK\na\n1\n");
    gives(&["put", "b", "-3", &endpoints[2]], "OK\n");
    gives(&["get", "a", &endpoints[2]], "a\n2\n");
    gives(&["get", "a", "--rev=2", &endpoints[2]], "a\n1\n");
    gives(&["get", "", "--prefix", &endpoints[0]], "a\n2\nb\n-3\n");
    gives(&["get", "a", "--consistency=s", "--print-value-only", &endpoints[2]], "2\n");
    gives(&["get", "absent", &endpoints[0]], "");
    gives(&["del", "", "--prefix", "--prev-kv", &endpoints[1]], "2\na\n2\nb\n-3\n");
    gives(&["get", "", "--from-key", &endpoints[2]], "");
    refused(&["put", "", "1", &endpoints[0]], "key is not provided");
    let large = "x".repeat(100 << 10);
    gives(&["put", "large", &large, &endpoints[0]], "OK\n");
    gives(&["get", "large", "--print-value-only", &endpoints[1]], &format!("{large}\n"));
    refused(&["get", "a", "--rev=1000", &endpoints[0]], "future revision");

    // One of three is gone: the list of endpoints is for that.
    let dead = trio.leader().await;
    trio.nodes[dead].kill();
    let mut ports = trio.client_ports();
    ports.rotate_left(dead);
    let list = ports.iter().map(endpoint).collect::<Vec<_>>().join(",");
    let list = format!("--endpoints={list}");
    gives(&["get", "large", "--keys-only", &list], "large\n\n");
    gives(&["put", "after", "1", &list], "OK\n");

    let output = kontiki(&["status", &list]);
    assert_eq!(output.status.code(), Some(1), "one of them does not answer");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains(&format!("127.0.0.1:{}", ports[0])), "{stderr}");
    let statuses = json(&["status", "--json", &list]);
    let statuses = statuses.as_array().expect("a list");
    assert_eq!(statuses.len(), 2, "{statuses:?}");
    assert_eq!(statuses[0]["leader"], statuses[1]["leader"]);
    let members = json(&["member", "list", "--json", &list]);
    let names: Vec<_> = members.as_array().expect("a list").iter().map(|m| &m["name"]).collect();
    assert_eq!(names.len(), 3, "{members}");
    for name in ["n1", "n2", "n3"] {
        assert!(names.iter().any(|found| *found == name), "{members}");
    }
}

/// ```text
/// the last batch   | sector | sector | sector |      its last sector is zeros: torn, exit code 1
/// ```
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_log_is_judged_from_outside() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut node = started(alone(&dir, "node")).await;
    // What a node says of itself is an entry too, and shall not be the last one.
    let endpoint = format!("--endpoints=127.0.0.1:{}", node.serve.client_port);
    until("the node has said who it is", async || {
        let members = json(&["member", "list", "--json", &endpoint]);
        (members[0]["name"] == "node").then_some(())
    })
    .await;
    let mut client = Client::new(node.serve.client_port);
    client.put_surely("last", vec![b'x'; 2000]).await;
    let path = node.serve.data_dir.display().to_string();
    // It may be looked at while the node runs, and the node does not mind.
    assert!(kontiki(&["wal", "inspect", &path]).status.code() <= Some(1));
    node.kill();

    let verdict = |code: i32, name: &str| {
        let output = kontiki(&["wal", "verify", &path]);
        let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(output.status.code(), Some(code), "{stdout}");
        let report = json(&["wal", "verify", "--json", &path]);
        assert_eq!(report["verdict"], name, "{report}");
        let report = json(&["wal", "inspect", "--json", &path]);
        assert_eq!(report["verdict"]["verdict"], name, "{report}");
        (stdout, report)
    };
    let (_, report) = verdict(0, "clean");
    let whole = report["log"]["last_index"].as_u64().expect("a number");

    let wal = segment(&node.serve.data_dir.join("raft"));
    let bytes = std::fs::read(&wal).expect("read");
    let last = bytes.iter().rposition(|byte| *byte != 0).expect("something is there") / 512 * 512;
    change(&wal, |bytes| bytes[last..last + 512].fill(0));
    let (said, report) = verdict(1, "torn_tail");
    assert!(said.contains("torn tail: ") && said.contains("cuts it when it starts"), "{said}");
    assert_eq!(report["log"]["last_index"].as_u64(), Some(whole - 1));

    change(&wal, |bytes| bytes[512 + 100] ^= 1);
    let (said, _) = verdict(2, "corrupt");
    assert!(said.contains("at byte 512"), "{said}");

    std::fs::write(&wal, bytes).expect("written");
    verdict(0, "clean");
    node.start();
    crate::refusals::assert_kept(&node).await;
    assert_eq!(kontiki(&["wal", "verify", "/nowhere"]).status.code(), Some(3));
}
