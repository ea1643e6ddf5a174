//! `kontiki cluster` as a user meets it: real processes, real sockets, real time.

#![cfg(unix)]

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// Longer than anything takes on a machine that is busy with other tests.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running `kontiki cluster`. Dropped, it is killed, and its nodes end by themselves.
struct Cluster {
    child: Child,
    lines: Receiver<String>,
    endpoints: String,
}

impl Cluster {
    fn start(data_dir: &Path, flags: &[&str]) -> Self {
        let mut child = kontiki()
            .arg("cluster")
            .arg("--data-dir")
            .arg(data_dir)
            .args(flags)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        let stdout = BufReader::new(child.stdout.take().expect("piped"));
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                println!("{line}");
                // The test has seen enough.
                let _ = sender.send(line);
            }
        });
        let mut cluster = Self { child, lines, endpoints: String::new() };
        cluster.endpoints = cluster.line("endpoints: ");
        cluster
    }

    /// Waits for a line that has this text, and gives what follows it.
    fn line(&self, text: &str) -> String {
        let until = Instant::now() + PATIENCE;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let line = self.lines.recv_timeout(left).unwrap_or_else(|_| panic!("no {text:?}"));
            if let Some((_, rest)) = line.split_once(text) {
                return rest.to_owned();
            }
        }
    }

    /// Waits until somebody leads: the node's name and its process.
    fn leader(&self) -> (String, Pid) {
        loop {
            let line = self.line("leader: ");
            if let Some((_, pid)) = line.split_once("pid ") {
                let name = line.split(' ').next().expect("a name").to_owned();
                let pid = pid.trim_end_matches(')').parse().expect("a number");
                return (name, Pid::from_raw(pid).expect("not zero"));
            }
        }
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).expect("a process");
        kill_process(pid, signal).expect("it runs");
    }

    /// What a client command prints. Where a leader has just died, it is tried again.
    fn client(&self, args: &[&str]) -> String {
        let until = Instant::now() + PATIENCE;
        loop {
            let output = kontiki()
                .args(args)
                .args(["--endpoints", &self.endpoints])
                .output()
                .expect("the binary runs");
            if output.status.success() {
                return String::from_utf8_lossy(&output.stdout).into_owned();
            }
            let reason = String::from_utf8_lossy(&output.stderr);
            assert!(Instant::now() < until, "{args:?}: {reason}");
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn kontiki() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kontiki"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("KONTIKI_") {
            command.env_remove(name);
        }
    }
    command
}

/// A base port above which three nodes find room: their ports stand close together there.
fn base_port() -> u16 {
    let free = |port| TcpListener::bind(("127.0.0.1", port)).is_ok();
    let offset = (std::process::id() % 200) as u16 * 20;
    (46_000 + offset..64_000)
        .step_by(20)
        .find(|&base| [0, 1, 10, 11, 20, 21].iter().all(|at| free(base + at)))
        .expect("some ports are free")
}

/// ```text
/// start ─ put ─ kill -9 the leader ─ another leads ─ put ─ the killed node is back
/// SIGTERM ─ start again ─ everything is there ─ kill -9 the supervisor ─ the nodes end too
/// ```
#[test]
fn a_cluster_survives_its_leader_and_its_supervisor() {
    let dir = tempfile::tempdir().expect("a directory");
    let data_dir = dir.path().join("cluster");
    let base_port = base_port().to_string();
    let mut cluster = Cluster::start(&data_dir, &["--base-port", &base_port]);
    cluster.line("ready after ");
    let (first, pid) = cluster.leader();
    assert_eq!(cluster.client(&["put", "before", "1"]), "OK\n");

    kill_process(pid, Signal::KILL).expect("it runs");
    let rest = cluster.line(&format!("{first}: killed by signal 9"));
    assert_eq!(rest, "; starts again in 2 s");
    let (second, _) = cluster.leader();
    assert_ne!(first, second);
    assert_eq!(cluster.client(&["put", "after", "2"]), "OK\n");
    cluster.line(&format!("{first}: started again"));
    assert_eq!(cluster.client(&["get", "", "--prefix"]), "after\n2\nbefore\n1\n");

    cluster.signal(Signal::TERM);
    cluster.line("stopped");
    assert!(cluster.child.wait().expect("waited").success());

    // Without the flag: the directory knows its ports.
    let mut cluster = Cluster::start(&data_dir, &[]);
    cluster.line("ready after ");
    assert_eq!(cluster.client(&["get", "", "--prefix"]), "after\n2\nbefore\n1\n");
    assert_eq!(cluster.client(&["member", "list"]).lines().count(), 3);
    let ports: Vec<u16> = cluster.endpoints.split(',').map(port).collect();

    cluster.child.kill().expect("it runs");
    let until = Instant::now() + PATIENCE;
    while ports.iter().any(|&port| TcpListener::bind(("127.0.0.1", port)).is_err()) {
        assert!(Instant::now() < until, "a node outlives its supervisor");
        std::thread::sleep(Duration::from_millis(50));
    }
    let log = data_dir.join("node1");
    let output = kontiki().args(["wal", "verify"]).arg(log).output().expect("the binary runs");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "clean\n");
}

fn port(endpoint: &str) -> u16 {
    endpoint.rsplit(':').next().and_then(|port| port.parse().ok()).expect("host:port")
}
