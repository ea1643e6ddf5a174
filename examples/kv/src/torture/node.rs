//! One node of the cluster: how it is started, and its process.

use std::path::{Path, PathBuf};
use std::time::Duration;

use kontiki_client::{Client, ClientUrl, Timeouts};
use kontiki_kv::config::HttpUrl;

use super::disk::SmallDisk;
use super::traces::Traces;
use super::wires::Number;
use crate::cli::Failure;
use crate::cluster::process::{Process, Program, last_lines};

const TIMEOUTS: Timeouts =
    Timeouts { dial: Duration::from_millis(500), command: Duration::from_secs(2) };
/// Ignores the signal of a file that may not grow, and becomes the node.
const IGNORE_LIMITS: &str = r#"trap "" XFSZ; exec "$0" "$@""#;

/// What is the same for all nodes.
#[derive(Clone, Debug)]
pub(crate) struct Common {
    pub(crate) executable: PathBuf,
    pub(crate) dir: PathBuf,
    pub(crate) flags: Vec<String>,
    /// Whether peers are reached through a proxy.
    pub(crate) has_wires: bool,
    /// What every node does is written down there, as long as there is room.
    pub(crate) traces: Traces,
}

/// A node, which runs or does not.
pub(crate) struct Node {
    pub(crate) number: Number,
    pub(crate) name: String,
    pub(crate) client_port: u16,
    /// Where it listens to its peers.
    pub(crate) peer_port: u16,
    /// Where its peers dial it.
    pub(crate) front_port: u16,
    pub(crate) data_dir: PathBuf,
    /// As `--initial-cluster` wants it.
    pub(crate) members: String,
    /// It joins a cluster that runs.
    pub(crate) joins: bool,
    /// Its data are there, if not in the directory itself.
    pub(crate) disk: Option<SmallDisk>,
    pub(crate) process: Option<Process>,
    client: Client,
    pub(crate) is_paused: bool,
}

impl Node {
    /// One that does not run yet.
    pub(crate) fn new(number: Number, common: &Common) -> Result<Self, Failure> {
        let ports = kontiki_kv::ports::free(3);
        let name = format!("node{number}");
        let url = ClientUrl(HttpUrl::new("127.0.0.1", ports[0]));
        Ok(Self {
            number,
            client_port: ports[0],
            peer_port: ports[1],
            front_port: if common.has_wires { ports[2] } else { ports[1] },
            data_dir: common.dir.join(&name),
            name,
            members: String::new(),
            joins: false,
            disk: None,
            process: None,
            client: Client::new(vec![url], TIMEOUTS).asking_once(),
            is_paused: false,
        })
    }

    /// Where its peers reach it.
    pub(crate) fn peer_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.front_port)
    }

    /// Its part of `--initial-cluster`.
    pub(crate) fn as_member(&self) -> String {
        format!("{}={}", self.name, self.peer_url())
    }

    pub(crate) fn client_url(&self) -> ClientUrl {
        ClientUrl(HttpUrl::new("127.0.0.1", self.client_port))
    }

    /// Who asks it, each question once.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Runs and is not paused.
    pub(crate) fn is_well(&self) -> bool {
        self.process.is_some() && !self.is_paused
    }

    /// Its log of entries, as it is seen from here.
    pub(crate) fn raft_dir(&self) -> PathBuf {
        let dir = self.data_dir.join("raft");
        self.disk.as_ref().map_or_else(|| dir.clone(), |disk| disk.outside(&dir))
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.data_dir.with_extension("log")
    }

    /// For messages: which it is, and what it said last.
    pub(crate) fn last_words(&self) -> String {
        format!("the end of {}:\n{}", self.log().display(), last_lines(&self.log(), 6))
    }

    pub(crate) fn spawn(&mut self, common: &Common) -> Result<u32, Failure> {
        assert!(self.process.is_none(), "{} runs already", self.name);
        let process = self.program(common).spawn().map_err(Failure::new)?;
        let id = process.pid().ok_or_else(|| Failure::new("a node ended at once"))?;
        (self.process, self.is_paused) = (Some(process), false);
        Ok(id)
    }

    fn program(&self, common: &Common) -> Program {
        let url = |port| format!("http://127.0.0.1:{port}");
        let mut node = vec![
            common.executable.display().to_string(),
            "serve".to_owned(),
            format!("--name={}", self.name),
            format!("--data-dir={}", self.data_dir.display()),
            format!("--listen-client-urls={}", url(self.client_port)),
            format!("--listen-peer-urls={}", url(self.peer_port)),
            format!("--initial-advertise-peer-urls={}", self.peer_url()),
            format!("--initial-cluster={}", self.members),
            format!("--initial-cluster-state={}", if self.joins { "existing" } else { "new" }),
            // The hidden end of a node whose supervisor is gone.
            "--stop-with-stdin".to_owned(),
        ];
        node.extend(common.flags.iter().cloned());
        let trace = common.traces.file_of(&self.name);
        node.extend(trace.map(|file| format!("--trace={}", file.display())));
        let shell = ["-c".to_owned(), IGNORE_LIMITS.to_owned()];
        let (executable, args) = match &self.disk {
            None => ("sh", shell.into_iter().chain(node).collect()),
            Some(disk) => {
                let inside = ["sh".to_owned()].into_iter().chain(shell).chain(node);
                ("nsenter", disk.enter().into_iter().chain(inside).collect())
            }
        };
        Program {
            executable: Path::new(executable).to_owned(),
            args,
            supervised_args: Vec::new(),
            log: self.log(),
        }
    }
}
