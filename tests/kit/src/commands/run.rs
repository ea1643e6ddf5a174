//! `run`: whole nodes under seeded faults (see [`raft_testkit::sim`]).

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use clap::builder::RangedU64ValueParser;
use clap::{Args, value_parser};
use raft_testkit::sim::{self, Faults, Mark, Plan, Report, Violation};

/// More founders than any group has.
const NODES_MAX: u64 = 15;

/// Simulates clusters of whole nodes; safety always, and liveness after each bad time.
#[derive(Args)]
pub(crate) struct Arguments {
    /// How many seeds.
    #[arg(long, default_value_t = 100, value_parser = value_parser!(u64).range(1..))]
    seeds: u64,
    /// The first of them.
    #[arg(long, default_value_t = 1)]
    first: u64,
    /// Only these kinds of faults, with commas between them.
    #[arg(long, value_parser = Faults::named)]
    faults: Option<Faults>,
    /// So many nodes; by default the seed decides.
    #[arg(long, value_parser = nodes())]
    nodes: Option<u64>,
    /// So many at once; by default as many as there are cores.
    #[arg(long)]
    jobs: Option<NonZeroUsize>,
    /// Goes on after a seed that breaks a rule, and makes none of them short.
    #[arg(long)]
    keep_going: bool,
}

/// How many nodes a cluster begins with.
pub(super) fn nodes() -> RangedU64ValueParser {
    value_parser!(u64).range(1..=NODES_MAX)
}

/// What all runs came to.
#[derive(Default)]
struct Sum {
    runs: u64,
    hours: f64,
    figures: BTreeMap<&'static str, u64>,
    acts: BTreeMap<&'static str, u64>,
    marks: BTreeMap<Mark, u64>,
    recovery_worst_ms: u128,
    failed: u64,
}

pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    let (next, stop) = (AtomicU64::new(arguments.first), AtomicBool::new(false));
    let end = arguments.first.saturating_add(arguments.seeds);
    let sum = Mutex::new(Sum::default());
    let failed: Mutex<Option<(Plan, Violation)>> = Mutex::new(None);
    let cores = || thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    thread::scope(|scope| {
        for _ in 0..arguments.jobs.unwrap_or_else(cores).get() {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= end {
                        return;
                    }
                    let plan = plan_of(seed, arguments.faults.as_ref(), arguments.nodes);
                    match sim::run(&plan) {
                        Ok(report) => lock(&sum).add(&report),
                        Err(violation) if arguments.keep_going => {
                            println!("seed {seed} breaks a rule {violation}");
                            lock(&sum).failed += 1;
                        }
                        Err(violation) => {
                            stop.store(true, Ordering::Relaxed);
                            let mut failed = lock(&failed);
                            if failed.as_ref().is_none_or(|(other, _)| other.seed > plan.seed) {
                                *failed = Some((plan, violation));
                            }
                        }
                    }
                }
            });
        }
    });
    lock(&sum).print();
    let failed = lock(&failed).take();
    let Some((plan, violation)) = failed else {
        return if lock(&sum).failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    };
    report_failure(plan, violation, arguments);
    ExitCode::FAILURE
}

pub(super) fn plan_of(seed: u64, faults: Option<&Faults>, nodes: Option<u64>) -> Plan {
    sim::plan(seed, faults.unwrap_or(&Faults::all()), nodes)
}

fn report_failure(plan: Plan, violation: Violation, arguments: &Arguments) {
    println!("\nseed {} breaks a rule {violation}", plan.seed);
    let mut replay = format!("raft-testkit replay {}", plan.seed);
    if let Some(faults) = &arguments.faults {
        replay += &format!(" --faults {faults}");
    }
    if let Some(nodes) = arguments.nodes {
        replay += &format!(" --nodes {nodes}");
    }
    println!("replay: {replay}");
    let (short, violation) = sim::shrink(&plan, violation);
    println!("\nthe shortest plan found that breaks a rule {violation}");
    println!("(save it to a file, and: raft-testkit replay --plan FILE)\n\n{short}");
}

impl Sum {
    fn add(&mut self, report: &Report) {
        self.runs += 1;
        self.hours += report.time.as_secs_f64() / 3600.0;
        self.recovery_worst_ms = self.recovery_worst_ms.max(report.recovery.as_millis());
        for (name, count) in [
            ("entries committed", report.committed),
            ("elections won", report.elections),
            ("commands answered", report.answered),
            ("reads answered", report.reads),
            ("messages", report.messages),
            ("restarts", report.restarts),
            ("states compared", report.compared),
            ("runs in which too many disks were damaged", u64::from(report.is_stuck)),
        ] {
            *self.figures.entry(name).or_default() += count;
        }
        for (name, count) in &report.acts {
            *self.acts.entry(name).or_default() += count;
        }
        for (mark, count) in &report.marks {
            *self.marks.entry(*mark).or_default() += count;
        }
    }

    fn print(&self) {
        println!("{} seeds, {:.1} virtual hours", self.runs, self.hours);
        for (name, count) in &self.figures {
            println!("  {count:>10} {name}");
        }
        println!("  {:>10} ms to a leader that commits, at worst", self.recovery_worst_ms);
        println!("done:");
        for (name, count) in &self.acts {
            println!("  {count:>10} {name}");
        }
        println!("reached:");
        for (mark, count) in &self.marks {
            println!("  {count:>10} {}", mark.text());
        }
        let missed = Mark::ALL.iter().filter(|mark| !self.marks.contains_key(mark));
        let missed: Vec<&str> = missed.map(|mark| mark.text()).collect();
        if !missed.is_empty() {
            println!("never reached:");
            missed.iter().for_each(|text| println!("             {text}"));
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
