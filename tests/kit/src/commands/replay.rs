//! `replay`: one run of the simulator again, told line by line.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use clap::Args;
use raft_testkit::sim::{self, Faults, Plan, Report, Violation};
use raft_testkit::trace::diagram::{Drawing, page};
use raft_testkit::trace::{self, Line, Record, Sink, to_lines};

use super::run::plan_of;

/// Tells what happens in one run: who leads, what is done to whom, where a rule breaks.
#[derive(Args)]
pub(crate) struct Arguments {
    /// The seed.
    #[arg(required_unless_present = "plan")]
    seed: Option<u64>,
    /// Only these kinds of faults, as they were given to `run`.
    #[arg(long, value_parser = Faults::named)]
    faults: Option<Faults>,
    /// So many nodes, as they were given to `run`.
    #[arg(long, value_parser = super::run::nodes())]
    nodes: Option<u64>,
    /// The plan in this file, rather than that of a seed.
    #[arg(long)]
    plan: Option<PathBuf>,
    /// Also draws it: a lane for each node, messages as arrows, and where a rule breaks.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Also writes down every step, to be checked or drawn.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Also prints the plan.
    #[arg(long)]
    show_plan: bool,
}

pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    let plan = match read_plan(arguments) {
        Ok(plan) => plan,
        Err(reason) => {
            eprintln!("{reason}");
            return ExitCode::from(2);
        }
    };
    if arguments.show_plan {
        println!("{plan}");
    }
    let (result, story, records) = replay(arguments, &plan);
    story.iter().for_each(|line| println!("{line}"));
    if let Err(reason) = keep(arguments, &plan, &result, &records) {
        eprintln!("{reason}");
        return ExitCode::from(2);
    }
    match result {
        Ok(report) => {
            println!(
                "no rule is broken: {} entries committed, {} commands and {} reads answered; {}; \
                 digest {:x}",
                report.committed, report.answered, report.reads, report.judgement, report.digest
            );
            ExitCode::SUCCESS
        }
        Err(violation) => {
            println!("a rule is broken {violation}");
            ExitCode::FAILURE
        }
    }
}

type Replayed = Result<Report, Violation>;

fn replay(arguments: &Arguments, plan: &Plan) -> (Replayed, Vec<String>, Vec<(Line, Record)>) {
    if arguments.html.is_none() && arguments.trace.is_none() {
        let (result, story) = sim::story(plan);
        return (result, story, Vec::new());
    }
    let records: Arc<Mutex<Vec<Record>>> = Arc::default();
    let into = Arc::clone(&records);
    let sink = Sink::new(move |record| {
        into.lock().unwrap_or_else(PoisonError::into_inner).push(record);
    });
    let (result, story) = sim::recorded(plan, sink);
    let lines = (1..).map(|number| Line { file: 0, number });
    let records = std::mem::take(&mut *records.lock().unwrap_or_else(PoisonError::into_inner));
    (result, story, lines.zip(records).collect())
}

fn keep(
    arguments: &Arguments,
    plan: &Plan,
    result: &Replayed,
    records: &[(Line, Record)],
) -> Result<(), String> {
    let write = |path: &Path, text: String| {
        fs::write(path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))
    };
    if let Some(path) = &arguments.trace {
        write(path, to_lines(records.iter().map(|(_, record)| record)))?;
    }
    let Some(path) = &arguments.html else { return Ok(()) };
    // An oracle looks on while a step is done: what it says belongs to the last record.
    let broken = result.as_ref().err().zip(records.last());
    let broken = broken.map(|(found, (line, record))| trace::Violation {
        rule: "oracle",
        what: found.to_string(),
        line: *line,
        record: Box::new(record.clone()),
    });
    let title = format!("seed {}", plan.seed);
    let names = BTreeMap::new();
    write(path, page(&Drawing { title: &title, records, broken: broken.as_ref(), names }))
}

fn read_plan(arguments: &Arguments) -> Result<Plan, String> {
    if let Some(path) = &arguments.plan {
        let text = fs::read_to_string(path);
        let text = text.map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        return text.parse();
    }
    let seed = arguments.seed.ok_or("give a seed or a plan")?;
    Ok(plan_of(seed, arguments.faults.as_ref(), arguments.nodes))
}
