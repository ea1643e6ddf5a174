//! Snapshot files: built, received, read, damaged.

use std::sync::Arc;

use raft_core::{Index, LogPosition, Snapshot, SnapshotOffer, SnapshotSource, SnapshotStore};
use raft_storage::{SnapshotError, SnapshotFile, Snapshots, Wal};
use raft_testkit::disk::{Fault, Operation, SimDisk};
use rand::RngExt;

use crate::model::{at, create, dir, node, random, try_open, voters};

fn snapshot(last: LogPosition) -> Snapshot {
    Snapshot { last, membership: Arc::new(voters()), membership_index: Index(1) }
}

fn bytes(count: usize) -> Vec<u8> {
    let mut random = random(count as u64);
    (0..count).map(|_| random.random()).collect()
}

fn build(snapshots: &Snapshots, last: LogPosition, body: &[u8]) {
    let mut sink = snapshots.build(&snapshot(last)).expect("a healthy disk");
    for piece in body.chunks(9000) {
        assert_eq!(sink.offset() as usize, piece.as_ptr() as usize - body.as_ptr() as usize);
        sink.write(piece).expect("a healthy disk");
    }
    sink.publish().expect("a healthy disk");
}

fn read_all(source: &dyn SnapshotSource, piece: usize) -> Result<Vec<u8>, String> {
    let (mut found, mut buffer) = (Vec::new(), vec![0; piece]);
    loop {
        let read = source.read_at(found.len() as u64, &mut buffer);
        match read.map_err(|error| error.to_string())? {
            0 => return Ok(found),
            count => found.extend_from_slice(&buffer[..count]),
        }
    }
}

fn newest(snapshots: &Snapshots) -> Arc<dyn SnapshotSource> {
    snapshots.newest().expect("a healthy disk").expect("a snapshot")
}

fn offer(transfer: u64, last: LogPosition, body: &[u8]) -> SnapshotOffer {
    // What the sender has read of its own snapshot.
    let disk = SimDisk::new();
    let wal = create(&disk);
    build(&wal.snapshots(), last, body);
    let source = newest(&wal.snapshots());
    SnapshotOffer {
        from: node(2),
        term: last.term,
        transfer,
        snapshot: snapshot(last),
        len_bytes: source.len_bytes(),
        check: source.check(),
    }
}

fn files(disk: &SimDisk, ending: &str) -> Vec<String> {
    let names = disk.files().into_iter().filter_map(|(path, _)| {
        Some(path.file_name()?.to_str()?.to_owned()).filter(|name| name.ends_with(ending))
    });
    names.collect()
}

// A damaged block is noticed, and not one byte of it is handed on.
#[test]
fn every_changed_byte_is_noticed() {
    let disk = SimDisk::new();
    let (wal, body) = (create(&disk), bytes(66_000));
    build(&wal.snapshots(), at(7, 2), &body);
    let path = dir().join(&files(&disk, ".snap")[0]);
    let found = disk.files().into_iter().find(|(name, _)| *name == path);
    let length = found.expect("the file").1.len();
    for offset in (0..600).chain((600..length - 600).step_by(997)).chain(length - 600..length) {
        let disk = SimDisk::from_image(disk.image());
        disk.corrupt(&path, offset as u64, |byte| byte ^ 0x10);
        let error = match SnapshotFile::open_on(&disk, &path) {
            Err(error) => error,
            Ok(source) => {
                let read = read_all(&source, 3000);
                assert!(read.is_err(), "byte {offset}");
                source.verify().expect_err("damaged")
            }
        };
        assert!(matches!(error, SnapshotError::Damaged(_)), "byte {offset}: {error}");
        assert!(error.to_string().contains(".snap is damaged at byte"), "{error}");
    }
    for length in [0, 100, 512, length - 1] {
        let disk = SimDisk::from_image(disk.image());
        let file = raft_storage::Disk::open(&disk, &path, raft_storage::Access::ReadWrite);
        file.and_then(|file| file.set_len(length as u64)).expect("it is there");
        let error = SnapshotFile::open_on(&disk, &path).map(drop).expect_err("too short");
        assert!(matches!(error, SnapshotError::Damaged(_)), "{length}: {error}");
    }
}

// scenario B56: a transfer goes on where it was, and ends with what was offered or not at all.
#[test]
fn a_transfer_goes_on_after_a_broken_connection_and_after_a_power_cut() {
    let body = bytes(300_000);
    let offer = offer(77, at(9, 3), &body);
    for cut in [0, 1000, 65528, 131_056, 299_999, 300_000] {
        for seed in 0..14 {
            let disk = SimDisk::new();
            let wal = create(&disk);
            let mut sink = wal.snapshots().receive(&offer).expect("a healthy disk");
            sink.write(&body[..cut]).expect("a healthy disk");
            drop(sink);
            // Seed 0 stands for a connection that breaks.
            let (disk, wal) = match seed {
                0 => (disk, wal),
                seed => {
                    drop(wal);
                    let disk = disk.power_cut(seed);
                    let wal = try_open(&disk).expect("an empty log").0;
                    (disk, wal)
                }
            };
            let mut sink = wal.snapshots().receive(&offer).expect("a healthy disk");
            let offset = sink.offset() as usize;
            assert!(offset <= cut);
            assert!(seed > 0 || offset == cut / 65528 * 65528, "whole blocks are kept");
            sink.write(&body[offset..]).expect("a healthy disk");
            sink.publish().expect("what was offered");
            assert_eq!(read_all(&*newest(&wal.snapshots()), 5000).expect("sound"), body);
            assert_eq!(files(&disk, ".part"), [""; 0]);
        }
    }
}

#[test]
fn what_is_on_disk_of_a_transfer_is_checked_before_it_is_trusted() {
    let body = bytes(300_000);
    let offer = offer(77, at(9, 3), &body);
    let disk = SimDisk::new();
    let wal = create(&disk);
    let mut sink = wal.snapshots().receive(&offer).expect("a healthy disk");
    sink.write(&body).expect("a healthy disk");
    drop(sink);
    disk.corrupt(&dir().join(&files(&disk, ".part")[0]), 100_000, |byte| byte ^ 1);
    let mut sink = wal.snapshots().receive(&offer).expect("a healthy disk");
    assert_eq!(sink.offset(), 65528, "up to the damaged block");
    sink.write(&body[65528..]).expect("a healthy disk");
    sink.publish().expect("what was offered");
}

#[test]
fn another_transfer_takes_the_place_of_an_unfinished_one() {
    let body = bytes(100_000);
    let disk = SimDisk::new();
    let wal = create(&disk);
    let mut old = wal.snapshots().receive(&offer(1, at(9, 3), &body)).expect("a healthy disk");
    old.write(&body[..70_000]).expect("a healthy disk");
    let mut new = wal.snapshots().receive(&offer(2, at(9, 3), &body)).expect("a healthy disk");
    assert_eq!((new.offset(), files(&disk, ".part").len()), (0, 1));
    let refused = old.write(&body[70_000..]).expect_err("it gave way").to_string();
    assert!(refused.contains("gave way to another transfer"), "{refused}");
    drop(old);
    new.write(&body).expect("a healthy disk");
    new.publish().expect("what was offered");
}

#[test]
fn a_transfer_that_is_not_what_was_offered_is_not_published_and_begins_anew() {
    let body = bytes(100_000);
    let offer = offer(1, at(9, 3), &body);
    let disk = SimDisk::new();
    let wal = create(&disk);
    let receive = || wal.snapshots().receive(&offer).expect("a healthy disk");
    let publish = |sent: &[u8]| {
        let mut sink = receive();
        assert_eq!(sink.offset(), 0);
        sink.write(sent)?;
        sink.publish()
    };
    let mut other = body.clone();
    other[5] ^= 1;
    let longer = [&body[..], &[0]].concat();
    for wrong in [&body[..99_999], &other, &longer] {
        let error = publish(wrong).expect_err("not what was offered").to_string();
        assert!(error.contains("is not the snapshot that was offered"), "{error}");
        assert!(wal.snapshots().newest().expect("a healthy disk").is_none());
    }
    publish(&body).expect("what was offered");
}

#[test]
fn snapshots_of_others_and_of_later_formats_are_refused_by_name() {
    let disk = SimDisk::new();
    let wal = create(&disk);
    build(&wal.snapshots(), at(7, 2), b"body");
    let path = dir().join(&files(&disk, ".snap")[0]);
    let newest = |disk: &SimDisk| {
        let other = raft_storage::Identity { cluster_id: 0xc2, ..crate::model::identity() };
        let here = std::path::Path::new("/other");
        let options = crate::model::options(disk);
        let (wal, _) = Wal::create(here, other, &voters(), &options).expect("a new log");
        let source = wal.snapshots().newest();
        source.map(drop).expect_err("of no use").to_string()
    };
    let found = disk.files().into_iter().find(|(name, _)| *name == path).expect("the file").1;
    let target = std::path::Path::new("/other").join(path.file_name().expect("a name"));
    disk.put_file(&target, &found);
    let error = newest(&disk);
    assert!(error.contains("is a snapshot of cluster c1, but this is cluster c2"), "{error}");

    let disk = SimDisk::new();
    let mut newer = found;
    crate::opening::as_format(&mut newer, 2);
    disk.put_file(&target, &newer);
    let error = newest(&disk);
    assert!(error.contains("use the newer version that wrote it"), "{error}");
}

#[test]
fn old_ones_go_and_what_is_being_written_stays() {
    let disk = SimDisk::new();
    let wal = create(&disk);
    let snapshots = wal.snapshots();
    [at(3, 1), at(5, 1), at(7, 2)].into_iter().for_each(|last| build(&snapshots, last, b"body"));
    let old = snapshots.at(at(3, 1)).expect("it is there");
    let mut building = snapshots.build(&snapshot(at(8, 2))).expect("a healthy disk");
    let mut receiving = snapshots.receive(&offer(1, at(9, 2), b"nine")).expect("a healthy disk");
    snapshots.retain(at(7, 2)).expect("a healthy disk");
    assert_eq!(files(&disk, ".snap").len(), 1);
    assert_eq!(newest(&snapshots).snapshot().last, at(7, 2));
    assert_eq!(read_all(&old, 100).expect("a transfer under way goes on"), b"body");

    building.write(b"eight").expect("a healthy disk");
    building.publish().expect("a healthy disk");
    receiving.write(b"nine").expect("a healthy disk");
    receiving.publish().expect("a healthy disk");
    assert_eq!(newest(&snapshots).snapshot().last, at(9, 2));
}

#[test]
fn one_that_was_given_up_leaves_nothing() {
    let disk = SimDisk::new();
    let wal = create(&disk);
    drop(wal.snapshots().build(&snapshot(at(3, 1))).expect("a healthy disk"));
    assert_eq!(files(&disk, ".tmp"), [""; 0]);
    let twice = wal.snapshots().build(&snapshot(at(3, 1))).expect("a healthy disk");
    let refused = wal.snapshots().build(&snapshot(at(3, 1))).map(drop);
    assert!(refused.expect_err("one at a time").to_string().contains("is being built already"));
    drop(twice);
    for operation in [Operation::Write, Operation::Sync, Operation::Rename, Operation::SyncDir] {
        disk.inject(operation, 1, Fault::Error(Fault::IO));
        let built = wal.snapshots().build(&snapshot(at(3, 1))).and_then(|mut sink| {
            sink.write(b"body")?;
            sink.publish()
        });
        built.expect_err("the disk failed");
        assert_eq!(files(&disk, ".tmp"), [""; 0]);
    }
}

// A failed sync leaves bytes visible that are not on the disk: what was received is not trusted
// any more.
#[test]
fn a_transfer_begins_anew_after_a_failed_sync() {
    let body = bytes(100_000);
    let offer = offer(1, at(9, 3), &body);
    let disk = SimDisk::new();
    let wal = create(&disk);
    let mut sink = wal.snapshots().receive(&offer).expect("a healthy disk");
    sink.write(&body).expect("a healthy disk");
    disk.inject(Operation::Sync, 1, Fault::Error(Fault::IO));
    sink.publish().expect_err("the sync failed");
    assert_eq!(wal.snapshots().receive(&offer).expect("a healthy disk").offset(), 0);
}

// What a failed sync was to make durable stays visible, and the next sync says that all is well.
// What is gone on with is written again, header and blocks, or a power cut would take them.
#[test]
fn what_a_failed_sync_left_is_written_again_before_it_is_built_upon() {
    let body = bytes(150_000);
    let offer = offer(1, at(9, 3), &body);
    for blocks in [0, 1, 2] {
        let disk = SimDisk::new();
        let wal = create(&disk);
        disk.inject(Operation::Sync, 1, Fault::Error(Fault::IO));
        wal.snapshots().receive(&offer).map(drop).expect_err("the sync of its header failed");
        let mut sink = wal.snapshots().receive(&offer).expect("the disk works again");
        sink.write(&body[..blocks * 70_000]).expect("a healthy disk");
        drop(sink); // The connection breaks.
        let mut sink = wal.snapshots().receive(&offer).expect("the disk works");
        let have = sink.offset() as usize;
        sink.write(&body[have..]).expect("a healthy disk");
        sink.publish().expect("a healthy disk");
        for seed in 0..20 {
            let left = SimDisk::from_image(disk.image().after_power_cut(seed));
            let path = dir().join(&files(&left, ".snap")[0]);
            let found = SnapshotFile::open_on(&left, &path).map_err(|error| error.to_string());
            let found = found.and_then(|found| read_all(&found, 50_000));
            assert_eq!(found.as_ref(), Ok(&body), "{blocks} times 70000 bytes, seed {seed}");
        }
    }
}

#[test]
fn a_snapshot_in_the_making_holds_little_memory() {
    // The sink writes block by block: what is visible on disk follows what was handed in.
    let disk = SimDisk::new();
    let wal = create(&disk);
    let mut sink = wal.snapshots().build(&snapshot(at(3, 1))).expect("a healthy disk");
    let piece = vec![1; 10_000];
    for count in 1..200_usize {
        sink.write(&piece).expect("a healthy disk");
        let path = dir().join(&files(&disk, ".tmp")[0]);
        let file = disk.files().into_iter().find(|(name, _)| *name == path).expect("the file");
        assert!(file.1.len() + (64 << 10) >= count * piece.len());
    }
}
