//! Who may open what, and what the refusals say. On the real disk where the system's own locks
//! and threads matter.

use std::path::Path;

use raft_core::{Index, LogStore, NodeId};
use raft_storage::{CreateError, OpenError, Options, OptionsError, Owner, Verdict, Wal, inspect};
use raft_testkit::disk::SimDisk;
use rand::RngExt;

use crate::model::{
    Model, command, crc32c, create, dir, entries, hard, identity, model_of, node, open, options,
    owner, persist, random, try_open, voters,
};

fn one_entry() -> raft_core::Write {
    entries([command(1, 1, b"one")])
}

#[test]
fn one_directory_has_one_owner_at_a_time() {
    let home = tempfile::tempdir().expect("a directory");
    let (path, options) = (home.path().join("a/b"), Options::default());
    let open = || Wal::open(&path, owner(), &options);
    assert!(matches!(open(), Err(OpenError::Absent { .. })));
    let (mut wal, _) = Wal::create(&path, identity(), &voters(), &options).expect("a new log");
    wal.persist(&[one_entry()]).expect("a healthy disk");

    let refusal = open().map(drop).expect_err("it is locked").to_string();
    assert!(refusal.contains("is in use by another process; stop it"), "{refusal}");
    let refusal = Wal::create(&path, identity(), &voters(), &options).map(drop);
    assert!(matches!(refusal, Err(CreateError::Locked { .. })));

    let report = inspect(&path).expect("a lock keeps nobody from looking");
    assert_eq!((report.verdict, report.log.last_index), (Verdict::Clean, 1));
    drop(wal);
    assert_eq!(open().expect("the lock is free").1.log.last_index(), Index(1));
}

#[test]
fn a_log_is_made_once() {
    let disk = SimDisk::new();
    drop(create(&disk));
    let again = Wal::create(dir(), identity(), &voters(), &options(&disk)).map(drop);
    let refusal = again.expect_err("there is one").to_string();
    assert!(refusal.contains("holds a log already (node 1 of cluster c1, disk d15c)"), "{refusal}");
}

#[test]
fn the_log_of_another_node_or_cluster_is_refused_by_name() {
    let disk = SimDisk::new();
    drop(create(&disk));
    for (cluster_id, node_id) in [(0xc1, 2), (0xc2, 1)] {
        let stranger = Owner { cluster_id, node_id: node(node_id) };
        let refusal = Wal::open(dir(), stranger, &options(&disk)).map(drop);
        let refusal = refusal.expect_err("not its log").to_string();
        assert!(refusal.contains("belongs to node 1 of cluster c1, but this is node"), "{refusal}");
        assert!(refusal.contains("give each node its own directory"), "{refusal}");
    }
}

/// A file of a format to come: the same first sixteen bytes, with another number.
pub fn as_format(bytes: &mut [u8], format: u32) {
    bytes[8..12].copy_from_slice(&format.to_le_bytes());
    let check = crc32c(&bytes[..12]);
    bytes[12..16].copy_from_slice(&check.to_le_bytes());
}

#[test]
fn a_newer_format_is_refused_by_name_and_left_alone() {
    let disk = SimDisk::new();
    drop(create(&disk));
    for (path, mut bytes) in disk.files().into_iter().filter(|(_, bytes)| !bytes.is_empty()) {
        let disk = SimDisk::from_image(disk.image());
        as_format(&mut bytes, 2);
        disk.put_file(&path, &bytes);
        let before = disk.files();
        let error = try_open(&disk).map(drop).expect_err("too new");
        let OpenError::NewerFormat { file, found: 2, known: 1 } = &error else { panic!("{error}") };
        assert_eq!(*file, path);
        assert!(error.to_string().contains("use the newer version that wrote it"), "{error}");
        let made = Wal::create(dir(), identity(), &voters(), &options(&disk)).map(drop);
        assert!(matches!(made, Err(CreateError::Exists { .. })));
        assert_eq!(disk.files(), before);
    }
}

// scenario B70: a disk that lost its identity never votes again under the old one.
#[test]
fn a_log_without_any_copy_of_its_identity_is_neither_opened_nor_made_anew() {
    let disk = SimDisk::new();
    let mut wal = create(&disk);
    wal.persist(&[hard(1, Some(2), 0)]).expect("a healthy disk");
    drop(wal);
    for name in ["meta.0", "meta.1", "meta.2"] {
        raft_storage::Disk::remove(&disk, &dir().join(name)).expect("it is there");
    }
    let refusal = try_open(&disk).map(drop).expect_err("nobody's log").to_string();
    assert!(
        refusal.contains("meta.0 is missing") && refusal.contains("never vote again"),
        "{refusal}"
    );
    let made = Wal::create(dir(), identity(), &voters(), &options(&disk)).map(drop);
    assert!(matches!(made, Err(CreateError::Exists { identity: None, .. })));
}

/// Its segment may be empty: the header says that something came before it.
#[test]
fn a_log_whose_newest_segment_alone_is_left_is_not_made_anew() {
    let disk = SimDisk::new();
    let mut wal = create(&disk);
    for index in 1..=3 {
        wal.persist(&[entries([command(index, 1, &[7; 1500])])]).expect("a healthy disk");
    }
    drop(wal);
    let mut files = disk.files();
    files.retain(|(path, _)| path.extension().is_some_and(|extension| extension == "wal"));
    let (path, bytes) = files.pop().expect("two segments");
    assert!(!files.is_empty(), "it is not the first");
    let disk = SimDisk::new();
    raft_storage::Disk::create_dir(&disk, dir()).expect("a healthy disk");
    let header = bytes.iter().rposition(|byte| *byte != 0).expect("it holds something");
    assert!(header > 512, "it holds a batch");
    disk.put_file(&path, &[&bytes[..512], &vec![0; bytes.len() - 512][..]].concat());
    assert!(Wal::exists(dir(), &options(&disk)).expect("a healthy disk"));
    let made = Wal::create(dir(), identity(), &voters(), &options(&disk)).map(drop);
    assert!(matches!(made, Err(CreateError::Exists { identity: None, .. })));
}

#[test]
fn a_directory_says_whose_log_it_holds_and_the_log_who_founded_it() {
    let disk = SimDisk::new();
    let identity_in = |disk: &SimDisk| Wal::identity_in(dir(), &options(disk));
    assert_eq!(identity_in(&disk).expect("a healthy disk"), None);
    let wal = create(&disk);
    assert_eq!(wal.founders(), &voters());
    assert_eq!(identity_in(&disk).expect("though it is in use"), Some(identity()));
}

#[test]
fn one_copy_of_the_identity_is_enough_and_the_others_are_mended() {
    let disk = SimDisk::new();
    drop(create(&disk));
    raft_storage::Disk::remove(&disk, &dir().join("meta.0")).expect("it is there");
    disk.put_file(&dir().join("meta.1"), b"rubbish");
    let (wal, recovered) = try_open(&disk).expect("one copy is left");
    assert_eq!(recovered.repairs, ["meta.0 is missing", "meta.1 is damaged"]);
    drop(wal);
    raft_storage::Disk::remove(&disk, &dir().join("meta.2")).expect("it is there");
    let (wal, recovered) = try_open(&disk).expect("the others were mended");
    assert_eq!(recovered.repairs, ["meta.2 is missing"]);
    drop(wal);
    disk.put_file(&dir().join("meta.0"), &[7; 1024]);
    drop(try_open(&disk).expect("two copies are left"));
    assert!(try_open(&disk).expect("it has the right length again").1.repairs.is_empty());
}

#[test]
fn what_a_repair_or_a_rotation_left_unfinished_goes() {
    let disk = SimDisk::new();
    drop(create(&disk));
    for name in ["damaged.tmp", "next.tmp"] {
        disk.put_file(&dir().join(name), b"unfinished");
    }
    drop(open(&disk));
    assert!(disk.files().iter().all(|(_, bytes)| bytes != b"unfinished"));
}

#[test]
fn settings_that_cannot_work_are_refused() {
    let disk = SimDisk::new();
    let options = Options { segment_bytes: 4095, ..options(&disk) };
    let refused = Wal::create(dir(), identity(), &voters(), &options).map(drop);
    let Err(CreateError::Options(OptionsError::SegmentTooSmall(4095))) = refused else {
        panic!("{refused:?}")
    };
}

// As a follower is sent them that was away for long.
#[test]
fn entries_of_several_terms_may_be_written_at_once() {
    let disk = SimDisk::new();
    let mut wal = create(&disk);
    let write = entries([(1, 1), (2, 1), (3, 2), (4, 4)].map(|(at, term)| command(at, term, b"")));
    wal.persist(std::slice::from_ref(&write)).expect("a healthy disk");
    drop(wal);
    let mut model = Model::default();
    model.apply(&write);
    assert_eq!(open(&disk).1, model);
}

#[test]
fn other_files_in_the_directory_are_left_alone() {
    let disk = SimDisk::new();
    disk.put_file(&dir().join("snapshot"), b"precious");
    drop(create(&disk));
    drop(open(&disk));
    assert!(disk.files().contains(&(dir().join("snapshot"), b"precious".to_vec())));
}

#[test]
#[should_panic = "entry 3:t1 cannot follow 1:t1"]
fn a_gap_never_reaches_the_disk() {
    let disk = SimDisk::new();
    let mut wal = create(&disk);
    wal.persist(&[one_entry()]).expect("a healthy disk");
    let _ = wal.persist(&[entries([command(3, 1, b"three")])]);
}

#[test]
#[should_panic = "not used any more after a panic"]
fn a_caller_that_survives_such_a_panic_cannot_go_on() {
    let disk = SimDisk::new();
    let mut wal = create(&disk);
    let mut persist = |index| wal.persist(&[entries([command(index, 1, b"")])]);
    let gap = std::panic::AssertUnwindSafe(|| persist(3));
    assert!(std::panic::catch_unwind(gap).is_err());
    let _ = persist(1);
}

// scenario B01, as far as a log can see it.
#[test]
#[should_panic = "breaks the promise"]
fn a_second_vote_in_a_term_never_reaches_the_disk() {
    let disk = SimDisk::new();
    let mut wal = create(&disk);
    wal.persist(&[hard(5, Some(1), 0)]).expect("a healthy disk");
    let _ = wal.persist(&[hard(5, Some(2), 0)]);
}

/// Everything at once on the real disk: threads that prepare, rotations, readers, reopening.
#[test]
fn the_real_disk_with_a_thread_beside_it() {
    let home = tempfile::tempdir().expect("a directory");
    for segment_bytes in [4096, 64 << 10] {
        let path = home.path().join(segment_bytes.to_string());
        let options = Options { segment_bytes, ..Options::default() };
        let (mut wal, _) = Wal::create(&path, identity(), &voters(), &options).expect("a new log");
        let (mut model, mut random) = (Model::default(), random(segment_bytes));
        for _ in 0..150 {
            let writes = model.step(&mut random);
            persist(&mut wal, &writes).expect("a healthy disk");
            if random.random_range(0..40) == 0 {
                drop(wal);
                wal = reopen(&path, &options, &model);
            }
        }
        wal.close().expect("a healthy disk");
        drop(reopen(&path, &options, &model));
        assert_eq!(inspect(&path).expect("a log").verdict, Verdict::Clean);
    }
}

fn reopen(path: &Path, options: &Options, model: &Model) -> Wal {
    let (wal, recovered) = Wal::open(path, owner(), options).expect("an intact log");
    assert_eq!(model_of(&wal, &recovered), *model);
    wal
}

#[test]
fn a_node_id_is_shown_as_its_peers_show_it() {
    let owner = Owner { cluster_id: 0xabc, node_id: NodeId::new(0x8e9e).expect("not zero") };
    assert_eq!(owner.to_string(), "node 8e9e of cluster abc");
}
