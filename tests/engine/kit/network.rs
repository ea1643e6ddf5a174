//! Channels between nodes, any of which can be cut off.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, RwLock};

use kontiki::raft_core::{Envelope, Lane};
use kontiki::{
    Inbox, Index, Membership, NodeId, Notice, OutgoingSnapshot, Peers, SnapshotOffer,
    SnapshotStore, Transport,
};
use tokio::sync::mpsc;

use super::snapshots::MemorySnapshots;

#[derive(Default)]
pub struct Network {
    ends: RwLock<BTreeMap<NodeId, End>>,
    cut: RwLock<BTreeSet<NodeId>>,
    /// Who was removed for good, as somebody has said.
    removed: RwLock<BTreeSet<NodeId>>,
    /// How many snapshots arrived.
    pub shipped: AtomicU32,
}

/// Where a node hears.
struct End {
    control: mpsc::Sender<Vec<Envelope>>,
    bulk: mpsc::Sender<Vec<Envelope>>,
    notices: mpsc::Sender<Notice>,
    snapshots: MemorySnapshots,
}

impl Network {
    pub fn cut(&self, node: NodeId) {
        self.cut.write().expect("not poisoned").insert(node);
    }

    pub fn heal(&self) {
        self.cut.write().expect("not poisoned").clear();
    }

    /// A way to `node` and from it, in place of the one before.
    pub fn connect(self: &Arc<Self>, node: NodeId, snapshots: MemorySnapshots) -> (Link, Inbox) {
        let (control, urgent) = mpsc::channel(1024);
        let (bulk, bulky) = mpsc::channel(1024);
        let (notices, told) = mpsc::channel(1024);
        let end = End { control, bulk, notices, snapshots };
        self.ends.write().expect("not poisoned").insert(node, end);
        let link = Link { network: Arc::clone(self), own: node };
        (link, Inbox { control: urgent, bulk: bulky, notices: told })
    }

    fn is_cut(&self, ends: [NodeId; 2]) -> bool {
        let cut = self.cut.read().expect("not poisoned");
        ends.iter().any(|end| cut.contains(end))
    }

    fn tell(&self, node: NodeId, notice: Notice) {
        if let Some(end) = self.ends.read().expect("not poisoned").get(&node) {
            // A node that has gone does not want to know.
            let _ = end.notices.try_send(notice);
        }
    }

    /// Carries it over. `None` where it gets lost.
    fn ship(&self, from: NodeId, outgoing: &OutgoingSnapshot) -> Option<()> {
        let (peer, source) = (outgoing.peer, &outgoing.source);
        let store = self.ends.read().expect("not poisoned").get(&peer)?.snapshots.clone();
        let offer = SnapshotOffer {
            from,
            term: outgoing.term,
            transfer: 1,
            snapshot: source.snapshot().clone(),
            len_bytes: source.len_bytes(),
            check: source.check(),
        };
        let mut sink = store.receive(&offer).ok()?;
        let mut chunk = [0; 512];
        while sink.offset() < source.len_bytes() {
            let count = source.read_at(sink.offset(), &mut chunk).ok()?;
            if self.is_cut([from, peer]) {
                return None;
            }
            sink.write(&chunk[..count]).ok()?;
        }
        sink.publish().ok()?;
        self.shipped.fetch_add(1, Ordering::SeqCst);
        let (term, snapshot) = (outgoing.term, offer.snapshot);
        self.tell(peer, Notice::SnapshotReceived { from, term, snapshot });
        Some(())
    }
}

/// One node's end of the network.
pub struct Link {
    network: Arc<Network>,
    own: NodeId,
}

impl Transport for Link {
    fn send(&self, envelopes: &mut Vec<Envelope>) {
        let ends = self.network.ends.read().expect("not poisoned");
        for envelope in envelopes.drain(..) {
            if self.network.is_cut([envelope.from, envelope.to]) {
                continue;
            }
            let Some(end) = ends.get(&envelope.to) else { continue };
            let lane = match envelope.message.lane() {
                Lane::Control => &end.control,
                Lane::Bulk => &end.bulk,
            };
            // A full lane drops, as a transport may.
            let _ = lane.try_send(vec![envelope]);
        }
        drop(ends);
        if self.network.removed.read().expect("not poisoned").contains(&self.own) {
            self.network.tell(self.own, Notice::Removed);
        }
    }

    fn is_reachable(&self, peer: NodeId) -> bool {
        !self.network.is_cut([self.own, peer])
    }
}

impl Peers for Link {
    fn settle(&self, _: Index, membership: &Arc<Membership>) {
        self.network.removed.write().expect("not poisoned").extend(membership.removed());
    }

    fn send_snapshot(&self, outgoing: OutgoingSnapshot) {
        let (network, own) = (Arc::clone(&self.network), self.own);
        tokio::task::spawn_blocking(move || {
            let last = network.ship(own, &outgoing).map(|()| outgoing.source.snapshot().last);
            outgoing.end(last);
        });
    }
}
