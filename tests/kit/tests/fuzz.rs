//! The fuzzers' targets without a fuzzer: on the seeds of the repository, on what was found once,
//! and on small changes of them.

use std::fs;
use std::path::{Path, PathBuf};

use raft_testkit::fuzz::{TARGETS, Target, mutated};
use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;

/// How many changed copies of each file are tried.
const COPIES: u64 = 5;

fn inputs(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    let folders = ["seeds", "regressions"].map(|kind| fuzz.join(kind).join(target));
    let files = folders.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten();
    let read = |file: std::io::Result<fs::DirEntry>| {
        let path = file.expect("a folder lists its files").path();
        let bytes = fs::read(&path).expect("a file can be read");
        (path, bytes)
    };
    let mut inputs: Vec<_> = files.map(read).collect();
    inputs.sort();
    inputs
}

fn run(name: &str) {
    let found = TARGETS.iter().find(|(target, _)| *target == name);
    let target: Target = found.expect("there is such a target").1;
    let inputs = inputs(name);
    assert!(inputs.len() >= 20, "the seeds of {name} are there");
    for (number, (path, bytes)) in (0..).zip(&inputs) {
        eprintln!("{}", path.display());
        target(bytes);
        let mut random = Pcg64Mcg::seed_from_u64(number);
        for copy in 0..COPIES {
            eprintln!("  a changed copy, {copy}");
            target(&mutated(bytes, &mut random));
        }
    }
}

#[test]
fn core_events() {
    run("core_events");
}

#[test]
fn decoders() {
    run("decoders");
}

#[test]
fn membership() {
    run("membership");
}

#[test]
fn wal_bytes() {
    run("wal_bytes");
}

#[test]
fn wal_mutated() {
    run("wal_mutated");
}
