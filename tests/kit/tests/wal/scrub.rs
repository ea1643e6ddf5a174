//! The scrub finds what has rotted, before anybody needs it.

use raft_core::{Index, LogStore};
use raft_storage::{Scrubbed, Scrubber, Wal, WalError};
use raft_testkit::disk::SimDisk;

use crate::model::{at, command, create, dir, entries, mark, persist, voters};

/// Several full segments and a snapshot.
fn log() -> (SimDisk, Wal) {
    let disk = SimDisk::new();
    let mut wal = create(&disk);
    for index in 1..=12 {
        wal.persist(&[entries([command(index, 1, &[index as u8; 900])])]).expect("a healthy disk");
    }
    let write = mark(at(3, 1), at(1, 1), (Index(0), voters().into()));
    persist(&mut wal, &[write]).expect("a healthy disk");
    (disk, wal)
}

fn pass(scrubber: &mut Scrubber, budget: u64) -> Result<u64, WalError> {
    for steps in 1..10_000 {
        if scrubber.step(budget)? == Scrubbed::All {
            return Ok(steps);
        }
    }
    panic!("it never ends");
}

#[test]
fn a_healthy_log_is_read_whole_again_and_again_in_small_steps() {
    let (_disk, wal) = log();
    let mut scrubber = wal.scrubber();
    for budget in [1, 512, 100_000, u64::MAX] {
        for _ in 0..2 {
            let steps = pass(&mut scrubber, budget).expect("nothing is damaged");
            assert!(budget > 1000 || steps > 3, "{steps} steps of {budget} bytes");
        }
    }
}

#[test]
fn every_changed_byte_of_a_full_segment_and_of_the_snapshot_is_found() {
    let (disk, wal) = log();
    let mut files = disk.files();
    files.retain(|(path, bytes)| {
        let name = path.to_str().unwrap_or_default();
        !bytes.is_empty() && (name.ends_with(".wal") || name.ends_with(".snap"))
    });
    files.sort();
    let newest =
        files.iter().rposition(|(path, _)| path.to_str().is_some_and(|it| it.ends_with("wal")));
    files.remove(newest.expect("a segment"));
    assert!(files.len() > 3);
    for (path, bytes) in files {
        for offset in (0..bytes.len() as u64).step_by(61) {
            let flip = |byte: u8| byte ^ 8;
            disk.corrupt(&path, offset, flip);
            let found = pass(&mut wal.scrubber(), 4096);
            disk.corrupt(&path, offset, flip);
            let error = found.expect_err("a byte was changed");
            let is_named = error.to_string().contains(path.to_str().expect("a name"));
            assert!(is_named, "byte {offset} of {}: {error}", path.display());
        }
    }
    pass(&mut wal.scrubber(), 4096).expect("all is well again");
}

#[test]
fn a_sector_that_was_lost_is_found() {
    let (disk, wal) = log();
    let (path, _) = disk
        .files()
        .into_iter()
        .find(|(path, _)| path.to_str().is_some_and(|it| it.ends_with(".wal")))
        .expect("a segment");
    (512..1024).for_each(|byte| disk.corrupt(&path, byte, |_| 0));
    let error = pass(&mut wal.scrubber(), 4096).expect_err("a sector is lost");
    assert!(matches!(error, WalError::Corrupt(_)), "{error}");
}

// What it reads may be removed at any moment.
#[test]
fn segments_and_snapshots_may_go_while_they_are_read() {
    let (disk, mut wal) = log();
    let mut scrubber = wal.scrubber();
    for next in 13..60 {
        scrubber.step(700).expect("nothing is damaged");
        wal.persist(&[entries([command(next, 1, &[1; 900])])]).expect("a healthy disk");
        if next % 5 == 0 {
            let write = mark(at(next, 1), at(next - 2, 1), (Index(0), voters().into()));
            persist(&mut wal, &[write]).expect("a healthy disk");
        }
    }
    assert!(disk.files().iter().all(|(path, _)| !path.starts_with(dir().join("0000000000000001"))));
    pass(&mut scrubber, 700).expect("nothing is damaged");
}
