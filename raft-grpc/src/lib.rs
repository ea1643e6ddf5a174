//! Kontiki's peer transport over gRPC: [`GrpcTransport`] carries the core's messages between
//! nodes.
//!
//! To each peer it keeps two streams, one for each [`Lane`](raft_core::Lane), each on a
//! connection of its own: votes, heartbeats and read rounds never queue behind entries. What
//! waits is bounded, sending never blocks, and what finds no room is dropped, for Raft
//! tolerates loss. Every stream opens with a greeting in which both sides make sure of the
//! other's cluster, node and disk.
//!
//! It knows the core's messages only: never the engine, storage, a file, or what a message
//! means.
//!
//! ```text
//!  engine ── send ──► queue per peer and lane ──► Outgoing ──► HTTP/2 ───► the peer
//!  engine ◄── mpsc per lane ◄── Reader ◄── greeting checked ◄── HTTP/2 ◄── the peer
//! ```
//!
//! Payloads of received entries share the buffer they were received in: whoever keeps one for
//! long copies it.

mod address;
mod causes;
mod codec;
mod config;
mod decode;
mod encode;
mod hello;
mod link;
mod peer;
mod queue;
mod service;
mod shared;
mod split;
mod stats;
#[cfg(feature = "tls")]
mod tls;
mod transport;
pub mod wire;

/// What `raft.proto` compiles to.
mod proto {
    #![allow(missing_docs, unused_qualifications, clippy::all)]
    tonic::include_proto!("kontiki.raft.v1");
}

pub use config::{ClusterId, Config, ConfigError, Identity, Incarnation};
pub use decode::DecodeError;
pub use service::{Inbound, PeerService};
pub use stats::{LaneStats, PeerStats};
#[cfg(feature = "tls")]
pub use tls::TlsConfig;
pub use transport::GrpcTransport;
