//! Kontiki: a Raft consensus engine to build replicated services on.
//!
//! A user writes a [`StateMachine`]; a [`Builder`] starts a [`Node`] of it on this crate's log
//! and transport, and [`start`] on any others. The node replicates what is proposed to it,
//! applies it in the same order everywhere, and says when the state may be read.
//!
//! ```no_run
//! use kontiki::{Builder, Consistency, Entry, Index, Payload, StateMachine};
//!
//! /// Counts commands.
//! #[derive(Default)]
//! struct Count(u64);
//!
//! impl StateMachine for Count {
//!     type Response = u64;
//!     type Error = std::convert::Infallible;
//!
//!     fn applied(&self) -> Index {
//!         Index::ZERO // Nothing is kept, so a restart applies the whole log again.
//!     }
//!
//!     fn apply(&mut self, entries: &[Entry], counts: &mut Vec<u64>) -> Result<(), Self::Error> {
//!         for entry in entries {
//!             if let Payload::Command(_) = entry.payload {
//!                 self.0 += 1;
//!                 counts.push(self.0);
//!             }
//!         }
//!         Ok(())
//!     }
//! }
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let node = Builder::new(1).data_dir("raft").start(Count::default()).await?;
//! node.leader().await;
//! let applied = node.propose("a command".into()).await?;
//! node.read(Consistency::Linearizable).await?;
//! println!("{} commands up to index {}", applied.response, applied.index);
//! # Ok(())
//! # }
//! ```
//!
//! What an acknowledgement promises, and under which faults, stands in the README.

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
