//! What a node's disk and wires have done, for metrics. Looking holds nobody up, and keeps
//! nothing running.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use raft_core::NodeId;
use raft_grpc::{GrpcTransport, PeerStats};
use raft_storage::{WriteCounts, WriteMeter};

/// The counters of one running node. Clones are cheap and show the same.
#[derive(Clone, Debug)]
pub struct Meters {
    pub(crate) log: Arc<WriteMeter>,
    pub(crate) transport: Weak<GrpcTransport>,
}

impl Meters {
    /// How often the log was synced, and how long that took.
    pub fn log(&self) -> WriteCounts {
        self.log.counts()
    }

    /// How the connections to the peers fare; nobody is in it when the node has stopped.
    pub fn peers(&self) -> BTreeMap<NodeId, PeerStats> {
        self.transport.upgrade().map(|transport| transport.stats()).unwrap_or_default()
    }
}
