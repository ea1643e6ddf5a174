//! What the fuzzers of crates that the testkit does not know call. The other targets are in
//! `raft_testkit::fuzz`.
#![forbid(unsafe_code)]

#[cfg(feature = "kv")]
pub mod kv_store;
#[cfg(feature = "grpc")]
pub mod peer_messages;
#[cfg(all(test, any(feature = "kv", feature = "grpc")))]
mod seeds;

// Where the model of the store looks for them.
#[cfg(feature = "kv")]
pub use kontiki_kv::{proto, store};

use raft_benchkit::Allocations;

/// What is allocated in any case (codecs set aside a mebibyte at most on trust), and for each byte.
const BYTES_BASE: u64 = 4 << 20;
const BYTES_EACH: u64 = 1 << 10;

/// Runs a target, which allocates no more than is right for so many bytes.
///
/// # Panics
/// When it does, or the target does.
pub fn bounded(bytes: &[u8], target: fn(&[u8])) {
    let before = Allocations::now();
    target(bytes);
    let allocated = (Allocations::now() - before).bytes;
    let most = BYTES_BASE + BYTES_EACH * bytes.len() as u64;
    assert!(allocated <= most, "{allocated} bytes were allocated for {} bytes", bytes.len());
}
