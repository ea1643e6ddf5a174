//! The cluster of a rehearsal: three nodes of our own on free ports, or one that runs already.

use std::path::Path;
use std::time::{Duration, Instant};

use kontiki_client::proto::etcdserverpb::LeaseGrantRequest;
use kontiki_client::proto::etcdserverpb::PutRequest;
use kontiki_client::{Client, ClientUrl, HttpUrl, Timeouts};
use tokio::net::TcpListener;
use tokio::time::sleep;

use super::process::Process;
use super::{Failure, RehearseArgs};

const NODES: usize = 3;
/// How long a cluster may take to be one.
const START_MAX: Duration = Duration::from_secs(60);
/// How long a node may take to hand over and end.
const STOP_MAX: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(50);

pub(crate) struct Cluster {
    pub(crate) endpoints: Vec<ClientUrl>,
    client: Client,
    /// None, of a cluster that is not ours.
    nodes: Vec<Node>,
}

struct Node {
    args: Vec<String>,
    log: std::path::PathBuf,
    process: Option<Process>,
}

impl Cluster {
    /// A cluster that grants leases.
    pub(crate) async fn start(args: &RehearseArgs, dir: &Path) -> Result<Self, Failure> {
        let mut cluster = if args.endpoints.is_empty() {
            Self::plan(args, dir).await?
        } else {
            Self::of(args.endpoints.clone(), Vec::new())
        };
        for node in 0..cluster.nodes.len() {
            cluster.run(node)?;
        }
        cluster.until_ready().await?;
        Ok(cluster)
    }

    fn of(endpoints: Vec<ClientUrl>, nodes: Vec<Node>) -> Self {
        let timeouts = Timeouts { dial: Duration::from_secs(1), command: Duration::from_secs(2) };
        Self { client: Client::new(endpoints.clone(), timeouts), endpoints, nodes }
    }

    async fn plan(args: &RehearseArgs, dir: &Path) -> Result<Self, Failure> {
        let ports = free_ports(2 * NODES).await?;
        let (own, peers) = ports.split_at(NODES);
        let url = |port: &u16| HttpUrl::new("127.0.0.1", *port);
        let members = (1..).zip(peers).map(|(n, port)| format!("node{n}={}", url(port)));
        let members = members.collect::<Vec<_>>().join(",");
        let node = |at: usize| {
            let (name, own, peer) = (format!("node{}", at + 1), url(&own[at]), url(&peers[at]));
            let data = dir.join(&name);
            let flags = [
                ("name", name.clone()),
                ("data-dir", data.display().to_string()),
                ("listen-client-urls", own.to_string()),
                ("listen-peer-urls", peer.to_string()),
                ("initial-cluster", members.clone()),
                ("initial-cluster-token", format!("rehearsal-{}", std::process::id())),
                ("election-timeout", args.election_timeout.to_string()),
                ("heartbeat-interval", (args.election_timeout / 10).to_string()),
            ];
            let flags = flags.map(|(flag, value)| format!("--{flag}={value}"));
            let args = std::iter::once("node".to_owned()).chain(flags).collect();
            Node { args, log: dir.join(format!("{name}.log")), process: None }
        };
        let nodes = (0..NODES).map(node).collect();
        Ok(Self::of(own.iter().map(|port| ClientUrl(url(port))).collect(), nodes))
    }

    /// Whether its nodes may be killed.
    pub(crate) fn is_ours(&self) -> bool {
        !self.nodes.is_empty()
    }

    fn run(&mut self, at: usize) -> Result<(), Failure> {
        let node = &mut self.nodes[at];
        node.process = Some(Process::spawn(&node.args, &node.log)?);
        Ok(())
    }

    /// Waits until all nodes of it answer, and a lease is granted.
    async fn until_ready(&mut self) -> Result<(), Failure> {
        let began = Instant::now();
        loop {
            let statuses = self.client.statuses().await;
            let answers = statuses.iter().filter(|(_, status)| status.is_ok()).count();
            // One that nobody renews, and a key that nobody else uses.
            let lease = LeaseGrantRequest { ttl: 60, id: 0 };
            let ready = answers == statuses.len()
                && self.client.put(PutRequest::new("rehearsal-ready", "")).await.is_ok()
                && self.client.lease_grant(lease).await.is_ok();
            if ready {
                return Ok(());
            }
            for node in &mut self.nodes {
                if let Some(words) = node.process.as_mut().and_then(Process::last_words) {
                    return Err(Failure(words));
                }
            }
            if began.elapsed() > START_MAX {
                let told = statuses.iter().filter_map(|(_, status)| status.as_ref().err());
                let told = told.map(ToString::to_string).collect::<Vec<_>>().join("\n");
                return Err(Failure(format!(
                    "the cluster grants no lease within {START_MAX:?}; check that it runs\n{told}"
                )));
            }
            sleep(PAUSE).await;
        }
    }

    /// Kills the node that leads, waits until another does, and starts it again.
    pub(crate) async fn kill_leader(&mut self) -> Result<(), Failure> {
        let leader = self.until_led(None).await?;
        if let Some(process) = &mut self.nodes[leader].process {
            process.kill().await;
        }
        self.until_led(Some(leader)).await?;
        self.run(leader)?;
        self.until_ready().await
    }

    /// Stops each node in turn, and goes on when all answer again.
    pub(crate) async fn restart_one_by_one(&mut self) -> Result<(), Failure> {
        for at in 0..self.nodes.len() {
            if let Some(process) = &mut self.nodes[at].process {
                process.stop(STOP_MAX).await;
            }
            self.run(at)?;
            self.until_ready().await?;
        }
        Ok(())
    }

    /// Which node leads, another one than `dead`.
    async fn until_led(&self, dead: Option<usize>) -> Result<usize, Failure> {
        let began = Instant::now();
        while began.elapsed() < START_MAX {
            let statuses = self.client.statuses().await;
            let leads = |(_, status): &(_, Result<_, _>)| match status {
                Ok(status) => is_led_by_itself(status),
                Err(_) => false,
            };
            match statuses.iter().position(leads) {
                Some(leader) if Some(leader) != dead => return Ok(leader),
                Some(_) | None => sleep(PAUSE).await,
            }
        }
        Err(Failure(format!("the cluster has no leader within {START_MAX:?}")))
    }
}

fn is_led_by_itself(status: &kontiki_client::proto::etcdserverpb::StatusResponse) -> bool {
    status.header.as_ref().is_some_and(|header| header.member_id == status.leader)
}

/// Ports that nobody listens on now.
async fn free_ports(count: usize) -> Result<Vec<u16>, Failure> {
    let failure = |error| Failure(format!("there is no free port: {error}"));
    let mut listeners = Vec::with_capacity(count);
    for _ in 0..count {
        listeners.push(TcpListener::bind("127.0.0.1:0").await.map_err(failure)?);
    }
    let port = |listener: &TcpListener| Ok(listener.local_addr()?.port());
    listeners.iter().map(port).collect::<Result<_, _>>().map_err(failure)
}
