//! A cluster of three nodes in a temporary directory.

use kontiki_kv::proto::mvccpb::KeyValue;
use tempfile::TempDir;

use super::{Client, Node, Serve, ports, until};

pub(crate) struct Trio {
    pub(crate) nodes: Vec<Node>,
    /// Goes after the nodes.
    _dir: TempDir,
}

impl Trio {
    /// A new cluster that has a leader.
    pub(crate) async fn start() -> Self {
        let mut trio = Self::plan("trio");
        trio.start_all();
        trio.leader().await;
        trio
    }

    /// A new cluster, of which nothing runs yet.
    pub(crate) fn plan(token: &str) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let ports = ports(6);
        let name = |at| format!("n{}", at + 1);
        let member = |at| format!("{}=http://127.0.0.1:{}", name(at), ports[2 * at + 1]);
        let members = [0, 1, 2].map(member).join(",");
        let nodes = (0..3).map(|at| {
            Node::new(Serve {
                name: name(at),
                client_port: ports[2 * at],
                peer_port: ports[2 * at + 1],
                data_dir: dir.path().join(name(at)),
                members: members.clone(),
                token: token.to_owned(),
                more: Vec::new(),
            })
        });
        Self { nodes: nodes.collect(), _dir: dir }
    }

    pub(crate) fn start_all(&mut self) {
        for node in &mut self.nodes {
            node.start();
        }
    }

    pub(crate) fn kill_all(&mut self) {
        for node in &mut self.nodes {
            node.kill();
        }
    }

    pub(crate) fn client(&self, at: usize) -> Client {
        Client::new(self.nodes[at].serve.client_port)
    }

    pub(crate) fn client_ports(&self) -> Vec<u16> {
        self.nodes.iter().map(|node| node.serve.client_port).collect()
    }

    /// Waits until one of the nodes leads, and every node in `among` says so.
    pub(crate) async fn leader_among(&self, among: &[usize]) -> usize {
        until("the nodes agree who leads", async || {
            let (mut leaders, mut ids) = (Vec::new(), Vec::new());
            for at in among {
                let status = self.client(*at).status().await.ok()?;
                ids.push(status.header.expect("every answer has a header").member_id);
                leaders.push((status.leader, status.raft_term));
            }
            let first = leaders[0];
            let agreed = leaders.iter().all(|leader| *leader == first);
            let at = ids.iter().position(|id| *id == first.0)?;
            agreed.then_some(among[at])
        })
        .await
    }

    /// The leader, once all nodes agree about it.
    pub(crate) async fn leader(&self) -> usize {
        self.leader_among(&[0, 1, 2]).await
    }

    /// Waits until all nodes hold the same, and gives it.
    pub(crate) async fn settled(&self) -> Vec<KeyValue> {
        until("all nodes hold the same", async || {
            let mut dumps = Vec::new();
            for at in 0..self.nodes.len() {
                dumps.push(self.client(at).dump_local().await.ok()?);
            }
            let first = dumps.pop()?;
            // Equal revisions and unequal data would never come together again.
            for other in &dumps {
                assert!(first.0 != other.0 || first.1 == other.1, "the replicas have diverged");
            }
            dumps.iter().all(|other| *other == first).then_some(first.1)
        })
        .await
    }
}

impl Drop for Trio {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        for node in &self.nodes {
            let running = if node.is_running() { "runs" } else { "does not run" };
            println!("--- {} {running}; the end of its log:", node.serve.name);
            println!("{}", node.last_lines(25));
        }
    }
}
