//! Kontiki's peer transport over gRPC: [`GrpcTransport`] carries the core's messages between
//! nodes.
//!
//! To each peer it keeps two streams, one for each [`Lane`](raft_core::Lane), each on a
//! connection of its own: votes, heartbeats and read rounds never queue behind entries. What
//! waits is bounded, sending never blocks, and what finds no room is dropped, for Raft
//! tolerates loss. A snapshot travels on a stream of its own, in checked chunks, and goes on
//! where it was when the connection breaks.
//!
//! Every stream opens with a greeting in which both sides make sure of the other's cluster,
//! node and disk. Nodes that are not named as peers are listened to and answered as well, a
//! few of them; nodes that were removed, that come with another disk, or that run twice are
//! refused, with a reason that a program understands ([`PeerEvent::RefusedUs`]).
//!
//! It knows the core's messages only: never the engine, storage, a file, or what a message
//! means.
//!
//! ```text
//!  engine ── send ──► queue per peer and lane ──► Outgoing ──► HTTP/2 ───► the peer
//!  engine ◄── control, bulk ◄── Reader ◄── greeting checked ◄── HTTP/2 ◄── the peer
//!
//!  engine ── send_snapshot ──► Transfer ◄── SnapshotSource     offer, chunks ──► the peer
//!  engine ◄── events ◄── Receiver ──► SnapshotSink             ◄── receipts
//!
//!  engine ── publish_membership ──► Introduce ◄── discover ── a node that wants to join
//! ```
//!
//! ```
//! # use std::collections::BTreeMap;
//! # use raft_core::{Envelope, Index, Instant, Message, NodeId, Round, Term, Transport};
//! # use raft_grpc::{ClusterId, Config, GrpcTransport, Identity, Inbound, Incarnation};
//! # use tokio::{net::TcpListener, sync::mpsc};
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let node = |id| NodeId::new(id).unwrap();
//! # let (a, b) = (TcpListener::bind("127.0.0.1:0").await?, TcpListener::bind("127.0.0.1:0").await?);
//! # let peers = BTreeMap::from([
//! #     (node(1), a.local_addr()?.to_string()),
//! #     (node(2), b.local_addr()?.to_string()),
//! # ]);
//! let start = |id: u64| {
//!     let (control, received_control) = mpsc::channel(256);
//!     let (bulk, received_bulk) = mpsc::channel(64);
//!     let (events, _) = mpsc::channel(64);
//!     let incarnation = Incarnation::new(id).unwrap();
//!     let identity = Identity { cluster: ClusterId(7), node: node(id), incarnation };
//!     let inbound = Inbound { control, bulk, events, snapshots: None };
//!     let transport = GrpcTransport::start(identity, Config::default(), &peers, inbound)?;
//!     Ok::<_, raft_grpc::ConfigError>((transport, received_control, received_bulk))
//! };
//! let (one, ..) = start(1)?;
//! let (two, mut received, _) = start(2)?;
//! tokio::spawn(one.serve(a, std::future::pending()));
//! tokio::spawn(two.serve(b, std::future::pending()));
//!
//! let message = Message::Heartbeat { commit: Index(1), round: Round(1), sent_at: Instant(0) };
//! one.send(&mut vec![Envelope { from: node(1), to: node(2), term: Term(1), message }]);
//! assert_eq!(received.recv().await.unwrap()[0].from, node(1));
//! # Ok(())
//! # }
//! ```
//!
//! Payloads of received entries share the buffer they were received in: whoever keeps one for
//! long copies it.

mod accept;
mod address;
mod admission;
mod causes;
mod codec;
mod config;
mod decode;
mod discover;
mod encode;
mod event;
mod hello;
mod link;
mod peer;
mod queue;
mod reading;
mod refusal;
mod service;
mod shared;
mod ship;
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

pub use accept::Connections;
pub use config::{ClusterId, Config, ConfigError, Identity};
pub use decode::DecodeError;
pub use discover::{DiscoverError, Discovered, discover};
pub use event::PeerEvent;
pub use raft_core::Incarnation;
pub use refusal::Refused;
pub use service::{Inbound, PeerService};
pub use ship::{SnapshotSendError, SnapshotSending};
pub use stats::{LaneStats, PeerStats, TransferStats};
#[cfg(feature = "tls")]
pub use tls::TlsConfig;
pub use transport::GrpcTransport;
