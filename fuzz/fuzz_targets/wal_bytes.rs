//! Feeds `raft_testkit::fuzz::wal_bytes`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| raft_testkit::fuzz::wal_bytes::run(bytes));
