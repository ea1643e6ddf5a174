//! The comparison as one Markdown table.

use super::{Measured, cases};
use crate::bench::report::Report;
use crate::bench::system::Kind;
use crate::cli::{Align, Table};

const NOTHING: &str = "–";

/// One row for each case, and two for memory.
pub(super) fn markdown(results: &[Measured]) -> String {
    let of = |kind| results.iter().find(|result| result.kind == kind);
    let (etcd, kontiki, null) = (of(Kind::Etcd), of(Kind::Kontiki), of(Kind::Null));
    let mut table = Table::new([
        ("", Align::Left),
        ("clients", Align::Right),
        ("etcd op/s", Align::Right),
        ("p50 / p99 ms", Align::Right),
        ("kontiki op/s", Align::Right),
        ("p50 / p99 ms", Align::Right),
        ("× etcd", Align::Right),
        ("limit op/s", Align::Right),
        ("× etcd", Align::Right),
        ("share of limit", Align::Right),
    ]);
    for (at, case) in cases().iter().enumerate() {
        let report = |system: Option<&Measured>| system.map(|system| system.reports[at].clone());
        let [etcd, kontiki, null] = [etcd, kontiki, null].map(report);
        let [etcd_rate, our_rate, limit] = [&etcd, &kontiki, &null].map(rate);
        table.row([
            case.name.to_owned(),
            case.clients.to_string(),
            whole(etcd_rate),
            latencies(etcd.as_ref()),
            whole(our_rate),
            latencies(kontiki.as_ref()),
            times(ratio(our_rate, etcd_rate)),
            whole(limit),
            times(ratio(limit, etcd_rate)),
            percent(ratio(our_rate, limit)),
        ]);
    }
    type Memory = fn(&Measured) -> u64;
    let memory: [(&str, Memory); 2] = [
        ("memory at rest, MB", |system| system.rss_at_rest),
        ("memory after, MB", |system| system.rss_after),
    ];
    for (name, bytes) in memory {
        let mb = |system: Option<&Measured>| system.map(|system| bytes(system) as f64 / 1e6);
        let [etcd, kontiki, null] = [etcd, kontiki, null].map(mb);
        let none = || String::new();
        table.row([
            name.to_owned(),
            none(),
            whole(etcd),
            none(),
            whole(kontiki),
            none(),
            times(ratio(kontiki, etcd)),
            whole(null),
            none(),
            none(),
        ]);
    }
    table.markdown()
}

fn rate(report: &Option<Report>) -> Option<f64> {
    report.as_ref().map(|report| report.throughput)
}

fn ratio(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    Some(one? / other.filter(|&other| other > 0.0)?)
}

fn whole(value: Option<f64>) -> String {
    value.map_or(NOTHING.to_owned(), |value| format!("{value:.0}"))
}

fn times(value: Option<f64>) -> String {
    value.map_or(NOTHING.to_owned(), |value| format!("{value:.2}"))
}

fn percent(value: Option<f64>) -> String {
    value.map_or(NOTHING.to_owned(), |value| format!("{:.0} %", 100.0 * value))
}

fn latencies(report: Option<&Report>) -> String {
    report.map_or(NOTHING.to_owned(), |report| {
        let latency = report.latency_ms;
        let errors = if report.errors.is_empty() { "" } else { " (errors)" };
        format!("{:.2} / {:.2}{errors}", latency.p50, latency.p99)
    })
}
