//! Kontiki: a Raft consensus engine to build replicated services on.
mod apply;
#[cfg(all(feature = "wal", feature = "grpc"))]
mod builder;
mod codec;
mod completion;
mod driver;
mod error;
mod machine;
mod node;
mod runtime;
mod status;
mod storage;
mod waiters;

#[cfg(all(feature = "wal", feature = "grpc"))]
pub use builder::{Builder, Opened};
pub use codec::{Bincode, Codec, CodecError};
pub use error::{ProposeError, ReadError, Refused, StartError, StopReason};
pub use machine::{Applied, StateMachine};
pub use node::{Consistency, Node};
pub use raft_core;
pub use raft_core::{
    Entries, Entry, HardState, Index, LogReader, LogStore, Membership, NodeId, Payload, RoleKind,
    Saved, Term, TermRuns, Transport, Write,
};
#[cfg(feature = "grpc")]
pub use raft_grpc;
#[cfg(feature = "wal")]
pub use raft_storage;
pub use runtime::{Config, Inbox, start};
pub use status::{FencingToken, Leadership, LeadershipWatch, Status};
