//! `replay`: one run of the simulator again, told line by line.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use raft_testkit::sim::{self, Faults, Plan};

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
    #[arg(long)]
    nodes: Option<u64>,
    /// The plan in this file, rather than that of a seed.
    #[arg(long)]
    plan: Option<PathBuf>,
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
    let (result, story) = sim::story(&plan);
    story.iter().for_each(|line| println!("{line}"));
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

fn read_plan(arguments: &Arguments) -> Result<Plan, String> {
    if let Some(path) = &arguments.plan {
        let text = fs::read_to_string(path);
        let text = text.map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        return text.parse();
    }
    let seed = arguments.seed.ok_or("give a seed or a plan")?;
    Ok(plan_of(seed, arguments.faults.as_ref(), arguments.nodes))
}
