//! The replicas as the coordinator sees them: what they said, and how to trouble each.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use kontiki_client::ClientUrl;
use kontiki_election::Token;
use kontiki_election::proxy::Proxy;
use rustix::process::Signal;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::sync::mpsc;

use super::Failure;
use super::process::Process;
use super::replica::Line;

pub(crate) const NAMES: [&str; 3] = ["r1", "r2", "r3"];
/// Lines that wait to be read; a replica that has more to say waits.
const LINES_MAX: usize = 256;

pub(crate) struct Replicas {
    replicas: Vec<Replica>,
    lines: mpsc::Receiver<Line>,
    said: mpsc::Sender<Line>,
    /// Of each token, what became of the writes that came too late.
    pub(crate) stale: BTreeMap<Token, Stale>,
}

/// What became of writes with one token after a larger one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stale {
    pub(crate) refused: u64,
    pub(crate) accepted: u64,
    /// There will be no more.
    pub(crate) is_over: bool,
}

struct Replica {
    args: Vec<String>,
    log: PathBuf,
    process: Process,
    /// Its only ways to the cluster.
    proxies: Vec<Proxy>,
}

/// How a replica is cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// Calls hang.
    Silent,
    /// Calls fail.
    Closed,
}

impl Replicas {
    pub(crate) async fn start(
        endpoints: &[ClientUrl],
        database: &Path,
        dir: &Path,
        ttl: u64,
    ) -> Result<Self, Failure> {
        let (said, lines) = mpsc::channel(LINES_MAX);
        let mut replicas = Self { replicas: Vec::new(), lines, said, stale: BTreeMap::new() };
        for name in NAMES {
            let mut proxies = Vec::new();
            for endpoint in endpoints {
                let proxy = Proxy::before(endpoint.0.authority()).await;
                proxies.push(proxy.map_err(|error| Failure(format!("no proxy: {error}")))?);
            }
            let ports: Vec<_> =
                proxies.iter().map(|proxy| format!("127.0.0.1:{}", proxy.port())).collect();
            let args = vec![
                "replica".to_owned(),
                format!("--name={name}"),
                format!("--database={}", database.display()),
                format!("--ttl={ttl}"),
                format!("--endpoints={}", ports.join(",")),
            ];
            let log = dir.join(format!("{name}.log"));
            let process = replicas.spawn(&args, &log)?;
            replicas.replicas.push(Replica { args, log, process, proxies });
        }
        Ok(replicas)
    }

    fn spawn(&self, args: &[String], log: &Path) -> Result<Process, Failure> {
        let mut process = Process::spawn(args, log)?;
        if let Some(stdout) = process.stdout() {
            let said = self.said.clone();
            tokio::spawn(async move {
                let mut lines = BufReader::new(stdout).lines();
                while let Ok(Some(line)) = lines.next_line().await {
                    if let Ok(line) = line.parse()
                        && said.send(line).await.is_err()
                    {
                        return;
                    }
                }
            });
        }
        Ok(process)
    }

    /// Takes in what the replicas have said; an error when one has ended by itself.
    pub(crate) fn listen(&mut self) -> Result<(), Failure> {
        while let Ok(line) = self.lines.try_recv() {
            match line {
                Line::Refused(token) => self.stale.entry(token).or_default().refused += 1,
                Line::Accepted(token) => self.stale.entry(token).or_default().accepted += 1,
                Line::Exorcised(token) => self.stale.entry(token).or_default().is_over = true,
                Line::Leads(_) | Line::Ended(_) => {}
            }
        }
        match self.replicas.iter_mut().find_map(|replica| replica.process.last_words()) {
            None => Ok(()),
            Some(words) => Err(Failure(words)),
        }
    }

    pub(crate) async fn resign(&mut self, at: usize) -> Result<(), Failure> {
        match &mut self.replicas[at].process.stdin {
            Some(stdin) => stdin.write_all(b"resign\n").await.map_err(Failure::new),
            None => Ok(()),
        }
    }

    /// `kill -9`, and a new process under the same name.
    pub(crate) async fn kill_and_restart(&mut self, at: usize) -> Result<(), Failure> {
        self.replicas[at].process.kill().await;
        let replica = &self.replicas[at];
        let process = self.spawn(&replica.args, &replica.log)?;
        self.replicas[at].process = process;
        Ok(())
    }

    pub(crate) fn stop(&self, at: usize) {
        self.replicas[at].process.signal(Signal::STOP);
    }

    pub(crate) fn resume(&self, at: usize) {
        self.replicas[at].process.signal(Signal::CONT);
    }

    pub(crate) fn cut(&self, at: usize, how: Cut) {
        for proxy in &self.replicas[at].proxies {
            match how {
                Cut::Silent => proxy.hold(),
                Cut::Closed => proxy.cut(),
            }
        }
    }

    pub(crate) fn heal(&self, at: usize) {
        self.replicas[at].proxies.iter().for_each(Proxy::open);
    }
}
