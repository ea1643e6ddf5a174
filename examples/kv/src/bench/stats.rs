//! What is counted while it runs.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hdrhistogram::Histogram;

use super::wire::{Answer, CallError, Rpc};

/// Slower answers are counted as this slow.
const LATENCY_US_MAX: u64 = 120_000_000;
const FIGURES: u8 = 3;

/// The counts of one connection, shared by its clients.
pub(super) struct Stats(Mutex<Counts>);

/// How often, and how fast.
#[derive(Clone)]
pub(super) struct Counts {
    /// The good answers, in microseconds.
    pub(super) latency_us: Histogram<u64>,
    /// Reads that found nothing.
    pub(super) misses: u64,
    /// By code: how many, and what the first one said.
    pub(super) errors: BTreeMap<String, (u64, String)>,
}

impl Counts {
    pub(super) fn new() -> Self {
        let latency_us = Histogram::new_with_bounds(1, LATENCY_US_MAX, FIGURES)
            .expect("the bounds are constants that fit");
        Self { latency_us, misses: 0, errors: BTreeMap::new() }
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.latency_us.add(&other.latency_us).expect("all have the same bounds");
        self.misses += other.misses;
        for (name, (count, first)) in &other.errors {
            self.errors.entry(name.clone()).or_insert_with(|| (0, first.clone())).0 += count;
        }
    }

    /// A good answer came after so long.
    pub(super) fn took(&mut self, took: Duration) {
        self.latency_us.saturating_record(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
    }

    /// How many requests failed.
    pub(super) fn error_count(&self) -> u64 {
        self.errors.values().map(|(count, _)| count).sum()
    }

    /// The latency that this share of the answers did not exceed.
    pub(super) fn latency_ms(&self, quantile: f64) -> f64 {
        self.latency_us.value_at_quantile(quantile) as f64 / 1000.0
    }
}

impl Stats {
    pub(super) fn new() -> Self {
        Self(Mutex::new(Counts::new()))
    }

    pub(super) fn record(&self, rpc: Rpc, took: Duration, answer: &Result<Answer, CallError>) {
        let mut counts = self.lock();
        match answer {
            Ok(answer) => {
                counts.took(took);
                counts.misses += u64::from(rpc == Rpc::Range && !answer.has_keys);
            }
            Err(error) => {
                let first = || (0, error.to_string());
                counts.errors.entry(error.name()).or_insert_with(first).0 += 1;
            }
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Counts> {
        // Counts are whole after every statement, so that a panic elsewhere does not matter.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
