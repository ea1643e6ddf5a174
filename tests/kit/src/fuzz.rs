//! What fuzzers call. Each target takes any bytes, reads them as choices, and panics where a rule
//! is broken. The crate `fuzz` feeds them to libFuzzer; an ordinary test feeds them the seeds.

pub mod core_events;
pub mod decoders;
pub mod follower;
mod input;
mod log;
pub mod membership;
mod mutate;
pub mod wal_bytes;
pub mod wal_mutated;

pub use input::Input;
pub use mutate::mutated;

/// Takes any bytes; panics where a rule is broken.
pub type Target = fn(&[u8]);

/// The targets that are here, by name. The fuzz crate has more, of crates that are not known here.
pub const TARGETS: [(&str, Target); 5] = [
    ("core_events", core_events::run),
    ("decoders", decoders::run),
    ("membership", membership::run),
    ("wal_bytes", wal_bytes::run),
    ("wal_mutated", wal_mutated::run),
];
