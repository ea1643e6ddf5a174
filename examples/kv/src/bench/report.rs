//! The result of a run, for people and for programs.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::Serialize;

use super::load::Load;
use super::stats::Counts;

/// What a run gave. Only good answers count as operations.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Report {
    pub(super) endpoints: Vec<String>,
    pub(super) clients: usize,
    pub(super) connections: usize,
    pub(super) read_percent: u8,
    pub(super) serializable: bool,
    pub(super) value_bytes: usize,
    pub(super) key_space: u64,
    pub(super) duration_s: f64,
    pub(super) operations: u64,
    pub(super) throughput: f64,
    pub(super) latency_ms: Latency,
    /// Reads that found nothing.
    pub(super) misses: u64,
    /// By code.
    pub(super) errors: BTreeMap<String, Errors>,
    /// Requests that had no answer seconds after the end.
    pub(super) unanswered: usize,
}

/// Of the good answers, in milliseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Latency {
    pub(super) p50: f64,
    pub(super) p99: f64,
    pub(super) p999: f64,
    pub(super) max: f64,
}

/// Failures with one code.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Errors {
    pub(super) count: u64,
    /// What the first of them said.
    pub(super) first: String,
}

impl Report {
    pub(super) fn new(load: &Load, took: Duration, counts: &Counts, unanswered: usize) -> Self {
        let operations = counts.latency_us.len();
        let errors = counts.errors.iter().map(|(name, (count, first))| {
            (name.clone(), Errors { count: *count, first: first.clone() })
        });
        Self {
            endpoints: load.endpoints.iter().map(ToString::to_string).collect(),
            clients: load.clients,
            connections: load.connections,
            read_percent: load.mix.read_percent,
            serializable: load.mix.serializable,
            value_bytes: load.value_bytes,
            key_space: load.key_space,
            duration_s: took.as_secs_f64(),
            operations,
            throughput: operations as f64 / took.as_secs_f64(),
            latency_ms: Latency {
                p50: counts.latency_ms(0.5),
                p99: counts.latency_ms(0.99),
                p999: counts.latency_ms(0.999),
                max: counts.latency_us.max() as f64 / 1000.0,
            },
            misses: counts.misses,
            errors: errors.collect(),
            unanswered,
        }
    }

    pub(super) fn json(&self) -> String {
        serde_json::to_string_pretty(self).expect("numbers and texts are JSON")
    }

    fn kind(&self) -> String {
        let reads = if self.serializable { "serializable reads" } else { "linearizable reads" };
        match self.read_percent {
            0 => "puts".to_owned(),
            100 => reads.to_owned(),
            percent => format!("{percent} % {reads}, the others puts"),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{}: {} clients on {} connections to {}, values of {} bytes, {} keys at random, {:.1} s",
            self.kind(),
            self.clients,
            self.connections,
            self.endpoints.join(","),
            self.value_bytes,
            self.key_space,
            self.duration_s
        )?;
        let Latency { p50, p99, p999, max } = self.latency_ms;
        writeln!(f, "throughput   {:.0} op/s", self.throughput)?;
        writeln!(f, "latency ms   p50 {p50:.2}   p99 {p99:.2}   p99.9 {p999:.2}   max {max:.2}")?;
        if self.misses > 0 {
            writeln!(
                f,
                "misses       {} reads found nothing (--fill writes all keys)",
                self.misses
            )?;
        }
        if self.errors.is_empty() {
            writeln!(f, "errors       none")?;
        }
        for (name, Errors { count, first }) in &self.errors {
            writeln!(f, "errors       {count} {name}: {first}")?;
        }
        if self.unanswered > 0 {
            writeln!(f, "unanswered   {} requests, after the end", self.unanswered)?;
        }
        Ok(())
    }
}
