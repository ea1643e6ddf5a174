//! Kontiki: a Raft consensus engine to build replicated services on.
//!
//! A user writes a [`StateMachine`]; a [`Builder`] starts a [`Node`] of it on this crate's log
//! and transport, and [`start`] on any others. The node replicates what is proposed to it,
//! applies it in the same order everywhere, and says when the state may be read.
//!
//! ```no_run
//! use std::io::{Cursor, Read};
//!
//! use kontiki::{Builder, Consistency, Entry, Index, Payload, StateMachine};
//!
//! /// Counts commands.
//! #[derive(Default)]
//! struct Count {
//!     commands: u64,
//!     applied: Index,
//! }
//!
//! impl StateMachine for Count {
//!     type Response = u64;
//!     type Error = std::io::Error;
//!
//!     fn applied(&self) -> Index {
//!         self.applied
//!     }
//!
//!     fn apply(&mut self, entries: &[Entry], counts: &mut Vec<u64>) -> Result<(), Self::Error> {
//!         for entry in entries {
//!             self.applied = entry.index;
//!             if let Payload::Command(_) = entry.payload {
//!                 self.commands += 1;
//!                 counts.push(self.commands);
//!             }
//!         }
//!         Ok(())
//!     }
//!
//!     // What the log holds no more is in a snapshot.
//!     fn snapshot(&self) -> Result<Box<dyn Read + Send>, Self::Error> {
//!         Ok(Box::new(Cursor::new(self.commands.to_le_bytes())))
//!     }
//!
//!     fn restore(&mut self, applied: Index, state: &mut dyn Read) -> Result<(), Self::Error> {
//!         let mut commands = [0; 8];
//!         state.read_exact(&mut commands)?;
//!         *self = Self { commands: u64::from_le_bytes(commands), applied };
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
mod callers;
mod clock;
mod completion;
mod error;
#[cfg(all(feature = "wal", feature = "grpc"))]
mod meters;
mod node;
mod reads;
mod runtime;
#[cfg(all(feature = "wal", feature = "grpc"))]
mod scrub;
mod session;
mod shell;
mod snapshot_builder;
mod status;
mod storage;
mod transfers;
mod transport;

#[cfg(all(feature = "wal", feature = "grpc"))]
pub use builder::{Builder, Opened};
pub use error::{
    ChangeMembershipError, ProposeError, ReadError, Refused, StartError, StopReason,
    TransferLeadershipError,
};
#[cfg(all(feature = "wal", feature = "grpc"))]
pub use meters::Meters;
pub use node::Node;
pub use raft_core;
pub use raft_core::{
    After, Change, ChangeError, ChangeSet, Claim, Entries, Entry, HardState, Incarnation, Index,
    LogPosition, LogReader, LogStore, Member, Membership, NewMember, NodeId, Payload, RoleKind,
    Saved, Snapshot, SnapshotOffer, SnapshotSink, SnapshotSource, SnapshotStore, Standing, Term,
    TermRuns, Transport, Write,
};
pub use raft_driver::sessions::{Answer, SessionMachine, SessionMachineError};
pub use raft_driver::{Applied, Bincode, Codec, CodecError, StateMachine, trace};
#[cfg(feature = "grpc")]
pub use raft_grpc;
#[cfg(feature = "wal")]
pub use raft_storage;
pub use reads::{Consistency, ReadPermit};
pub use runtime::{Config, Inbox, Parts, start};
pub use session::{Session, SessionError, keep_time};
pub use status::{
    FencingToken, Leadership, LeadershipWatch, Members, MembersWatch, PeerStatus, Status,
};
pub use transfers::SnapshotProgress;
pub use transport::{Notice, OutgoingSnapshot, Peers};
