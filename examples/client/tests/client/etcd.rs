//! The real etcd, where it is installed: one node or a cluster, gone with its value.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use kontiki_client::proto::etcdserverpb::PutRequest;
use tempfile::TempDir;
use tokio::process::{Child, Command};
use tokio::sync::{Mutex, MutexGuard};

use crate::{PATIENCE, client, free_port};

const PROGRAM: &str = "/usr/bin/etcd";
/// Clusters take turns: a small machine has its hands full with one.
static TURN: Mutex<()> = Mutex::const_new(());

pub(crate) struct Etcd {
    pub(crate) ports: Vec<u16>,
    nodes: Vec<Option<Child>>,
    commands: Vec<Vec<String>>,
    _dir: TempDir,
    _turn: MutexGuard<'static, ()>,
}

impl Etcd {
    /// A cluster that takes writes; `None`, with a line that says so, where there is no etcd.
    pub(crate) async fn start(count: usize) -> Option<Self> {
        if !Path::new(PROGRAM).exists() {
            println!("skipped: there is no {PROGRAM}");
            return None;
        }
        let turn = TURN.lock().await;
        let dir = TempDir::new().expect("a directory");
        let ports: Vec<(u16, u16)> = (0..count).map(|_| (free_port(), free_port())).collect();
        let peers: Vec<String> =
            ports.iter().map(|(own, peer)| format!("n{own}=http://127.0.0.1:{peer}")).collect();
        let command = |&(own, peer): &(u16, u16)| -> Vec<String> {
            let (own_url, peer_url) =
                (format!("http://127.0.0.1:{own}"), format!("http://127.0.0.1:{peer}"));
            let data = dir.path().join(format!("n{own}")).display().to_string();
            [
                ("name", format!("n{own}")),
                ("data-dir", data),
                ("listen-client-urls", own_url.clone()),
                ("advertise-client-urls", own_url),
                ("listen-peer-urls", peer_url.clone()),
                ("initial-advertise-peer-urls", peer_url),
                ("initial-cluster", peers.join(",")),
                ("initial-cluster-state", "new".to_owned()),
            ]
            .map(|(flag, value)| format!("--{flag}={value}"))
            .into()
        };
        let commands: Vec<_> = ports.iter().map(command).collect();
        let mut etcd = Self {
            ports: ports.iter().map(|(own, _)| *own).collect(),
            nodes: (0..count).map(|_| None).collect(),
            commands,
            _dir: dir,
            _turn: turn,
        };
        (0..count).for_each(|node| etcd.run(node));
        etcd.until_written().await;
        Some(etcd)
    }

    pub(crate) fn run(&mut self, node: usize) {
        let child = Command::new(PROGRAM)
            .args(&self.commands[node])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn();
        self.nodes[node] = Some(child.expect("etcd starts"));
    }

    pub(crate) async fn kill(&mut self, node: usize) {
        let mut child = self.nodes[node].take().expect("it runs");
        child.kill().await.expect("it is ours to kill");
    }

    /// Waits until the cluster takes a write.
    pub(crate) async fn until_written(&self) {
        let client = client(&self.ports, Duration::from_secs(2));
        let writes = async {
            while client.put(PutRequest::new("ready", "")).await.is_err() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(PATIENCE, writes).await.expect("etcd takes writes in time");
    }
}
