//! [`GrpcTransport`]: the handle that an engine holds.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use raft_core::{
    Envelope, Incarnation, Index, Membership, NodeId, SnapshotSource, Term, Transport,
};
use tokio::net::TcpListener;
use tonic::transport::Server;

use crate::accept::Connections;
use crate::address;
use crate::config::{Config, ConfigError, Identity};
use crate::link;
use crate::peer::{Kind, Peer};
use crate::proto::peer_server::PeerServer;
use crate::service::{Inbound, PeerService};
use crate::shared::Shared;
use crate::ship::{self, SnapshotSending};
use crate::stats::{PeerStats, TransferStats};

/// The largest HTTP/2 frame that is accepted: a few for a full batch instead of a few dozen.
const FRAME_BYTES: u32 = 128 << 10;

/// The transport of one node. Dropping it ends every stream.
#[derive(Debug)]
pub struct GrpcTransport {
    shared: Arc<Shared>,
    inbound: Inbound,
}

/// Who the peers are, and what nodes that want to join are told.
impl GrpcTransport {
    /// Starts to connect to `peers`, at addresses as [`set_peer`](Self::set_peer) takes them;
    /// this node itself may be among them, and is left out. What peers say goes to `inbound`
    /// once [`service`](Self::service) is served.
    ///
    /// # Errors
    /// A setting or an address that cannot work.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn start(
        identity: Identity,
        config: Config,
        peers: &BTreeMap<NodeId, String>,
        inbound: Inbound,
    ) -> Result<Self, ConfigError> {
        config.validate()?;
        let shared = Arc::new(Shared::new(identity, config, inbound.events.clone()));
        shared.check_advertised()?;
        let transport = Self { shared, inbound };
        for (&node, address) in peers {
            transport.set_peer(node, address)?;
        }
        Ok(transport)
    }

    /// Adds a peer, or moves it to another address: `host:port`, or with `http://` or
    /// `https://` before it; several, separated by commas, are tried in turn. Streams that lead
    /// to one of them already stay, and what is queued waits for new ones.
    ///
    /// # Errors
    /// An address that cannot work; nothing changes then.
    pub fn set_peer(&self, node: NodeId, address: &str) -> Result<(), ConfigError> {
        let addresses = address::parse_all(address, self.shared.is_encrypted())
            .map_err(|reason| ConfigError::Address { node, address: address.to_owned(), reason })?;
        let mut peers = self.shared.peers();
        if node == self.shared.identity.node || peers.closed {
            return Ok(());
        }
        peers.removed.remove(&node);
        let new = || Arc::new(Peer::new(node, Kind::Peer, &self.shared.config));
        let peer = Arc::clone(peers.by_id.entry(node).or_insert_with(new));
        peer.adopt();
        peer.relink(addresses, || link::start(&self.shared, &peer));
        Ok(())
    }

    /// Forgets a peer, and ends every stream to and from it. Should it call, it is a guest; see
    /// [`mark_removed`](Self::mark_removed).
    pub fn remove_peer(&self, node: NodeId) {
        if let Some(peer) = self.shared.peer(node) {
            self.shared.forget(&peer);
        }
    }

    /// Forgets a node that was removed from the cluster, and refuses it from now on, so that it
    /// learns of it ([`Refused::Removed`](crate::Refused::Removed)). To be called once the
    /// removal is committed: a node that is told so stops for good.
    pub fn mark_removed(&self, node: NodeId) {
        self.shared.peers().removed.insert(node);
        self.remove_peer(node);
    }

    /// Accepts the peer only with this disk, known from elsewhere. Without it the first disk
    /// that is seen counts. Streams of another one end.
    pub fn expect_incarnation(&self, node: NodeId, incarnation: Incarnation) {
        if let Some(peer) = self.shared.peer(node) {
            peer.expect(incarnation, || link::start(&self.shared, &peer));
        }
    }

    /// Makes the members of `membership`, the newest in the log, the peers: adds, moves and
    /// forgets, and expects their disks where these are known. A member whose address is not
    /// known, or cannot work, keeps the one it has.
    pub fn follow(&self, membership: &Membership) {
        for member in membership.members() {
            if !member.address.is_empty()
                && let Err(error) = self.set_peer(member.id, &member.address)
            {
                tracing::warn!(%error, "a member cannot be reached; correct its address");
            }
            if let Some(incarnation) = member.incarnation {
                self.expect_incarnation(member.id, incarnation);
            }
        }
        let peers = self.shared.peers().by_id.clone();
        let is_gone =
            |it: &&Arc<Peer>| it.kind() == Kind::Peer && membership.member(it.id).is_none();
        peers.values().filter(is_gone).for_each(|peer| self.shared.forget(peer));
    }

    /// Tells nodes that want to join of this membership, the newest that is committed, which
    /// stands at `index` in the log; and refuses those that were removed.
    pub fn publish_membership(&self, index: Index, membership: Arc<Membership>) {
        for &removed in membership.removed() {
            self.mark_removed(removed);
        }
        self.shared.peers().membership = Some((index, membership));
    }
}

/// Snapshots, each on a stream of its own.
impl GrpcTransport {
    /// Sends the snapshot `source` to `peer`, as the leader of `term`. Replaces the transfer to
    /// the same peer that is under way. Resumes after a broken connection; gives up after
    /// [`snapshot_patience`](Config::snapshot_patience) without progress. What is returned
    /// resolves at the end; the transfer goes on when it is dropped.
    pub fn send_snapshot(
        &self,
        peer: NodeId,
        term: Term,
        source: Arc<dyn SnapshotSource>,
    ) -> SnapshotSending {
        ship::send(&self.shared, peer, term, source)
    }

    /// Ends every transfer from this node.
    pub fn cancel_snapshots(&self) {
        for peer in self.shared.peers().by_id.values() {
            peer.shipping.cancel();
        }
    }

    /// The snapshot that is being received, and who sends it.
    pub fn receiving(&self) -> Option<(NodeId, TransferStats)> {
        self.shared.incoming.stats()
    }
}

/// The server, and the state of it all.
impl GrpcTransport {
    /// The service that peers call, to be added to a server; see
    /// [`server`](Self::server) for one with fitting settings.
    pub fn service(&self) -> PeerServer<PeerService> {
        let bytes_max = self.shared.config.message_bytes_max;
        let service =
            PeerService { shared: Arc::clone(&self.shared), inbound: self.inbound.clone() };
        PeerServer::new(service).max_decoding_message_size(bytes_max)
    }

    /// A tonic server with this transport's windows, keepalive and certificates.
    ///
    /// # Errors
    /// Certificates that cannot be used.
    pub fn server(&self) -> Result<Server, ConfigError> {
        let config = &self.shared.config;
        let server = Server::builder()
            .tcp_nodelay(true)
            .http2_keepalive_interval(Some(config.keepalive_interval))
            .http2_keepalive_timeout(Some(config.keepalive_timeout))
            .initial_stream_window_size(config.window_bytes)
            .initial_connection_window_size(config.window_bytes)
            .max_frame_size(FRAME_BYTES);
        #[cfg(feature = "tls")]
        let server = match &config.tls {
            Some(tls) => server
                .tls_config(tls.server())
                .map_err(|error| ConfigError::Tls(error.to_string()))?,
            None => server,
        };
        Ok(server)
    }

    /// Serves the peers on `listener` until `shutdown`. Nothing else is served there.
    ///
    /// # Errors
    /// The listener failed, or certificates cannot be used.
    pub fn serve(
        &self,
        listener: TcpListener,
        shutdown: impl Future<Output = ()> + Send + 'static,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let (server, service) = (self.server(), self.service());
        let shared = Arc::clone(&self.shared);
        async move {
            let incoming = Connections::from(listener);
            // A stream ends only when one side says so: without this it would hold the server.
            let shutdown = async move {
                shutdown.await;
                shared.end_reading();
            };
            server
                .map_err(io::Error::other)?
                .add_service(service)
                .serve_with_incoming_shutdown(incoming, shutdown)
                .await
                .map_err(io::Error::other)
        }
    }

    /// How each peer fares, and each guest.
    pub fn stats(&self) -> BTreeMap<NodeId, PeerStats> {
        let peers = self.shared.peers().by_id.clone();
        peers.into_iter().map(|(id, peer)| (id, peer.stats())).collect()
    }

    /// How many messages were not for any peer, or not from this node, and were dropped.
    pub fn misdirected(&self) -> u64 {
        self.shared.peers().misdirected
    }

    /// Ends every stream to and from every peer. What is sent from now on is dropped, and
    /// peers that call are told that this node shuts down.
    pub fn shutdown(&self) {
        let mut peers = self.shared.peers();
        peers.closed = true;
        let removed = std::mem::take(&mut peers.by_id);
        drop(peers);
        self.shared.incoming.end();
        for peer in removed.values() {
            peer.close();
        }
    }
}

impl Transport for GrpcTransport {
    fn send(&self, envelopes: &mut Vec<Envelope>) {
        self.shared.peers().queue(self.shared.identity.node, envelopes);
    }

    fn is_reachable(&self, peer: NodeId) -> bool {
        self.shared.peer(peer).is_some_and(|peer| peer.is_connected())
    }
}

impl Drop for GrpcTransport {
    fn drop(&mut self) {
        self.shutdown();
    }
}
