//! What is certain about the end of a damaged log, sector by sector. Each small batch has a sector
//! of its own, behind the header in sector 0; a segment has eight.

use std::path::PathBuf;

use raft_core::{Index, LogPosition, Term, Write};
use raft_storage::formats::seal_segment;
use raft_storage::{Disk, OpenError, Recovered};
use raft_testkit::disk::SimDisk;

use crate::model::{
    at, command, create, entries, hard, mark, open_strictly, persist, restamp, try_open, voters,
};

const SECTOR: usize = 512;

/// A log of these batches, that was not closed.
fn log(batches: &[Write]) -> SimDisk {
    let disk = SimDisk::new();
    let mut wal = create(&disk);
    for batch in batches {
        persist(&mut wal, std::slice::from_ref(batch)).expect("a healthy disk");
    }
    disk
}

fn small(index: u64, term: u64) -> Write {
    entries([command(index, term, b"small")])
}

/// An entry that takes this many sectors.
fn large(index: u64, term: u64, sectors: usize) -> Write {
    entries([command(index, term, &vec![7; sectors * 504 - 200])])
}

/// A mark, and the snapshot before it.
fn taken(last: u64, base: u64) -> Write {
    mark(at(last, 1), at(base, base.min(1)), (Index(0), voters().into()))
}

fn segments(disk: &SimDisk) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = disk.files();
    files.retain(|(path, _)| path.extension().is_some_and(|it| it == "wal"));
    files
}

fn damage(disk: &SimDisk, segment: usize, sector: usize) {
    disk.corrupt(&segments(disk)[segment].0, (sector * SECTOR + 50) as u64, |byte| byte ^ 1);
}

fn lose(disk: &SimDisk, segment: usize, sector: usize) {
    let path = &segments(disk)[segment].0;
    (0..SECTOR).for_each(|byte| disk.corrupt(path, (sector * SECTOR + byte) as u64, |_| 0));
}

/// Where the log goes on, and what it claims to have held.
fn goes_on(disk: &SimDisk) -> (LogPosition, LogPosition) {
    let Recovered { log, claim, .. } = try_open(disk).expect("its end is certain").1;
    (log.last(), claim.expect("something is missing").last)
}

#[track_caller]
fn is_lost(disk: &SimDisk) {
    let opened = try_open(disk).map(|(_, recovered)| recovered);
    assert!(matches!(opened, Err(OpenError::PromiseLost(_))), "{opened:?}");
}

// Raft §5.3: a leader never takes an entry of its own term back.
#[test]
fn entries_of_the_term_that_the_log_ends_with_are_kept_though_nothing_says_they_are_committed() {
    let disk = log(&[small(1, 1), small(2, 1), small(3, 1), small(4, 1)]);
    damage(&disk, 0, 3);
    assert_eq!(goes_on(&disk), (at(2, 1), at(4, 1)));
}

#[test]
fn of_entries_of_an_older_term_only_those_that_are_committed_are_kept() {
    let first = Write { hard_state: hard(1, None, 1).hard_state, ..small(1, 1) };
    let newer = Write { truncate: Some(Index(1)), ..small(2, 2) };
    let disk = log(&[first, small(2, 1), newer, small(3, 2)]);
    damage(&disk, 0, 3);
    assert_eq!(goes_on(&disk), (at(1, 1), at(3, 2)));
}

// A later segment begins with the terms of the whole log.
#[test]
fn a_later_segment_says_which_entries_are_not_out_of_date() {
    let disk = log(&[small(1, 1), small(2, 1), small(3, 1), large(4, 2, 6)]);
    damage(&disk, 0, 3);
    assert_eq!(goes_on(&disk), (at(2, 1), at(4, 2)));

    let newer = Write { truncate: Some(Index(1)), ..small(2, 2) };
    let disk = log(&[small(1, 1), small(2, 1), newer, large(3, 2, 6)]);
    damage(&disk, 0, 3);
    assert_eq!(goes_on(&disk), (at(1, 1), at(3, 2)));
}

#[test]
fn whole_batches_are_found_in_a_segment_whose_header_is_damaged() {
    let disk = log(&[small(1, 1), small(2, 1), small(3, 1), large(4, 1, 6)]);
    damage(&disk, 0, 2);
    damage(&disk, 1, 0);
    assert_eq!(goes_on(&disk), (at(1, 1), at(4, 1)));
}

#[test]
fn where_the_newest_segment_is_shorter_or_longer_its_end_is_not_certain() {
    for length in [7 * SECTOR, 9 * SECTOR] {
        let disk = log(&[small(1, 1), small(2, 1)]);
        let (path, mut bytes) = segments(&disk).remove(0);
        bytes.resize(length, 0);
        disk.remove(&path).expect("it is there");
        disk.put_file(&path, &bytes);
        is_lost(&disk);
    }
}

// A last batch that was never acknowledged may be torn behind damage as well.
#[test]
fn behind_whole_batches_only_the_next_one_may_be_torn() {
    let batches = [small(1, 1), small(2, 1), small(3, 1), large(4, 1, 2), large(5, 1, 2)];
    let disk = log(&batches[..4]);
    damage(&disk, 0, 2);
    lose(&disk, 0, 4);
    assert_eq!(goes_on(&disk), (at(1, 1), at(3, 1)));

    let disk = log(&batches);
    damage(&disk, 0, 2);
    lose(&disk, 0, 4);
    lose(&disk, 0, 7);
    is_lost(&disk);
}

#[test]
fn a_batch_in_sectors_of_another_one_is_none() {
    let disk = log(&[small(1, 1), small(2, 1), small(3, 1)]);
    damage(&disk, 0, 2);
    restamp(&disk, &segments(&disk)[0].0, 3, 9);
    is_lost(&disk);
}

// Whoever may write entries may not write promises.
#[test]
fn an_entry_that_looks_like_a_batch_is_not_taken_for_one() {
    let forged = segments(&log(&[hard(1, Some(2), 0), hard(9, Some(3), 0)])).remove(0).1;
    let forged = &forged[2 * SECTOR + 8..][..112];
    let payload = [&[7; 504 - 32][..], forged].concat();
    let disk = log(&[small(1, 1), entries([command(2, 1, &payload)])]);
    assert_eq!(segments(&disk)[0].1[3 * SECTOR + 8..][..112], *forged, "a sector begins with it");
    damage(&disk, 0, 2);
    is_lost(&disk);
    // Not even where a batch that is whole follows: the promise is the one of that.
    let disk = log(&[small(1, 1), entries([command(2, 1, &payload)]), small(3, 1)]);
    damage(&disk, 0, 2);
    assert_eq!(try_open(&disk).expect("its end is certain").1.hard_state.term, Term(0));
}

// What the newest mark let go of is gone, though the mark is damaged.
#[test]
fn a_log_that_lost_a_mark_goes_on_from_its_snapshot_and_begins_with_what_is_there() {
    let disk = log(&[small(1, 1), small(2, 1), taken(1, 0), small(3, 1)]);
    damage(&disk, 0, 3);
    let recovered = try_open(&disk).expect("its end is certain").1;
    assert_eq!((recovered.snapshot, recovered.log.last()), (at(1, 1), at(2, 1)));

    // One large entry in each segment, and behind the fourth one a mark.
    let [one, two, three, four] = [1, 2, 3, 4].map(|index| large(index, 1, 6));
    let disk = log(&[one, two, three, four, taken(4, 1), small(5, 1), taken(4, 3), small(6, 1)]);
    assert_eq!(segments(&disk).len(), 2);
    damage(&disk, 1, 2);
    let recovered = try_open(&disk).expect("its end is certain").1;
    assert_eq!((recovered.log.base(), recovered.log.last()), (at(3, 1), at(5, 1)));
    let again = try_open(&disk).expect("it was repaired").1;
    assert_eq!(again, Recovered { repairs: Vec::new(), ..recovered });
}

// Segments go once their mark is synced. That it was written is known from then on.
#[test]
fn where_old_segments_are_gone_their_mark_and_the_promise_beside_it_are_missed() {
    let [one, two, three] = [1, 2, 3].map(|index| large(index, 1, 6));
    let promise = Write { hard_state: hard(2, Some(3), 0).hard_state, ..taken(3, 2) };
    let disk = log(&[one, two, three, promise]);
    assert_eq!(segments(&disk).len(), 1);
    lose(&disk, 0, 7);
    is_lost(&disk);
}

// Only a faulty writer could make such a log.
#[test]
fn a_log_that_begins_before_its_first_entry_is_damaged() {
    let [one, two, three] = [1, 2, 3].map(|index| large(index, 1, 6));
    let disk = log(&[one, two, three, taken(3, 2)]);
    let (path, mut bytes) = segments(&disk).remove(0);
    let base = 7 * SECTOR + 8 + 16;
    assert_eq!(bytes[base], 2, "the index in the header of the first record");
    bytes[base] = 1;
    seal_segment(&mut bytes);
    disk.put_file(&path, &bytes);
    let refusal = open_strictly(&disk).map(drop).expect_err("it is corrupt").to_string();
    assert!(refusal.contains("begins after 1, but its first entry is 3"), "{refusal}");
}
