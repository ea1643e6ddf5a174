//! `kontiki torture` as a user runs it: short, with a seed, ended early, and killed.

use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::kit::{command, run_to_end, until};

fn json(args: &[&str]) -> Value {
    let output = run_to_end(command().arg("torture").args(args).arg("--json"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    serde_json::from_slice(&output.stdout).expect("it is JSON")
}

/// Everything that needs no namespaces, in one order that the seed gives.
#[test]
fn a_short_torture_finds_nothing_lost() {
    let faults = "--faults=kill,stop,partition,slow,corrupt,members,transfer,backup";
    let report = json(&["--seed=7", "--duration=10s", "--snapshot-count=200", faults]);
    assert_eq!(report["seed"], 7);
    assert_eq!(report["found"], Value::Array(Vec::new()), "{report:#}");
    assert_eq!(report["replicas"]["nodes"], 3, "{report:#}");
    for count in ["reads", "writes"] {
        assert!(report["requests"][count].as_u64() > Some(50), "{report:#}");
    }
    assert!(report["checked"]["calls"].as_u64() > Some(50), "{report:#}");
    assert!(report["checked"]["once"].as_u64() > Some(10), "{report:#}");
    let times = |fault: &Value| fault["times"].as_u64().unwrap_or(0);
    let faults = report["faults"].as_object().expect("a row for each fault");
    assert!(faults.values().map(times).sum::<u64>() >= 3, "{report:#}");
}

#[test]
fn cycles_of_kills_are_counted() {
    let report = json(&["--seed=1", "--cycles=3"]);
    assert_eq!(report["faults"]["kill"]["times"], 3, "{report:#}");
    assert_eq!(report["faults"].as_object().map(serde_json::Map::len), Some(1), "{report:#}");
    assert_eq!(report["found"], Value::Array(Vec::new()), "{report:#}");
}

/// The processes that were started for this directory, but for who started them.
fn nodes_in(dir: &Path) -> Vec<Pid> {
    let is_node = |process: &Path| {
        let command = std::fs::read(process.join("cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&command).into_owned();
        command.contains(&format!("--data-dir={}/", dir.display()))
    };
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes = entries.map(|entry| entry.path()).filter(|path| is_node(path));
    let pid = |path: PathBuf| Pid::from_raw(path.file_name()?.to_str()?.parse().ok()?);
    processes.filter_map(pid).collect()
}

/// One without an end, once its first step is done.
async fn start(dir: &Path, faults: &str) -> Child {
    let said = dir.with_extension("said");
    let torture = command()
        .args(["torture", "--duration=1h", faults])
        .arg(format!("--dir={}", dir.display()))
        .stdout(Stdio::piped())
        .stderr(std::fs::File::create(&said).expect("can be written"))
        .spawn()
        .expect("the binary runs");
    let lines = || std::fs::read_to_string(&said).expect("can be read").lines().count();
    until("the first step is done", async || (lines() >= 2).then_some(())).await;
    torture
}

/// It ends the step that is under way, checks, and shows what it has.
#[tokio::test]
async fn ctrl_c_ends_it_with_the_table() {
    let outer = tempfile::tempdir().expect("a directory");
    let dir = outer.path().join("nodes");
    let torture = start(&dir, "--faults=kill").await;
    kill_process(Pid::from_child(&torture), Signal::INT).expect("it runs");
    let output = tokio::task::spawn_blocking(|| torture.wait_with_output());
    let output = output.await.expect("no panic").expect("it can be waited for");
    let table = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{table}");
    assert!(table.contains("nothing acknowledged was lost"), "{table}");
    assert_eq!(nodes_in(&dir), []);
    assert!(std::fs::read_dir(&dir).expect("it was given").next().is_none(), "left behind");
}

/// Not even a node that is stopped, and cannot see that its supervisor is gone.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn nothing_outlives_it_when_it_is_killed() {
    let outer = tempfile::tempdir().expect("a directory");
    let dir = outer.path().join("nodes");
    let mut torture = start(&dir, "--faults=compact").await;
    let nodes = nodes_in(&dir);
    assert_eq!(nodes.len(), 3, "{nodes:?}");
    kill_process(nodes[0], Signal::STOP).expect("it runs");
    torture.kill().expect("it runs");
    torture.wait().expect("it can be waited for");
    until("all nodes end", async || nodes_in(&dir).is_empty().then_some(())).await;
}
