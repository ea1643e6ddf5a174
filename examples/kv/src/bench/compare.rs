//! `kontiki bench compare`: etcd, this store and the null server, one after another, by the same
//! load on the same ports with the same timeouts; one Markdown table.
//!
//! Only one system runs at a time. Each round measures all of them, so that what else the machine
//! does falls on all alike; the median of the rounds is kept.

mod table;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use kontiki_client::ClientUrl;
use serde::Serialize;

use super::load::{self, Load, Mix};
use super::positive;
use super::report::Report;
use super::system::{Kind, Setup, System, Workplace};
use crate::cli::{Failure, block_on, seconds, stop_requested};

/// How long a system is left alone before its memory at rest is read.
const REST: Duration = Duration::from_secs(3);

#[derive(Args)]
pub(crate) struct CompareArgs {
    /// The etcd to compare with
    #[arg(long, value_name = "PATH", default_value = "etcd")]
    etcd: PathBuf,
    /// What to measure
    #[arg(long, value_name = "KIND,…", value_delimiter = ',', default_value = "etcd,kontiki,null")]
    systems: Vec<Kind>,
    /// Where the data goes, on the disk that you mean [default: the system's temporary directory]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// The first client port of each system
    #[arg(long, value_name = "PORT", default_value_t = 24_790)]
    base_port: u16,
    /// Seconds to measure each case
    #[arg(long, value_name = "S", default_value = "10", value_parser = seconds)]
    duration: Duration,
    /// Seconds to run each case before measuring
    #[arg(long, value_name = "S", default_value = "2", value_parser = seconds)]
    warmup: Duration,
    /// How often all is measured, one system after the other; medians are kept
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = positive)]
    rounds: usize,
    /// The most connections, spread over the nodes, the leader's first
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = positive)]
    conns: usize,
    /// Bytes of each value
    #[arg(long, value_name = "BYTES", default_value_t = 256)]
    value_size: usize,
    /// Keys are drawn at random from so many
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = positive)]
    key_space: usize,
    /// The results as JSON rather than as a table
    #[arg(long)]
    json: bool,
}

/// One line of the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Case {
    name: &'static str,
    mix: Mix,
    clients: usize,
}

fn cases() -> [Case; 4] {
    let (put, get) = (Mix::puts(), Mix::gets());
    [
        Case { name: "put", mix: put, clients: 1 },
        Case { name: "put", mix: put, clients: 64 },
        Case { name: "put", mix: put, clients: 256 },
        Case { name: "linearizable get", mix: get, clients: 64 },
    ]
}

/// What one system gave.
#[derive(Debug, Serialize)]
struct Measured {
    kind: Kind,
    version: String,
    /// The largest process, in bytes.
    rss_at_rest: u64,
    rss_after: u64,
    /// One for each case.
    reports: Vec<Report>,
}

pub(super) fn run(args: CompareArgs) -> Result<ExitCode, Failure> {
    let place = Workplace::open(args.dir.as_deref())?;
    let mut kinds = args.systems.clone();
    kinds.sort_unstable();
    kinds.dedup();

    let rounds = block_on(async {
        tokio::select! {
            rounds = measure_all(&kinds, &args, place.path()) => rounds,
            // Dropped, the system's processes are killed.
            () = stop_requested() => Err(Failure::new("interrupted")),
        }
    })??;
    let results: Vec<Measured> = rounds.into_iter().map(Measured::median).collect();
    if args.json {
        println!("{}", serde_json::to_string_pretty(&results).map_err(Failure::new)?);
    } else {
        print!("{}", table::markdown(&results));
        println!("\n{}", conditions(&args, &results, &place.file_system));
    }
    Ok(ExitCode::SUCCESS)
}

/// For each system what it gave in each round.
async fn measure_all(
    kinds: &[Kind],
    args: &CompareArgs,
    dir: &Path,
) -> Result<Vec<Vec<Measured>>, Failure> {
    let mut rounds: Vec<Vec<Measured>> = kinds.iter().map(|_| Vec::new()).collect();
    for round in 1..=args.rounds {
        for (&kind, measured) in kinds.iter().zip(&mut rounds) {
            let dir = dir.join(round.to_string());
            eprintln!("{kind:?}: round {round} of {}", args.rounds);
            measured.push(measure(kind, args, &dir).await?);
        }
    }
    Ok(rounds)
}

async fn measure(kind: Kind, args: &CompareArgs, dir: &Path) -> Result<Measured, Failure> {
    let setup =
        Setup { etcd: args.etcd.clone(), base_port: args.base_port, value_bytes: args.value_size };
    let mut system = System::start(kind, &setup, dir).await?;
    let endpoints = system.wait_until_ready().await?;
    tokio::time::sleep(REST).await;
    let rss_at_rest = system.rss_max();
    let mut reports = Vec::new();
    for case in cases() {
        let load = load_of(case, args, &endpoints);
        let run = tokio::task::spawn_blocking(move || load::run(&load));
        let report = run.await.map_err(Failure::new)??;
        eprintln!(
            "{kind:?}: {}, {} clients: {:.0} op/s, p50 {:.2} ms, p99 {:.2} ms{}",
            case.name,
            case.clients,
            report.throughput,
            report.latency_ms.p50,
            report.latency_ms.p99,
            if report.errors.is_empty() { "" } else { ", with errors" }
        );
        reports.push(report);
    }
    let rss_after = system.rss_max();
    let version = system.version();
    system.stop().await;
    Ok(Measured { kind, version, rss_at_rest, rss_after, reports })
}

fn load_of(case: Case, args: &CompareArgs, endpoints: &[ClientUrl]) -> Load {
    Load {
        endpoints: endpoints.to_vec(),
        mix: case.mix,
        clients: case.clients,
        connections: args.conns.min(case.clients),
        value_bytes: args.value_size,
        key_space: args.key_space as u64,
        fill: case.mix.read_percent > 0,
        warmup: args.warmup,
        duration: args.duration,
        workers: 1,
        progress: false,
    }
}

impl Measured {
    /// Of each case the round in the middle, and of memory the most.
    fn median(rounds: Vec<Self>) -> Self {
        let reports = (0..cases().len()).map(|case| {
            let mut reports: Vec<_> = rounds.iter().map(|round| &round.reports[case]).collect();
            reports.sort_by(|a, b| a.throughput.total_cmp(&b.throughput));
            reports[reports.len() / 2].clone()
        });
        let most = |bytes: fn(&Self) -> u64| rounds.iter().map(bytes).max().unwrap_or(0);
        Self {
            kind: rounds[0].kind,
            version: rounds[0].version.clone(),
            rss_at_rest: most(|round| round.rss_at_rest),
            rss_after: most(|round| round.rss_after),
            reports: reports.collect(),
        }
    }
}

/// Under what conditions the table was made.
fn conditions(args: &CompareArgs, results: &[Measured], file_system: &str) -> String {
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let versions: Vec<_> = results.iter().map(|result| result.version.as_str()).collect();
    format!(
        "{}; {cores} cores shared with the load generator, {file_system}, heartbeat 100 ms, \
         election timeout 1000 ms; values of {} bytes, {} keys at random, up to {} connections \
         spread over the nodes (one client: the leader), {:.0} s a case, median of {} rounds.",
        versions.join(", "),
        args.value_size,
        args.key_space,
        args.conns,
        args.duration.as_secs_f64(),
        args.rounds
    )
}
