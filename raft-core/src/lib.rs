//! The pure Raft state machine of Kontiki.
//!
//! One verb in, data out; time and randomness are arguments. This crate never touches I/O, a
//! clock, OS randomness or a thread, and builds without std.
#![cfg_attr(not(feature = "std"), no_std)]

extern crate alloc;

pub mod bugs;
mod candidate;
mod config;
mod configurations;
mod entry;
mod event;
mod follower;
mod forwarded;
mod id;
mod invariants;
mod leader;
mod log;
mod membership;
mod message;
mod node;
mod ports;
mod progress;
mod proposals;
mod raft;
mod reads;
mod saved;
mod untracked;
mod view;
mod vote;

pub use config::{Config, ConfigError, Lease};
pub use entry::{Entries, Entry, Payload};
pub use event::{Effect, Event, Outcome, Refusal, RoleChange, RoleKind, TransferError, Write};
pub use id::{
    Incarnation, Index, Instant, LogPosition, NodeId, RequestId, Requests, Round, Term, Ticket,
};
pub use membership::{
    After, Change, ChangeError, ChangeSet, Member, Membership, MembershipDecodeError, NewMember,
    Standing,
};
pub use message::{Append, AppendReply, Envelope, Lane, Message};
pub use ports::{
    LogReader, LogStore, SnapshotOffer, SnapshotSink, SnapshotSource, SnapshotStore,
    SnapshotStoreError, Transport,
};
pub use raft::{Raft, RestoreError};
pub use saved::{Claim, HardState, Saved, Snapshot, SnapshotMark, TermRuns};
pub use view::PeerView;
