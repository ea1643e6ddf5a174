//! Cuts the power at every boundary between two operations of a disk, with many outcomes each.
//!
//! What is recovered has to be what was acknowledged, or that and the one call that was under way,
//! whole. Then the log goes on, and the power is cut again.

use raft_storage::{OpenError, Wal};
use raft_testkit::disk::{Image, SimDisk};
use rand::RngExt;

use crate::model::{Model, create, dir, open, options, persist, random, try_open};

/// A run of a log, and what it should hold at which operation.
struct Run {
    disk: SimDisk,
    /// The log after each call, from the operation on at which the call returned.
    calls: Vec<(usize, Model)>,
}

impl Run {
    /// What may be found after a cut at this boundary.
    fn candidates(&self, boundary: usize) -> Vec<&Model> {
        let acknowledged = self.calls.iter().rposition(|(returned, _)| *returned <= boundary);
        let first = acknowledged.unwrap_or(0);
        self.calls[first..].iter().take(2).map(|(_, model)| model).collect()
    }
}

/// Writes at random, and reopens the log now and then.
fn run(seed: u64, steps: usize) -> Run {
    let mut random = random(seed);
    let disk = SimDisk::new();
    disk.keep_history();
    let mut wal = create(&disk);
    let mut model = Model::default();
    let mut calls = vec![(disk.operations(), model.clone())];
    for _ in 0..steps {
        if random.random_range(0..8) == 0 {
            match random.random() {
                true => drop(wal),
                false => wal.close().expect("a healthy disk"),
            }
            wal = open(&disk).0;
        }
        let writes = model.step(&mut random);
        persist(&mut wal, &writes).expect("a healthy disk");
        calls.push((disk.operations(), model.clone()));
    }
    Run { disk, calls }
}

fn check(candidates: &[&Model], found: &Model, replay: &str) {
    let close = candidates.iter().any(|candidate| **candidate == *found);
    assert!(close, "{replay}: found {found:#?}\n instead of one of {candidates:#?}");
}

/// Cuts, opens, goes on for some steps, cuts at a random boundary of those, and opens again.
fn cut_twice(image: &Image, candidates: &[&Model], seed: u64, replay: &str) {
    let disk = SimDisk::from_image(image.after_power_cut(seed));
    disk.keep_history();
    let (mut wal, mut model) = open(&disk);
    check(candidates, &model, replay);

    let mut random = random(seed);
    let mut calls = vec![(0, model.clone())];
    for _ in 0..random.random_range(0..3) {
        let writes = model.step(&mut random);
        persist(&mut wal, &writes).expect("a healthy disk");
        calls.push((disk.operations(), model.clone()));
    }
    drop(wal);
    let history = disk.history();
    let boundary = random.random_range(0..history.len());
    let second = Run { disk, calls };
    let disk = SimDisk::from_image(history[boundary].after_power_cut(seed / 7));
    check(&second.candidates(boundary), &open(&disk).1, &format!("{replay}, then {boundary}"));
}

// scenarios B04, B62, B66
#[test]
fn at_every_boundary_a_cut_leaves_what_was_acknowledged_and_the_log_goes_on() {
    for seed in seeds(3) {
        let run = run(seed, 16);
        let created = run.calls[0].0;
        for (boundary, image) in run.disk.history().iter().enumerate().skip(created) {
            let candidates = run.candidates(boundary);
            for outcome in 0..7 {
                let replay = format!("WAL_SEED={seed}, boundary {boundary}, outcome {outcome}");
                cut_twice(image, &candidates, outcome + 7 * boundary as u64, &replay);
            }
        }
    }
}

// scenario B54: everything that is made of several steps is wholly there or not at all.
#[test]
fn a_creation_that_is_cut_short_leaves_nothing_or_an_empty_log() {
    let run = run(1, 0);
    for (boundary, image) in run.disk.history().iter().enumerate() {
        for outcome in 0..70 {
            let disk = SimDisk::from_image(image.after_power_cut(outcome));
            let done = boundary >= run.calls[0].0;
            if !Wal::exists(dir(), &options(&disk)).expect("a healthy disk") {
                assert!(!done, "boundary {boundary}, outcome {outcome}: the log was made");
                assert!(matches!(try_open(&disk), Err(OpenError::Absent { .. })));
                drop(create(&disk));
            }
            assert_eq!(open(&disk).1, Model::default());
        }
    }
}

// A cut while a cut is being mended: opening is itself interrupted at every boundary.
#[test]
fn opening_may_be_cut_short_as_often_as_it_likes() {
    for seed in seeds(2) {
        let run = run(seed, 10);
        let history = run.disk.history();
        for (boundary, image) in history.iter().enumerate().skip(run.calls[0].0).step_by(3) {
            let disk = SimDisk::from_image(image.after_power_cut(boundary as u64));
            disk.keep_history();
            let found = open(&disk).1;
            for (inner, image) in disk.history().iter().enumerate() {
                for outcome in 0..7 {
                    let disk = SimDisk::from_image(image.after_power_cut(outcome));
                    let replay = format!("WAL_SEED={seed}, boundary {boundary}, then {inner}");
                    check(&[&found], &open(&disk).1, &replay);
                }
            }
        }
    }
}

// scenario B62: a reopened log is the log before it was closed, however it was cut and rewritten.
#[test]
fn a_reopened_log_is_the_log_that_was_closed() {
    for seed in seeds(20) {
        let mut random = random(seed);
        let disk = SimDisk::new();
        let (mut wal, mut model) = (create(&disk), Model::default());
        for _ in 0..60 {
            let writes = model.step(&mut random);
            persist(&mut wal, &writes).expect("a healthy disk");
        }
        drop(wal);
        assert_eq!(open(&disk).1, model, "WAL_SEED={seed}");
    }
}

/// The seeds of a test; one of your own with `WAL_SEED=n cargo test -p raft-testkit --test wal`.
fn seeds(count: u64) -> Vec<u64> {
    match std::env::var("WAL_SEED").ok().and_then(|seed| seed.parse().ok()) {
        Some(seed) => vec![seed],
        None => (0..count).collect(),
    }
}
