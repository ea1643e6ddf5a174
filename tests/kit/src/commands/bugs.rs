//! `bugs`: faults are put into the code, one at a time, and every harness looks for each. A fault
//! that nobody finds means that the harnesses are too weak.

use std::process::ExitCode;

use clap::Args;

#[cfg(seeded_bugs)]
mod search;

/// Puts faults into the code, one at a time, and says who finds each, and how soon.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Only these faults; `none` is the code as it is.
    #[arg(long)]
    only: Vec<String>,
    /// How many seeds each harness may take.
    #[arg(long, default_value_t = 10_000)]
    seeds_max: u64,
    /// How many states the model checker may look at.
    #[arg(long, default_value_t = 2_000_000)]
    states_max: u64,
    /// Only these harnesses.
    #[arg(long)]
    harness: Vec<String>,
    /// Goes on to the other harnesses after one has found the fault.
    #[arg(long)]
    every_harness: bool,
    /// On how many threads; all there are where it is not said.
    #[arg(long)]
    jobs: Option<u64>,
    /// A short run: the first harness that finds a fault is enough, and less is searched.
    #[arg(long)]
    smoke: bool,
}

#[cfg(not(seeded_bugs))]
pub(crate) fn run(_: &Arguments) -> ExitCode {
    eprintln!(
        "no faults can be put into this build; make one of its own by\n  RUSTFLAGS='--cfg \
         seeded_bugs' cargo run --release -p raft-testkit --target-dir target/bugs -- bugs"
    );
    ExitCode::FAILURE
}

#[cfg(seeded_bugs)]
pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    search::run(arguments)
}
