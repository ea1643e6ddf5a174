//! What goes when a snapshot is marked, and when.

use std::sync::Arc;

use raft_core::{Index, LogReader, LogStore, Membership, SnapshotStore, Write};
use raft_storage::{Options, Preparation, Wal, inspect_on};
use raft_testkit::disk::{Fault, Operation, SimDisk};

use crate::model::{
    Model, at, command, create, dir, entries, identity, mark, model_of, open, options, persist,
    try_open, voters,
};

/// Entries of term 1, each with a payload of its own, of which a segment holds four or so.
fn filler(index: u64, term: u64) -> raft_core::Entry {
    command(index, term, format!("{index} of {term}, ").repeat(60).as_bytes())
}

fn founders() -> (Index, Arc<Membership>) {
    (Index::ZERO, Arc::new(voters()))
}

fn segments(disk: &SimDisk) -> Vec<u64> {
    let names = disk.files().into_iter().filter_map(|(path, _)| {
        let name = path.file_name()?.to_str()?.strip_suffix(".wal")?.to_owned();
        u64::from_str_radix(&name[..16], 16).ok()
    });
    names.collect()
}

/// A log over many segments; all of it is committed.
fn long_log(disk: &SimDisk) -> (Wal, Model) {
    let (mut wal, mut model) = (create(disk), Model::default());
    for index in 1..=30 {
        let write = entries([filler(index, 1)]);
        wal.persist(std::slice::from_ref(&write)).expect("a healthy disk");
        model.apply(&write);
    }
    assert!(segments(disk).len() > 5, "it has many segments");
    (wal, model)
}

#[test]
fn segments_before_the_base_go_and_the_others_stay() {
    let disk = SimDisk::new();
    let (mut wal, mut model) = long_log(&disk);
    let before = segments(&disk);
    let write = mark(at(20, 1), at(15, 1), founders());
    persist(&mut wal, std::slice::from_ref(&write)).expect("a healthy disk");
    model.apply(&write);

    let left = segments(&disk);
    assert!(left.len() < before.len() && before.ends_with(&left), "{before:?}, then {left:?}");
    let reader = wal.reader();
    let mut found = Vec::new();
    reader.read(Index(16), Index(16), 1, &mut found).expect("it was kept");
    assert_eq!(found, [filler(16, 1)]);
    for gone in [0, 1, 15] {
        reader.read(Index(gone), Index(30), 1, &mut found).expect("no error");
        assert_eq!(found.len(), 1, "a snapshot has taken the place of entry {gone}");
    }
    drop(wal);
    assert_eq!(open(&disk).1, model);
    assert_eq!(segments(&disk), left, "a reopened log has no more to remove");
}

// scenario B62: the first segment that is left begins with a cut into one that is gone.
#[test]
fn a_cut_into_a_segment_that_is_gone_is_understood() {
    let disk = SimDisk::new();
    let (mut wal, mut model) = long_log(&disk);
    let rewritten = Write { truncate: Some(Index(4)), ..entries((5..=12).map(|at| filler(at, 2))) };
    let marked = mark(at(8, 2), at(6, 2), founders());
    for write in [rewritten, entries([filler(13, 2)]), marked] {
        persist(&mut wal, std::slice::from_ref(&write)).expect("a healthy disk");
        model.apply(&write);
    }
    assert!(segments(&disk)[0] > 1, "what held entry 4 is gone");
    drop(wal);
    assert_eq!(open(&disk).1, model);
}

#[test]
fn a_snapshot_that_the_log_does_not_agree_with_takes_its_place() {
    for last in [at(31, 1), at(90, 4), at(10, 2)] {
        let disk = SimDisk::new();
        let (mut wal, mut model) = long_log(&disk);
        let joined = Arc::new(Membership::unknown());
        for write in [mark(last, last, (Index(9), joined)), entries([filler(last.index.0 + 1, 5)])]
        {
            persist(&mut wal, std::slice::from_ref(&write)).expect("a healthy disk");
            model.apply(&write);
        }
        assert!(segments(&disk).len() <= 2, "the one with the mark, and the entry's");
        drop(wal);
        let (wal, recovered) = try_open(&disk).expect("an intact log");
        assert_eq!(model_of(&wal, &recovered), model);
        assert_eq!((recovered.snapshot, recovered.log.base()), (last, last));
        assert_eq!(recovered.memberships, model.memberships);
    }
}

// scenario B66: what a crash or a failed removal leaves is removed when the log is opened.
#[test]
fn leftovers_are_removed_at_the_next_start() {
    for nth in 1..4 {
        let disk = SimDisk::new();
        let (mut wal, mut model) = long_log(&disk);
        let write = mark(at(30, 1), at(30, 1), founders());
        disk.inject(Operation::Remove, nth, Fault::Error(Fault::IO));
        persist(&mut wal, std::slice::from_ref(&write)).expect("removing is not writing");
        model.apply(&write);
        assert_eq!(segments(&disk).len(), 2, "one could not be removed");
        let reopened = SimDisk::from_image(disk.image());
        assert_eq!(open(&reopened).1, model);
        assert_eq!(segments(&reopened).len(), 1);
        // The log itself goes on.
        wal.persist(&[entries([filler(31, 1)])]).expect("a healthy disk");
    }
}

#[test]
fn nothing_goes_before_the_mark_is_durable() {
    let disk = SimDisk::new();
    let (mut wal, model) = long_log(&disk);
    let before = segments(&disk);
    let write = mark(at(30, 1), at(30, 1), founders());
    let snapshot = write.snapshot.as_ref().expect("a mark").snapshot.clone();
    crate::model::publish(&wal, &snapshot);
    disk.inject(Operation::Sync, 1, Fault::Error(Fault::IO));
    wal.persist(&[write]).expect_err("the sync failed");
    assert_eq!(segments(&disk), before);
    drop(wal);
    // Scenario B54: the mark did not become durable, so the snapshot does not count.
    let disk = disk.power_cut(1);
    let (wal, found) = open(&disk);
    assert_eq!(found, model);
    assert!(wal.snapshots().newest().expect("a healthy disk").is_none());
}

#[test]
fn a_thread_removes_them_beside_the_writer() {
    let home = tempfile::tempdir().expect("a directory");
    let options = Options {
        segment_bytes: Options::SEGMENT_BYTES_MIN,
        preparation: Preparation::Background,
        ..Options::default()
    };
    let (mut wal, _) = Wal::create(home.path(), identity(), &voters(), &options).expect("a log");
    for index in 1..=30 {
        wal.persist(&[entries([filler(index, 1)])]).expect("a healthy disk");
    }
    persist(&mut wal, &[mark(at(30, 1), at(30, 1), founders())]).expect("a healthy disk");
    let names = || std::fs::read_dir(home.path()).expect("a directory").filter_map(Result::ok);
    let count = || names().filter(|it| it.path().extension().is_some_and(|it| it == "wal")).count();
    let started = std::time::Instant::now();
    while count() > 1 && started.elapsed().as_secs() < 20 {
        std::thread::yield_now();
    }
    assert_eq!(count(), 1, "the thread has removed the others");
}

#[test]
fn a_node_that_joins_knows_nobody_yet() {
    let disk = SimDisk::new();
    let options = options(&disk);
    let unknown = Membership::unknown();
    drop(Wal::create(dir(), identity(), &unknown, &options).expect("a new log"));
    let (_, recovered) = try_open(&disk).expect("an empty log");
    assert_eq!(recovered.founders, unknown);
    assert_eq!(recovered.memberships, [(Index::ZERO, Arc::new(unknown))]);
}

#[test]
fn addresses_of_founders_and_large_groups_survive() {
    for count in [1, 3, 700] {
        let disk = SimDisk::new();
        let addresses: Vec<String> = (1..=count).map(|id| format!("host-{id}:7000")).collect();
        let members = (1..=count).map(crate::model::node).zip(addresses.iter().map(String::as_str));
        let group = Membership::founded(members).expect("voters");
        let (mut wal, _) =
            Wal::create(dir(), identity(), &group, &options(&disk)).expect("a new log");
        (1..=9).for_each(|at| wal.persist(&[entries([filler(at, 1)])]).expect("a healthy disk"));
        persist(&mut wal, &[mark(at(9, 1), at(8, 1), (Index(0), Arc::new(group.clone())))])
            .expect("a healthy disk");
        drop(wal);
        let (_, recovered) = try_open(&disk).expect("an intact log");
        assert_eq!(recovered.founders, group);
        assert_eq!(recovered.memberships, [(Index::ZERO, Arc::new(group))]);
    }
}

#[test]
fn inspection_shows_snapshots_and_members() {
    let disk = SimDisk::new();
    let (mut wal, _) = long_log(&disk);
    persist(&mut wal, &[mark(at(20, 1), at(15, 1), founders())]).expect("a healthy disk");
    let report = inspect_on(&disk, dir()).expect("a log");
    assert_eq!((report.log.first_index, report.log.last_index), (16, 30));
    let snapshot = report.snapshot.expect("a mark");
    assert_eq!((snapshot.index, snapshot.term), (20, 1));
    assert_eq!(report.memberships.len(), 1);
    assert_eq!(report.memberships[0].voters, [1, 2, 3]);
    let file = &report.snapshots[0];
    assert_eq!((file.last, file.state.as_str(), report.claim), (snapshot, "valid", None));
}
