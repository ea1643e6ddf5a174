//! The engine without its I/O: what a node does, but for who waits for whom.
//!
//! [`Driver`] steps the core and says what is to be done; [`Applier`] does what concerns the
//! state machine; [`sessions`] makes retries safe; [`build_snapshot`] writes one. None of it
//! knows a thread, a clock or a socket, so a tokio shell (the crate `kontiki`) and a simulator
//! (`raft-testkit`) run the same code.
//!
//! ```text
//!            ┌──────────── shell, or simulator ────────────┐
//!   Input ──▶│ Driver ─▶ Work ─▶ log, transport, files      │
//!            │    ▲       └──▶ Task ─▶ Applier ─▶ Done ──┐  │
//!            │    └──────────────────────────────────────┘  │
//!            └──────────────────────────────────────────────┘
//! ```
//!
//! Most users want the crate `kontiki`, which exports [`StateMachine`] and the sessions again.

mod applier;
mod codec;
mod driver;
mod machine;
pub mod sessions;
mod snapshot;
mod source_reader;
pub mod trace;
mod waiters;

pub use applier::{Answer, Applier, Captured, Done, Failure, Performed, describe};
pub use codec::{Bincode, Codec, CodecError};
pub use driver::{
    Batch, BuildFailed, Driver, Ending, Found, Input, Load, MembersNow, Observer, Policy, Progress,
    ReadKind, Regression, Settings, SnapshotJob, Task, Wish, Work,
};
pub use machine::{Applied, StateMachine};
pub use snapshot::build_snapshot;
