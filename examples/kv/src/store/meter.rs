//! What the store has done since it was opened: for metrics. Atomic additions, and no lock.

use prometheus::{Histogram, HistogramOpts, IntCounter, exponential_buckets};

use super::apply::{Answer, Response};
use crate::proto::etcdserverpb::TxnResponse;
use crate::proto::etcdserverpb::response_op;

/// The counters, named as etcd's where the meaning is the same. Clones count together.
#[derive(Clone, Debug)]
pub struct StoreMeter {
    /// Flushes of what was in memory, and steps of a sweep.
    pub commits: Histogram,
    /// Ranges that were read, outside of transactions.
    pub ranges: IntCounter,
    /// Keys that were put.
    pub puts: IntCounter,
    /// Keys that were deleted.
    pub deletes: IntCounter,
    /// Transactions that were applied.
    pub txns: IntCounter,
}

impl StoreMeter {
    pub(super) fn new() -> Self {
        let counter = |name: &str, help: &str| {
            IntCounter::new(name, help).expect("the name of a metric is well formed")
        };
        let buckets = exponential_buckets(0.001, 2.0, 14).expect("the bounds grow");
        let commits = HistogramOpts::new(
            "etcd_disk_backend_commit_duration_seconds",
            "The latency distributions of commits of the backend.",
        );
        Self {
            commits: Histogram::with_opts(commits.buckets(buckets)).expect("it is well formed"),
            ranges: counter("etcd_mvcc_range_total", "Ranges seen by this member."),
            puts: counter("etcd_mvcc_put_total", "Puts seen by this member."),
            deletes: counter("etcd_mvcc_delete_total", "Deletes seen by this member."),
            txns: counter("etcd_mvcc_txn_total", "Transactions seen by this member."),
        }
    }

    pub(super) fn on_applied(&self, responses: &[Response]) {
        for answer in responses.iter().flatten() {
            match answer {
                Answer::Put(_) => self.puts.inc(),
                Answer::DeleteRange(deleted) => self.on_deleted(deleted.deleted),
                Answer::Txn(txn) => {
                    self.txns.inc();
                    self.on_txn(txn);
                }
                // What a lease takes with it is not told; and the rest changes no key.
                _ => {}
            }
        }
    }

    fn on_txn(&self, txn: &TxnResponse) {
        for operation in &txn.responses {
            match &operation.response {
                Some(response_op::Response::ResponsePut(_)) => self.puts.inc(),
                Some(response_op::Response::ResponseDeleteRange(deleted)) => {
                    self.on_deleted(deleted.deleted);
                }
                Some(response_op::Response::ResponseTxn(inner)) => self.on_txn(inner),
                Some(response_op::Response::ResponseRange(_)) | None => {}
            }
        }
    }

    fn on_deleted(&self, count: i64) {
        self.deletes.inc_by(u64::try_from(count).unwrap_or_default());
    }
}
