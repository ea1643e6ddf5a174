//! Readers beside the writer.

use std::sync::atomic::{AtomicBool, Ordering};

use raft_core::{Entry, Index, LogReader, LogStore, Payload, Write};
use raft_storage::{Options, Wal, WalError, WalReader};
use raft_testkit::disk::SimDisk;
use rand::{Rng, RngExt};

use crate::model::{command, create, dir, entries, hard, identity, options, owner, random, voters};

#[test]
fn behind_the_end_of_the_log_nothing_is_read_and_that_is_an_error() {
    let disk = SimDisk::new();
    let mut wal = create(&disk);
    wal.persist(&[entries([command(1, 1, b"one")])]).expect("a healthy disk");
    let absent = wal.reader().read(Index(2), Index(300), 9, &mut Vec::new());
    assert!(matches!(absent, Err(WalError::Absent { .. })), "{absent:?}");
}

/// An entry that says what it is, so that a reader can tell whether it got the right one.
fn telling(index: u64, term: u64) -> Entry {
    command(index, term, format!("{index} of {term}").repeat(30).as_bytes())
}

/// The writer notes only now and then where an entry stands; readers walk from there.
#[test]
fn every_entry_of_a_large_batch_is_found_before_and_after_a_restart() {
    let disk = SimDisk::new();
    let options = Options { segment_bytes: 1 << 20, ..options(&disk) };
    let all: Vec<Entry> = (1..=600).map(|index| telling(index, 1)).collect();
    assert!(all.iter().map(Entry::size_bytes).sum::<usize>() > 128 << 10);
    let (mut wal, _) = Wal::create(dir(), identity(), &voters(), &options).expect("a new log");
    wal.persist(&[hard(1, None, 0)]).expect("a healthy disk");
    wal.persist(&[entries(all.clone())]).expect("a healthy disk");
    let reads_all = |wal: &Wal| {
        for first in 1..=600 {
            let mut found = Vec::new();
            let (from, to) = (Index(first), Index(first + 2));
            wal.reader().read(from, to.min(Index(600)), usize::MAX, &mut found).expect("sound");
            assert_eq!(found, all[first as usize - 1..(first as usize + 2).min(600)]);
        }
    };
    reads_all(&wal);
    wal.close().expect("a healthy disk");
    let (wal, _) = Wal::open(dir(), owner(), &options).expect("a sound log");
    reads_all(&wal);
}

/// Whatever moment a read falls on, what it gives are neighbours out of one log.
fn read_at_random(reader: &WalReader, random: &mut impl Rng) -> usize {
    let first = random.random_range(1..300);
    let mut found: Vec<Entry> = Vec::new();
    match reader.read(Index(first), Index(first + 100), 20_000, &mut found) {
        Ok(()) => assert!(!found.is_empty()),
        Err(WalError::Absent { .. }) => assert!(found.is_empty()),
        Err(other) => panic!("{other}"),
    }
    for (entry, index) in found.iter().zip(first..) {
        assert_eq!(*entry, telling(index, entry.term.0));
        assert!(matches!(entry.payload, Payload::Command(_)));
    }
    assert!(found.is_sorted_by_key(|entry| entry.term), "no two logs in one read: {found:?}");
    found.len()
}

#[test]
fn readers_see_one_log_while_the_writer_cuts_and_rewrites_it() {
    let disk = SimDisk::new();
    let mut wal = create(&disk);
    let (reader, done) = (wal.reader(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..2)
            .map(|seed| {
                let (reader, done) = (reader.clone(), &done);
                scope.spawn(move || {
                    let (mut random, mut found) = (random(seed), 0);
                    while !done.load(Ordering::Relaxed) {
                        found += read_at_random(&reader, &mut random);
                    }
                    found
                })
            })
            .collect();
        let (mut last, mut random) = (0, random(9));
        for term in 1..400 {
            let keep = if last > 200 { last - random.random_range(0..150) } else { last };
            let count = random.random_range(1..20);
            let more = (keep + 1..=keep + count).map(|index| telling(index, term));
            let write = Write { truncate: Some(Index(keep)), ..entries(more) };
            wal.persist(&[write]).expect("a healthy disk");
            last = keep + count;
        }
        done.store(true, Ordering::Relaxed);
        let found: usize = readers.into_iter().map(|it| it.join().expect("no panic")).sum();
        assert!(found > 0, "the readers came to something");
    });
}
