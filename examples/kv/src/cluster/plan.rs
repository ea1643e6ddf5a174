//! Which nodes there are, on which ports, in which directories; and that it stays so.
//!
//! ```text
//! DIR/cluster.toml    how many nodes, and their ports: a later run continues this cluster
//! DIR/node1/          the data of a node
//! DIR/node1.log       what it logged, over all its runs
//! ```

use std::net::TcpListener;
use std::path::{Path, PathBuf};

use kontiki_kv::config::{self, CLIENT_PORT, ServeConfig, Settings};
use serde::{Deserialize, Serialize};

use super::PassThrough;
use super::process::Program;
use crate::cli::Failure;

/// As many ports as etcd's pattern gives below 65536.
pub(super) const NODES_MAX: usize = 9;
const TOKEN: &str = "kontiki-cluster";
const MANIFEST: &str = "cluster.toml";

/// A cluster on this machine.
pub(crate) struct Plan {
    pub(crate) dir: PathBuf,
    pub(crate) nodes: Vec<NodePlan>,
    /// The id of each node.
    pub(crate) member_ids: Vec<u64>,
    /// Whether the directory held no cluster before.
    pub(crate) is_new: bool,
    base_port: u16,
    pass: PassThrough,
    trace: Option<PathBuf>,
}

/// One node of it.
pub(crate) struct NodePlan {
    pub(crate) name: String,
    pub(crate) client_port: u16,
    pub(crate) peer_port: u16,
    pub(crate) data_dir: PathBuf,
    pub(crate) log: PathBuf,
}

/// What `cluster.toml` holds.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Manifest {
    nodes: usize,
    base_port: u16,
}

impl Plan {
    /// The cluster that `dir` holds, or a new one. Writes nothing.
    pub(crate) fn open(
        dir: &Path,
        nodes: Option<usize>,
        base_port: Option<u16>,
        pass: &PassThrough,
    ) -> Result<Self, Failure> {
        let found = Manifest::load(dir)?;
        let is_new = found.is_none();
        let manifest = match found {
            None => {
                Manifest { nodes: nodes.unwrap_or(3), base_port: base_port.unwrap_or(CLIENT_PORT) }
            }
            Some(found) => found.continued(dir, nodes, base_port)?,
        };
        let ports = client_ports(manifest.base_port, manifest.nodes).map_err(Failure::usage)?;
        let node = |(at, &client_port): (usize, &u16)| {
            let name = format!("node{}", at + 1);
            NodePlan {
                client_port,
                peer_port: client_port + 1,
                data_dir: dir.join(&name),
                log: dir.join(format!("{name}.log")),
                name,
            }
        };
        let mut plan = Self {
            dir: dir.to_owned(),
            nodes: ports.iter().enumerate().map(node).collect(),
            member_ids: Vec::new(),
            is_new,
            base_port: manifest.base_port,
            pass: pass.clone(),
            trace: None,
        };
        // A node would refuse the same; here it is said once, and nothing has been started.
        plan.member_ids = (0..plan.nodes.len())
            .map(|at| ServeConfig::resolve(plan.settings(at)?).map_err(Failure::from))
            .map(|config| Ok(config?.initial_id()?.get()))
            .collect::<Result<_, Failure>>()?;
        Ok(plan)
    }

    /// Each node records its steps in a file of its own in this directory.
    pub(crate) fn with_trace(mut self, dir: Option<&Path>) -> Result<Self, Failure> {
        if let Some(dir) = dir {
            let made = std::fs::create_dir_all(dir).and_then(|()| std::path::absolute(dir));
            self.trace = Some(made.map_err(|error| {
                Failure::new(format!("cannot write traces to {}: {error}", dir.display()))
            })?);
        }
        Ok(self)
    }

    /// Refuses when a port is in use, before anything is started.
    pub(crate) fn check_ports(&self) -> Result<(), Failure> {
        for node in &self.nodes {
            for (port, kind) in [(node.client_port, "clients"), (node.peer_port, "peers")] {
                if let Err(error) = TcpListener::bind(("127.0.0.1", port)) {
                    return Err(Failure::new(format!(
                        "cannot listen on port {port}, where {} serves its {kind}: {error}; stop \
                         what listens there, or choose other ports with --base-port",
                        node.name
                    )));
                }
            }
        }
        Ok(())
    }

    /// Writes down what this cluster is.
    pub(crate) fn save(&self) -> Result<(), Failure> {
        let path = self.dir.join(MANIFEST);
        let manifest = Manifest { nodes: self.nodes.len(), base_port: self.base_port };
        let text = toml::to_string(&manifest).map_err(Failure::new)?;
        std::fs::create_dir_all(&self.dir)
            .and_then(|()| std::fs::write(&path, text))
            .map_err(|error| Failure::new(format!("cannot write {}: {error}", path.display())))
    }

    /// `host:port` of each node's clients.
    pub(crate) fn endpoints(&self) -> Vec<String> {
        self.nodes.iter().map(|node| format!("127.0.0.1:{}", node.client_port)).collect()
    }

    /// How the node is started.
    pub(crate) fn program(&self, at: usize) -> Result<Program, Failure> {
        let executable = std::env::current_exe()
            .map_err(|error| Failure::new(format!("cannot find this program: {error}")))?;
        let node = &self.nodes[at];
        // What is printed must work from any directory.
        let data_dir = std::path::absolute(&node.data_dir)
            .map_err(|error| Failure::new(format!("cannot find this directory: {error}")))?;
        Ok(Program {
            executable,
            args: self.args(node, &data_dir),
            // The hidden end of a node whose supervisor is gone.
            supervised_args: vec!["--stop-with-stdin".to_owned()],
            log: node.log.clone(),
        })
    }

    fn args(&self, node: &NodePlan, data_dir: &Path) -> Vec<String> {
        let url = |port| format!("http://127.0.0.1:{port}");
        let mut args = vec![
            "serve".to_owned(),
            format!("--name={}", node.name),
            format!("--data-dir={}", data_dir.display()),
            format!("--listen-client-urls={}", url(node.client_port)),
            format!("--listen-peer-urls={}", url(node.peer_port)),
            format!("--initial-cluster={}", self.initial_cluster()),
            format!("--initial-cluster-token={TOKEN}"),
        ];
        let pass = &self.pass;
        for (flag, value) in [
            ("heartbeat-interval", pass.heartbeat_interval.map(|ms| ms.to_string())),
            ("election-timeout", pass.election_timeout.map(|ms| ms.to_string())),
            ("snapshot-count", pass.snapshot_count.map(|count| count.to_string())),
            ("log-level", pass.log_level.clone()),
            ("trace", self.trace.as_ref().map(|dir| trace_file(dir, node))),
        ] {
            args.extend(value.map(|value| format!("--{flag}={value}")));
        }
        args
    }

    /// The same as [`Self::args`], for the check and for the id.
    fn settings(&self, at: usize) -> Result<Settings, Failure> {
        let node = &self.nodes[at];
        let urls = |port| Some(config::UrlList(vec![config::HttpUrl::new("127.0.0.1", port)]));
        Ok(Settings {
            name: Some(node.name.clone()),
            data_dir: Some(node.data_dir.clone()),
            listen_client_urls: urls(node.client_port),
            listen_peer_urls: urls(node.peer_port),
            initial_cluster: Some(self.initial_cluster().parse().map_err(Failure::usage)?),
            initial_cluster_token: Some(TOKEN.to_owned()),
            heartbeat_interval: self.pass.heartbeat_interval,
            election_timeout: self.pass.election_timeout,
            snapshot_count: self.pass.snapshot_count,
            log_level: self.pass.log_level.clone(),
            ..Settings::default()
        })
    }

    fn initial_cluster(&self) -> String {
        let member = |node: &NodePlan| format!("{}=http://127.0.0.1:{}", node.name, node.peer_port);
        self.nodes.iter().map(member).collect::<Vec<_>>().join(",")
    }
}

fn trace_file(dir: &Path, node: &NodePlan) -> String {
    dir.join(format!("{}.ndjson", node.name)).display().to_string()
}

impl Manifest {
    fn load(dir: &Path) -> Result<Option<Self>, Failure> {
        let path = dir.join(MANIFEST);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => {
                return Err(Failure::new(format!("cannot read {}: {error}", path.display())));
            }
        };
        let manifest = toml::from_str(&text).map_err(|error| {
            Failure::new(format!("{} is not what was written: {error}", path.display()))
        })?;
        Ok(Some(manifest))
    }

    /// This cluster again, unless the flags ask for another one.
    fn continued(
        self,
        dir: &Path,
        nodes: Option<usize>,
        base_port: Option<u16>,
    ) -> Result<Self, Failure> {
        let refuse = |flag: &str, held: String| {
            Err(Failure::usage(format!(
                "{} holds a cluster with {flag} {held}; leave {flag} out to continue it, or choose \
                 another --data-dir",
                dir.display()
            )))
        };
        if nodes.is_some_and(|nodes| nodes != self.nodes) {
            return refuse("--nodes", self.nodes.to_string());
        }
        if base_port.is_some_and(|port| port != self.base_port) {
            return refuse("--base-port", self.base_port.to_string());
        }
        Ok(self)
    }
}

/// The client port of each node; its peer port is the next one.
///
/// As etcd's Procfile: the base, then 20000, 30000 … above it, and 10000 above it last. Where
/// that leaves the range of ports, all of them stand close together: the base, 10, 20 … above it.
pub(crate) fn client_ports(base: u16, nodes: usize) -> Result<Vec<u16>, String> {
    const FAR: [u16; 7] = [0, 20_000, 30_000, 40_000, 50_000, 60_000, 10_000];
    if nodes == 0 || nodes > NODES_MAX {
        return Err(format!("--nodes is {nodes}; give 1 to {NODES_MAX}, 3 and 5 are usual"));
    }
    let far = || {
        let offsets = FAR.get(..nodes)?;
        offsets.iter().map(|offset| port(base, *offset)).collect::<Option<Vec<_>>>()
    };
    let close = || (0..nodes as u16).map(|at| port(base, 10 * at)).collect::<Option<Vec<_>>>();
    if base == 0 {
        return Err("--base-port is 0; give the first client port, 2379 is usual".to_owned());
    }
    far().or_else(close).ok_or_else(|| {
        format!("--base-port {base} leaves no room for {nodes} nodes below 65536; lower it")
    })
}

/// `base + offset`, if the peer port above it is a port too.
fn port(base: u16, offset: u16) -> Option<u16> {
    base.checked_add(offset).filter(|&port| port < u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_follow_etcd_and_stay_in_range() {
        let table: [(u16, usize, &[u16]); 7] = [
            (2379, 1, &[2379]),
            (2379, 3, &[2379, 22379, 32379]),
            (2379, 5, &[2379, 22379, 32379, 42379, 52379]),
            (2379, 7, &[2379, 22379, 32379, 42379, 52379, 62379, 12379]),
            (2379, 8, &[2379, 2389, 2399, 2409, 2419, 2429, 2439, 2449]),
            (24790, 3, &[24790, 44790, 54790]),
            (60000, 3, &[60000, 60010, 60020]),
        ];
        for (base, nodes, expected) in table {
            assert_eq!(client_ports(base, nodes).as_deref(), Ok(expected), "{base}, {nodes}");
        }
        for (base, nodes) in [(2379, 0), (2379, 10), (0, 3), (65530, 3), (65535, 1)] {
            assert!(client_ports(base, nodes).is_err(), "{base}, {nodes}");
        }
    }

    #[test]
    fn a_directory_keeps_the_cluster_that_it_was_made_for() {
        let dir = tempfile::tempdir().expect("a directory");
        let open =
            |nodes, base_port| Plan::open(dir.path(), nodes, base_port, &PassThrough::default());
        let first = open(Some(5), Some(4000)).expect("new");
        assert!(first.is_new);
        first.save().expect("written");

        let again = open(None, None).expect("the same");
        assert!(!again.is_new);
        assert_eq!(again.endpoints(), first.endpoints());
        assert_eq!(again.member_ids, first.member_ids);
        open(Some(5), Some(4000)).expect("the same, said again");
        for (nodes, base_port) in [(Some(3), None), (None, Some(2379))] {
            assert!(open(nodes, base_port).is_err(), "{nodes:?} {base_port:?}");
        }
    }
}
