//! Changes bytes of a log, one at a time, and whole sectors.

use std::path::{Path, PathBuf};

use raft_core::{Index, LogReader, LogStore, Write};
use raft_storage::{Identity, OpenError, Verdict, Wal, WalError, inspect_on};
use raft_testkit::disk::{Image, SimDisk};

use crate::model::{
    Model, command, create, dir, entries, hard, identity, model_of, open, open_strictly, options,
    restamp, try_open, voters,
};

/// A log of two segments, with every kind of record, a batch of several sectors and one of one.
fn small_log() -> (Wal, SimDisk, Model) {
    let disk = SimDisk::new();
    let (mut wal, mut model) = (create(&disk), Model::default());
    let writes = [
        vec![hard(1, Some(1), 0), entries([command(1, 1, b"one"), command(2, 1, &[0; 700])])],
        vec![entries([command(3, 1, &[7; 1200])])],
        vec![Write { truncate: Some(Index(2)), ..entries([command(3, 2, &[0; 1100])]) }],
        vec![entries([command(4, 2, b"four")]), hard(3, None, 2)],
        vec![entries([command(5, 3, &[0; 600])])],
        vec![hard(3, Some(2), 4), entries([command(6, 3, b"six")])],
    ];
    for writes in writes {
        wal.persist(&writes).expect("a healthy disk");
        writes.iter().for_each(|write| model.apply(write));
    }
    (wal, disk, model)
}

fn segments(image: &Image) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = SimDisk::from_image(image.clone()).files();
    files.retain(|(path, _)| path.extension().is_some_and(|extension| extension == "wal"));
    files
}

/// Flips all bits, flips one, and puts a zero: whatever changes the byte.
fn changes(byte: u8) -> impl Iterator<Item = u8> {
    let mut changed = vec![!byte, byte ^ 1, byte ^ 0x80, 0, 0xff];
    changed.retain(|&value| value != byte);
    changed.into_iter()
}

fn damaged(image: &Image, path: &Path, offset: usize, value: u8) -> SimDisk {
    let disk = SimDisk::from_image(image.clone());
    disk.corrupt(path, offset as u64, |_| value);
    disk
}

// scenario B64
#[test]
fn every_changed_byte_is_noticed_and_none_is_taken_for_a_torn_tail() {
    let (wal, disk, model) = small_log();
    let unmarked = disk.image();
    wal.close().expect("a healthy disk");
    let files = disk.files();
    assert_eq!(segments(&unmarked).len(), 2, "the sweep covers a segment that is not the last");

    for (image, kind) in [(unmarked, "dropped"), (disk.image(), "closed")] {
        for (path, bytes) in &files {
            let is_segment = path.extension().is_some_and(|extension| extension == "wal");
            for offset in 0..bytes.len() {
                let byte = SimDisk::from_image(image.clone()).files();
                let byte =
                    byte.iter().find(|(name, _)| name == path).map(|(_, bytes)| bytes[offset]);
                for value in changes(byte.expect("the same files")) {
                    let at = format!("{kind}: {} byte {offset} = {value}", path.display());
                    let disk = damaged(&image, path, offset, value);
                    match is_segment {
                        true => refuses(&disk, path, offset, &at),
                        false => mends(&disk, &model, &at),
                    }
                }
            }
        }
    }
}

/// The log is not opened, nothing is cut, and the error names the file and the place.
fn refuses(disk: &SimDisk, path: &Path, offset: usize, at: &str) {
    let before = disk.files();
    match open_strictly(disk) {
        Err(OpenError::Corrupt(damage)) => {
            assert_eq!(damage.file, path, "{at}: {damage}");
            assert_eq!(damage.offset / 512, offset as u64 / 512, "{at}: {damage}");
        }
        other => panic!("{at}: {other:?}"),
    }
    assert_eq!(disk.files(), before, "{at}: an error changes nothing");
}

/// One copy of the meta file can be spared: it is mended, and said to have been.
fn mends(disk: &SimDisk, model: &Model, at: &str) {
    let (wal, recovered) = try_open(disk).unwrap_or_else(|error| panic!("{at}: {error}"));
    assert_eq!(recovered.repairs.len(), 1, "{at}");
    assert_eq!(model_of(&wal, &recovered), *model, "{at}");
    drop(wal);
    let (_, recovered) = try_open(disk).expect("a mended log");
    assert_eq!(recovered.repairs, [""; 0], "{at}: mended for good");
}

#[test]
fn inspection_finds_the_same_and_changes_nothing() {
    let (wal, disk, _) = small_log();
    let report = inspect_on(&disk, dir()).expect("a log, though it is in use");
    assert_eq!(report.verdict, Verdict::Clean);
    assert_eq!((report.log.first_index, report.log.last_index), (1, 6));
    assert_eq!(report.segments.iter().map(|segment| segment.entries).sum::<u64>(), 7);
    assert_eq!(report.segments.iter().map(|segment| segment.batches).sum::<u64>(), 6);
    drop(wal);

    for (path, bytes) in segments(&disk.image()) {
        for offset in (0..bytes.len()).step_by(97) {
            let disk = damaged(&disk.image(), &path, offset, !bytes[offset]);
            let before = disk.files();
            let report = inspect_on(&disk, dir()).expect("a log");
            match report.verdict {
                Verdict::Corrupt { file, offset: found, .. } => {
                    assert_eq!(
                        file,
                        path.file_name().and_then(|name| name.to_str()).expect("a name")
                    );
                    assert_eq!(found / 512, offset as u64 / 512);
                }
                other => panic!("byte {offset}: {other:?}"),
            }
            assert_eq!(disk.files(), before);
        }
    }
}

#[test]
fn a_missing_segment_is_corruption_the_last_one_too() {
    let (wal, disk, _) = small_log();
    drop(wal);
    for (path, _) in segments(&disk.image()) {
        let disk = SimDisk::from_image(disk.image());
        raft_storage::Disk::remove(&disk, &path).expect("it is there");
        assert!(matches!(open_strictly(&disk), Err(OpenError::Corrupt(_))), "{}", path.display());
    }
}

#[test]
fn a_segment_that_is_shorter_or_longer_is_corruption() {
    let (wal, disk, _) = small_log();
    drop(wal);
    for (path, bytes) in segments(&disk.image()) {
        for length in [0, 511, 512, bytes.len() - 512, bytes.len() + 512] {
            let disk = SimDisk::from_image(disk.image());
            let (made, mut bytes) = (bytes.len(), bytes.clone());
            bytes.resize(length, 0);
            raft_storage::Disk::remove(&disk, &path).expect("it is there");
            disk.put_file(&path, &bytes);
            let refusal = open_strictly(&disk).map(drop).expect_err("it is corrupt");
            assert!(matches!(refusal, OpenError::Corrupt(_)), "{length}");
            if length > 512 {
                let words = format!("the segment has {length} bytes, but was made with {made}");
                assert!(refusal.to_string().contains(&words), "{refusal}");
            }
        }
    }
}

#[test]
fn a_segment_that_is_out_of_place_is_refused_with_what_is_wrong() {
    let refusal = |change: &dyn Fn(&SimDisk, &Path, &[u8])| {
        let (wal, disk, _) = small_log();
        drop(wal);
        let (path, bytes) = segments(&disk.image()).remove(1);
        raft_storage::Disk::remove(&disk, &path).expect("it is there");
        change(&disk, &path, &bytes);
        open_strictly(&disk).map(drop).expect_err("it is corrupt").to_string()
    };
    let renamed = refusal(&|disk, path, bytes| {
        let name = path.file_name().and_then(|name| name.to_str()).expect("a name");
        disk.put_file(&path.with_file_name(name.replace("02-", "03-")), bytes);
    });
    assert!(renamed.contains("segment 0000000000000002 is missing"), "{renamed}");
    let misnamed = refusal(&|disk, path, bytes| {
        disk.put_file(&path.with_file_name("0000000000000002-0000000000000009.wal"), bytes);
    });
    assert!(misnamed.contains("the segment was called 0000000000000002-"), "{misnamed}");
    // The second segment of a log that went another way, and of another node's.
    let of = |owner, first: &[u8]| {
        let disk = SimDisk::new();
        let mut wal = Wal::create(dir(), owner, &voters(), &options(&disk)).expect("a new log").0;
        wal.persist(&[entries([command(1, 1, first)])]).expect("a healthy disk");
        wal.persist(&[entries([command(2, 1, &[7; 2500])])]).expect("a healthy disk");
        wal.persist(&[entries([command(3, 1, &[7; 2500])])]).expect("a healthy disk");
        segments(&disk.image())
    };
    let (mine, other) = (of(identity(), b"one"), of(identity(), b"two"));
    let theirs = of(Identity { incarnation: 9, ..identity() }, b"one");
    for (second, words) in [(&other, "the segment follows"), (&theirs, "belongs to another log")] {
        let disk = SimDisk::new();
        drop(create(&disk));
        for (path, bytes) in [&mine[0], &second[1]] {
            disk.put_file(path, bytes);
        }
        let refusal = open_strictly(&disk).map(drop).expect_err("it is corrupt").to_string();
        assert!(refusal.contains(words), "{refusal}");
    }
}

// What the docs of the replay call undecidable: only in the very last batch, and only in a log
// that was not closed, do sectors that turn into zeros look like a torn write.
#[test]
fn a_lost_sector_is_noticed_except_in_the_last_batch_of_a_log_that_was_not_closed() {
    let (wal, disk, mut model) = small_log();
    let unmarked = disk.image();
    wal.close().expect("a healthy disk");
    model.entries.truncate(5);

    let (mut torn, mut corrupt) = (0, 0);
    for (path, bytes) in segments(&unmarked) {
        let used = |sector: &usize| bytes[sector * 512..][..512].iter().any(|byte| *byte != 0);
        for sector in (0..bytes.len() / 512).filter(used) {
            for (image, closed) in [(&unmarked, false), (&disk.image(), true)] {
                let disk = SimDisk::from_image(image.clone());
                (0..512).for_each(|byte| disk.corrupt(&path, (sector * 512 + byte) as u64, |_| 0));
                match open_strictly(&disk) {
                    Err(OpenError::Corrupt(_)) => corrupt += 1,
                    Ok((wal, recovered)) => {
                        assert!(!closed, "a sync mark covers everything");
                        assert_eq!(model_of(&wal, &recovered).entries, model.entries);
                        torn += 1;
                    }
                    Err(other) => panic!("{other}"),
                }
            }
        }
    }
    assert!(torn == 1 && corrupt > 20, "{torn} taken for torn, {corrupt} for corrupt");
}

#[test]
fn a_log_that_ends_before_its_sync_mark_is_damaged_where_it_ends() {
    let (wal, disk, _) = small_log();
    wal.close().expect("a healthy disk");
    let (path, bytes) = segments(&disk.image()).pop().expect("a segment");
    let last = bytes.iter().rposition(|byte| *byte != 0).expect("it is used") / 512;
    (0..512).for_each(|byte| disk.corrupt(&path, (last * 512 + byte) as u64, |_| 0));
    refuses(&disk, &path, last * 512, "the last batch");
}

#[test]
fn a_sector_of_another_batch_is_damage_whatever_it_holds() {
    let (wal, disk, _) = small_log();
    drop(wal);
    for (path, bytes) in segments(&disk.image()) {
        for sector in (1..bytes.len() / 512).filter(|sector| bytes[sector * 512 + 4] != 0) {
            let disk = SimDisk::from_image(disk.image());
            restamp(&disk, &path, sector, 77);
            refuses(&disk, &path, sector * 512, &format!("sector {sector}"));
        }
    }
}

#[test]
fn a_reader_notices_damage_too() {
    let (wal, disk, model) = small_log();
    let reader = wal.reader();
    let (path, bytes) = segments(&disk.image()).swap_remove(0);
    let zeros = bytes.windows(400).position(|window| window == [7; 400]).expect("entry 3");
    disk.corrupt(&path, zeros as u64, |byte| byte ^ 4);
    let mut found = Vec::new();
    reader.read(Index(1), Index(2), usize::MAX, &mut found).expect("entries that are intact");
    assert_eq!(found, model.entries[..2]);
    // The old entry 3 was cut: nobody reads it.
    reader.read(Index(3), Index(3), usize::MAX, &mut found).expect("the new entry 3");

    let five = segments(&disk.image()).iter().map(|(_, bytes)| bytes.len()).sum::<usize>();
    assert!(five > 0);
    for (path, bytes) in segments(&disk.image()) {
        (512..bytes.len()).for_each(|byte| disk.corrupt(&path, byte as u64, |byte| byte ^ 1));
    }
    let error = reader.read(Index(1), Index(6), usize::MAX, &mut Vec::new());
    assert!(matches!(error, Err(WalError::Corrupt(_))), "{error:?}");
}

#[test]
fn an_intact_log_is_opened_as_it_is() {
    let (wal, disk, model) = small_log();
    drop(wal);
    assert_eq!(open(&disk).1, model);
}
