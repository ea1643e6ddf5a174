//! The suite for [`LogStore`](raft_core::LogStore).
mod harness;
pub use harness::{Failure, Harness, Stranger};
