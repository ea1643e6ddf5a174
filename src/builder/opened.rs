//! A node that holds its log and its address: the last step before it takes part.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use raft_core::{Incarnation, Index, NodeId};
use raft_driver::StateMachine;
use raft_grpc::{ClusterId, GrpcTransport, Identity, Inbound, PeerEvent, Refused};
use raft_storage::{Options, Recovered, SnapshotError, StateKept, Wal};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use crate::error::StartError;
use crate::meters::Meters;
use crate::node::Node;
use crate::runtime::{self, Config, Inbox, Parts};
use crate::scrub;
use crate::transport::Notice;

/// How many gRPC messages wait for the driver on each lane.
const CONTROL_MESSAGES_MAX: usize = 256;
const BULK_MESSAGES_MAX: usize = 64;
/// How much else waits. What finds no room is told again.
const EVENTS_MAX: usize = 256;

/// A node that holds its log and its address, and does not take part yet.
#[derive(Debug)]
pub struct Opened {
    pub(super) config: Config,
    pub(super) incarnation: Incarnation,
    pub(super) listeners: Vec<TcpListener>,
    /// Where the members of a group are that has just been joined.
    pub(super) others: BTreeMap<NodeId, String>,
    pub(super) limit: Option<u64>,
    pub(super) dir: PathBuf,
    pub(super) options: Options,
    pub(super) log: Wal,
    pub(super) recovered: Recovered,
}

impl Opened {
    /// The number that tells the group from others.
    pub fn cluster_id(&self) -> u64 {
        self.recovered.identity.cluster_id
    }

    /// What the log held, and what had to be mended.
    pub fn recovered(&self) -> &Recovered {
        &self.recovered
    }

    /// Takes part, with this state machine.
    ///
    /// # Errors
    /// See [`StartError`].
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn start<S: StateMachine>(self, machine: S) -> Result<Node<S::Response>, StartError> {
        self.start_metered(machine).map(|(node, _)| node)
    }

    /// Takes part, and shows what its disk and wires do.
    ///
    /// # Errors
    /// See [`StartError`].
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn start_metered<S: StateMachine>(
        self,
        machine: S,
    ) -> Result<(Node<S::Response>, Meters), StartError> {
        let opened = self.with_snapshot_for(machine.applied(), machine.durable())?;
        let Self { config, incarnation, listeners, others, limit, log, recovered, .. } = opened;
        let raft = &config.raft;
        let cluster = ClusterId(recovered.identity.cluster_id);
        let identity = Identity { cluster, node: raft.id, incarnation };
        let mut settings =
            raft_grpc::Config::for_timing(raft.heartbeat_interval, raft.election_timeout);
        // Room for the largest entry and what is around it.
        settings.message_bytes_max = settings.message_bytes_max.max(raft.entry_bytes_max * 2);
        settings.snapshot_bytes_per_second = limit;
        let members = recovered.memberships.last().map(|(_, newest)| newest);
        let own = members.and_then(|newest| newest.member(raft.id)).map(|own| own.address.clone());
        settings.advertised = own.or_else(|| others.get(&raft.id).cloned()).unwrap_or_default();

        let (control, urgent) = mpsc::channel(CONTROL_MESSAGES_MAX);
        let (bulk, bulky) = mpsc::channel(BULK_MESSAGES_MAX);
        let (events, happened) = mpsc::channel(EVENTS_MAX);
        let (notices, told) = mpsc::channel(EVENTS_MAX);
        let snapshots = Arc::new(log.snapshots());
        let inbound = Inbound { control, bulk, events, snapshots: Some(snapshots.clone()) };
        let transport = GrpcTransport::start(identity, settings, &others, inbound);
        let transport = Arc::new(transport.map_err(transport_error)?);
        let meters = Meters { log: log.meter(), transport: Arc::downgrade(&transport) };
        let scrubbing = scrub::start(log.scrubber(), notices.downgrade());
        let scrubbing = scrubbing.map_err(StartError::Thread)?;
        let saved = recovered.into_saved(machine.applied());
        let inbox = Inbox { control: urgent, bulk: bulky, notices: told };
        let parts =
            Parts { store: log, snapshots, transport: Arc::clone(&transport), inbox, machine };
        let node = runtime::start(config, saved, parts)?;
        for listener in listeners {
            serve(&transport, listener, &node);
        }
        let stopped = node.stopped();
        tokio::spawn(async move {
            tokio::select! {
                () = pass_on(happened, notices) => {}
                _ = stopped => {}
            }
            drop(scrubbing);
        });
        Ok((node, meters))
    }

    /// Makes sure that the snapshot is there, all of it, where the state machine needs it. A log
    /// whose snapshot is lost begins anew, and is sent again by the others. But where the state
    /// machine keeps its state by itself, it is that state which is lost: the log is whole, may
    /// hold what nobody else has, and is left as it is.
    fn with_snapshot_for(self, applied: Index, kept: Option<Index>) -> Result<Self, StartError> {
        let (base, last) = (self.recovered.log.base().index, self.recovered.snapshot);
        if base <= applied {
            return Ok(self);
        }
        let snapshots = self.log.snapshots();
        let Err(error) = snapshots.verify(last) else { return Ok(self) };
        if let (SnapshotError::Missing { .. }, Some(_)) = (&error, kept) {
            return Err(StartError::StateLost { applied, base });
        }
        tracing::error!(%error, %applied, %base, "the snapshot that the state machine needs");
        if let SnapshotError::Damaged(_) = error {
            snapshots.set_aside(last).map_err(storage_error)?;
        }
        let Self { dir, mut options, log, recovered, .. } = self;
        log.close().map_err(storage_error)?;
        options.state_kept = StateKept::InSnapshot;
        let opened = Wal::open(&dir, recovered.identity.owner(), &options);
        let (log, recovered) = opened.map_err(storage_error)?;
        Ok(Self { dir, options, log, recovered, ..self })
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

/// Passes on to the node what it has to know of its peers; the rest is for people.
async fn pass_on(mut events: mpsc::Receiver<PeerEvent>, notices: mpsc::Sender<Notice>) {
    while let Some(event) = events.recv().await {
        let notice = match event {
            PeerEvent::Identified { peer, incarnation } => Notice::Identified { peer, incarnation },
            PeerEvent::SnapshotReceived { from, term, snapshot } => {
                Notice::SnapshotReceived { from, term, snapshot }
            }
            PeerEvent::RefusedUs { reason: Refused::Removed, .. } => Notice::Removed,
            PeerEvent::RefusedUs { reason: Refused::Incarnation { .. }, message, .. } => {
                Notice::Impostor(message)
            }
            PeerEvent::RefusedUs { peer, message, .. } => {
                tracing::warn!(%peer, message, "a peer refuses this node");
                continue;
            }
            PeerEvent::Unknown { node, address } => {
                tracing::info!(%node, address, "a node that is no member talks to this one");
                continue;
            }
            PeerEvent::Twins { peer } => {
                tracing::error!(%peer, "two processes of this member are alive; stop one of them");
                continue;
            }
            other => {
                tracing::debug!(?other, "a peer event that means nothing here");
                continue;
            }
        };
        if notices.send(notice).await.is_err() {
            return;
        }
    }
}

fn storage_error(error: impl std::fmt::Display) -> StartError {
    StartError::Storage(error.to_string())
}

fn transport_error(error: impl std::fmt::Display) -> StartError {
    StartError::Transport(error.to_string())
}
