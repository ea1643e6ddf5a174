//! Feeds `raft_fuzz::kv_store`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| raft_fuzz::kv_store::run(bytes));
