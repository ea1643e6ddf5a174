//! Rounds that take turns, and what they amount to.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::{Allocations, Pump};

/// How long to measure.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// How many rounds each side gets.
    pub rounds: usize,
    /// How long a round takes.
    pub round: Duration,
}

/// One round of one side.
#[derive(Clone, Copy, Debug)]
pub struct Round {
    /// Units of work done: entries, or batches.
    pub units: u64,
    /// How long they took: on a clock where they wait for a disk, else on the processor.
    pub elapsed: Duration,
    /// What they allocated on this thread.
    pub allocations: Allocations,
    /// Bytes of payloads copied.
    pub copied_bytes: u64,
}

/// What the rounds of one side amount to, for one unit of work.
#[derive(Clone, Copy, Debug)]
pub struct Figures {
    /// Nanoseconds in the median round.
    pub median_ns: f64,
    /// Nanoseconds in the fastest round.
    pub min_ns: f64,
    /// Allocations.
    pub allocations: f64,
    /// Bytes allocated.
    pub allocated_bytes: f64,
    /// Bytes of payloads copied.
    pub copied_bytes: f64,
}

impl Effort {
    /// The usual effort, or next to none where `--smoke` is given. Whatever else cargo passes is
    /// ignored.
    pub fn from_args() -> Self {
        if std::env::args().any(|arg| arg == "--smoke") {
            Self { rounds: 3, round: Duration::from_millis(2) }
        } else {
            Self { rounds: 81, round: Duration::from_millis(5) }
        }
    }

    /// For work that waits for a disk: fewer rounds, and longer ones.
    #[must_use]
    pub fn on_disk(self) -> Self {
        Self { rounds: self.rounds.div_ceil(4), round: self.round * 12 }
    }
}

impl Round {
    /// Runs `pump` `count` times, and counts the entries that all three applied. The time is that
    /// of this thread on a processor, since a pump never waits.
    pub fn of(pump: &mut dyn Pump, count: u64) -> Self {
        let (before, allocations) = (pump.applied(), Allocations::now());
        let start = processor_time();
        for _ in 0..count {
            pump.pump();
        }
        let elapsed = processor_time() - start;
        let allocations = Allocations::now() - allocations;
        let after = pump.applied();
        let units = (after.entries - before.entries) / 3;
        Self { units, elapsed, allocations, copied_bytes: after.copied_bytes - before.copied_bytes }
    }
}

impl Figures {
    /// Of these rounds.
    pub fn of(rounds: &[Round]) -> Self {
        let mut ns: Vec<f64> = rounds
            .iter()
            .map(|round| round.elapsed.as_nanos() as f64 / round.units as f64)
            .collect();
        ns.sort_by(f64::total_cmp);
        let units: u64 = rounds.iter().map(|round| round.units).sum();
        let per_unit =
            |value: fn(&Round) -> u64| rounds.iter().map(value).sum::<u64>() as f64 / units as f64;
        Self {
            median_ns: ns[ns.len() / 2],
            min_ns: ns[0],
            allocations: per_unit(|round| round.allocations.count),
            allocated_bytes: per_unit(|round| round.allocations.bytes),
            copied_bytes: per_unit(|round| round.copied_bytes),
        }
    }
}

/// Lets the sides take turns, every second time in the opposite order, after each has run until
/// its memory is warm. A side measures `count` repetitions when called with it.
pub fn interleave<const N: usize>(
    effort: Effort,
    warm_up: u64,
    mut sides: [&mut dyn FnMut(u64) -> Round; N],
) -> [Figures; N] {
    let counts = sides.each_mut().map(|side| {
        side(warm_up);
        let trial = side(warm_up.div_ceil(4));
        let once = trial.elapsed.as_secs_f64() / warm_up.div_ceil(4) as f64;
        ((effort.round.as_secs_f64() / once) as u64).max(1)
    });
    let mut rounds: [Vec<Round>; N] = std::array::from_fn(|_| Vec::new());
    for turn in 0..effort.rounds {
        for at in 0..N {
            let at = if turn % 2 == 0 { at } else { N - 1 - at };
            rounds[at].push(sides[at](counts[at]));
        }
    }
    rounds.map(|rounds| Figures::of(&rounds))
}

/// What this thread has spent on a processor.
fn processor_time() -> Duration {
    let spent = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(spent.tv_sec.unsigned_abs(), u32::try_from(spent.tv_nsec).unwrap_or(0))
}
