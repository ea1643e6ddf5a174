//! Feeds `raft_testkit::fuzz::membership`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| raft_testkit::fuzz::membership::run(bytes));
