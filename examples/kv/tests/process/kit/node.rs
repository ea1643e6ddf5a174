//! One node: a child process, its directory, and its log.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::{ELECTION_MS, HEARTBEAT_MS, PATIENCE};

/// How a node is started.
#[derive(Clone, Debug)]
pub(crate) struct Serve {
    pub(crate) name: String,
    pub(crate) client_port: u16,
    pub(crate) peer_port: u16,
    pub(crate) data_dir: PathBuf,
    /// As `--initial-cluster` wants it; empty for a node that is alone.
    pub(crate) members: String,
    pub(crate) token: String,
    pub(crate) more: Vec<String>,
    /// Where it listens, and is dialled.
    pub(crate) host: String,
    /// A process in whose network the node lives.
    pub(crate) inside: Option<u32>,
}

impl Serve {
    pub(crate) fn args(&self) -> Vec<String> {
        let url = |port| format!("http://{}:{port}", self.host);
        let mut args = vec![
            "serve".into(),
            format!("--name={}", self.name),
            format!("--data-dir={}", self.data_dir.display()),
            format!("--listen-client-urls={}", url(self.client_port)),
            format!("--listen-peer-urls={}", url(self.peer_port)),
            format!("--initial-cluster-token={}", self.token),
            format!("--heartbeat-interval={HEARTBEAT_MS}"),
            format!("--election-timeout={ELECTION_MS}"),
        ];
        if !self.members.is_empty() {
            args.push(format!("--initial-cluster={}", self.members));
        }
        // What is said here wins.
        let name = |arg: &str| arg.split('=').next().unwrap_or_default().to_owned();
        let more: Vec<String> = self.more.iter().map(|arg| name(arg)).collect();
        args.retain(|arg| !more.contains(&name(arg)));
        args.extend(self.more.iter().cloned());
        args
    }

    /// Where its peers reach it.
    pub(crate) fn peer_url(&self) -> String {
        format!("http://{}:{}", self.host, self.peer_port)
    }

    /// Its part of `--initial-cluster`.
    pub(crate) fn as_member(&self) -> String {
        format!("{}={}", self.name, self.peer_url())
    }

    /// Runs a node that is expected to refuse: its exit code, and what it says.
    pub(crate) fn refused(&self) -> (Option<i32>, String) {
        let output = run_to_end(command().args(self.args()));
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

/// A node that runs, or does not. Dropped, it is killed.
pub(crate) struct Node {
    pub(crate) serve: Serve,
    child: Option<Child>,
    /// Ends when this process does, however that happens; the node ends then too.
    stdin: Option<ChildStdin>,
}

impl Node {
    pub(crate) fn new(serve: Serve) -> Self {
        Self { serve, child: None, stdin: None }
    }

    pub(crate) fn start(&mut self) {
        assert!(self.child.is_none(), "{} runs already", self.serve.name);
        let log = File::options().create(true).append(true).open(self.log_path());
        let mut command = self.serve.inside.map_or_else(command, command_inside);
        let mut child = command
            .args(self.serve.args())
            .arg("--stop-with-stdin")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(log.expect("the log can be written"))
            .spawn()
            .expect("the binary runs");
        self.stdin = child.stdin.take();
        self.child = Some(child);
    }

    pub(crate) fn is_running(&self) -> bool {
        self.child.is_some()
    }

    /// `kill -9`.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("a child can be killed");
            child.wait().expect("a child can be waited for");
        }
        self.stdin = None;
    }

    /// Asks it to stop, and gives its exit code.
    pub(crate) fn stop(&mut self) -> Option<i32> {
        self.signal(Signal::TERM);
        let status = wait(self.child.as_mut().expect("it runs"));
        (self.child, self.stdin) = (None, None);
        status.expect("it stops when asked").code()
    }

    /// Waits until it ends by itself, and gives its exit code.
    pub(crate) fn ended(&mut self) -> Option<i32> {
        let status = wait(self.child.as_mut().expect("it runs"));
        let status = status.unwrap_or_else(|| panic!("{} goes on", self.serve.name));
        (self.child, self.stdin) = (None, None);
        status.code()
    }

    /// The most memory that it has held, in KiB.
    pub(crate) fn peak_kib(&self) -> Option<u64> {
        let pid = self.child.as_ref()?.id();
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
        line.trim().trim_end_matches(" kB").parse().ok()
    }

    pub(crate) fn pause(&self) {
        self.signal(Signal::STOP);
    }

    pub(crate) fn resume(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        let child = self.child.as_ref().expect("it runs");
        // Not waited for yet, so its number cannot belong to another.
        kill_process(Pid::from_child(child), signal).expect("a child can be signalled");
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.log_path()).unwrap_or_default()
    }

    pub(crate) fn last_lines(&self, count: usize) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(count)..].join("\n")
    }

    fn log_path(&self) -> PathBuf {
        self.serve.data_dir.with_extension("log")
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The binary, without any `KONTIKI_…` and `ETCD_…` of whoever runs the tests.
pub(crate) fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kontiki"));
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("KONTIKI_") || text.starts_with("ETCD_") {
            command.env_remove(name);
        }
    }
    command.stdin(Stdio::null());
    command
}

/// The binary, in the network of another process.
fn command_inside(process: u32) -> Command {
    let inner = command();
    let mut command = Command::new("nsenter");
    command.arg(format!("--target={process}")).arg("--net").arg(inner.get_program());
    for (name, _) in inner.get_envs() {
        command.env_remove(name);
    }
    command
}

/// Runs a command that is expected to end soon.
pub(crate) fn run_to_end(command: &mut Command) -> Output {
    let dir = tempfile::tempdir().expect("a directory");
    let (stdout, stderr) = (dir.path().join("stdout"), dir.path().join("stderr"));
    let create = |path: &Path| {
        OpenOptions::new().create(true).append(true).open(path).expect("can be written")
    };
    let mut child =
        command.stdout(create(&stdout)).stderr(create(&stderr)).spawn().expect("the binary runs");
    let read = |path| std::fs::read(path).expect("can be read");
    let Some(status) = wait(&mut child) else {
        child.kill().expect("a child can be killed");
        child.wait().expect("a child can be waited for");
        panic!("it does not end: {}", String::from_utf8_lossy(&read(stderr)));
    };
    Output { status, stdout: read(stdout), stderr: read(stderr) }
}

fn wait(child: &mut Child) -> Option<std::process::ExitStatus> {
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        if let Some(status) = child.try_wait().expect("a child can be waited for") {
            return Some(status);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    None
}
