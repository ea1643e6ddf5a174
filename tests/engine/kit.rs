//! A group of real nodes on logs in memory and a network of channels, so that disks can fail
//! and links can be cut. Times are real and short.

mod list;
mod log;
mod network;
mod snapshots;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kontiki::{Config, Index, Membership, Node, NodeId, Parts, StateMachine, start};

pub use list::List;
pub use log::MemoryLog;
pub use network::Network;
pub use snapshots::MemorySnapshots;

/// The heartbeat interval and the election timeout of these tests.
pub const HEARTBEAT: Duration = Duration::from_millis(20);
pub const ELECTION: Duration = Duration::from_millis(200);

/// How long anything here may take before the test says that it hangs.
pub const LIMIT: Duration = Duration::from_secs(20);

pub fn id(number: u64) -> NodeId {
    NodeId::new(number).expect("not zero")
}

pub fn command(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

/// Waits until `holds`.
pub async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let wait = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    assert!(tokio::time::timeout(LIMIT, wait).await.is_ok(), "not in time: {what}");
}

pub struct Group {
    pub nodes: Vec<Node<usize>>,
    pub lists: Vec<List>,
    pub logs: Vec<MemoryLog>,
    pub snapshots: Vec<MemorySnapshots>,
    pub network: Arc<Network>,
    tune: Box<dyn Fn(&mut Config) + Send + Sync>,
}

impl Group {
    pub fn new(size: u64) -> Self {
        Self::with(size, |_| {})
    }

    pub fn with(size: u64, tune: impl Fn(&mut Config) + Send + Sync + 'static) -> Self {
        let mut group = Self {
            nodes: vec![],
            lists: vec![],
            logs: vec![],
            snapshots: vec![],
            network: Arc::default(),
            tune: Box::new(tune),
        };
        for _ in 1..=size {
            let membership = Membership::new((1..=size).map(id)).expect("not empty");
            group.add(membership);
        }
        group
    }

    /// One more node, which knows nothing of the group yet.
    pub fn join(&mut self) -> NodeId {
        self.add(Membership::unknown())
    }

    fn add(&mut self, membership: Membership) -> NodeId {
        let new = id(self.nodes.len() as u64 + 1);
        self.lists.push(List::default());
        self.logs.push(MemoryLog::founded(membership));
        self.snapshots.push(MemorySnapshots::default());
        let node = self.start(new).expect("starts");
        self.nodes.push(node);
        new
    }

    /// Starts a node on what its disk and its state machine hold.
    fn start(&self, number: NodeId) -> Result<Node<usize>, kontiki::StartError> {
        let at = number.get() as usize - 1;
        let mut config = Config::new(raft_core::Config::new(number));
        (config.raft.heartbeat_interval, config.raft.election_timeout) = (HEARTBEAT, ELECTION);
        (self.tune)(&mut config);
        let (link, inbox) = self.network.connect(number, self.snapshots[at].clone());
        let machine = self.lists[at].clone();
        let saved = self.logs[at].saved(machine.applied());
        let parts = Parts {
            store: self.logs[at].clone(),
            snapshots: Arc::new(self.snapshots[at].clone()),
            transport: Arc::new(link),
            inbox,
            machine,
        };
        start(config, saved, parts)
    }

    /// Stops a node, and starts it again with this state.
    pub async fn restart(&mut self, number: NodeId, list: List) -> Result<(), kontiki::StartError> {
        let at = number.get() as usize - 1;
        self.nodes[at].shutdown().await;
        self.lists[at] = list;
        self.nodes[at] = self.start(number)?;
        Ok(())
    }

    pub fn node(&self, id: NodeId) -> &Node<usize> {
        &self.nodes[id.get() as usize - 1]
    }

    pub fn list(&self, id: NodeId) -> &List {
        &self.lists[id.get() as usize - 1]
    }

    /// Everybody but the leader.
    pub async fn followers(&self) -> Vec<NodeId> {
        let leader = self.leader().await.status().id;
        let ids = self.nodes.iter().map(|node| node.status().id);
        ids.filter(|id| *id != leader).collect()
    }

    /// The node that leads in the newest term, once there is one.
    pub async fn leader(&self) -> &Node<usize> {
        self.leader_but(None).await
    }

    /// The same, but another than `other`.
    pub async fn leader_but(&self, other: Option<NodeId>) -> &Node<usize> {
        let seek = async {
            loop {
                let leads = |node: &&Node<usize>| {
                    let status = node.status();
                    status.leadership.is_leader() && Some(status.id) != other
                };
                if let Some(leader) = self.nodes.iter().find(leads) {
                    return leader;
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::time::timeout(LIMIT, seek).await.expect("a leader in time")
    }

    /// Waits until every node has applied the same list, of this length.
    pub async fn all_apply(&self, length: usize) {
        let wait = async {
            while self.lists.iter().any(|list| list.contents().len() < length) {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        if tokio::time::timeout(LIMIT, wait).await.is_err() {
            panic!("not everybody applies in time: {:#?}", self.nodes);
        }
        for list in &self.lists {
            assert_eq!(list.contents(), self.lists[0].contents(), "equal lists");
            assert_eq!(list.contents().len(), length, "nothing twice, nothing more");
        }
    }

    /// Proposes so many commands to `node`, one after the other.
    pub async fn propose_many(&self, node: &Node<usize>, count: usize) -> Index {
        let mut last = Index::ZERO;
        for _ in 0..count {
            last = node.propose(command("x")).await.expect("committed").index;
        }
        last
    }
}
