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
    /// Only these harnesses.
    #[arg(long)]
    harness: Vec<String>,
    /// No harness takes more seeds than this.
    #[arg(long, default_value_t = 20_000)]
    seeds_max: u64,
    /// The model checker looks at no more states than this.
    #[arg(long, default_value_t = 5_000_000)]
    states_max: u64,
    /// On how many threads; by default there are as many as cores.
    #[arg(long)]
    jobs: Option<u64>,
    /// Who finds a fault first is enough.
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
