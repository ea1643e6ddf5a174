//! Disks that fail, fill up, take less than they are given, or take their time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use raft_core::{Index, LogReader, LogStore};
use raft_storage::{CreateError, OpenError, Wal, WalError};
use raft_testkit::disk::{Fault, Operation, SimDisk};

use crate::model::{
    Model, command, create, dir, entries, hard, identity, model_of, open, options, try_open, voters,
};

fn write(index: u64) -> raft_core::Write {
    entries([command(index, 1, &[index as u8; 900])])
}

// scenario B61
#[test]
fn a_failed_sync_poisons_the_log_and_is_never_tried_again() {
    let disk = SimDisk::new();
    let mut wal = create(&disk);
    wal.persist(&[hard(1, Some(1), 0), write(1)]).expect("a healthy disk");
    disk.inject(Operation::Sync, 1, Fault::Error(Fault::IO));
    let first = wal.persist(&[write(2)]).expect_err("the sync failed").to_string();
    assert!(first.contains(".wal at byte 2048: Input/output error"), "{first}");

    let operations = disk.operations();
    for index in [2, 3] {
        let again = wal.persist(&[write(index)]).expect_err("poisoned");
        assert_eq!(again.to_string(), first, "the same error for ever");
    }
    assert_eq!(disk.operations(), operations, "nothing was written, nothing was synced");
    assert!(wal.reader().read(Index(2), Index(2), 1, &mut Vec::new()).is_err());
    assert!(wal.close().is_err());
}

// scenario B61: the kernel shows pages that it has given up. What a reopened log says it holds, it
// has written and synced anew.
#[test]
fn what_a_failed_sync_left_visible_is_durable_once_the_log_was_reopened() {
    let disk = SimDisk::new();
    let mut wal = create(&disk);
    wal.persist(&[write(1)]).expect("a healthy disk");
    disk.inject(Operation::Sync, 1, Fault::Error(Fault::IO));
    wal.persist(&[write(2)]).expect_err("the sync failed");
    drop(wal);

    let (mut wal, found) = open(&disk);
    assert_eq!(found.last(), 2, "it looks whole");
    wal.persist(&[write(3)]).expect("a healthy disk");
    for seed in 0..14 {
        let disk = SimDisk::from_image(disk.image().after_power_cut(seed));
        assert_eq!(open(&disk).1.last(), 3);
    }
}

#[test]
fn whichever_operation_fails_nothing_acknowledged_is_lost() {
    let operations = [
        Operation::Write,
        Operation::Sync,
        Operation::Create,
        Operation::Rename,
        Operation::SyncDir,
    ];
    for operation in operations {
        for nth in 1..30 {
            let disk = SimDisk::new();
            let (mut wal, mut acknowledged) = (create(&disk), Model::default());
            disk.inject(operation, nth, Fault::Error(Fault::IO));
            for index in 1..20 {
                match wal.persist(&[write(index)]) {
                    Ok(()) => acknowledged.apply(&write(index)),
                    Err(_) => break,
                }
            }
            drop(wal);
            let mut attempted = acknowledged.clone();
            attempted.apply(&write(acknowledged.last() + 1));
            for disk in [disk.clone(), disk.power_cut(nth)] {
                // The power is cut for the second one only.
                let disk = SimDisk::from_image(disk.image());
                let found = open(&disk).1;
                assert!(found == acknowledged || found == attempted, "{operation:?} {nth}");
            }
        }
    }
}

// scenario B67
#[test]
fn a_full_disk_tears_nothing_and_the_log_goes_on_when_there_is_room_again() {
    for room in (0..9000).step_by(500) {
        let disk = SimDisk::new();
        let (mut wal, mut model) = (create(&disk), Model::default());
        disk.limit_growth(Some(room));
        let error = loop {
            let next = write(model.last() + 1);
            match wal.persist(std::slice::from_ref(&next)) {
                Ok(()) => model.apply(&next),
                Err(error) => break error,
            }
            assert!(model.last() < 100, "a full disk takes no more");
        };
        let WalError::Disk(error) = error else { panic!("{error}") };
        assert_eq!(error.source.raw_os_error(), Some(Fault::NO_SPACE));
        assert!(error.file.ends_with("next.tmp"), "met before it touched the log: {error}");
        drop(wal);

        // It can be opened on the full disk, which makes room: what was prepared is given back.
        let (wal, found) = open(&disk);
        assert_eq!(found, model, "room for {room}");
        drop(wal);
        disk.limit_growth(None);
        let (mut wal, _) = open(&disk);
        wal.persist(&[write(model.last() + 1)]).expect("there is room");
    }
}

#[test]
fn a_disk_that_takes_a_few_bytes_at_a_time_gets_all_of_them() {
    let disk = SimDisk::new();
    let mut wal = create(&disk);
    (1..6).for_each(|nth| disk.inject(Operation::Write, nth, Fault::Short(100)));
    (1..6).for_each(|nth| disk.inject(Operation::Read, nth, Fault::Short(70)));
    wal.persist(&[write(1)]).expect("short is not failed");
    drop(wal);
    assert_eq!(open(&disk).1.last(), 1);
}

#[test]
fn a_write_that_fails_in_the_middle_is_cut() {
    let disk = SimDisk::new();
    let mut wal = create(&disk);
    wal.persist(&[write(1)]).expect("a healthy disk");
    disk.inject(Operation::Write, 1, Fault::Short(512));
    disk.inject(Operation::Write, 2, Fault::Error(Fault::IO));
    wal.persist(&[write(2)]).expect_err("the rest failed");
    drop(wal);
    let (wal, recovered) = try_open(&disk).expect("a torn tail is no corruption");
    assert!(recovered.repairs[0].contains("torn at byte 1536, and is cut"), "{recovered:?}");
    assert_eq!(model_of(&wal, &recovered).last(), 1);
    drop(wal);
    assert!(try_open(&disk).expect("a clean log").1.repairs.is_empty());
}

#[test]
fn a_call_is_one_write_and_one_sync_however_many_writes_it_is_handed() {
    let disk = SimDisk::new();
    let mut wal = create(&disk);
    let before = disk.operations();
    let writes: Vec<_> = (1..=10).map(|index| entries([command(index, 1, b"x")])).collect();
    wal.persist(&writes).expect("a healthy disk");
    assert_eq!(disk.operations(), before + 2);
    wal.persist(&[entries([])]).expect("nothing to do");
    assert_eq!(disk.operations(), before + 2, "an empty write costs nothing");
}

#[test]
fn a_reader_goes_on_while_the_writer_is_stuck_in_a_sync() {
    let disk = SimDisk::new();
    let mut wal = create(&disk);
    wal.persist(&[write(1)]).expect("a healthy disk");
    let (reader, seen) = (wal.reader(), Arc::new(AtomicU64::new(0)));
    let noted = Arc::clone(&seen);
    let stall = move || {
        let mut found = Vec::new();
        reader.read(Index(1), Index(2), usize::MAX, &mut found).expect("entry 1");
        noted.store(found.len() as u64, Ordering::Relaxed);
    };
    disk.inject(Operation::Sync, 1, Fault::Stall(Arc::new(stall)));
    wal.persist(&[write(2)]).expect("slow is not failed");
    assert_eq!(seen.load(Ordering::Relaxed), 1, "entry 2 was not durable yet");
}

#[test]
fn a_creation_that_fails_can_be_tried_again() {
    for operation in [Operation::Write, Operation::Sync, Operation::Rename, Operation::SyncDir] {
        for nth in 1..4 {
            let disk = SimDisk::new();
            disk.inject(operation, nth, Fault::Error(Fault::IO));
            match Wal::create(dir(), identity(), &voters(), &options(&disk)) {
                Err(CreateError::Disk(_)) => {}
                Ok(_) => continue,
                Err(other) => panic!("{other}"),
            }
            match Wal::exists(dir(), &options(&disk)).expect("a healthy disk") {
                true => drop(open(&disk)),
                false => drop(create(&disk)),
            }
        }
    }
}

#[test]
fn an_open_that_fails_can_be_tried_again() {
    for operation in [Operation::Read, Operation::Write, Operation::Sync, Operation::SyncDir] {
        // No failure is passed over, or taken for a file that is missing.
        let mut last = 0;
        for nth in 1..60 {
            let disk = SimDisk::new();
            let mut wal = create(&disk);
            wal.persist(&[write(1)]).expect("a healthy disk");
            drop(wal);
            disk.inject(operation, nth, Fault::Error(Fault::IO));
            match try_open(&disk) {
                Ok((_, recovered)) => assert!(recovered.repairs.is_empty(), "{recovered:?}"),
                Err(OpenError::Disk(_)) if last + 1 == nth => last = nth,
                failed => panic!("{operation:?} {nth}: {failed:?}"),
            }
            let disk = SimDisk::from_image(disk.image());
            assert_eq!(open(&disk).1.last(), 1);
        }
    }
}
