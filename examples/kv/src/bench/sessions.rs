//! `kontiki bench sessions`: many sessions on a cluster of three whose leader is killed.
//!
//! A session is a lease with a key, renewed every third of its time, and held to be lost when its
//! own clock says so: the time to live, counted from when the last successful renewal was sent.
//! Before the kill the processor time is measured that the cluster needs to keep all of them.

mod keeper;

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use kontiki_client::Client;
use kontiki_client::proto::etcdserverpb::RangeRequest;
use serde::Serialize;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::beside::{self, BesideArgs, Outcome, Running};
use super::positive;
use crate::cli::{Align, Failure, Table, seconds};
use keeper::{Kept, Session};

/// Where the keys of the sessions are.
const PREFIX: &str = "sessions/";

#[derive(Args)]
pub(crate) struct SessionsArgs {
    #[command(flatten)]
    beside: BesideArgs,
    /// How many sessions
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = positive)]
    sessions: usize,
    /// Whole seconds that a lease lives without a renewal
    #[arg(long, value_name = "S", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    ttl: u32,
    /// Clients that the sessions share: each has a connection of its own, and all start with
    /// different nodes
    #[arg(long, value_name = "N", default_value_t = 12, value_parser = positive)]
    clients: usize,
    /// Seconds before the kill, in which processor time is measured
    #[arg(long, value_name = "S", default_value = "10", value_parser = seconds)]
    steady: Duration,
    /// Seconds after the kill; more than two lifetimes show every lease that is not renewed
    #[arg(long, value_name = "S", default_value = "15", value_parser = seconds)]
    after: Duration,
}

/// What one system gave.
#[derive(Debug, Serialize)]
struct Measured {
    version: String,
    sessions: usize,
    /// Sessions that gave up, by their own clock or because the lease was gone.
    lost: usize,
    /// Sessions whose key was gone in the end.
    keys_gone: usize,
    /// Cores that all nodes together used, while nothing happened.
    cores: f64,
    renewals_per_s: f64,
    /// Of all sessions, the longest time from one renewal to the next.
    longest_pause_s: f64,
    /// Of all sessions, the least time that was left when a renewal was answered.
    least_left_s: f64,
}

pub(super) fn run(args: &SessionsArgs) -> Result<ExitCode, Failure> {
    beside::run(&args.beside, async |running: &mut Running| measure(running, args).await)
}

async fn measure(running: &mut Running, args: &SessionsArgs) -> Result<Measured, Failure> {
    let clients = running.clients(args.clients);
    let kind = running.kind;
    let end = tokio::sync::watch::Sender::new(());
    let mut keeping = open_all(args, &clients, &end).await?;
    eprintln!("{kind:?}: {} sessions are open", args.sessions);

    let (began, used) = (Instant::now(), running.system.processor_time());
    sleep(args.steady).await;
    let used = running.system.processor_time() - used;
    let cores = used.as_secs_f64() / began.elapsed().as_secs_f64();
    let leader = running.system.kill_leader().await?;
    let killed = Instant::now();
    eprintln!("{kind:?}: the leader is killed, at {leader}");
    sleep(args.after).await;
    drop(end);

    let mut all = Kept::default();
    while let Some(kept) = keeping.join_next().await {
        all.add(&kept.map_err(Failure::new)?);
    }
    let renewing = (killed - began + args.after).as_secs_f64();
    let request = RangeRequest { count_only: true, ..RangeRequest::prefix(PREFIX) };
    let there = clients[0].range(request).await?.count;
    Ok(Measured {
        version: running.system.version(),
        sessions: args.sessions,
        lost: all.lost,
        keys_gone: args.sessions.saturating_sub(usize::try_from(there).unwrap_or(0)),
        cores,
        renewals_per_s: all.renewals as f64 / renewing,
        longest_pause_s: all.longest_pause.as_secs_f64(),
        least_left_s: all.least_left.unwrap_or_default().as_secs_f64(),
    })
}

/// Opens all sessions, and keeps each alive until `end` is dropped.
async fn open_all(
    args: &SessionsArgs,
    clients: &[Client],
    end: &tokio::sync::watch::Sender<()>,
) -> Result<JoinSet<Kept>, Failure> {
    /// Opened at the same time.
    const BATCH: usize = 64;
    let mut keeping = JoinSet::new();
    for batch in (0..args.sessions).collect::<Vec<_>>().chunks(BATCH) {
        let mut opening = JoinSet::new();
        for &number in batch {
            let client = clients[number % clients.len()].clone();
            opening.spawn(Session::open(client, format!("{PREFIX}{number}"), args.ttl));
        }
        while let Some(session) = opening.join_next().await {
            let session = session.map_err(Failure::new)??;
            keeping.spawn(session.keep(end.subscribe()));
        }
    }
    Ok(keeping)
}

impl Outcome for Measured {
    fn table(results: &[Self]) -> Table {
        let mut table = Table::new([
            ("", Align::Left),
            ("sessions", Align::Right),
            ("lost", Align::Right),
            ("keys gone", Align::Right),
            ("longest pause, s", Align::Right),
            ("least time left, s", Align::Right),
            ("renewals/s", Align::Right),
            ("cores, three nodes", Align::Right),
        ]);
        for result in results {
            table.row([
                result.version.clone(),
                result.sessions.to_string(),
                result.lost.to_string(),
                result.keys_gone.to_string(),
                format!("{:.2}", result.longest_pause_s),
                format!("{:.2}", result.least_left_s),
                format!("{:.0}", result.renewals_per_s),
                format!("{:.3}", result.cores),
            ]);
        }
        table
    }

    fn is_good(&self) -> bool {
        self.lost + self.keys_gone == 0
    }
}
