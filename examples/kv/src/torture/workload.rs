//! The clients: what they ask, and what they note down.
//!
//! | keys | what is done | what would show |
//! |---|---|---|
//! | `t/EPOCH/value/…` | put, compare-and-swap, linearizable get | a stale read, a lost or doubled write |
//! | `t/EPOCH/list/…` | append by compare-and-swap, linearizable get | the same; each read shows all appends |
//! | `t/EPOCH/once/…` | put, each key once | a lost write, a write done twice |
//!
//! Every value is written once. A request without an answer stays open: nobody repeats it under
//! the same value, but for the keys of `once`, which are then written if they are not there.
//! Between two epochs the clients rest, and what they noted is checked and forgotten.

mod client;

use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use kontiki_client::{ClientError, ClientUrl};
use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::record::Record;
use super::until;
use crate::cli::Failure;
use client::One;

/// Keys of each kind that are in use at once.
const KEYS: usize = 6;
/// What the clients are to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Work(u64),
    Rest,
    End,
}

/// What happened to requests so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) reads: u64,
    pub(crate) writes: u64,
    pub(crate) unknown: u64,
    pub(crate) refused: u64,
    pub(crate) not_sent: u64,
}

/// Clients at work.
pub(crate) struct Workload {
    tasks: JoinSet<()>,
    shared: Arc<Shared>,
    phase: watch::Sender<Phase>,
    clients: usize,
}

struct Shared {
    endpoints: watch::Receiver<Vec<ClientUrl>>,
    resting: AtomicUsize,
    /// Counts moments: the ends of calls in the order in which they were.
    clock: AtomicU64,
    /// Draws the values, which never repeat.
    values: AtomicU64,
    /// The newest revision that anybody was told of.
    revision: AtomicI64,
    requests: [AtomicU64; 2 * KEYS],
    notes: Mutex<Notes>,
}

struct Notes {
    record: Record,
    counts: Counts,
    last_write: Instant,
    longest_gap: Duration,
}

impl Workload {
    /// Clients that rest until they are told to work.
    pub(crate) fn start(
        clients: usize,
        seed: u64,
        endpoints: watch::Receiver<Vec<ClientUrl>>,
    ) -> Self {
        let phase = watch::Sender::new(Phase::Rest);
        let notes = Notes {
            record: Record::default(),
            counts: Counts::default(),
            last_write: Instant::now(),
            longest_gap: Duration::ZERO,
        };
        let shared = Arc::new(Shared {
            endpoints,
            resting: AtomicUsize::new(0),
            clock: AtomicU64::new(1),
            values: AtomicU64::new(1),
            revision: AtomicI64::new(0),
            requests: Default::default(),
            notes: Mutex::new(notes),
        });
        let mut tasks = JoinSet::new();
        for number in 0..clients {
            let random = Pcg64Mcg::seed_from_u64(seed ^ (number as u64 + 1) << 32);
            let shared = Arc::clone(&shared);
            tasks.spawn(One::new(number, random, shared).run(phase.subscribe()));
        }
        Self { tasks, shared, phase, clients }
    }

    /// Lets them work, in an epoch of which nothing is noted yet.
    pub(crate) fn work(&self, epoch: u64) {
        self.shared.lock().last_write = Instant::now();
        self.phase.send_replace(Phase::Work(epoch));
    }

    /// Lets them rest, and takes what they noted.
    pub(crate) async fn rest(&self) -> Result<Record, Failure> {
        self.phase.send_replace(Phase::Rest);
        until("the clients have their answers", async || {
            (self.shared.resting.load(Ordering::SeqCst) == self.clients).then_some(())
        })
        .await?;
        self.shared.requests.iter().for_each(|count| count.store(0, Ordering::SeqCst));
        Ok(std::mem::take(&mut self.shared.lock().record))
    }

    /// Waits until so many more writes are acknowledged.
    pub(crate) async fn progress(&self, count: u64) -> Result<(), Failure> {
        let goal = self.counts().writes + count;
        until("writes are acknowledged again", async || {
            (self.counts().writes >= goal).then_some(())
        })
        .await
    }

    /// The longest time without an acknowledged write since this was asked last.
    pub(crate) fn take_longest_gap(&self) -> Duration {
        std::mem::take(&mut self.shared.lock().longest_gap)
    }

    pub(crate) fn counts(&self) -> Counts {
        self.shared.lock().counts
    }

    /// The newest revision that anybody was told of.
    pub(crate) fn revision(&self) -> i64 {
        self.shared.revision.load(Ordering::SeqCst)
    }

    /// A moment after all that were noted.
    pub(crate) fn now(&self) -> u64 {
        self.shared.tick()
    }

    /// Ends them.
    pub(crate) async fn end(mut self) {
        self.phase.send_replace(Phase::End);
        while self.tasks.join_next().await.is_some() {}
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().expect("nobody panics with it")
    }

    fn tick(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    fn value(&self) -> u64 {
        self.values.fetch_add(1, Ordering::SeqCst)
    }
}

impl Notes {
    fn on_write(&mut self) {
        self.counts.writes += 1;
        self.longest_gap = self.longest_gap.max(self.last_write.elapsed());
        self.last_write = Instant::now();
    }

    fn on_fault(&mut self, fault: &ClientError) {
        match fault {
            ClientError::Unreachable(_) => self.counts.not_sent += 1,
            ClientError::Refused(_) => self.counts.refused += 1,
            ClientError::Unknown { .. } => self.counts.unknown += 1,
        }
    }
}
