//! `storm`: the core alone under seeded faults (see [`raft_testkit::cluster::weather`]).

use std::panic;
use std::process::ExitCode;

use clap::Args;
use raft_testkit::cluster::weather;

/// Lets storms pass over clusters of the bare core; safety always, liveness after them.
#[derive(Args)]
pub(crate) struct Arguments {
    /// How many seeds.
    #[arg(long, default_value_t = 100)]
    seeds: u64,
    /// The first of them.
    #[arg(long, default_value_t = 1)]
    first: u64,
}

pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    let (mut committed, mut reads) = (0, 0);
    for seed in arguments.first..arguments.first.saturating_add(arguments.seeds) {
        let Ok(report) = panic::catch_unwind(|| weather::storm(seed, false)) else {
            println!("seed {seed} breaks a rule: raft-testkit storm --first {seed} --seeds 1");
            return ExitCode::FAILURE;
        };
        committed += report.committed.0;
        reads += report.ending.read;
    }
    println!("{} storms: {committed} entries committed, {reads} reads", arguments.seeds);
    ExitCode::SUCCESS
}
