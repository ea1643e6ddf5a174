//! `kontiki bench`: how fast a store is that speaks the etcd v3 API, this one or another.
//!
//! A closed loop: each client sends its next request when it has the answer to the last one. The
//! generator speaks HTTP/2 itself (wire.rs), because it shares the machine with what it measures.
//! Keys are drawn at random from the key space, and values do not compress.

mod beside;
mod compare;
mod leases;
mod load;
mod null;
mod report;
mod requests;
mod sessions;
mod stats;
mod system;
mod watch;
mod wire;

use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use kontiki_client::ClientUrl;

use crate::cli::{Failure, seconds};
use load::{Load, Mix};

#[derive(Subcommand)]
pub(crate) enum BenchCommand {
    /// Write keys, drawn at random from the key space
    Put(LoadArgs),
    /// Read single keys, drawn at random from the key space
    Get(ReadArgs),
    /// Read and write
    Mixed(MixedArgs),
    /// Serve answers that cost nothing: the limit of any store on the same gRPC stack
    Null(null::NullArgs),
    /// Kill the leader of a cluster under many sessions, leases that are kept alive; exit code 1
    /// when one is lost
    Sessions(sessions::SessionsArgs),
    /// Keep many leases alive on a cluster of this store and on one of etcd; exit code 1 when one
    /// is lost
    Leases(leases::LeasesArgs),
    /// Send each change of a key to many watchers, and let many more watches rest, on a cluster of
    /// this store and on one of etcd; exit code 1 when an event is missing or comes twice
    Watch(watch::WatchArgs),
    /// Measure etcd, this store and the null server one after another; print one table
    Compare(compare::CompareArgs),
}

#[derive(Args)]
pub(crate) struct LoadArgs {
    /// Whom to ask; connections are spread over them
    #[arg(
        long,
        env = "KONTIKI_ENDPOINTS",
        value_name = "HOST:PORT,…",
        value_delimiter = ',',
        default_value = "127.0.0.1:2379"
    )]
    endpoints: Vec<ClientUrl>,
    /// How many requests are under way at once
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = positive)]
    clients: usize,
    /// How many connections the clients share
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = positive)]
    conns: usize,
    /// Bytes of each value written
    #[arg(long, value_name = "BYTES", default_value_t = 256)]
    value_size: usize,
    /// Seconds to measure
    #[arg(long, value_name = "S", default_value = "10", value_parser = seconds)]
    duration: Duration,
    /// Seconds to run before measuring
    #[arg(long, value_name = "S", default_value_t = 1.0)]
    warmup: f64,
    /// Keys are bench/0 … bench/N-1, drawn at random
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = positive)]
    key_space: usize,
    /// Threads of the generator; more than one only where the machine has cores to spare
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = positive)]
    workers: usize,
    /// The result as JSON, on standard output
    #[arg(long)]
    json: bool,
    /// No line a second while it runs
    #[arg(long)]
    quiet: bool,
}

#[derive(Args)]
pub(crate) struct ReadArgs {
    #[command(flatten)]
    load: LoadArgs,
    /// Answer from what the node has applied, without asking its peers
    #[arg(long)]
    serializable: bool,
    /// Write every key of the key space first
    #[arg(long)]
    fill: bool,
}

#[derive(Args)]
pub(crate) struct MixedArgs {
    #[command(flatten)]
    read: ReadArgs,
    /// How many requests of a hundred are reads
    #[arg(long, value_name = "PERCENT", default_value_t = 80, value_parser = clap::value_parser!(u8).range(0..=100))]
    reads: u8,
}

pub(crate) fn run(command: BenchCommand) -> Result<ExitCode, Failure> {
    match command {
        BenchCommand::Put(args) => measure(args, Mix::puts(), false),
        BenchCommand::Get(args) => {
            let mix = Mix { read_percent: 100, serializable: args.serializable };
            measure(args.load, mix, args.fill)
        }
        BenchCommand::Mixed(args) => {
            let serializable = args.read.serializable;
            let mix = Mix { read_percent: args.reads, serializable };
            measure(args.read.load, mix, args.read.fill)
        }
        BenchCommand::Null(args) => null::run(args),
        BenchCommand::Sessions(args) => sessions::run(&args),
        BenchCommand::Leases(args) => leases::run(&args),
        BenchCommand::Watch(args) => watch::run(&args),
        BenchCommand::Compare(args) => compare::run(args),
    }
}

fn measure(args: LoadArgs, mix: Mix, fill: bool) -> Result<ExitCode, Failure> {
    let warmup = Duration::try_from_secs_f64(args.warmup)
        .map_err(|_| Failure::usage("--warmup: give a number of seconds"))?;
    let load = Load {
        endpoints: args.endpoints,
        mix,
        clients: args.clients,
        connections: args.conns.min(args.clients),
        value_bytes: args.value_size,
        key_space: args.key_space as u64,
        fill,
        warmup,
        duration: args.duration,
        workers: args.workers,
        progress: !args.quiet,
    };
    let report = load::run(&load)?;
    if args.json {
        println!("{}", report.json());
    } else {
        print!("{report}");
    }
    Ok(ExitCode::from(u8::from(report.operations == 0)))
}

fn positive(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(number @ 1..) => Ok(number),
        _ => Err("give a whole number above zero".to_owned()),
    }
}
