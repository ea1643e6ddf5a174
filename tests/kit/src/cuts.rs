//! Searches for a power cut after which the write-ahead log is not what it should be.
//!
//! A trace is a run of a log on the simulated disk: writes of every kind, snapshots, restarts. The
//! power is cut before every operation of the disk, and the log is recovered from what is left:
//!
//! ```text
//!   calls       persist 1 ──────────────── ok   persist 2 ─────────────── ok   ...
//!   operations     write   sync   rename   │       write   sync           │
//!   cuts         ^       ^      ^        ^         ^     ^      ^
//!   found        0,1     0,1    0,1      1         1,2   1,2    2              calls, whole
//! ```
//!
//! What is recovered must be what was acknowledged, or that and the one call that was under way,
//! whole. Recovering it again gives the same, and so does a recovery after a cut in the middle of
//! the first one.
//!
//! Long traces are cut with some seeded outcomes at every operation. In short traces every outcome
//! that the disk allows is tried: every subset of the unsynced sectors, in each of their contents,
//! every length and every name, as far as there are at most [`OUTCOMES_MAX`] of them.

use std::fmt;
use std::panic::{self, AssertUnwindSafe};

mod run;

use run::Search;

/// The most outcomes of one moment that are all tried; where there are more, some are chosen.
pub const OUTCOMES_MAX: u64 = 1 << 12;

/// What was tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Traces: one long and one short for each seed.
    pub traces: u64,
    /// Calls to a log in them, snapshots and restarts not counted.
    pub calls: u64,
    /// Moments at which the power was cut.
    pub moments: u64,
    /// Power cuts in all; each was recovered and compared. The next two are among them.
    pub cuts: u64,
    /// Cuts at moments where every outcome was tried.
    pub exhaustive_cuts: u64,
    /// Cuts in the middle of a recovery.
    pub recovery_cuts: u64,
    /// Moments at which every outcome was tried.
    pub exhaustive_moments: u64,
    /// Moments of short traces that had too many outcomes for that.
    pub sampled_moments: u64,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { traces, calls, moments, cuts, .. } = self;
        writeln!(f, "{cuts} power cuts at {moments} moments of {traces} traces, {calls} calls")?;
        let Self { exhaustive_cuts, exhaustive_moments, sampled_moments, .. } = self;
        writeln!(
            f,
            "  {exhaustive_cuts} of them are all outcomes of {exhaustive_moments} moments \
             ({sampled_moments} moments of short traces had more than {OUTCOMES_MAX})"
        )?;
        write!(f, "  {} of them fell into the recovery from another", self.recovery_cuts)
    }
}

/// A power cut after which the log is not what it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The seed of the trace.
    pub seed: u64,
    /// Where the power was cut, and with which outcome.
    pub place: String,
    /// What was found instead of what.
    pub found: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, place, found } = self;
        writeln!(f, "{place}: {found}")?;
        write!(f, "again with: raft-testkit cuts --seed {seed} --traces 1")
    }
}

impl std::error::Error for Violation {}

/// Tries as many seeds from `seed` on.
///
/// # Errors
/// The first cut after which the log is not what it should be.
pub fn hunt(seed: u64, traces: u64) -> Result<Figures, Violation> {
    let mut figures = Figures::default();
    for seed in seed..seed.saturating_add(traces) {
        let mut search = Search::new(seed);
        let searched = panic::catch_unwind(AssertUnwindSafe(|| search.all()));
        let outcome = searched.unwrap_or_else(|panic| Err(panicked(panic.as_ref())));
        let place = search.place();
        figures.add(search.figures());
        outcome.map_err(|found| Violation { seed, place, found })?;
    }
    Ok(figures)
}

/// A log that panics has seen that something is wrong.
fn panicked(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    format!("it panics: {}", text.unwrap_or("without a word"))
}

impl Figures {
    fn add(&mut self, other: &Self) {
        self.traces += other.traces;
        self.calls += other.calls;
        self.moments += other.moments;
        self.cuts += other.cuts;
        self.exhaustive_cuts += other.exhaustive_cuts;
        self.recovery_cuts += other.recovery_cuts;
        self.exhaustive_moments += other.exhaustive_moments;
        self.sampled_moments += other.sampled_moments;
    }
}
