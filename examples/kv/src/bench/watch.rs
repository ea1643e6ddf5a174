//! `kontiki bench watch`: what watches cost on a cluster of three.
//!
//! First the memory of the leader, without watches and with very many that see nothing. Then the
//! same key written again and again under many watchers: each has to see each write once, and what
//! is measured is the time from when a put is sent until a watcher has its event. It includes what
//! the watchers themselves need, as they share the machine, and one thread.

mod stream;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use kontiki_client::proto::etcdserverpb::PutRequest;
use serde::Serialize;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};

use super::beside::{self, BesideArgs, Outcome, Running, dial};
use super::positive;
use super::stats::Stats;
use crate::cli::{Align, Failure, Table, seconds};
use stream::{Seen, Stamp, Watches};

/// The key that is written and watched.
const KEY: &str = "watched";
/// Where keys are that nobody writes.
const IDLE: &str = "idle/";
/// Until all watches are there.
const OPENED_MAX: Duration = Duration::from_secs(60);
/// From the last put until each watcher has seen it.
const DRAINED_MAX: Duration = Duration::from_secs(10);
/// How long a system is left alone before its memory is read.
const REST: Duration = Duration::from_secs(2);
const MIB: f64 = (1 << 20) as f64;

#[derive(Args)]
pub(crate) struct WatchArgs {
    #[command(flatten)]
    beside: BesideArgs,
    /// Watchers of the key that is written, spread over the nodes
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = positive)]
    watchers: usize,
    /// Watches that see nothing, each of a key of its own, all on the leader
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = positive)]
    idle: usize,
    /// Streams that the watches share, first those that see nothing, then the watchers
    #[arg(long, value_name = "N", default_value_t = 48, value_parser = positive)]
    streams: usize,
    /// Connections that the streams share
    #[arg(long, value_name = "N", default_value_t = 12, value_parser = positive)]
    conns: usize,
    /// Puts a second, one at a time: fewer when they take longer
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    rate: u32,
    /// Seconds to write
    #[arg(long, value_name = "S", default_value = "10", value_parser = seconds)]
    duration: Duration,
}

#[derive(Debug, Serialize)]
struct Measured {
    version: String,
    idle: usize,
    /// Of the leader, in bytes.
    rss_before: u64,
    rss_with_idle: u64,
    idle_opened_per_s: f64,
    watchers: usize,
    puts: u64,
    events_per_s: f64,
    /// From when a put is sent until a watcher has its event.
    p50_ms: f64,
    p99_ms: f64,
    missing: u64,
    doubled: u64,
    /// Cores that all nodes together used, from the first put to the last event.
    cores: f64,
}

/// What the leader keeps in memory, in bytes.
struct Memory {
    before: u64,
    with_idle: u64,
    opened_per_s: f64,
}

/// What came of the puts.
struct FanOut {
    puts: u64,
    seen: Seen,
    elapsed: Duration,
    stats: Arc<Stats>,
    cores: f64,
}

pub(super) fn run(args: &WatchArgs) -> Result<ExitCode, Failure> {
    beside::run(&args.beside, async |running: &mut Running| measure(running, args).await)
}

async fn measure(running: &Running, args: &WatchArgs) -> Result<Measured, Failure> {
    let memory = rest(running, args).await?;
    sleep(REST).await; // The watches that are gone may still be at work.
    let fan_out = fan_out(running, args).await?;
    let counts = fan_out.stats.lock().clone();
    Ok(Measured {
        version: running.system.version(),
        idle: args.idle,
        rss_before: memory.before,
        rss_with_idle: memory.with_idle,
        idle_opened_per_s: memory.opened_per_s,
        watchers: args.watchers,
        puts: fan_out.puts,
        events_per_s: counts.latency_us.len() as f64 / fan_out.elapsed.as_secs_f64(),
        p50_ms: counts.latency_ms(0.5),
        p99_ms: counts.latency_ms(0.99),
        missing: fan_out.seen.missing,
        doubled: fan_out.seen.doubled,
        cores: fan_out.cores,
    })
}

/// The leader's memory without watches, and with those that see nothing.
async fn rest(running: &Running, args: &WatchArgs) -> Result<Memory, Failure> {
    let leader = &running.endpoints[0];
    sleep(REST).await;
    let before = running.system.rss_of(leader);
    let mut channels = Vec::with_capacity(args.conns);
    for _ in 0..args.conns {
        channels.push(dial(leader).await?);
    }
    let began = Instant::now();
    let key = |number: usize| format!("{IDLE}{number}");
    let streams = open_all(&channels, args.streams, args.idle, key).await?;
    let opened_per_s = args.idle as f64 / began.elapsed().as_secs_f64();
    eprintln!("{:?}: {} watches rest", running.kind, args.idle);
    sleep(REST).await;
    let with_idle = running.system.rss_of(leader);
    drop(streams);
    Ok(Memory { before, with_idle, opened_per_s })
}

/// Writes the key under its watchers.
async fn fan_out(running: &Running, args: &WatchArgs) -> Result<FanOut, Failure> {
    let channels = running.connect(args.conns).await?;
    let streams = open_all(&channels, args.streams, args.watchers, |_| KEY.to_owned()).await?;
    eprintln!("{:?}: {} watchers wait", running.kind, args.watchers);

    let stats = Arc::new(Stats::new());
    let end = tokio::sync::watch::Sender::new(());
    let (began, used) = (Instant::now(), running.system.processor_time());
    let mut following = JoinSet::new();
    for stream in streams {
        following.spawn(stream.follow(began, Arc::clone(&stats), end.subscribe()));
    }
    let puts = put_all(running, args, began).await?;
    let all = puts.saturating_mul(args.watchers as u64);
    let drained = async {
        while stats.lock().latency_us.len() < all {
            sleep(Duration::from_millis(5)).await;
        }
    };
    // Those that are not here by then are missing, and counted.
    let _ = timeout(DRAINED_MAX, drained).await;
    let elapsed = began.elapsed();
    let used = running.system.processor_time() - used;
    drop(end);

    let mut seen = Seen::default();
    while let Some(followed) = following.join_next().await {
        for watch in followed.map_err(Failure::new)?? {
            seen.add(watch.after(puts));
        }
    }
    let cores = used.as_secs_f64() / elapsed.as_secs_f64();
    Ok(FanOut { puts, seen, elapsed, stats, cores })
}

/// Puts at the rate that is asked for, for as long; how many.
async fn put_all(running: &Running, args: &WatchArgs, began: Instant) -> Result<u64, Failure> {
    let client = running.client();
    let mut ticks = interval(Duration::from_secs(1) / args.rate);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut puts = 0;
    while began.elapsed() < args.duration {
        ticks.tick().await;
        let stamp = Stamp { number: puts, sent: began.elapsed() };
        client.put(PutRequest::new(KEY, stamp.encode())).await?;
        puts += 1;
    }
    Ok(puts)
}

/// Streams with `watches` watches among them, the one with the number n of the key that `key`
/// gives to n.
async fn open_all(
    channels: &[tonic::transport::Channel],
    streams: usize,
    watches: usize,
    key: impl Fn(usize) -> String,
) -> Result<Vec<Watches>, Failure> {
    let streams = streams.min(watches);
    let mut opening = JoinSet::new();
    for stream in 0..streams {
        let keys = (stream..watches).step_by(streams).map(&key).collect();
        opening.spawn(Watches::open(channels[stream % channels.len()].clone(), keys));
    }
    let mut opened = Vec::with_capacity(streams);
    let all_opened = async {
        while let Some(stream) = opening.join_next().await {
            opened.push(stream.map_err(Failure::new)??);
        }
        Ok::<_, Failure>(())
    };
    timeout(OPENED_MAX, all_opened)
        .await
        .map_err(|_| Failure::new(format!("not all watches are there in {OPENED_MAX:?}")))??;
    Ok(opened)
}

impl Outcome for Measured {
    fn table(results: &[Self]) -> Table {
        let mut table = Table::new([
            ("", Align::Left),
            ("watchers", Align::Right),
            ("puts", Align::Right),
            ("events/s", Align::Right),
            ("p50, ms", Align::Right),
            ("p99, ms", Align::Right),
            ("missing", Align::Right),
            ("doubled", Align::Right),
            ("cores, three nodes", Align::Right),
            ("idle watches", Align::Right),
            ("opened/s", Align::Right),
            ("MiB before", Align::Right),
            ("MiB with them", Align::Right),
            ("bytes each", Align::Right),
        ]);
        for result in results {
            let grown = result.rss_with_idle.saturating_sub(result.rss_before);
            table.row([
                result.version.clone(),
                result.watchers.to_string(),
                result.puts.to_string(),
                format!("{:.0}", result.events_per_s),
                format!("{:.2}", result.p50_ms),
                format!("{:.2}", result.p99_ms),
                result.missing.to_string(),
                result.doubled.to_string(),
                format!("{:.3}", result.cores),
                result.idle.to_string(),
                format!("{:.0}", result.idle_opened_per_s),
                format!("{:.1}", result.rss_before as f64 / MIB),
                format!("{:.1}", result.rss_with_idle as f64 / MIB),
                (grown / result.idle as u64).to_string(),
            ]);
        }
        table
    }

    fn is_good(&self) -> bool {
        self.missing + self.doubled == 0
    }
}
