//! Storms over a cluster in memory: crashes, partitions, lost, late and repeated messages, slow,
//! stalled and damaged disks, tiny windows, snapshots, members that come and go, leaderships handed
//! over. Safety always; liveness once the sky is clear.
//!
//! ```text
//!   KONTIKI_SEED=7 cargo test --test properties storm      replays one seed, step by step
//!   KONTIKI_SEEDS=100000 cargo test --release --test properties storm
//! ```

use std::panic::catch_unwind;

use raft_testkit::cluster::weather::{Report, storm};

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is a number, not {text:?}")))
}

#[test]
fn a_cluster_survives_any_storm() {
    if let Some(seed) = number("KONTIKI_SEED") {
        println!("{:?}", storm(seed, true));
        return;
    }
    let few = if cfg!(debug_assertions) { 250 } else { 5000 };
    let (first, seeds) =
        (number("KONTIKI_FIRST").unwrap_or(0), number("KONTIKI_SEEDS").unwrap_or(few));
    let threads = std::thread::available_parallelism().map_or(1, |count| count.get() as u64);
    let reports = std::thread::scope(|scope| {
        let worker = |thread| {
            let mine = (first + thread..first + seeds).step_by(threads as usize);
            scope.spawn(move || mine.map(survive).collect::<Vec<_>>())
        };
        let workers: Vec<_> = (0..threads).map(worker).collect();
        let reports = workers.into_iter().map(|worker| worker.join().expect("it reports"));
        reports.flatten().collect::<Vec<_>>()
    });
    let failed: Vec<u64> =
        reports.iter().filter_map(|report| report.as_ref().err()).copied().collect();
    let reports: Vec<_> = reports.into_iter().flatten().collect();
    summarize(&reports);
    assert!(
        failed.is_empty(),
        "{} of {seeds} seeds failed; replay one by\n  KONTIKI_SEED={} cargo test --test properties storm",
        failed.len(),
        failed[0]
    );
}

fn survive(seed: u64) -> Result<Report, u64> {
    catch_unwind(|| storm(seed, false)).map_err(|_| {
        eprintln!("replay by: KONTIKI_SEED={seed} cargo test --test properties storm");
        seed
    })
}

/// The storms must have been storms: everything that can happen in one was met.
fn summarize(reports: &[Report]) {
    let sum = |of: fn(&Report) -> u64| reports.iter().map(of).sum::<u64>();
    let met = [
        ("committed", sum(|report| report.ending.committed)),
        ("superseded", sum(|report| report.ending.superseded)),
        ("unknown", sum(|report| report.ending.unknown)),
        ("refused", sum(|report| report.ending.refused)),
        ("read", sum(|report| report.ending.read)),
        ("read under a lease", sum(|report| report.lease_reads)),
        ("members changed", sum(|report| report.ending.changed)),
        ("leaderships handed over", sum(|report| report.ending.transferred)),
        ("snapshots installed", sum(|report| report.installed)),
    ];
    let stuck = reports.iter().filter(|report| report.stuck).count();
    let healed = reports.iter().filter(|report| !report.stuck);
    let slowest = healed.map(|report| report.recovery).max().unwrap_or_default();
    for (name, count) in met {
        println!("{count:>8} {name}");
    }
    println!("{} storms, {stuck} without enough whole logs at their end", reports.len());
    println!("the slowest recovery took {slowest:?}");
    if reports.len() >= 100 {
        for (name, count) in met {
            assert!(count > 0, "never {name}");
        }
        assert!(stuck * 20 < reports.len(), "too many storms say nothing");
    }
}

#[test]
fn one_seed_is_one_history() {
    for seed in 0..20 {
        assert_eq!(storm(seed, false), storm(seed, false), "seed {seed}");
    }
}
