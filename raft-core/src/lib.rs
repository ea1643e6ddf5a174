//! The pure Raft state machine of Kontiki.
//!
//! One verb in, data out; time and randomness are arguments. This crate never touches I/O, a
//! clock, OS randomness or a thread, and builds without std.
#![cfg_attr(not(feature = "std"), no_std)]

extern crate alloc;

mod config;
mod entry;
mod event;
mod id;
mod membership;
mod message;
mod ports;
mod saved;

pub use config::{Config, ConfigError};
pub use entry::{Entries, Entry, Payload};
pub use event::{Effect, Event, Outcome, Refusal, RoleChange, RoleKind, Write};
pub use id::{Index, Instant, LogPosition, NodeId, RequestId, Requests, Round, Term, Ticket};
pub use membership::Membership;
pub use message::{Append, AppendReply, Envelope, Lane, Message};
pub use ports::{LogReader, LogStore, Transport};
pub use saved::{HardState, Saved, TermRuns};
