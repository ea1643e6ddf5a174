//! What is read when somebody asks: the node, its log, its store and its peers.

use kontiki::Meters;
use kontiki::raft_grpc::{LaneStats, PeerStats};
use kontiki::raft_storage::WriteCounts;
use prometheus::proto::{
    Bucket, Counter, Gauge, Histogram, LabelPair, Metric, MetricFamily, MetricType,
};

use crate::server::backend::Backend;
use crate::server::maintenance::API_VERSION;

/// Everything of it.
pub(super) fn families(backend: &Backend, meters: &Meters) -> Vec<MetricFamily> {
    let mut families = node(backend);
    families.extend(store(backend));
    families.extend(log(&meters.log()));
    families.extend(peers(backend, meters));
    families
}

fn node(backend: &Backend) -> Vec<MetricFamily> {
    let status = backend.node.status();
    let (leadership, id) = (status.leadership, format!("{:x}", backend.id.get()));
    let minor = API_VERSION.rsplit_once('.').map_or(API_VERSION, |(minor, _)| minor);
    let is = |holds: bool| f64::from(u8::from(holds));
    vec![
        gauge(
            "etcd_server_has_leader",
            "Whether there is a leader.",
            is(leadership.leader.is_some()),
        ),
        gauge("etcd_server_is_leader", "Whether this member leads.", is(leadership.is_leader())),
        gauge(
            "etcd_server_is_learner",
            "Whether this member is a learner.",
            is(status.members.membership.is_learner(backend.id)),
        ),
        counter(
            "etcd_server_leader_changes_seen_total",
            "The number of leader changes seen.",
            status.leader_changes as f64,
        ),
        gauge(
            "etcd_server_proposals_committed_total",
            "The index of the last entry that is committed.",
            status.committed.0 as f64,
        ),
        gauge(
            "etcd_server_proposals_applied_total",
            "The index of the last entry that is applied.",
            status.applied.0 as f64,
        ),
        gauge(
            "etcd_server_quota_backend_bytes",
            "The size of the data from which on writes are refused; 0 where there is none.",
            backend.config.quota_backend_bytes.unwrap_or_default() as f64,
        ),
        labelled("etcd_server_id", "The id of this member, in hex.", ("server_id", &id)),
        labelled("etcd_server_version", "The API's version.", ("server_version", API_VERSION)),
        labelled("etcd_cluster_version", "The cluster's version.", ("cluster_version", minor)),
    ]
}

fn store(backend: &Backend) -> Vec<MetricFamily> {
    let (reader, size) = (&backend.reader, backend.reader.size());
    let allocated = "The size of the data on disk, in bytes.";
    vec![
        gauge("etcd_mvcc_db_total_size_in_bytes", allocated, size.bytes as f64),
        gauge("etcd_debugging_mvcc_db_total_size_in_bytes", allocated, size.bytes as f64),
        gauge(
            "etcd_mvcc_db_total_size_in_use_in_bytes",
            "The size of the versions that are kept, in bytes.",
            size.bytes_in_use as f64,
        ),
        gauge(
            "etcd_debugging_mvcc_current_revision",
            "The store's revision.",
            reader.revision() as f64,
        ),
        gauge(
            "etcd_debugging_mvcc_compact_revision",
            "The revision of the last compaction.",
            reader.compacted() as f64,
        ),
    ]
}

fn log(counts: &WriteCounts) -> Vec<MetricFamily> {
    let bucket = |bound: f64, count: u64| {
        let mut bucket = Bucket::default();
        bucket.set_upper_bound(bound);
        bucket.set_cumulative_count(count);
        bucket
    };
    let within = counts.within.iter();
    let mut histogram = Histogram::default();
    histogram
        .set_bucket(within.map(|(bound, count)| bucket(bound.as_secs_f64(), *count)).collect());
    histogram.set_sample_count(counts.syncs);
    histogram.set_sample_sum(counts.sync_time.as_secs_f64());
    let mut metric = Metric::default();
    metric.set_histogram(histogram);
    vec![
        family(
            "etcd_disk_wal_fsync_duration_seconds",
            "The latency distributions of fsync called by WAL.",
            MetricType::HISTOGRAM,
            vec![metric],
        ),
        gauge(
            "etcd_disk_wal_write_bytes_total",
            "Total number of bytes written in WAL.",
            counts.written_bytes as f64,
        ),
    ]
}

/// Of a node that is alone nothing is shown: a family without members has no place on the page.
fn peers(backend: &Backend, meters: &Meters) -> Vec<MetricFamily> {
    let own = format!("{:x}", backend.id.get());
    let peers = meters.peers();
    let peers: Vec<(String, PeerStats)> = peers
        .into_iter()
        .filter(|(_, stats)| !stats.guest)
        .map(|(id, stats)| (format!("{:x}", id.get()), stats))
        .collect();
    let each = |name, help, label: &str, count: fn(&LaneStats) -> u64| {
        let metric = |(id, stats): &(String, PeerStats)| {
            let both = count(&stats.control) + count(&stats.bulk);
            counted(both as f64, vec![pair(label, id)])
        };
        family(name, help, MetricType::COUNTER, peers.iter().map(metric).collect())
    };
    let active = peers.iter().map(|(id, stats)| {
        let active = f64::from(u8::from(stats.connected));
        gauged(active, vec![pair("Local", &own), pair("Remote", id)])
    });
    let families = vec![
        family(
            "etcd_network_active_peers",
            "Whether the streams to a peer are open.",
            MetricType::GAUGE,
            active.collect(),
        ),
        each(
            "etcd_network_peer_sent_bytes_total",
            "The total number of bytes sent to peers.",
            "To",
            |lane| lane.sent_bytes,
        ),
        each(
            "etcd_network_peer_received_bytes_total",
            "The total number of bytes received from peers.",
            "From",
            |lane| lane.received_bytes,
        ),
        each(
            "etcd_network_peer_sent_failures_total",
            "The total number of messages to peers that were dropped.",
            "To",
            |lane| lane.dropped_messages + lane.too_large_messages,
        ),
    ];
    families.into_iter().filter(|family| !family.get_metric().is_empty()).collect()
}

pub(super) fn gauge(name: &str, help: &str, value: f64) -> MetricFamily {
    family(name, help, MetricType::GAUGE, vec![gauged(value, vec![])])
}

pub(super) fn counter(name: &str, help: &str, value: f64) -> MetricFamily {
    family(name, help, MetricType::COUNTER, vec![counted(value, vec![])])
}

/// What says something by its label: its value is 1.
fn labelled(name: &str, help: &str, (label, value): (&str, &str)) -> MetricFamily {
    family(name, help, MetricType::GAUGE, vec![gauged(1.0, vec![pair(label, value)])])
}

fn gauged(value: f64, labels: Vec<LabelPair>) -> Metric {
    let mut gauge = Gauge::default();
    gauge.set_value(value);
    let mut metric = Metric::from_label(labels);
    metric.set_gauge(gauge);
    metric
}

fn counted(value: f64, labels: Vec<LabelPair>) -> Metric {
    let mut counter = Counter::default();
    counter.set_value(value);
    let mut metric = Metric::from_label(labels);
    metric.set_counter(counter);
    metric
}

fn pair(name: &str, value: &str) -> LabelPair {
    let mut pair = LabelPair::default();
    pair.set_name(name.to_owned());
    pair.set_value(value.to_owned());
    pair
}

fn family(name: &str, help: &str, kind: MetricType, metrics: Vec<Metric>) -> MetricFamily {
    let mut family = MetricFamily::default();
    family.set_name(name.to_owned());
    family.set_help(help.to_owned());
    family.set_field_type(kind);
    family.set_metric(metrics);
    family
}
