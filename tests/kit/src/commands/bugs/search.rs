//! The search, and its table: a line for each fault, a column for each harness.

use std::panic;
use std::process::ExitCode;
use std::thread;

use raft_core::bugs::{self, Bug, Room};
use raft_testkit::cluster::partitions::{self, Break};
use raft_testkit::cluster::weather;
use raft_testkit::conformance::wal::WalOnSimDisk;
use raft_testkit::conformance::{log_store, snapshot_store};
use raft_testkit::hunt::{Found, Harness, hunt, words};
use raft_testkit::sim::{self, Faults};
use raft_testkit::{cuts, model, rot};

use super::Arguments;

/// Who searches, in what of the house, and how many seeds or states of it are worth the time.
struct Searcher {
    name: &'static str,
    how: How,
    rooms: &'static [Room],
    most: u64,
}

#[derive(Clone, Copy)]
enum How {
    /// Seed by seed; a broken rule panics.
    Seeds(fn(u64)),
    /// The model checker, state by state.
    States,
}

const fn seeds(name: &'static str, run: fn(u64), rooms: &'static [Room], most: u64) -> Searcher {
    Searcher { name, how: How::Seeds(run), rooms, most }
}

const CORE: &[Room] = &[Room::House, Room::Core];
const STORAGE: &[Room] = &[Room::House, Room::Storage];
const ALL: &[Room] = &[Room::House, Room::Core, Room::Storage, Room::Driver];

/// The quick ones first.
const SEARCHERS: &[Searcher] = &[
    seeds("storm", storm, CORE, 20_000),
    seeds("partitions", partitions, CORE, 100),
    seeds("rot", rot::befall, STORAGE, 2000),
    seeds("log-store", log_store, STORAGE, 30),
    seeds("snapshot-store", snapshot_store, STORAGE, 1),
    seeds("cuts", cuts, STORAGE, 20),
    seeds("sim", sim, ALL, 1000),
    Searcher { name: "model", how: How::States, rooms: CORE, most: u64::MAX },
];

/// Of each of its searches, the model checker looks at no more states than this.
const STATES_EACH_MAX: u64 = 300_000;

fn storm(seed: u64) {
    weather::storm(seed, false);
}

fn partitions(seed: u64) {
    let how = if seed.is_multiple_of(2) { Break::BothWays } else { Break::OneWay };
    partitions::survive(seed, how);
}

fn log_store(seed: u64) {
    let checked = log_store::check(&WalOnSimDisk, seed..seed + 1);
    checked.unwrap_or_else(|violation| panic!("{violation}"));
}

fn snapshot_store(_: u64) {
    let checked = snapshot_store::check(&WalOnSimDisk);
    checked.unwrap_or_else(|violation| panic!("{violation}"));
}

fn cuts(seed: u64) {
    cuts::hunt(seed, 1).unwrap_or_else(|violation| panic!("{violation}"));
}

fn sim(seed: u64) {
    let plan = sim::plan(seed, &Faults::all(), None);
    sim::run(&plan).unwrap_or_else(|violation| panic!("{}", violation.reason));
}

/// Goes through the searches of the model checker, and counts their states together.
fn model(states_max: u64) -> Option<Found> {
    let mut before = 0;
    for configuration in model::configurations() {
        let most = STATES_EACH_MAX.min(states_max.saturating_sub(before));
        if most == 0 {
            return None;
        }
        let checked = panic::catch_unwind(|| model::check(&configuration.bounds, most));
        let (states, words) = match checked {
            Ok(Ok(figures)) => {
                before += figures.states;
                continue;
            }
            Ok(Err(violation)) => (violation.states, violation.rule),
            Err(cause) => (1, words(&*cause)),
        };
        return Some(Found { seed: before + states.saturating_sub(1), words });
    }
    None
}

pub(super) fn run(arguments: &Arguments) -> ExitCode {
    let faults = asked(arguments);
    if faults.is_empty() {
        let names: Vec<String> = Bug::ALL.iter().copied().map(Bug::name).collect();
        eprintln!("there is no such fault; there are none, {}", names.join(", "));
        return ExitCode::FAILURE;
    }
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    print_heading(arguments);
    let mut wrong = faults.clone();
    wrong.retain(|fault| !search(*fault, arguments));
    panic::set_hook(hook);
    bugs::set(None);
    let found = faults.len() - wrong.len();
    println!("{found} of {} as they should be", faults.len());
    if wrong.is_empty() {
        return ExitCode::SUCCESS;
    }
    let wrong: Vec<String> = wrong.into_iter().map(name).collect();
    println!("not as they should be: {}", wrong.join(", "));
    ExitCode::FAILURE
}

/// The faults to search for; nothing is found where there is none.
fn asked(arguments: &Arguments) -> Vec<Option<Bug>> {
    let all = Bug::ALL.iter().copied().map(Some).chain([None]);
    let is_asked =
        |fault: &Option<Bug>| arguments.only.is_empty() || arguments.only.contains(&name(*fault));
    all.filter(is_asked).collect()
}

fn name(fault: Option<Bug>) -> String {
    fault.map_or("none".to_owned(), Bug::name)
}

fn searchers(arguments: &Arguments) -> impl Iterator<Item = &'static Searcher> {
    let is_asked = |name: &str| {
        arguments.harness.is_empty() || arguments.harness.iter().any(|other| other == name)
    };
    SEARCHERS.iter().filter(move |searcher| is_asked(searcher.name))
}

fn print_heading(arguments: &Arguments) {
    print!("{:<31}", "found after seeds, or states");
    searchers(arguments).for_each(|searcher| print!(" {:>6}", searcher.name));
    println!();
}

/// Puts the fault in, lets all search for it, and prints a line. Returns whether it was as it
/// should be: found, where there is one.
fn search(fault: Option<Bug>, arguments: &Arguments) -> bool {
    bugs::set(fault);
    let jobs = arguments
        .jobs
        .unwrap_or_else(|| thread::available_parallelism().map_or(1, |count| count.get() as u64));
    // That nothing is found where nothing is, longer runs of each harness show.
    let share = if arguments.smoke && fault.is_none() { 10 } else { 1 };
    let mut first: Option<Found> = None;
    print!("{:<31}", name(fault));
    for &Searcher { name, how, rooms, most } in searchers(arguments) {
        let width = name.len().max(6);
        let is_reached = fault.is_none_or(|fault| rooms.contains(&fault.room()));
        if !is_reached || (arguments.smoke && first.is_some()) {
            print!(" {:>width$}", "");
            continue;
        }
        let seeds = most.min(arguments.seeds_max).div_ceil(share);
        let found = match how {
            How::Seeds(run) => hunt(Harness { name, run }, seeds, jobs),
            How::States => model(most.min(arguments.states_max).div_ceil(share)),
        };
        match found {
            Some(found) => {
                print!(" {:>width$}", found.seed + 1);
                first.get_or_insert(found);
            }
            None => print!(" {:>width$}", "-"),
        }
    }
    let words = first.as_ref().map(|found| found.words.lines().next().unwrap_or_default());
    let words: String = words.unwrap_or_default().chars().take(70).collect();
    println!("  {words}");
    first.is_some() == fault.is_some()
}
