//! `kontiki bench leases`: many leases kept alive on a cluster of three.
//!
//! As clients of etcd do it: one stream for all leases of a client, each lease renewed when a third
//! of its time is over. Longer than a lease lives, so that one which is not renewed is seen to go.
//! It never kills a node; what becomes of sessions then is told by `bench sessions`.

mod keeper;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use kontiki_client::Client;
use kontiki_client::proto::etcdserverpb::LeaseGrantRequest;
use serde::Serialize;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::beside::{self, BesideArgs, Outcome, Running};
use super::positive;
use super::stats::{Counts, Stats};
use crate::cli::{Align, Failure, Table, seconds};
use keeper::{Keeper, Lease};

/// The grants that each client has under way at once.
const GRANTING: usize = 8;
/// Until all leases are granted.
const GRANTED_MAX: Duration = Duration::from_secs(60);

#[derive(Args)]
pub(crate) struct LeasesArgs {
    #[command(flatten)]
    beside: BesideArgs,
    /// How many leases
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = positive)]
    leases: usize,
    /// Whole seconds that a lease lives without a renewal
    #[arg(long, value_name = "S", default_value_t = 15, value_parser = clap::value_parser!(u32).range(1..))]
    ttl: u32,
    /// Clients that the leases are shared among: each has a connection and a stream of its own, and
    /// they are spread over the nodes
    #[arg(long, value_name = "N", default_value_t = 12, value_parser = positive)]
    clients: usize,
    /// Seconds to measure, once all are granted
    #[arg(long, value_name = "S", default_value = "20", value_parser = seconds)]
    duration: Duration,
}

#[derive(Debug, Serialize)]
struct Measured {
    version: String,
    leases: usize,
    granted_per_s: f64,
    renewals_per_s: f64,
    /// From when a renewal is sent until it is answered.
    p50_ms: f64,
    p99_ms: f64,
    max_ms: f64,
    /// By their holders' own clock, or because the store said so.
    lost: usize,
    /// Not in the store's list in the end.
    gone: usize,
    /// Cores that all nodes together used.
    cores: f64,
}

pub(super) fn run(args: &LeasesArgs) -> Result<ExitCode, Failure> {
    beside::run(&args.beside, async |running: &mut Running| measure(running, args).await)
}

async fn measure(running: &Running, args: &LeasesArgs) -> Result<Measured, Failure> {
    let stats = Arc::new(Stats::new());
    let end = watch::Sender::new(());
    let client = running.client();
    let (mut granting, mut keeping) = (JoinSet::new(), JoinSet::new());
    for (number, channel) in running.connect(args.clients).await?.into_iter().enumerate() {
        let (granted, leases) = mpsc::channel(GRANTING);
        keeping.spawn(Keeper::new(Arc::clone(&stats)).run(channel, leases, end.subscribe()));
        for granter in 0..GRANTING {
            let place = number * GRANTING + granter;
            let share = share(args.leases, args.clients * GRANTING, place);
            granting.spawn(grant(client.clone(), share, args.ttl, granted.clone()));
        }
    }
    let began = Instant::now();
    let all_granted = async {
        while let Some(granted) = granting.join_next().await {
            granted.map_err(Failure::new)??;
        }
        Ok::<_, Failure>(())
    };
    timeout(GRANTED_MAX, all_granted)
        .await
        .map_err(|_| Failure::new(format!("not all leases are granted in {GRANTED_MAX:?}")))??;
    let granting_s = began.elapsed().as_secs_f64();
    eprintln!("{:?}: {} leases are granted", running.kind, args.leases);

    *stats.lock() = Counts::new();
    let (began, used) = (Instant::now(), running.system.processor_time());
    sleep(args.duration).await;
    let counts = stats.lock().clone();
    let elapsed = began.elapsed().as_secs_f64();
    let used = running.system.processor_time() - used;
    let there = client.leases().await?.leases.len();
    drop(end);
    let mut lost = 0;
    while let Some(kept) = keeping.join_next().await {
        lost += kept.map_err(Failure::new)??;
    }
    Ok(Measured {
        version: running.system.version(),
        leases: args.leases,
        granted_per_s: args.leases as f64 / granting_s,
        renewals_per_s: counts.latency_us.len() as f64 / elapsed,
        p50_ms: counts.latency_ms(0.5),
        p99_ms: counts.latency_ms(0.99),
        max_ms: counts.latency_ms(1.0),
        lost,
        gone: args.leases.saturating_sub(there),
        cores: used.as_secs_f64() / elapsed,
    })
}

/// Grants `count` leases, one after the other, and hands them to whoever keeps them.
async fn grant(
    client: Client,
    count: usize,
    ttl_s: u32,
    keeper: mpsc::Sender<Lease>,
) -> Result<(), Failure> {
    for _ in 0..count {
        let sent_at = Instant::now();
        let request = LeaseGrantRequest { ttl: ttl_s.into(), id: 0 };
        let granted = client.lease_grant(request).await?;
        let lease = Lease::new(granted.id, granted.ttl, sent_at);
        // It ends with an error, which is reported when all of them are joined.
        keeper.send(lease).await.map_err(|_| Failure::new("a stream of renewals has ended"))?;
    }
    Ok(())
}

/// How many of `all` fall to the one at `place` of `parts`.
fn share(all: usize, parts: usize, place: usize) -> usize {
    all / parts + usize::from(place < all % parts)
}

impl Outcome for Measured {
    fn table(results: &[Self]) -> Table {
        let mut table = Table::new([
            ("", Align::Left),
            ("leases", Align::Right),
            ("granted/s", Align::Right),
            ("keep-alives/s", Align::Right),
            ("p50, ms", Align::Right),
            ("p99, ms", Align::Right),
            ("max, ms", Align::Right),
            ("lost", Align::Right),
            ("gone", Align::Right),
            ("cores, three nodes", Align::Right),
        ]);
        for result in results {
            table.row([
                result.version.clone(),
                result.leases.to_string(),
                format!("{:.0}", result.granted_per_s),
                format!("{:.0}", result.renewals_per_s),
                format!("{:.2}", result.p50_ms),
                format!("{:.2}", result.p99_ms),
                format!("{:.1}", result.max_ms),
                result.lost.to_string(),
                result.gone.to_string(),
                format!("{:.3}", result.cores),
            ]);
        }
        table
    }

    fn is_good(&self) -> bool {
        self.lost + self.gone == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_even_and_none_is_left_over() {
        let shares: Vec<usize> = (0..4).map(|place| share(10, 4, place)).collect();
        assert_eq!(shares, [3, 3, 2, 2]);
    }
}
