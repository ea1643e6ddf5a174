//! `cuts`: power cuts of the write-ahead log (see [`raft_testkit::cuts`]).

use std::process::ExitCode;

use clap::{Args, value_parser};
use raft_testkit::cuts;

/// Cuts the power under the write-ahead log at every operation, and compares what is recovered.
#[derive(Args)]
pub(crate) struct Arguments {
    /// How many seeds: each makes a long trace and a short one.
    #[arg(long, default_value_t = 100, value_parser = value_parser!(u64).range(1..))]
    traces: u64,
    /// The first of them.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    match cuts::hunt(arguments.seed, arguments.traces) {
        Ok(figures) => {
            println!("{figures}\nnothing acknowledged was missing, and nothing was invented");
            ExitCode::SUCCESS
        }
        Err(violation) => {
            println!("{violation}");
            ExitCode::FAILURE
        }
    }
}
