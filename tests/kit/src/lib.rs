//! What deterministic tests of Raft clusters stand on. No wall clock, no OS randomness, no socket.

mod clock;
pub mod cluster;
pub mod conformance;
pub mod cuts;
pub mod disk;
pub mod fuzz;
pub mod history;
pub mod hunt;
pub mod model;
mod oracles;
pub mod rot;
pub mod sim;
pub mod trace;
