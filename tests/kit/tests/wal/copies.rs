//! The copies of the meta file, written one after another: at every moment the newest one counts.

use raft_core::{Index, LogStore};
use raft_storage::{Disk, inspect_on};
use raft_testkit::disk::{Image, SimDisk};

use crate::model::{at, command, create, dir, entries, hard, mark, persist, try_open, voters};

/// The generations of the copies that are whole, in the order in which they are written, with
/// what they say.
fn copies(image: &Image) -> Vec<(u64, Vec<u8>)> {
    let disk = SimDisk::from_image(image.clone());
    let Ok(report) = inspect_on(&disk, dir()) else { return Vec::new() };
    let bytes = |name: &str| disk.files().into_iter().find(|(path, _)| path.ends_with(name));
    let whole = report.meta_copies.into_iter().filter_map(|copy| {
        let (_, bytes) = bytes(&copy.file)?;
        Some((copy.generation?, bytes))
    });
    whole.collect()
}

#[track_caller]
fn each_is_newer_than_the_next_or_equal(disk: &SimDisk) {
    let mut newest = 0;
    for image in disk.history() {
        let copies = copies(&image);
        for pair in copies.windows(2) {
            assert!(pair[0].0 > pair[1].0 || pair[0] == pair[1], "a generation says one thing");
        }
        let first = copies.first().map_or(newest, |(generation, _)| *generation);
        assert!(first >= newest, "generation {first} after {newest}");
        newest = first;
    }
    assert!(newest > 1, "the copies were written again");
}

#[test]
fn whatever_is_written_down_is_newer_than_what_was() {
    let disk = SimDisk::new();
    disk.keep_history();
    let mut wal = create(&disk);
    for index in 1..=4 {
        wal.persist(&[entries([command(index, 1, &[7; 2500])])]).expect("a healthy disk");
    }
    let members = (Index(0), voters().into());
    persist(&mut wal, &[mark(at(3, 1), at(3, 1), members)]).expect("a healthy disk");
    wal.persist(&[hard(2, None, 4)]).expect("a healthy disk");
    wal.close().expect("a healthy disk");
    each_is_newer_than_the_next_or_equal(&disk);

    let files = |disk: &SimDisk, ending: &str| {
        let mut files = disk.files();
        files.retain(|(path, _)| path.to_str().is_some_and(|path| path.ends_with(ending)));
        files
    };
    // The repair of the log, which cuts it, and that of a snapshot, which begins it anew.
    let cut = SimDisk::from_image(disk.image());
    let (path, bytes) = files(&cut, ".wal").pop().expect("a segment");
    cut.corrupt(&path, bytes.len() as u64 - 9, |byte| byte ^ 1);
    let anew = SimDisk::from_image(disk.image());
    anew.remove(&files(&anew, ".snap")[0].0).expect("it is there");
    for disk in [cut, anew] {
        disk.keep_history();
        assert!(!try_open(&disk).expect("its end is certain").1.repairs.is_empty());
        each_is_newer_than_the_next_or_equal(&disk);
    }
}
