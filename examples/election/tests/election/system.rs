//! A store of one node, etcd or Kontiki, gone with its value.

use std::path::Path;
use std::process::Stdio;

use kontiki_client::Client;
use kontiki_client::proto::etcdserverpb::{LeaseGrantRequest, PutRequest};
use kontiki_election::proxy::Proxy;
use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::{client, until};

const ETCD: &str = "/usr/bin/etcd";

/// A running store.
pub(crate) struct Store {
    pub(crate) port: u16,
    _child: Child,
    _dir: TempDir,
}

impl Store {
    /// The real etcd; `None`, with a line that says so, where there is none.
    pub(crate) async fn etcd() -> Option<Self> {
        if !Path::new(ETCD).exists() {
            println!("skipped: there is no {ETCD}");
            return None;
        }
        Some(Self::start(Command::new(ETCD)).await)
    }

    pub(crate) async fn kontiki() -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kontiki-election"));
        command.arg("node");
        Self::start(command).await
    }

    async fn start(mut command: Command) -> Self {
        let dir = TempDir::new().expect("a directory");
        let (port, peer) = (free_port(), free_port());
        let (own, peer) = (format!("http://127.0.0.1:{port}"), format!("http://127.0.0.1:{peer}"));
        let child = command
            .arg("--name=one")
            .arg(format!("--data-dir={}", dir.path().join("data").display()))
            .arg(format!("--listen-client-urls={own}"))
            .arg(format!("--advertise-client-urls={own}"))
            .arg(format!("--listen-peer-urls={peer}"))
            .arg(format!("--initial-advertise-peer-urls={peer}"))
            .arg(format!("--initial-cluster=one={peer}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .expect("the store starts");
        let store = Self { port, _child: child, _dir: dir };
        let client = store.client();
        until("the store takes leases", async || {
            let lease = LeaseGrantRequest { ttl: 60, id: 0 };
            client.put(PutRequest::new("ready", "")).await.is_ok()
                && client.lease_grant(lease).await.is_ok()
        })
        .await;
        store
    }

    /// A client of its own, straight to the store.
    pub(crate) fn client(&self) -> Client {
        client(&[self.port])
    }

    /// A way to it that can be held and cut.
    pub(crate) async fn proxy(&self) -> Proxy {
        Proxy::before(format!("127.0.0.1:{}", self.port)).await.expect("a free port")
    }
}

fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("bound").port()
}
