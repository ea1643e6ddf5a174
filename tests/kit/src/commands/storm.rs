//! `storm`: the core alone under seeded faults (see [`raft_testkit::cluster::weather`]).

use std::fs::File;
use std::io::{BufWriter, Write};
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

use clap::{Args, value_parser};
use raft_testkit::cluster::weather;
use raft_testkit::trace::{Sink, to_lines};

/// Lets storms pass over clusters of the bare core; safety always, liveness after them.
#[derive(Args)]
pub(crate) struct Arguments {
    /// How many seeds.
    #[arg(long, default_value_t = 100, value_parser = value_parser!(u64).range(1..))]
    seeds: u64,
    /// The first of them.
    #[arg(long, default_value_t = 1)]
    first: u64,
    /// Write down every step of the first of them.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    if let Some(path) = &arguments.trace {
        return record(arguments.first, path);
    }
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

fn record(seed: u64, path: &Path) -> ExitCode {
    let file = match File::create(path) {
        Ok(file) => Mutex::new(BufWriter::new(file)),
        Err(error) => {
            eprintln!("cannot write {}: {error}", path.display());
            return ExitCode::FAILURE;
        }
    };
    let sink = Sink::new(move |record| {
        let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = file.write_all(to_lines([&record]).as_bytes()) {
            panic!("the trace cannot be written: {error}");
        }
    });
    match panic::catch_unwind(AssertUnwindSafe(|| weather::recorded_storm(seed, sink))) {
        Ok(report) => {
            println!("seed {seed}: {} entries committed", report.committed);
            ExitCode::SUCCESS
        }
        Err(_) => {
            println!("seed {seed} breaks a rule; the trace ends there");
            ExitCode::FAILURE
        }
    }
}
