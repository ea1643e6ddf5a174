//! What was done, and what came of it: one table.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::ValueEnum;
use raft_testkit::trace::Figures;
use serde_json::{Value, json};

use super::record::Audit;
use super::schedule::Kind;
use super::workload::Counts;
use super::{Length, Wish};
use crate::cli::{Align, Table};

/// What is known of one kind of fault.
#[derive(Clone, Debug, Default)]
struct Row {
    times: u64,
    words: BTreeMap<&'static str, u64>,
    longest_gap: Duration,
    note: Option<String>,
}

/// What was done and found.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    seed: u64,
    clients: usize,
    asked: Length,
    rows: BTreeMap<Kind, Row>,
    pub(crate) took: Duration,
    pub(crate) counts: Counts,
    pub(crate) terms: u64,
    /// How many nodes hold the same, at which revision, with which hash.
    pub(crate) replicas: Option<(usize, i64, u32)>,
    /// What the traces of the nodes came to, checked against the rules of the protocol.
    pub(crate) traced: Option<Figures>,
    audits: u64,
    keys: u64,
    calls: u64,
    once: u64,
    /// What is wrong.
    pub(crate) found: Vec<String>,
}

impl Report {
    pub(crate) fn new(wish: &Wish) -> Self {
        Self {
            seed: wish.seed,
            clients: wish.clients,
            asked: wish.length,
            rows: wish.kinds.iter().map(|kind| (*kind, Row::default())).collect(),
            took: Duration::ZERO,
            counts: Counts::default(),
            terms: 0,
            replicas: None,
            traced: None,
            audits: 0,
            keys: 0,
            calls: 0,
            once: 0,
            found: Vec::new(),
        }
    }

    /// Counts one, and says it in words.
    pub(crate) fn count(&mut self, kind: Kind, words: &[(&'static str, u64)]) -> String {
        let row = self.rows.entry(kind).or_default();
        row.times += 1;
        for (word, count) in words {
            *row.words.entry(word).or_default() += count;
        }
        let words: Vec<_> = words.iter().map(|(word, _)| *word).collect();
        format!("{}: {}", name(kind), words.join(", "))
    }

    pub(crate) fn times(&self, kind: Kind) -> u64 {
        self.rows.get(&kind).map_or(0, |row| row.times)
    }

    pub(crate) fn note_gap(&mut self, kind: Kind, gap: Duration) {
        let row = self.rows.entry(kind).or_default();
        row.longest_gap = row.longest_gap.max(gap);
    }

    pub(crate) fn skip(&mut self, kind: Kind, reason: &str) {
        self.rows.entry(kind).or_default().note = Some(format!("skipped: {reason}"));
    }

    pub(crate) fn note_no_small_disk(&mut self, reason: &str) {
        let note = format!("writes fail, but no disk is full: {reason}");
        self.rows.entry(Kind::Disk).or_default().note = Some(note);
    }

    pub(crate) fn add(&mut self, audit: Audit) {
        self.audits += 1;
        self.keys += audit.checked.keys as u64;
        self.calls += audit.checked.calls as u64;
        self.once += audit.once as u64;
        self.found.extend(audit.found);
    }

    pub(crate) fn is_well(&self) -> bool {
        self.found.is_empty()
    }

    /// For people.
    pub(crate) fn table(&self) -> String {
        let mut table = Table::new([
            ("WHAT", Align::Left),
            ("TIMES", Align::Right),
            ("HOW IT CAME OUT", Align::Left),
            ("NO WRITE FOR", Align::Right),
        ]);
        for (kind, row) in &self.rows {
            let gap = match row.times {
                0 => String::new(),
                _ => format!("{:.1} s", row.longest_gap.as_secs_f64()),
            };
            table.row([name(*kind), row.times.to_string(), row.outcome(), gap]);
        }
        for (what, times, outcome) in self.results() {
            table.row([what.to_owned(), times.to_string(), outcome, String::new()]);
        }
        table.boxed()
    }

    /// What the clients saw, and what the nodes hold.
    fn results(&self) -> Vec<(&'static str, u64, String)> {
        let Counts { reads, writes, unknown, refused, not_sent } = self.counts;
        let open = "may have happened, or not: left open".to_owned();
        let (nodes, held) = match self.replicas {
            Some((nodes, revision, hash)) => {
                (nodes as u64, format!("hash {hash:08x} at revision {revision} on all"))
            }
            None => (0, "were never compared".to_owned()),
        };
        let traced = self.traced.unwrap_or_default();
        let Figures { elections, applied, installed, .. } = traced;
        let traced_words = match self.traced {
            Some(_) => {
                format!("{elections} elections, {applied} entries applied, {installed} snapshots")
            }
            None => "not checked to their end".to_owned(),
        };
        let held = if self.is_well() { held + ", after a last kill -9 too" } else { held };
        vec![
            ("reads answered", reads, format!("by {} clients", self.clients)),
            ("writes answered", writes, format!("{} keys written just once", self.once)),
            ("requests not answered", unknown, open),
            ("requests not executed", refused + not_sent, format!("{refused} of them refused")),
            ("keys", self.keys, format!("{} calls, {} audits", self.calls, self.audits)),
            ("elections", self.terms, format!("terms, in {:.0} s", self.took.as_secs_f64())),
            ("replicas", nodes, held),
            ("steps of the protocol", traced.records, traced_words),
            ("found wrong", self.found.len() as u64, self.verdict()),
        ]
    }

    fn verdict(&self) -> String {
        if self.is_well() {
            "nothing acknowledged was lost; every key linearizable".to_owned()
        } else {
            format!("see below; seed {}", self.seed)
        }
    }

    /// What is wrong, at length.
    pub(crate) fn complaint(&self) -> String {
        format!("seed {}:\n{}", self.seed, self.found.join("\n"))
    }

    /// For programs.
    pub(crate) fn json(&self) -> Value {
        let faults: BTreeMap<String, Value> = self.rows.iter().map(row_json).collect();
        let Counts { reads, writes, unknown, refused, not_sent } = self.counts;
        let replicas = self.replicas.map(|(nodes, revision, hash)| {
            json!({ "nodes": nodes, "revision": revision, "hash": format!("{hash:08x}") })
        });
        let asked = match self.asked {
            Length::Time(length) => json!({ "seconds": length.as_secs_f64() }),
            Length::Kills(count) => json!({ "cycles": count }),
        };
        json!({
            "seed": self.seed,
            "asked": asked,
            "took_seconds": self.took.as_secs_f64(),
            "faults": faults,
            "requests": {
                "reads": reads, "writes": writes, "unknown": unknown,
                "refused": refused, "not_sent": not_sent,
            },
            "checked": { "keys": self.keys, "calls": self.calls, "once": self.once },
            "terms": self.terms,
            "traced": self.traced.map(|it| json!({ "records": it.records, "missing": it.missing })),
            "replicas": replicas,
            "found": self.found,
        })
    }
}

impl Row {
    fn outcome(&self) -> String {
        let words = self.words.iter().map(|(word, count)| format!("{word} ×{count}"));
        words.chain(self.note.clone()).collect::<Vec<_>>().join(", ")
    }
}

fn row_json((kind, row): (&Kind, &Row)) -> (String, Value) {
    let value = json!({
        "times": row.times,
        "outcomes": row.words,
        "longest_gap_ms": row.longest_gap.as_millis() as u64,
        "note": row.note,
    });
    (name(*kind), value)
}

/// As it is given on the command line.
fn name(kind: Kind) -> String {
    kind.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let wish = Wish {
            seed: 7,
            length: Length::Kills(1),
            nodes: 3,
            clients: 2,
            kinds: vec![Kind::Kill, Kind::Partition],
            snapshot_count: 100,
            dir: "/nowhere".into(),
        };
        let mut report = Report::new(&wish);
        report.count(Kind::Kill, &[("processes", 2), ("a majority at once", 1)]);
        report.skip(Kind::Partition, "no wires");
        report
    }

    #[test]
    fn a_table_says_what_was_done_and_what_was_not() {
        let table = report().table();
        for expected in [
            "a majority at once ×1, processes ×2",
            "skipped: no wires",
            "nothing acknowledged was lost",
        ] {
            assert!(table.contains(expected), "{expected}\n{table}");
        }
    }

    #[test]
    fn what_is_lost_is_told_with_the_seed() {
        let mut report = report();
        let found = vec!["t/0/once/1.1 = 9 was acknowledged, and is lost".to_owned()];
        report.add(Audit { found, ..Audit::default() });
        assert!(!report.is_well());
        assert!(!report.table().contains("nothing acknowledged was lost"), "{}", report.table());
        assert!(report.complaint().contains("seed 7") && report.complaint().contains("is lost"));
        assert_eq!(report.json()["found"][0], report.found[0]);
    }
}
