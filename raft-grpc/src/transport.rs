//! [`GrpcTransport`]: the handle that an engine holds.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use raft_core::{Envelope, Lane, NodeId, Transport};
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Server, Uri};

use crate::address;
use crate::config::{Config, ConfigError, Identity, Incarnation};
use crate::link;
use crate::peer::Peer;
use crate::proto::peer_server::PeerServer;
use crate::service::{Inbound, PeerService};
use crate::shared::Shared;
use crate::stats::PeerStats;

/// The largest HTTP/2 frame that is accepted: a few for a full batch instead of a few dozen.
const FRAME_BYTES: u32 = 128 << 10;

/// The transport of one node. Dropping it ends every stream.
#[derive(Debug)]
pub struct GrpcTransport {
    shared: Arc<Shared>,
    inbound: Inbound,
    runtime: Handle,
}

impl GrpcTransport {
    /// Starts to connect to `peers` (`host:port`, or with `http://` before it); this node
    /// itself may be among them, and is left out. What peers say goes to `inbound` once
    /// [`service`](Self::service) is served.
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
        let shared = Arc::new(Shared::new(identity, config));
        let transport = Self { shared, inbound, runtime: Handle::current() };
        for (&node, address) in peers {
            transport.set_peer(node, address)?;
        }
        Ok(transport)
    }

    /// Adds a peer, or moves it to another address.
    ///
    /// # Errors
    /// An address that cannot work; nothing changes then.
    pub fn set_peer(&self, node: NodeId, address: &str) -> Result<(), ConfigError> {
        let address = self.parse(node, address)?;
        if node == self.shared.identity.node {
            return Ok(());
        }
        let mut peers = self.shared.peers();
        if peers.closed {
            return Ok(());
        }
        let peer = match peers.by_id.get(&node) {
            Some(peer) if peer.address() == address => return Ok(()),
            Some(peer) => Arc::clone(peer),
            None => {
                let peer = Arc::new(Peer::new(node, address.clone(), &self.shared.config));
                peers.by_id.insert(node, Arc::clone(&peer));
                peer
            }
        };
        let links = [Lane::Control, Lane::Bulk].map(|lane| {
            let link = link::run(Arc::clone(&self.shared), Arc::clone(&peer), lane);
            self.runtime.spawn(link).abort_handle()
        });
        peer.relink(address, links.into());
        Ok(())
    }

    /// Forgets a peer, and ends every stream to and from it.
    pub fn remove_peer(&self, node: NodeId) {
        let removed = self.shared.peers().by_id.remove(&node);
        if let Some(peer) = removed {
            peer.close();
        }
    }

    /// Accepts the peer only with this disk, known from elsewhere. Without it the first disk
    /// that is seen counts.
    pub fn expect_incarnation(&self, node: NodeId, incarnation: Incarnation) {
        if let Some(peer) = self.shared.peer(node) {
            peer.expect(incarnation);
        }
    }

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
            let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
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

    /// How each peer fares.
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
        for peer in removed.values() {
            peer.close();
        }
    }

    fn parse(&self, node: NodeId, address: &str) -> Result<Uri, ConfigError> {
        let tls = self.shared.is_encrypted();
        address::parse(address, tls).map_err(|reason| ConfigError::Address {
            node,
            address: address.to_owned(),
            reason,
        })
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
