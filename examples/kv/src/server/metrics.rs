//! `/metrics`: what this node does, in the text format of Prometheus, under the names that etcd's
//! dashboards and alerts ask for. A name of etcd's is here only where it means the same.
//!
//! ```text
//!   counted as it happens    calls, proposals, reads, the store's work ─┐
//!                            whoever registers more                     ├─▶ one page
//!   read when somebody asks  the node, its log, its peers, this process ┘
//! ```

mod calls;
mod process;
mod sampled;

use std::sync::Arc;
use std::time::{Duration, Instant};

use kontiki::Meters;
use prometheus::core::Collector;
use prometheus::{Encoder, IntCounter, IntGauge, Registry, TextEncoder};
use tonic::Status;

pub(super) use calls::{Call, Calls, Frames};

use super::backend::Backend;
use crate::config::MetricsDetail;
use crate::store::StoreReader;

/// The format of the page.
pub(super) const KIND: &str = "text/plain; version=0.0.4; charset=utf-8";

/// From here on a linearizable read is a slow one. etcd takes for slow what is retried.
const SLOW_READ_MIN: Duration = Duration::from_millis(500);

/// All of it.
pub(super) struct Metrics {
    registry: Registry,
    meters: Meters,
    pub(super) calls: Arc<Calls>,
    proposals_pending: IntGauge,
    proposals_failed: IntCounter,
    reads_failed: IntCounter,
    reads_slow: IntCounter,
}

impl Metrics {
    pub(super) fn new(
        services: &[&'static str],
        detail: MetricsDetail,
        meters: Meters,
        store: &StoreReader,
    ) -> Self {
        let calls = Arc::new(Calls::new(services, detail));
        let metrics = Self {
            registry: Registry::new(),
            meters,
            proposals_pending: gauge(
                "etcd_server_proposals_pending",
                "The current number of pending proposals to commit.",
            ),
            proposals_failed: counter(
                "etcd_server_proposals_failed_total",
                "The total number of failed proposals seen.",
            ),
            reads_failed: counter(
                "etcd_server_read_indexes_failed_total",
                "The total number of failed read indexes seen.",
            ),
            reads_slow: counter(
                "etcd_server_slow_read_indexes_total",
                "The total number of pending read indexes that took half a second or more.",
            ),
            calls: Arc::clone(&calls),
        };
        metrics.register(metrics.proposals_pending.clone());
        metrics.register(metrics.proposals_failed.clone());
        metrics.register(metrics.reads_failed.clone());
        metrics.register(metrics.reads_slow.clone());
        let store = store.meter();
        metrics.register(store.commits.clone());
        for counter in [&store.ranges, &store.puts, &store.deletes, &store.txns] {
            metrics.register(counter.clone());
        }
        calls.register(&metrics);
        metrics
    }

    /// Shows one more, or a family of them, on the page. No two may have the same name.
    pub(super) fn register(&self, collector: impl Collector + 'static) {
        if let Err(error) = self.registry.register(Box::new(collector)) {
            tracing::error!(%error, "a metric is not shown");
        }
    }

    /// A proposal begins; drop it when it has ended.
    pub(super) fn proposing(&self) -> Proposing<'_> {
        self.proposals_pending.inc();
        Proposing(self)
    }

    /// Notes how a linearizable read went that began then.
    pub(super) fn on_read<T>(&self, began: Instant, outcome: &Result<T, Status>) {
        if outcome.is_err() {
            self.reads_failed.inc();
        }
        if began.elapsed() >= SLOW_READ_MIN {
            self.reads_slow.inc();
        }
    }

    /// The page.
    pub(super) fn page(&self, backend: &Backend) -> Result<Vec<u8>, prometheus::Error> {
        let mut families = self.registry.gather();
        families.extend(sampled::families(backend, &self.meters));
        families.extend(process::families());
        families.sort_by(|a, b| a.name().cmp(b.name()));
        let mut page = Vec::new();
        TextEncoder::new().encode(&families, &mut page)?;
        Ok(page)
    }
}

/// A proposal that is under way.
pub(super) struct Proposing<'a>(&'a Metrics);

impl Proposing<'_> {
    /// It was not applied, as far as anybody knows.
    pub(super) fn failed(&self) {
        self.0.proposals_failed.inc();
    }
}

impl Drop for Proposing<'_> {
    fn drop(&mut self) {
        self.0.proposals_pending.dec();
    }
}

fn counter(name: &str, help: &str) -> IntCounter {
    IntCounter::new(name, help).expect("the name of a metric is well formed")
}

fn gauge(name: &str, help: &str) -> IntGauge {
    IntGauge::new(name, help).expect("the name of a metric is well formed")
}
