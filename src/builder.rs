//! A node on this crate's own adapters: the write-ahead log and the gRPC transport.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use raft_core::{Membership, NodeId};
use raft_grpc::{ClusterId, GrpcTransport, Identity, Inbound, Incarnation};
use raft_storage::{Options, Owner, Recovered, Wal};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use crate::error::StartError;
use crate::machine::StateMachine;
use crate::node::Node;
use crate::runtime::{self, Config, Inbox};

/// How many gRPC messages wait for the driver on each lane.
const CONTROL_MESSAGES_MAX: usize = 256;
const BULK_MESSAGES_MAX: usize = 64;

/// How long followers may wait to hear of a commit that concerns none of their callers: under
/// load the next append brings it sooner.
const COMMIT_NOTICE_DELAY: Duration = Duration::from_millis(1);

/// Says which node of which group to start, and where. Defaults are safe: PreVote,
/// CheckQuorum, checksums and fsync are on.
///
/// ```no_run
/// # async fn example(machine: impl kontiki::StateMachine) -> Result<(), kontiki::StartError> {
/// let node = kontiki::Builder::new(1)
///     .cluster_id(0x6b6f6e)
///     .member(1, "10.0.0.1:7000")
///     .member(2, "10.0.0.2:7000")
///     .member(3, "10.0.0.3:7000")
///     .data_dir("/var/lib/my-service/raft")
///     .start(machine)
///     .await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Builder {
    id: u64,
    cluster_id: u64,
    members: Vec<(u64, String)>,
    data_dir: PathBuf,
    listen: Vec<String>,
    heartbeat_interval: Duration,
    election_timeout: Duration,
    entry_bytes_max: Option<usize>,
    recent_bytes_max: Option<usize>,
    segment_bytes: Option<u64>,
}

impl Builder {
    /// The node `id`, not zero. Give each node of a group its own, for ever.
    pub fn new(id: u64) -> Self {
        Self {
            id,
            cluster_id: 0,
            members: Vec::new(),
            data_dir: PathBuf::from("raft"),
            listen: Vec::new(),
            heartbeat_interval: Duration::from_millis(100),
            election_timeout: Duration::from_millis(1000),
            entry_bytes_max: None,
            recent_bytes_max: None,
            segment_bytes: None,
        }
    }

    /// The number that tells this group from others: nodes of another refuse to talk.
    #[must_use]
    pub fn cluster_id(mut self, cluster_id: u64) -> Self {
        self.cluster_id = cluster_id;
        self
    }

    /// Adds a voter and the address (`host:port`) at which the others reach it. This node is
    /// one of them; alone, it needs no address.
    #[must_use]
    pub fn member(mut self, id: u64, address: impl Into<String>) -> Self {
        self.members.push((id, address.into()));
        self
    }

    /// The directory of the log. Made where there is none; one node's alone. `raft` by default.
    #[must_use]
    pub fn data_dir(mut self, data_dir: impl Into<PathBuf>) -> Self {
        self.data_dir = data_dir.into();
        self
    }

    /// Adds an address to listen on, where it is not the one that the others are given.
    #[must_use]
    pub fn listen(mut self, address: impl Into<String>) -> Self {
        self.listen.push(address.into());
        self
    }

    /// How often a leader shows that it lives. 100 ms by default.
    #[must_use]
    pub fn heartbeat_interval(mut self, interval: Duration) -> Self {
        self.heartbeat_interval = interval;
        self
    }

    /// How long a node waits for a leader at least, and a leader for its quorum; up to twice
    /// this is drawn at random. 1 s by default.
    #[must_use]
    pub fn election_timeout(mut self, timeout: Duration) -> Self {
        self.election_timeout = timeout;
        self
    }

    /// The largest command, in bytes. 8 MiB by default.
    #[must_use]
    pub fn entry_bytes_max(mut self, bytes: usize) -> Self {
        self.entry_bytes_max = Some(bytes);
        self
    }

    /// How many bytes of recent entries are kept in memory. 32 MiB by default.
    #[must_use]
    pub fn recent_bytes_max(mut self, bytes: usize) -> Self {
        self.recent_bytes_max = Some(bytes);
        self
    }

    /// How large a file of the log grows, in bytes. 64 MiB by default.
    #[must_use]
    pub fn segment_bytes(mut self, bytes: u64) -> Self {
        self.segment_bytes = Some(bytes);
        self
    }

    /// Starts the node: opens or makes its log, listens, and takes part.
    ///
    /// # Errors
    /// See [`StartError`]. Nothing is changed on disk unless the settings are in order.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub async fn start<S: StateMachine>(self, machine: S) -> Result<Node<S::Response>, StartError> {
        self.open().await?.start(machine)
    }

    /// Binds the node's address and opens or makes its log, but does not take part yet. For
    /// state machines with files of their own: whoever opens those afterwards knows that no
    /// other process has them, and that they are this node's.
    ///
    /// # Errors
    /// See [`StartError`]. Nothing is changed on disk unless the settings are in order.
    pub async fn open(self) -> Result<Opened, StartError> {
        let group = self.group()?;
        let mut raft = raft_core::Config::new(group.id);
        raft.heartbeat_interval = self.heartbeat_interval;
        raft.election_timeout = self.election_timeout;
        raft.commit_notice_delay = COMMIT_NOTICE_DELAY;
        raft.entry_bytes_max = self.entry_bytes_max.unwrap_or(raft.entry_bytes_max);
        raft.recent_bytes_max = self.recent_bytes_max.unwrap_or(raft.recent_bytes_max);
        raft.validate()?;
        let listeners = self.bind(&group).await?;
        let (log, recovered) = self.open_log(&group)?;
        Ok(Opened { group, raft, listeners, log, recovered })
    }

    /// The members, proven to make a group.
    fn group(&self) -> Result<Group, StartError> {
        let wrong = |reason: String| Err(StartError::Settings(reason));
        let zero = || StartError::Settings("a node has the id 0; give it another number".into());
        let id = NodeId::new(self.id).ok_or_else(zero)?;
        let mut addresses = BTreeMap::new();
        for (member, address) in &self.members {
            let member = NodeId::new(*member).ok_or_else(zero)?;
            if let Some((other, _)) = addresses.iter().find(|(_, known)| *known == address)
                && self.members.len() > 1
            {
                return wrong(format!(
                    "members {other} and {member} have the same address, {address:?}; give each \
                     its own"
                ));
            }
            if addresses.insert(member, address.clone()).is_some() {
                return wrong(format!("two members have the id {member}; give each its own"));
            }
        }
        if addresses.is_empty() {
            addresses.insert(id, String::new());
        }
        if !addresses.contains_key(&id) {
            return wrong(format!("this node, {id}, is not among the members; add it"));
        }
        Ok(Group { id, addresses })
    }

    async fn bind(&self, group: &Group) -> Result<Vec<TcpListener>, StartError> {
        let own = std::slice::from_ref(&group.addresses[&group.id]);
        let addresses = if self.listen.is_empty() { own } else { &self.listen };
        let mut listeners = Vec::new();
        for address in addresses {
            // Alone, it needs none.
            if address.is_empty() && group.addresses.len() == 1 {
                continue;
            }
            let bound = TcpListener::bind(address).await.map_err(|error| {
                let hint = "stop the process that uses it, or give an address of this machine";
                let reason = format!("cannot listen on {address} for peers: {error}; {hint}");
                StartError::Transport(reason)
            })?;
            listeners.push(bound);
        }
        Ok(listeners)
    }

    fn open_log(&self, group: &Group) -> Result<(Wal, Recovered), StartError> {
        let mut options = Options::default();
        options.segment_bytes = self.segment_bytes.unwrap_or(options.segment_bytes);
        let membership = Membership::new(group.addresses.keys().copied());
        let membership = membership.expect("a group has at least this node");
        if !Wal::exists(&self.data_dir, &options).map_err(storage_error)? {
            let identity = raft_storage::Identity {
                cluster_id: self.cluster_id,
                node_id: group.id,
                incarnation: rand::random(),
            };
            return Wal::create(&self.data_dir, identity, &membership, &options)
                .map_err(storage_error);
        }
        let owner = Owner { cluster_id: self.cluster_id, node_id: group.id };
        let (log, recovered) = Wal::open(&self.data_dir, owner, &options).map_err(storage_error)?;
        if recovered.founders != membership {
            let list = |membership: &Membership| {
                membership.voters().map(|id| id.to_string()).collect::<Vec<_>>().join(", ")
            };
            return Err(StartError::Settings(format!(
                "{} was made for a group of {}, but the members given are {}; give the same \
                 members, or another directory",
                self.data_dir.display(),
                list(&recovered.founders),
                list(&membership)
            )));
        }
        Ok((log, recovered))
    }
}

/// A node that holds its log and its address, and does not take part yet.
#[derive(Debug)]
pub struct Opened {
    group: Group,
    raft: raft_core::Config,
    listeners: Vec<TcpListener>,
    log: Wal,
    recovered: Recovered,
}

impl Opened {
    /// Takes part, with this state machine.
    ///
    /// # Errors
    /// See [`StartError`].
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn start<S: StateMachine>(self, machine: S) -> Result<Node<S::Response>, StartError> {
        let Self { group, raft, listeners, log, recovered } = self;
        let identity = Identity {
            cluster: ClusterId(recovered.identity.cluster_id),
            node: group.id,
            incarnation: Incarnation::new(recovered.identity.incarnation).ok_or_else(|| {
                storage_error("the identity file names disk zero, which is none; restore it")
            })?,
        };
        let (control, urgent) = mpsc::channel(CONTROL_MESSAGES_MAX);
        let (bulk, bulky) = mpsc::channel(BULK_MESSAGES_MAX);
        let mut settings =
            raft_grpc::Config::for_timing(raft.heartbeat_interval, raft.election_timeout);
        // Room for the largest entry and what is around it.
        settings.message_bytes_max = settings.message_bytes_max.max(raft.entry_bytes_max * 2);
        let (events, _) = mpsc::channel(1); // Nothing listens to them yet.
        let inbound = Inbound { control, bulk, events, snapshots: None };
        let transport = GrpcTransport::start(identity, settings, &group.peers(), inbound);
        let transport = Arc::new(transport.map_err(transport_error)?);
        let inbox = Inbox { control: urgent, bulk: bulky };
        let saved = recovered.into_saved(machine.applied());
        let node =
            runtime::start(Config::new(raft), saved, log, Arc::clone(&transport), inbox, machine)?;
        for listener in listeners {
            serve(&transport, listener, &node);
        }
        Ok(node)
    }
}

#[derive(Debug)]
struct Group {
    id: NodeId,
    addresses: BTreeMap<NodeId, String>,
}

impl Group {
    /// Everybody else.
    fn peers(&self) -> BTreeMap<NodeId, String> {
        let others = self.addresses.iter().filter(|(id, _)| **id != self.id);
        others.map(|(id, address)| (*id, address.clone())).collect()
    }
}

/// Serves the peers until the node stops.
fn serve<R: Send + 'static>(transport: &GrpcTransport, listener: TcpListener, node: &Node<R>) {
    let stopped = node.stopped();
    let server = transport.serve(listener, async move { drop(stopped.await) });
    tokio::spawn(async move {
        if let Err(error) = server.await {
            tracing::error!(%error, "no longer listening for peers");
        }
    });
}

fn storage_error(error: impl std::fmt::Display) -> StartError {
    StartError::Storage(error.to_string())
}

fn transport_error(error: impl std::fmt::Display) -> StartError {
    StartError::Transport(error.to_string())
}
