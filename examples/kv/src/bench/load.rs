//! The closed loop: clients on shared connections, each with one request under way.
//!
//! ```text
//! connect ─▶ fill (if asked) ─▶ warm up ─▶ measure ─▶ drain
//!                               └─ answers count only while measuring ─┘
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use kontiki_client::ClientUrl;
use tokio::sync::Mutex;
use tokio::task::JoinSet;

use super::report::Report;
use super::requests::Requests;
use super::stats::{Counts, Stats};
use super::wire::{CallError, Connection, Rpc};
use crate::cli::Failure;

/// How long a client waits after a connection failed.
const RETRY_AFTER: Duration = Duration::from_millis(100);
/// How long the last answers may take.
const DRAIN_MAX: Duration = Duration::from_secs(5);

/// What the requests are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mix {
    /// How many of a hundred are reads.
    pub(super) read_percent: u8,
    /// Whether reads are local.
    pub(super) serializable: bool,
}

impl Mix {
    pub(super) fn puts() -> Self {
        Self { read_percent: 0, serializable: false }
    }

    pub(super) fn gets() -> Self {
        Self { read_percent: 100, serializable: false }
    }
}

/// What to run. No number is zero but the warm-up and the size of values.
#[derive(Clone, Debug)]
pub(super) struct Load {
    pub(super) endpoints: Vec<ClientUrl>,
    pub(super) mix: Mix,
    pub(super) clients: usize,
    pub(super) connections: usize,
    pub(super) value_bytes: usize,
    pub(super) key_space: u64,
    pub(super) fill: bool,
    pub(super) warmup: Duration,
    pub(super) duration: Duration,
    pub(super) workers: usize,
    pub(super) progress: bool,
}

/// Runs the load to its end, on threads of its own.
pub(super) fn run(load: &Load) -> Result<Report, Failure> {
    let mut runtime = match load.workers {
        1 => tokio::runtime::Builder::new_current_thread(),
        _ => tokio::runtime::Builder::new_multi_thread(),
    };
    let runtime = runtime.worker_threads(load.workers).enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new(format!("cannot start: {error}")))?;
    runtime.block_on(drive(load))
}

async fn drive(load: &Load) -> Result<Report, Failure> {
    let mut lanes = Vec::with_capacity(load.connections);
    for at in 0..load.connections {
        let endpoint = load.endpoints[at % load.endpoints.len()].clone();
        let lane = Lane::open(endpoint.clone()).await;
        lanes.push(Arc::new(
            lane.map_err(|error| Failure::new(format!("cannot connect to {endpoint}: {error}")))?,
        ));
    }
    if load.fill {
        fill(load, &lanes).await?;
    }
    let phase = Arc::new(Phase::new());
    let mut clients = JoinSet::new();
    for at in 0..load.clients {
        let lane = lanes[at % lanes.len()].clone();
        let requests = Requests::new(at as u64 + 1, load.mix, load.key_space, load.value_bytes);
        clients.spawn(client(lane, requests, phase.clone()));
    }
    tokio::time::sleep(load.warmup).await;

    phase.set(Phase::MEASURE);
    let began = Instant::now();
    if load.progress {
        show_progress(&lanes, began, load.duration).await;
    }
    tokio::time::sleep(load.duration.saturating_sub(began.elapsed())).await;
    phase.set(Phase::DRAIN);
    let took = began.elapsed();
    let counts = total(&lanes);

    // What is still under way is not counted; who does not answer is left behind.
    let drained = async { while clients.join_next().await.is_some() {} };
    let unanswered = tokio::time::timeout(DRAIN_MAX, drained).await.is_err();
    Ok(Report::new(load, took, &counts, if unanswered { clients.len() } else { 0 }))
}

/// One client: request, answer, request, answer.
async fn client(lane: Arc<Lane>, mut requests: Requests, phase: Arc<Phase>) {
    let (mut generation, mut connection) = lane.current().await;
    while !phase.is(Phase::DRAIN) {
        let (rpc, frame) = requests.next();
        let began = Instant::now();
        let mut answer = connection.call(rpc, frame).await;
        loop {
            if phase.is(Phase::MEASURE) {
                lane.stats.record(rpc, began.elapsed(), &answer);
            }
            if !matches!(answer, Err(CallError::Connection(_))) || phase.is(Phase::DRAIN) {
                break;
            }
            tokio::time::sleep(RETRY_AFTER).await;
            match lane.after(generation).await {
                Ok(newer) => {
                    (generation, connection) = newer;
                    break;
                }
                Err(error) => answer = Err(error),
            }
        }
    }
}

/// Writes every key once.
async fn fill(load: &Load, lanes: &[Arc<Lane>]) -> Result<(), Failure> {
    const CLIENTS: usize = 64;
    let next = Arc::new(AtomicU64::new(0));
    let mut clients = JoinSet::new();
    for at in 0..CLIENTS {
        let (lane, next) = (lanes[at % lanes.len()].clone(), next.clone());
        let mut requests =
            Requests::new(u64::MAX - at as u64, load.mix, load.key_space, load.value_bytes);
        let keys = load.key_space;
        clients.spawn(async move {
            let (_, mut connection) = lane.current().await;
            loop {
                let key = next.fetch_add(1, Ordering::Relaxed);
                if key >= keys {
                    return Ok(());
                }
                connection.call(Rpc::Put, requests.put(key)).await?;
            }
        });
    }
    while let Some(outcome) = clients.join_next().await {
        let outcome: Result<(), CallError> = outcome.map_err(Failure::new)?;
        outcome.map_err(|error| {
            Failure::new(format!("cannot fill the key space: {}: {error}", error.name()))
        })?;
    }
    Ok(())
}

/// A line a second until `duration` is over.
async fn show_progress(lanes: &[Arc<Lane>], began: Instant, duration: Duration) {
    const PERIOD: Duration = Duration::from_secs(1);
    let (mut last_count, mut last_at) = (0, began);
    for second in 1.. {
        let at = PERIOD * second;
        if at >= duration {
            return;
        }
        tokio::time::sleep_until((began + at).into()).await;
        let (counts, now) = (total(lanes), Instant::now());
        let count = counts.latency_us.len();
        let rate = (count - last_count) as f64 / (now - last_at).as_secs_f64();
        eprintln!(
            "{second:>4} s {rate:>9.0} op/s   p50 {:.2} ms   p99 {:.2} ms   errors {}",
            counts.latency_ms(0.5),
            counts.latency_ms(0.99),
            counts.error_count()
        );
        (last_count, last_at) = (count, now);
    }
}

fn total(lanes: &[Arc<Lane>]) -> Counts {
    let mut total = Counts::new();
    for lane in lanes {
        total.add(&lane.stats.lock());
    }
    total
}

/// A connection and its counts. When it breaks, the first client that notices opens the next one.
struct Lane {
    endpoint: ClientUrl,
    stats: Stats,
    current: Mutex<(u64, Connection)>,
}

impl Lane {
    async fn open(endpoint: ClientUrl) -> Result<Self, CallError> {
        let connection = Connection::open(&endpoint).await?;
        Ok(Self { endpoint, stats: Stats::new(), current: Mutex::new((0, connection)) })
    }

    async fn current(&self) -> (u64, Connection) {
        self.current.lock().await.clone()
    }

    /// A connection that is newer than `generation`.
    async fn after(&self, generation: u64) -> Result<(u64, Connection), CallError> {
        let mut current = self.current.lock().await;
        if current.0 == generation {
            *current = (generation + 1, Connection::open(&self.endpoint).await?);
        }
        Ok(current.clone())
    }
}

/// Where the run stands.
struct Phase(AtomicU8);

impl Phase {
    const WARM_UP: u8 = 0;
    const MEASURE: u8 = 1;
    const DRAIN: u8 = 2;

    fn new() -> Self {
        Self(AtomicU8::new(Self::WARM_UP))
    }

    fn set(&self, phase: u8) {
        self.0.store(phase, Ordering::Relaxed);
    }

    fn is(&self, phase: u8) -> bool {
        self.0.load(Ordering::Relaxed) == phase
    }
}
