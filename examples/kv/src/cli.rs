//! The command line: what there is, and how each command ends.
//!
//! Exit codes: 0 done, 1 it failed, 2 it was asked wrongly. `serve`, `status` and `wal` have codes
//! of their own, told in their help.

mod failure;
mod kv;
mod logging;
mod member;
mod recover;
mod serve;
mod snapshot;
mod status;
mod table;
#[cfg(unix)]
mod torture;
mod wal;

use std::io::{ErrorKind, Write};
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use kontiki_client::{Client, ClientUrl, Timeouts};

pub(crate) use failure::Failure;
pub(crate) use serve::{serving_runtime, stop_requested};
pub(crate) use table::{Align, Table};

use crate::{bench, cluster};

/// A replicated key-value store that speaks the etcd v3 API.
#[derive(Parser)]
#[command(name = "kontiki", version, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run one node; without any flag, a store of one node on port 2379
    Serve(Box<serve::ServeArgs>),
    /// Run a cluster of nodes on this machine, until Ctrl-C
    Cluster(cluster::ClusterArgs),
    /// Write a key
    Put(kv::PutArgs),
    /// Read a key, or a range of keys
    Get(kv::GetArgs),
    /// Delete a key, or a range of keys
    Del(kv::DelArgs),
    /// Show what each endpoint says of itself; exit code 1 when one does not answer
    Status(status::StatusArgs),
    /// Who is in the cluster, who leads it, and how that changes
    #[command(subcommand)]
    Member(member::MemberCommand),
    /// Backups: taken from a node that runs, checked, and made into a new cluster
    #[command(subcommand)]
    Snapshot(snapshot::SnapshotCommand),
    /// Begin a new cluster with what one node holds, when a majority is lost for good
    Recover(recover::RecoverArgs),
    /// Look into the log of a node that is stopped; changes nothing
    #[command(subcommand)]
    Wal(wal::WalCommand),
    /// Kill, stop, cut off and damage a cluster of its own under load, and check that it keeps
    /// what it acknowledged
    #[cfg(unix)]
    Torture(torture::TortureArgs),
    /// Measure this store, or any other that speaks the etcd v3 API
    #[command(subcommand)]
    Bench(bench::BenchCommand),
}

/// Runs the command that the arguments name.
pub(crate) fn main() -> ExitCode {
    let given = match serve::translated(std::env::args_os().collect()) {
        Ok(given) => given,
        Err(failure) => return failure.report(),
    };
    let outcome = match Cli::parse_from(given.args).command {
        Command::Serve(args) => serve::run(*args, given.notes),
        Command::Cluster(args) => cluster::run(args),
        Command::Put(args) => kv::put(args),
        Command::Get(args) => kv::get(args),
        Command::Del(args) => kv::del(args),
        Command::Status(args) => status::run(args),
        Command::Member(command) => member::run(command),
        Command::Snapshot(command) => snapshot::run(command),
        Command::Recover(args) => recover::run(args),
        Command::Wal(command) => wal::run(command),
        #[cfg(unix)]
        Command::Torture(args) => torture::run(args),
        Command::Bench(command) => bench::run(command),
    };
    match outcome {
        Ok(code) => code,
        Err(failure) => failure.report(),
    }
}

/// Whom to ask, and how long to wait: the same for all client commands.
#[derive(Args, Clone, Debug)]
pub(crate) struct Connect {
    /// Where clients are served, tried in this order
    #[arg(
        long,
        env = "KONTIKI_ENDPOINTS",
        value_name = "HOST:PORT,…",
        value_delimiter = ',',
        default_value = "127.0.0.1:2379"
    )]
    endpoints: Vec<ClientUrl>,
    /// Seconds until a connection must stand
    #[arg(long, value_name = "S", default_value = "2", value_parser = seconds)]
    dial_timeout: std::time::Duration,
    /// Seconds until an answer must be there
    #[arg(long, value_name = "S", default_value = "5", value_parser = seconds)]
    command_timeout: std::time::Duration,
}

impl Connect {
    fn client(&self) -> Client {
        Client::new(self.endpoints.clone(), self.timeouts())
    }

    /// One of one endpoint.
    fn client_of(&self, endpoint: ClientUrl) -> Client {
        Client::new(vec![endpoint], self.timeouts())
    }

    fn timeouts(&self) -> Timeouts {
        Timeouts { dial: self.dial_timeout, command: self.command_timeout }
    }
}

/// Parses a positive number of seconds, fractions included.
pub(crate) fn seconds(text: &str) -> Result<std::time::Duration, String> {
    let seconds = text.parse().ok().and_then(|s| std::time::Duration::try_from_secs_f64(s).ok());
    match seconds {
        Some(duration) if !duration.is_zero() => Ok(duration),
        _ => Err("give a number of seconds above zero".to_owned()),
    }
}

/// Writes an answer as it is: keys and values need not be text. Whoever reads no further
/// (`| head`) has what he wants.
pub(crate) fn show(output: &[u8]) -> Result<ExitCode, Failure> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(output).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::new(format!("cannot write the answer: {error}")))
        }
        Ok(()) | Err(_) => Ok(ExitCode::SUCCESS),
    }
}

/// Runs a client command to its end, on this thread.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new(format!("cannot start: {error}")))?;
    let output = runtime.block_on(future);
    // A read of standard input that nobody ends must not keep the process.
    runtime.shutdown_background();
    Ok(output)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_commands_do_not_contradict_each_other() {
        Cli::command().debug_assert();
    }

    #[test]
    fn seconds_are_above_zero() {
        assert_eq!(seconds("0.5"), Ok(std::time::Duration::from_millis(500)));
        for text in ["0", "-1", "soon", "", "inf", "NaN"] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }
}
