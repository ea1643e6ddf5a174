//! The rehearsal: a cluster, three replicas that serialise work into one protected database, and
//! a coordinator that does to them what happens in production. It never repairs what it finds
//! broken: a rule that does not hold is told, and the exit code is one.
//!
//! ```text
//!  coordinator ──spawns──▶ node1 node2 node3        the cluster, with fsync
//!       │                    ▲     ▲     ▲
//!       │ holds ──▶ proxies ─┴─────┴─────┘          three for each replica
//!       │              ▲
//!       └─spawns──▶ r1 r2 r3 ──work──▶ work.db      which the coordinator reads, too
//! ```

mod budget;
mod cluster;
mod process;
mod replica;
mod replicas;
mod report;
mod steps;

use std::fmt;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use kontiki_client::ClientUrl;

pub(crate) use process::{Supervised, stop_requested};

use crate::node;

/// Sessions, elections and fencing, rehearsed.
#[derive(Parser)]
#[command(name = "kontiki-election", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Start a cluster and three replicas, let them fail in every way, and measure the pauses
    Rehearse(RehearseArgs),
    /// One node of the cluster
    #[command(hide = true)]
    Node(Box<node::NodeArgs>),
    /// One replica
    #[command(hide = true)]
    Replica(replica::ReplicaArgs),
}

/// What is rehearsed.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = budget::FORMULAS)]
pub(crate) struct RehearseArgs {
    /// Seconds that a leader's lease lives without a renewal
    #[arg(long, value_name = "S", default_value_t = 5, value_parser = clap::value_parser!(u64).range(2..=60))]
    ttl: u64,
    /// Milliseconds without a leader until a node of the cluster stands for election
    #[arg(long, value_name = "MS", default_value_t = 500, value_parser = clap::value_parser!(u64).range(100..=10_000))]
    election_timeout: u64,
    /// Seconds by which a busy machine may be late, over all budgets
    #[arg(long, value_name = "S", default_value_t = 2.0, value_parser = positive)]
    slack: f64,
    /// Where in time failures fall, and how a replica is cut off [default: any]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// A cluster that runs, etcd's for example, instead of one of our own: its nodes are left alone
    #[arg(long, value_name = "HOST:PORT,…", value_delimiter = ',')]
    endpoints: Vec<ClientUrl>,
}

impl RehearseArgs {
    fn ttl(&self) -> Duration {
        Duration::from_secs(self.ttl)
    }

    fn election_timeout(&self) -> Duration {
        Duration::from_millis(self.election_timeout)
    }

    fn slack(&self) -> Duration {
        Duration::from_secs_f64(self.slack)
    }
}

fn positive(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds @ 0.0..=600.0) => Ok(seconds),
        _ => Err("give a number of seconds between 0 and 600".to_owned()),
    }
}

/// Why it ends early, for people.
#[derive(Debug)]
pub(crate) struct Failure(String);

impl Failure {
    pub(crate) fn new(why: impl fmt::Display) -> Self {
        Self(why.to_string())
    }
}

/// Runs what the arguments name. Exit codes: 0 all rules held, 1 one did not or something failed,
/// 2 it was asked wrongly, 130 it was interrupted.
pub(crate) fn main() -> ExitCode {
    let command = Cli::parse().command;
    // One thread, the main one: children learn of the end of the thread that started them.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return report(&Failure::new(format!("cannot start: {error}"))),
    };
    let outcome = runtime.block_on(async {
        match command {
            Command::Rehearse(args) => steps::rehearse(&args).await,
            Command::Node(args) => node::run(*args).await,
            Command::Replica(args) => replica::run(args).await,
        }
    });
    // A read of standard input that nobody ends must not keep the process.
    runtime.shutdown_background();
    outcome.unwrap_or_else(|failure| report(&failure))
}

fn report(failure: &Failure) -> ExitCode {
    eprintln!("error: {}", failure.0);
    ExitCode::FAILURE
}
