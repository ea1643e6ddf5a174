//! `kontiki cluster`: three processes under a fourth, as a user starts, kills and stops them.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::files::{change, make_newer, segment};
use crate::kit::{
    Client, ELECTION_MS, HEARTBEAT_MS, base_port, command, patiently, run_to_end, turn, until,
};

/// A supervisor and what it says. Dropped, it is killed, and its nodes go with it.
struct Supervisor {
    child: Child,
    output: PathBuf,
}

impl Supervisor {
    fn start(dir: &Path, data_dir: &str, more: &[&str]) -> Self {
        turn::take();
        let output = dir.join("output");
        let file = || File::options().create(true).append(true).open(&output);
        let child = command()
            .args(["cluster", "--data-dir", data_dir, "--restart-after=0.2"])
            .arg(format!("--heartbeat-interval={HEARTBEAT_MS}"))
            .arg(format!("--election-timeout={ELECTION_MS}"))
            .args(more)
            .current_dir(dir)
            .stdin(Stdio::null())
            .stdout(file().expect("can be written"))
            .stderr(file().expect("can be written"))
            .spawn()
            .expect("the binary runs");
        Self { child, output }
    }

    fn said(&self) -> String {
        std::fs::read_to_string(&self.output).expect("can be read")
    }

    /// Waits for a line that starts and goes on like this; the rest of it.
    async fn says(&self, start: &str, middle: &str) -> String {
        let what = format!("the supervisor says {start:?} and {middle:?}");
        let find = async || {
            let said = self.said();
            let line =
                said.lines().find(|line| line.starts_with(start) && line.contains(middle))?;
            line.split_once(middle).map(|(_, rest)| rest.to_owned())
        };
        until(&what, find).await
    }

    /// The node that leads, from 1 on, and its process.
    async fn leader(&self) -> (usize, Pid) {
        let rest = self.says("leader: node", "leader: node").await;
        let node = rest[..1].parse().expect("a number");
        let pid = rest.split_once("pid ").expect("its process").1.trim_end_matches(')');
        (node, Pid::from_raw(pid.parse().expect("a number")).expect("not zero"))
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("a child can be signalled");
    }

    async fn ended(mut self) -> (ExitStatus, String) {
        let waiting = tokio::task::spawn_blocking(move || {
            let status = self.child.wait().expect("a child can be waited for");
            (status, self.said())
        });
        patiently("the supervisor ends", waiting).await.expect("no panic")
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        // It fails only when the supervisor has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            println!("--- the supervisor said:\n{}", self.said());
        }
    }
}

/// Waits until nobody serves clients or peers of this cluster any more.
async fn all_gone(base_port: u16) {
    let ports = [0, 1, 20_000, 20_001, 30_000, 30_001].map(|offset| base_port + offset);
    until("all nodes are gone", async || {
        ports
            .iter()
            .all(|port| std::net::TcpStream::connect(("127.0.0.1", *port)).is_err())
            .then_some(())
    })
    .await;
}

fn directory() -> TempDir {
    tempfile::tempdir().expect("a directory")
}

/// ```text
/// start ─ put ─ kill -9 the leader ─ put ─ it is back ─ Ctrl-C ─ start again ─ all is there
/// ```
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_cluster_survives_its_leader_and_continues_another_day() {
    let (dir, base) = (directory(), base_port());
    let port = format!("--base-port={base}");
    let supervisor = Supervisor::start(dir.path(), "data", &[&port]);
    let ports = [base, base + 20_000, base + 30_000];
    let endpoints = ports.map(|port| format!("127.0.0.1:{port}")).join(",");
    assert_eq!(supervisor.says("endpoints: ", "endpoints: ").await, endpoints);
    supervisor.says("ready after ", "Ctrl-C stops all").await;
    let (leader, pid) = supervisor.leader().await;
    let mut client = Client::new(ports[leader % 3]);
    client.put("before", "1").await.expect("a put");

    kill_process(pid, Signal::KILL).expect("the leader can be killed");
    let name = format!("node{leader}: ");
    supervisor.says(&name, "killed by signal 9; starts again").await;
    client.put_surely("without", "2").await;
    supervisor.says(&name, "started again (pid ").await;
    let mut back = Client::new(ports[leader - 1]);
    assert_eq!(back.get_surely("without").await.as_deref(), Some("2"));

    supervisor.signal(Signal::INT);
    let (status, said) = supervisor.ended().await;
    assert_eq!(status.code(), Some(0), "{said}");
    assert!(said.ends_with("stopping\nstopped\n"), "{said}");
    all_gone(base).await;

    // From somewhere else, without saying again what the directory knows.
    let elsewhere = directory();
    let data_dir = dir.path().join("data").display().to_string();
    let again = Supervisor::start(elsewhere.path(), &data_dir, &[]);
    again.says("ready after ", "Ctrl-C stops all").await;
    for (port, (key, value)) in ports.iter().zip([("before", "1"), ("without", "2")]) {
        let read = Client::new(*port).get(key).await.expect("a read");
        assert_eq!(read.as_deref(), Some(value), "{key}");
    }
    again.signal(Signal::TERM);
    let (status, said) = again.ended().await;
    assert_eq!(status.code(), Some(0), "{said}");
    all_gone(base).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn nodes_do_not_outlive_their_supervisor() {
    let (dir, base) = (directory(), base_port());
    let port = format!("--base-port={base}");
    let supervisor = Supervisor::start(dir.path(), "data", &[&port]);
    supervisor.says("ready after ", "Ctrl-C stops all").await;
    Client::new(base).put("key", "1").await.expect("a put");
    supervisor.signal(Signal::KILL);
    supervisor.ended().await;
    all_gone(base).await;

    let again = Supervisor::start(dir.path(), "data", &[]);
    again.says("ready after ", "Ctrl-C stops all").await;
    assert_eq!(Client::new(base).get_surely("key").await.as_deref(), Some("1"));
}

/// What Ctrl-C does to `kontiki cluster | tee log`: whoever reads ends first.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_cluster_that_nobody_listens_to_goes_on_and_stops_cleanly() {
    let (dir, base) = (directory(), base_port());
    let mut child = command()
        .args(["cluster", "--nodes=1", "--data-dir=data"])
        .arg(format!("--base-port={base}"))
        .current_dir(dir.path())
        .stdout(Stdio::piped())
        .stderr(File::create(dir.path().join("output")).expect("can be written"))
        .spawn()
        .expect("the binary runs");
    drop(child.stdout.take());
    let supervisor = Supervisor { child, output: dir.path().join("output") };
    Client::new(base).put_surely("key", "1").await;
    supervisor.signal(Signal::INT);
    let (status, said) = supervisor.ended().await;
    assert_eq!((status.code(), said.as_str()), (Some(0), ""));
    let log = std::fs::read_to_string(dir.path().join("data/node1.log")).expect("can be read");
    assert!(log.trim_end().ends_with("stopped"), "{log}");
}

/// A second supervisor, other flags, a port that is taken: all of it is said before anything
/// starts, and the cluster that runs does not notice.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_cannot_be_supervised_is_refused_before_anything_starts() {
    let (dir, base) = (directory(), base_port());
    let port = format!("--base-port={base}");
    let supervisor = Supervisor::start(dir.path(), "data", &["--nodes=1", &port]);
    supervisor.says("ready after ", "Ctrl-C stops all").await;

    let refuse = |args: &[&str], code, expected: &str| {
        let output = run_to_end(command().arg("cluster").args(args).current_dir(dir.path()));
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{stderr}");
        assert!(stderr.starts_with("error: ") && stderr.contains(expected), "{stderr}");
        assert_eq!(output.stdout, b"", "{args:?}");
    };
    let taken = format!("cannot listen on port {base}, where node1 serves its clients");
    refuse(&["--data-dir=data"], 1, &taken);
    refuse(&["--data-dir=other", &port], 1, &taken);
    refuse(&["--data-dir=data", "--nodes=3"], 2, "holds a cluster with --nodes 1");
    assert!(!dir.path().join("other").exists(), "something was made");
    std::fs::write(dir.path().join("file"), "").expect("written");
    refuse(&["--data-dir=file"], 1, "file/cluster.toml");

    Client::new(base).put("key", "1").await.expect("it still serves");
}

/// A node that ends by itself would do so again: it stays down, and its reason is shown.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_node_that_cannot_start_is_shown_with_its_reason() {
    let (dir, base) = (directory(), base_port());
    let port = format!("--base-port={base}");
    let supervisor = Supervisor::start(dir.path(), "data", &["--nodes=1", &port]);
    supervisor.says("ready after ", "Ctrl-C stops all").await;
    supervisor.signal(Signal::INT);
    supervisor.ended().await;

    let raft = dir.path().join("data/node1/raft");
    change(&segment(&raft), |bytes| make_newer(bytes));
    let again = Supervisor::start(dir.path(), "data", &[]);
    let (status, said) = again.ended().await;
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("error: node1: ended with exit code 1 before the cluster was ready"));
    assert!(said.contains("has format 999"), "{said}");
}
