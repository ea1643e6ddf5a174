//! What the real core does keeps the rules, and what it is recorded as is enough to say so.

use std::sync::{Arc, Mutex};

use raft_testkit::cluster::weather;
use raft_testkit::sim;
use raft_testkit::trace::{Checker, Figures, Line, Record, Sink, What};

const SEEDS: u64 = 12;

fn storm(seed: u64) -> Vec<Record> {
    let records: Arc<Mutex<Vec<Record>>> = Arc::default();
    let into = Arc::clone(&records);
    weather::recorded_storm(
        seed,
        Sink::new(move |record| into.lock().expect("nobody panics").push(record)),
    );
    std::mem::take(&mut *records.lock().expect("nobody panics"))
}

fn check(records: &[Record]) -> Result<Figures, String> {
    let mut checker = Checker::new();
    for (record, number) in records.iter().zip(1..) {
        let verdict = checker.observe(Line { file: 0, number }, record);
        verdict.map_err(|found| format!("line {number}: {found}"))?;
    }
    Ok(checker.figures())
}

#[test]
fn storms_keep_the_rules() {
    let mut all = Figures::default();
    for seed in 1..=SEEDS {
        let figures = check(&storm(seed)).unwrap_or_else(|found| panic!("seed {seed}: {found}"));
        all.elections += figures.elections;
        all.accepts += figures.accepts;
        all.votes += figures.votes;
        all.installed += figures.installed;
        all.crashes += figures.crashes;
    }
    assert!(all.elections > SEEDS && all.votes > SEEDS && all.accepts > 100, "{all:?}");
    assert!(all.crashes > 0 && all.installed > 0, "{all:?}");
}

/// Whole nodes: the real log, power cuts, damage, snapshots in chunks, new disks.
#[test]
fn whole_nodes_keep_the_rules() {
    for seed in [4, 10, 14] {
        let records: Arc<Mutex<Vec<Record>>> = Arc::default();
        let into = Arc::clone(&records);
        let sink = Sink::new(move |record| into.lock().expect("nobody panics").push(record));
        let (result, _) = sim::recorded(&sim::plan(seed, &sim::Faults::all(), None), sink);
        result.unwrap_or_else(|found| panic!("seed {seed}: {found}"));
        let records = std::mem::take(&mut *records.lock().expect("nobody panics"));
        let figures = check(&records).unwrap_or_else(|found| panic!("seed {seed}: {found}"));
        assert!(figures.accepts > 50 && figures.committed > 50, "seed {seed}: {figures:?}");
    }
}

/// Records that are turned around, left out or changed are not taken for a right story: else the
/// rules would not look at them.
#[test]
fn a_story_that_is_told_wrongly_is_not_believed() {
    let records = storm(1);
    let without = |unwanted: fn(&What) -> bool| {
        let kept = records.iter().filter(|record| !unwanted(&record.what)).cloned();
        check(&kept.collect::<Vec<_>>()).expect_err("something is missing")
    };
    let found = without(|what| matches!(what, What::Persisted { .. }));
    assert!(found.contains("durable-promise"), "{found}");
    let found = without(|what| matches!(what, What::Receive { .. }));
    assert!(found.contains("elected") || found.contains("told-commit"), "{found}");
    let found = without(|what| matches!(what, What::Commit { .. }));
    assert!(found.contains("applied-in-order"), "{found}");
    let found = without(|what| matches!(what, What::Persist(write) if !write.entries.is_empty()));
    assert!(found.contains("told-commit") || found.contains("held"), "{found}");
}
