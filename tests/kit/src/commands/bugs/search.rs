//! The search, and its table: a line for each fault, a column for each harness.

use std::panic;
use std::process::ExitCode;

use raft_core::bugs::{self, Bug, Room};
use raft_testkit::cluster::weather;
use raft_testkit::hunt::{Harness, hunt};

use super::Arguments;

/// A harness, and what of the house it runs.
struct Searcher {
    harness: Harness,
    rooms: &'static [Room],
    seeds_max: u64,
}

const SEARCHERS: &[Searcher] = &[Searcher {
    harness: Harness { name: "storm", run: storm },
    rooms: &[Room::House, Room::Core],
    seeds_max: u64::MAX,
}];

fn storm(seed: u64) {
    weather::storm(seed, false);
}

pub(super) fn run(arguments: &Arguments) -> ExitCode {
    let mut faults: Vec<Option<Bug>> = Bug::ALL.iter().copied().map(Some).collect();
    faults.push(None);
    let is_asked = |fault: &Option<Bug>| {
        let name = fault.map_or("none".to_owned(), Bug::name);
        arguments.only.is_empty() || arguments.only.contains(&name)
    };
    faults.retain(is_asked);
    if faults.is_empty() {
        eprintln!("there are no such faults; there are {}", names().join(", "));
        return ExitCode::FAILURE;
    }
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    let mut wrong = Vec::new();
    for fault in &faults {
        if !search(*fault, arguments) {
            wrong.push(fault.map_or("none".to_owned(), Bug::name));
        }
    }
    panic::set_hook(hook);
    bugs::set(None);
    match wrong.as_slice() {
        [] => {
            println!("{} of {} as they should be", faults.len(), faults.len());
            ExitCode::SUCCESS
        }
        wrong => {
            println!("not as they should be: {}", wrong.join(", "));
            ExitCode::FAILURE
        }
    }
}

fn names() -> Vec<String> {
    Bug::ALL.iter().map(|bug| bug.name()).collect()
}

/// Returns whether it was as it should be: a fault found, nothing else.
fn search(fault: Option<Bug>, arguments: &Arguments) -> bool {
    bugs::set(fault);
    let jobs = arguments.jobs.unwrap_or_else(|| {
        std::thread::available_parallelism().map_or(1, |count| count.get() as u64)
    });
    let mut is_found = false;
    for searcher in SEARCHERS {
        let Searcher { harness, rooms, seeds_max } = searcher;
        let is_asked = arguments.harness.is_empty()
            || arguments.harness.iter().any(|name| name == harness.name);
        if !is_asked || fault.is_some_and(|fault| !rooms.contains(&fault.room())) {
            continue;
        }
        let found = hunt(*harness, (*seeds_max).min(arguments.seeds_max), jobs);
        let name = fault.map_or("none".to_owned(), Bug::name);
        match found {
            Some(found) => {
                let words = found.words.lines().next().unwrap_or_default();
                println!("{name:<32} {:<8} {:>6} {words}", harness.name, found.seed + 1);
                is_found = true;
                if !arguments.every_harness {
                    break;
                }
            }
            None => println!("{name:<32} {:<8} {:>6}", harness.name, "-"),
        }
    }
    is_found == fault.is_some()
}
