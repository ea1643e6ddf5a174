//! Real processes on real disks and sockets: killed, paused, started again, and fed with what
//! they must refuse. What can be shown without processes is shown elsewhere, and faster.
//!
//! ```text
//! kit/           a node is a child process; a cluster is three of them; a client; a load;
//!                namespaces in which wires are cut and disks filled
//! history        what clients saw, and whether one register could have answered so
//! demonstration  in one run: a member replaced, all restarted, a leader killed, a log damaged
//! ```
//! `KONTIKI_TEST_ROUNDS=20` makes the loops that long; by default they are short. A failure
//! prints the end of every node's log. Seeds are printed where chance plays a part, and taken
//! from `KONTIKI_TEST_SEED`.
#![cfg(unix)]

mod backups;
mod commands;
mod damage;
mod demonstration;
mod disks;
mod failover;
mod files;
mod history;
mod kit;
mod leases;
mod membership;
mod pages;
mod partitions;
mod pauses;
mod refusals;
mod registers;
mod replicas;
mod rolling;
mod sessions;
mod snapshots;
mod space;
mod supervisor;
mod torture;
mod turns;
mod watches;
