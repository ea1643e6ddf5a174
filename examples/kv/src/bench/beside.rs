//! What is measured of this store and of etcd alike: a cluster of three of each, one after the
//! other, on the same ports, by the same clients; one table.
//!
//! The clients share the machine with what they measure, and their own time is in every latency.
//! It never measures the null server, which has neither leases nor watches.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use kontiki_client::{Client, ClientUrl, Timeouts};
use serde::Serialize;
use tonic::transport::{Channel, Endpoint};

use super::system::{Kind, Setup, System, Workplace};
use crate::cli::{Failure, Table, block_on, stop_requested};

/// How long a connection may take.
const DIAL_MAX: Duration = Duration::from_secs(5);
const TIMEOUTS: Timeouts =
    Timeouts { dial: Duration::from_secs(1), command: Duration::from_secs(30) };

#[derive(Args)]
pub(super) struct BesideArgs {
    /// What to measure
    #[arg(long, value_name = "KIND,…", value_delimiter = ',', default_value = "etcd,kontiki")]
    systems: Vec<Kind>,
    /// The etcd to compare with
    #[arg(long, value_name = "PATH", default_value = "etcd")]
    etcd: PathBuf,
    /// Where the data goes, on the disk that you mean [default: the system's temporary directory]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// The first client port of each system
    #[arg(long, value_name = "PORT", default_value_t = 24_790)]
    base_port: u16,
    /// The results as JSON rather than as a table
    #[arg(long)]
    json: bool,
}

/// What one system gave.
pub(super) trait Outcome: Serialize {
    /// All of them, for people.
    fn table(results: &[Self]) -> Table
    where
        Self: Sized;

    /// Whether the store did all that it promised.
    fn is_good(&self) -> bool;
}

/// A system that is ready, and where.
pub(super) struct Running {
    pub(super) kind: Kind,
    pub(super) system: System,
    /// The leader first.
    pub(super) endpoints: Vec<ClientUrl>,
}

impl Running {
    /// A client of all nodes, the leader first.
    pub(super) fn client(&self) -> Client {
        Client::new(self.endpoints.clone(), TIMEOUTS)
    }

    /// Clients that ask the nodes in different orders, so that each node has its share of them.
    pub(super) fn clients(&self, count: usize) -> Vec<Client> {
        let client = |number: usize| {
            let mut endpoints = self.endpoints.clone();
            let first = number % endpoints.len();
            endpoints.rotate_left(first);
            Client::new(endpoints, TIMEOUTS)
        };
        (0..count).map(client).collect()
    }

    /// New connections, spread over the nodes, the leader's first.
    pub(super) async fn connect(&self, count: usize) -> Result<Vec<Channel>, Failure> {
        let mut channels = Vec::with_capacity(count);
        for endpoint in self.endpoints.iter().cycle().take(count) {
            channels.push(dial(endpoint).await?);
        }
        Ok(channels)
    }
}

/// A new connection to one node.
pub(super) async fn dial(endpoint: &ClientUrl) -> Result<Channel, Failure> {
    let fail = |error| Failure::new(format!("cannot connect to {endpoint}: {error}"));
    let dialled = Endpoint::from_shared(endpoint.0.to_string()).map_err(fail)?;
    dialled.connect_timeout(DIAL_MAX).connect().await.map_err(fail)
}

/// Measures each system in its turn, and shows what came out; exit code 1 when one is not good.
pub(super) fn run<T: Outcome>(
    args: &BesideArgs,
    measure: impl AsyncFn(&mut Running) -> Result<T, Failure>,
) -> Result<ExitCode, Failure> {
    if args.systems.contains(&Kind::Null) {
        return Err(Failure::usage(
            "the null server keeps no sessions, leases or watches; see --systems",
        ));
    }
    let place = Workplace::open(args.dir.as_deref())?;
    let measure_all = async {
        let mut results = Vec::with_capacity(args.systems.len());
        for &kind in &args.systems {
            let setup =
                Setup { etcd: args.etcd.clone(), base_port: args.base_port, value_bytes: 0 };
            let mut system = System::start(kind, &setup, place.path()).await?;
            let endpoints = system.wait_until_ready().await?;
            let mut running = Running { kind, system, endpoints };
            results.push(measure(&mut running).await?);
            running.system.stop().await;
        }
        Ok(results)
    };
    let results = block_on(async {
        tokio::select! {
            results = measure_all => results,
            // Dropped, the system's processes are killed.
            () = stop_requested() => Err(Failure::new("interrupted")),
        }
    })??;
    if args.json {
        println!("{}", serde_json::to_string_pretty(&results).map_err(Failure::new)?);
    } else {
        print!("{}", T::table(&results).markdown());
    }
    Ok(ExitCode::from(u8::from(!results.iter().all(T::is_good))))
}
