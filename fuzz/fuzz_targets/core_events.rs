//! Feeds `raft_testkit::fuzz::core_events`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| raft_testkit::fuzz::core_events::run(bytes));
