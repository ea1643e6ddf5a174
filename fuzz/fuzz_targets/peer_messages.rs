//! Feeds `raft_fuzz::peer_messages`, and counts what it allocates.
#![no_main]

use raft_benchkit::Counting;
use raft_fuzz::bounded;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| bounded(bytes, raft_fuzz::peer_messages::run));
