//! The systems under comparison: their processes, from start to stop.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::ValueEnum;
use kontiki_client::{Client, ClientUrl, Timeouts};
use kontiki_kv::config::HttpUrl;
use serde::Serialize;
use tempfile::TempDir;

use crate::cli::Failure;
use crate::cluster::PassThrough;
use crate::cluster::plan::{Plan, client_ports};
use crate::cluster::process::{Process, Program, last_lines};

const NODES: usize = 3;
const READY_MAX: Duration = Duration::from_secs(60);
const STOP_MAX: Duration = Duration::from_secs(10);
const PERIOD: Duration = Duration::from_millis(100);
const TIMEOUTS: Timeouts =
    Timeouts { dial: Duration::from_millis(500), command: Duration::from_secs(2) };

/// What can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Kind {
    /// Three nodes of etcd
    Etcd,
    /// Three nodes of this store
    Kontiki,
    /// The server that does nothing
    Null,
}

/// What is the same for all systems.
pub(super) struct Setup {
    pub(super) etcd: PathBuf,
    /// The first client port.
    pub(super) base_port: u16,
    /// Of the null server's answers.
    pub(super) value_bytes: usize,
}

/// A directory for the data of all systems, gone with its value.
pub(super) struct Workplace {
    dir: TempDir,
    pub(super) file_system: String,
}

impl Workplace {
    /// One in `base`, or in the system's temporary directory.
    pub(super) fn open(base: Option<&Path>) -> Result<Self, Failure> {
        let base = base.map_or_else(std::env::temp_dir, Path::to_owned);
        let file_system = file_system(&base);
        if file_system == "tmpfs" {
            eprintln!(
                "note: {} is in memory, where fsync costs nothing; see --dir",
                base.display()
            );
        }
        let dir = tempfile::Builder::new().prefix("kontiki-bench-").tempdir_in(&base);
        let dir = dir.map_err(|error| {
            Failure::new(format!("cannot make a directory in {}: {error}", base.display()))
        })?;
        Ok(Self { dir, file_system })
    }

    pub(super) fn path(&self) -> &Path {
        self.dir.path()
    }
}

/// A running system. Dropped, its processes are killed.
pub(super) struct System {
    kind: Kind,
    version: String,
    nodes: Vec<Node>,
}

struct Node {
    endpoint: ClientUrl,
    program: Program,
    process: Process,
}

impl System {
    pub(super) async fn start(kind: Kind, setup: &Setup, dir: &Path) -> Result<Self, Failure> {
        let dir = dir.join(format!("{kind:?}").to_lowercase());
        std::fs::create_dir_all(&dir)
            .map_err(|error| Failure::new(format!("cannot make {}: {error}", dir.display())))?;
        let ours = format!("kontiki {}", env!("CARGO_PKG_VERSION"));
        let (version, programs) = match kind {
            Kind::Etcd => {
                (etcd_version(&setup.etcd).await?, etcd(&setup.etcd, setup.base_port, &dir)?)
            }
            Kind::Kontiki => (ours, kontiki(setup.base_port, &dir)?),
            Kind::Null => ("the null server on tonic".to_owned(), vec![null(setup, &dir)?]),
        };
        let mut nodes = Vec::with_capacity(programs.len());
        for (port, program) in programs {
            let process = program.spawn().map_err(Failure::new)?;
            let endpoint = ClientUrl(HttpUrl::new("127.0.0.1", port));
            nodes.push(Node { endpoint, program, process });
        }
        Ok(Self { kind, version, nodes })
    }

    /// Waits until clients are served, and says where, the leader first.
    pub(super) async fn wait_until_ready(&mut self) -> Result<Vec<ClientUrl>, Failure> {
        let began = Instant::now();
        loop {
            if let Some(endpoints) = self.endpoints().await {
                return Ok(endpoints);
            }
            tokio::time::sleep(PERIOD).await;
            for node in &mut self.nodes {
                let ended = node.process.has_ended();
                if ended || began.elapsed() > READY_MAX {
                    let log = &node.program.log;
                    return Err(Failure::new(format!(
                        "{:?} at {} {}; the end of its log:\n{}",
                        self.kind,
                        node.endpoint,
                        if ended { "has ended" } else { "is not ready" },
                        last_lines(log, 4)
                    )));
                }
            }
        }
    }

    /// The endpoints, if all are served and all know a leader.
    async fn endpoints(&self) -> Option<Vec<ClientUrl>> {
        let mut endpoints = Vec::with_capacity(self.nodes.len());
        for node in &self.nodes {
            let leads = match self.kind {
                Kind::Null => {
                    let authority = node.endpoint.0.authority();
                    tokio::net::TcpStream::connect(authority).await.ok().map(|_| true)?
                }
                Kind::Etcd | Kind::Kontiki => {
                    let client = Client::new(vec![node.endpoint.clone()], TIMEOUTS);
                    let status = client.asking_once().status().await.ok()?;
                    let member_id = status.header.map_or(0, |header| header.member_id);
                    if status.leader == 0 {
                        return None;
                    }
                    status.leader == member_id
                }
            };
            let place = if leads { 0 } else { endpoints.len() };
            endpoints.insert(place, node.endpoint.clone());
        }
        Some(endpoints)
    }

    /// What its largest process keeps in memory, in bytes; 0 where the system does not tell.
    pub(super) fn rss_max(&self) -> u64 {
        self.nodes.iter().filter_map(|node| rss(node.process.pid()?)).max().unwrap_or(0)
    }

    /// What the node at `endpoint` keeps in memory, in bytes; 0 where the system does not tell.
    pub(super) fn rss_of(&self, endpoint: &ClientUrl) -> u64 {
        let node = self.nodes.iter().find(|node| node.endpoint == *endpoint);
        node.and_then(|node| rss(node.process.pid()?)).unwrap_or(0)
    }

    /// Processor time that the nodes have used so far, all threads of all that run.
    pub(super) fn processor_time(&self) -> Duration {
        let nodes = self.nodes.iter().filter_map(|node| node.process.pid());
        nodes.map(|pid| processor_time(pid).unwrap_or_default()).sum()
    }

    /// `kill -9` of the node that leads; where it was.
    pub(super) async fn kill_leader(&mut self) -> Result<ClientUrl, Failure> {
        let leader = self.wait_until_ready().await?.swap_remove(0);
        let node = self.nodes.iter_mut().find(|node| node.endpoint == leader);
        node.ok_or_else(|| Failure::new("nobody leads"))?.process.kill().await;
        Ok(leader)
    }

    pub(super) fn version(&self) -> String {
        self.version.clone()
    }

    pub(super) async fn stop(mut self) {
        for node in &mut self.nodes {
            node.process.stop(STOP_MAX).await;
        }
    }
}

async fn etcd_version(etcd: &Path) -> Result<String, Failure> {
    let output = tokio::process::Command::new(etcd).arg("--version").output().await;
    let output = output.map_err(|error| {
        Failure::new(format!("cannot run {}: {error}; see --etcd", etcd.display()))
    })?;
    let text = String::from_utf8_lossy(&output.stdout);
    let version = text.lines().find_map(|line| line.strip_prefix("etcd Version: "));
    Ok(format!("etcd {}", version.unwrap_or("of an unknown version")))
}

fn etcd(etcd: &Path, base_port: u16, dir: &Path) -> Result<Vec<(u16, Program)>, Failure> {
    let ports = client_ports(base_port, NODES).map_err(Failure::usage)?;
    let url = |port: u16| format!("http://127.0.0.1:{port}");
    let cluster: Vec<String> =
        ports.iter().map(|&port| format!("node{port}={}", url(port + 1))).collect();
    let program = |&port: &u16| {
        let program = Program {
            executable: etcd.to_owned(),
            args: vec![
                format!("--name=node{port}"),
                format!("--data-dir={}", dir.join(port.to_string()).display()),
                format!("--listen-client-urls={}", url(port)),
                format!("--advertise-client-urls={}", url(port)),
                format!("--listen-peer-urls={}", url(port + 1)),
                format!("--initial-advertise-peer-urls={}", url(port + 1)),
                format!("--initial-cluster={}", cluster.join(",")),
                "--heartbeat-interval=100".to_owned(),
                "--election-timeout=1000".to_owned(),
            ],
            supervised_args: Vec::new(),
            log: dir.join(format!("{port}.log")),
        };
        (port, program)
    };
    Ok(ports.iter().map(program).collect())
}

fn kontiki(base_port: u16, dir: &Path) -> Result<Vec<(u16, Program)>, Failure> {
    let pass = PassThrough {
        heartbeat_interval: Some(100),
        election_timeout: Some(1000),
        ..PassThrough::default()
    };
    let plan = Plan::open(dir, Some(NODES), Some(base_port), &pass)?;
    plan.check_ports()?;
    let port = |at: usize| plan.nodes[at].client_port;
    (0..NODES).map(|at| Ok((port(at), plan.program(at)?))).collect()
}

fn null(setup: &Setup, dir: &Path) -> Result<(u16, Program), Failure> {
    let executable = std::env::current_exe()
        .map_err(|error| Failure::new(format!("cannot find this program: {error}")))?;
    let program = Program {
        executable,
        args: vec![
            "bench".to_owned(),
            "null".to_owned(),
            format!("--listen=127.0.0.1:{}", setup.base_port),
            format!("--value-size={}", setup.value_bytes),
        ],
        supervised_args: Vec::new(),
        log: dir.join("log"),
    };
    Ok((setup.base_port, program))
}

/// The resident memory of a process, in bytes.
fn rss(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    Some(kib << 10)
}

/// The time that all threads of a process have run.
fn processor_time(pid: u32) -> Option<Duration> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let ran = |thread: std::fs::DirEntry| -> Option<u64> {
        // Nanoseconds on a processor, nanoseconds waiting for one, time slices.
        let text = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse().ok()
    };
    Some(Duration::from_nanos(threads.filter_map(|thread| ran(thread.ok()?)).sum()))
}

/// The file system that `dir` is on, as the system calls it.
fn file_system(dir: &Path) -> String {
    let unknown = || "an unknown file system".to_owned();
    let Ok(dir) = dir.canonicalize() else { return unknown() };
    let Ok(mounts) = std::fs::read_to_string("/proc/self/mounts") else { return unknown() };
    // Fields: device, directory, type, … The longest directory is the closest.
    let mount = |line: &str| {
        let mut fields = line.split(' ').skip(1);
        Some((fields.next()?.to_owned(), fields.next()?.to_owned()))
    };
    let covering = mounts.lines().filter_map(mount).filter(|(at, _)| dir.starts_with(at));
    covering.max_by_key(|(at, _)| at.len()).map_or_else(unknown, |(_, kind)| kind)
}
