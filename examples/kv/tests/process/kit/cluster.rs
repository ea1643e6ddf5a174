//! A cluster of three nodes in a temporary directory, and those that join it later.

use std::path::Path;

use kontiki_kv::proto::kontiki::member_change::Change;
use kontiki_kv::proto::mvccpb::KeyValue;
use tempfile::TempDir;

use super::operator::add_voter;
use super::{Client, Node, Serve, ports, turn, until};

pub(crate) struct Cluster {
    pub(crate) nodes: Vec<Node>,
    /// Goes after the nodes.
    dir: TempDir,
}

impl Cluster {
    /// A new cluster that has a leader.
    pub(crate) async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// A new cluster that has a leader, with more flags.
    pub(crate) async fn start_with(flags: &[&str]) -> Self {
        let mut cluster = Self::plan("trio");
        for node in &mut cluster.nodes {
            node.serve.more = flags.iter().map(|&flag| flag.to_owned()).collect();
        }
        cluster.start_all();
        cluster.leader().await;
        cluster
    }

    /// A new cluster, of which nothing runs yet.
    pub(crate) fn plan(token: &str) -> Self {
        turn::take();
        let dir = tempfile::tempdir().expect("a directory");
        let ports = ports(6);
        let serve = |at: usize| Serve {
            name: format!("n{}", at + 1),
            client_port: ports[2 * at],
            peer_port: ports[2 * at + 1],
            data_dir: dir.path().join(format!("n{}", at + 1)),
            members: String::new(),
            token: token.to_owned(),
            more: Vec::new(),
            host: "127.0.0.1".to_owned(),
            inside: None,
        };
        let nodes = [0, 1, 2].map(|at| Node::new(serve(at))).into();
        let mut cluster = Self { nodes, dir };
        cluster.tell_members();
        cluster
    }

    /// Tells every node where the others will be.
    pub(crate) fn tell_members(&mut self) {
        let members: Vec<_> = self.nodes.iter().map(|node| node.serve.as_member()).collect();
        self.nodes.iter_mut().for_each(|node| node.serve.members = members.join(","));
    }

    /// Where all the nodes have their directories.
    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// How a node is started that joins, once it was added: as the others, but for its name.
    pub(crate) fn plan_joiner(&self, name: &str) -> Serve {
        let ports = ports(2);
        let first = &self.nodes[0].serve;
        let mut serve = Serve {
            name: name.to_owned(),
            client_port: ports[0],
            peer_port: ports[1],
            data_dir: self.dir.path().join(name),
            ..first.clone()
        };
        serve.members = format!("{},{}", first.members, serve.as_member());
        serve.more.push("--initial-cluster-state=existing".to_owned());
        serve
    }

    /// Adds a node under this id, to vote, in one step with other changes; it is the last one of
    /// `nodes` then.
    pub(crate) async fn join(&mut self, via: usize, serve: Serve, id: u64, others: &[Change]) {
        let mut changes = vec![add_voter(id, serve.peer_url())];
        changes.extend_from_slice(others);
        self.client(via).change_surely(&changes).await;
        let mut node = Node::new(serve);
        node.start();
        self.nodes.push(node);
    }

    /// Waits until the members are just these voters, as the node `via` knows.
    pub(crate) async fn voters(&self, via: usize, expected: &[u64]) {
        let mut expected = expected.to_vec();
        expected.sort_unstable();
        until(&format!("the voters are {expected:?}"), async || {
            let members = self.client(via).inspect().await.ok()?.members;
            let mut ids: Vec<u64> = members.iter().map(|member| member.id).collect();
            ids.sort_unstable();
            let all_vote = members.iter().all(|member| member.standing == "voter");
            (all_vote && ids == expected).then_some(())
        })
        .await;
    }

    /// The id of a node, which it says itself.
    pub(crate) async fn id(&self, at: usize) -> u64 {
        until("a node says its id", async || Some(self.client(at).inspect().await.ok()?.member_id))
            .await
    }

    /// The ids of the first three.
    pub(crate) async fn ids(&self) -> [u64; 3] {
        [self.id(0).await, self.id(1).await, self.id(2).await]
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
        Client::to(&self.endpoint(at))
    }

    /// Where a node serves clients.
    pub(crate) fn endpoint(&self, at: usize) -> String {
        let serve = &self.nodes[at].serve;
        format!("{}:{}", serve.host, serve.client_port)
    }

    pub(crate) fn endpoints(&self) -> Vec<String> {
        (0..self.nodes.len()).map(|at| self.endpoint(at)).collect()
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

    /// Waits until all nodes that run have the same hash at the same revision.
    pub(crate) async fn same_hash(&self) -> u32 {
        until("all nodes have the same hash", async || {
            let running = || (0..self.nodes.len()).filter(|at| self.nodes[*at].is_running());
            let mut revisions = Vec::new();
            for at in running() {
                let header = self.client(at).status().await.ok()?.header?;
                revisions.push(header.revision);
            }
            let revision = *revisions.iter().max()?;
            if revisions.iter().any(|other| *other != revision) {
                return None;
            }
            let mut hashes = Vec::new();
            for at in running() {
                hashes.push(self.client(at).hash(revision).await.ok()?);
            }
            let first = *hashes.first()?;
            assert!(hashes.iter().all(|hash| *hash == first), "they have diverged: {hashes:?}");
            Some(first)
        })
        .await
    }

    /// Waits until all nodes that run hold the same, and gives it.
    pub(crate) async fn settled(&self) -> Vec<KeyValue> {
        until("all nodes hold the same", async || {
            let mut dumps = Vec::new();
            let running = self.nodes.iter().enumerate().filter(|(_, node)| node.is_running());
            for (at, _) in running {
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

impl Drop for Cluster {
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
