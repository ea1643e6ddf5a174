//! Backups that are whole, and every way in which they may not be.

use super::*;
use crate::config::{ServeConfig, Settings};
use crate::store::{Options, RevisionBump, Store};

/// A backup of a store to which nothing was ever applied.
fn backup(dir: &Path) -> (PathBuf, Vec<u8>) {
    let (store, _) = Store::open(&dir.join("source"), &Options::default()).expect("a store");
    let mut bytes = Vec::new();
    let mut sealed = Sealed::new(store.snapshot().expect("a snapshot"));
    sealed.read_to_end(&mut bytes).expect("it reads");
    let path = dir.join("backup");
    std::fs::write(&path, &bytes).expect("written");
    (path, bytes)
}

fn wanted(data_dir: &Path) -> Restoration {
    let config = ServeConfig::resolve(Settings::default()).expect("defaults fit");
    Restoration {
        data_dir: data_dir.to_owned(),
        member_id: config.initial_id().expect("a founder"),
        members: config.initial_cluster,
        bump: RevisionBump::default(),
    }
}

#[test]
fn a_backup_has_the_length_that_etcd_expects_and_reads_back() {
    let dir = tempfile::tempdir().expect("a directory");
    let (path, bytes) = backup(dir.path());
    assert_eq!(bytes.len() % 512, 32);
    let mut found = Backup::open(&path).expect("a backup");
    assert_eq!((found.status.revision, found.status.keys), (1, 0));
    let mut snapshot = Vec::new();
    found.snapshot().expect("it opens").read_to_end(&mut snapshot).expect("it reads");
    assert!(bytes.starts_with(&snapshot) && snapshot.len() as u64 == found.status.bytes);
}

#[test]
fn whatever_the_length_of_the_snapshot_the_end_fits() {
    for len in [0, 1, 463, 464, 465, 495, 496, 497, 511, 512, 513, 4096] {
        let mut sealed = Vec::new();
        Sealed::new(&vec![7; len][..]).read_to_end(&mut sealed).expect("it reads");
        assert_eq!(sealed.len() % 512, 32, "{len}");
        assert!(sealed.len() < len + 32 + 2 * 512, "{len}");
        let mut file = tempfile::tempfile().expect("a file");
        io::Write::write_all(&mut file, &sealed).expect("written");
        let trailer = trailer(&mut file).expect("it reads").expect("an end");
        assert_eq!(trailer.len, len as u64);
        assert_eq!(trailer.hash[..], Sha256::digest(&sealed[..sealed.len() - 32])[..]);
    }
}

#[test]
fn damage_anywhere_and_foreign_files_are_noticed() {
    let dir = tempfile::tempdir().expect("a directory");
    let (path, bytes) = backup(dir.path());
    for at in (0..bytes.len()).step_by(7).chain(bytes.len() - 60..bytes.len()) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        std::fs::write(&path, &damaged).expect("written");
        Backup::open(&path).expect_err(&format!("byte {at}"));
    }
    for cut in [0, 7, 100, 512, bytes.len() - 33, bytes.len() - 32, bytes.len() - 1] {
        std::fs::write(&path, &bytes[..cut]).expect("written");
        Backup::open(&path).expect_err(&format!("cut at {cut}"));
    }
    std::fs::write(&path, vec![0xed; 20_512]).expect("written");
    let error = Backup::open(&path).expect_err("a foreign file").to_string();
    assert!(error.contains("no snapshot of the key-value store"), "{error}");
    Backup::open(&dir.path().join("absent")).expect_err("there is none");
}

#[test]
fn a_restored_directory_is_whole_and_nothing_is_replaced_by_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let (path, bytes) = backup(dir.path());
    let wanted = wanted(&dir.path().join("restored"));
    let restored = restore(&path, &wanted).expect("it is made");
    assert_eq!(restored.revision, 1_000_000_001);
    let error = restore(&path, &wanted).expect_err("it is there").to_string();
    assert!(error.contains("is there already"), "{error}");

    let options = kontiki::raft_storage::Options::default();
    let raft = wanted.data_dir.join("raft");
    let identity = kontiki::raft_storage::Wal::identity_in(&raft, &options).expect("it reads");
    assert_eq!(identity.expect("a log").cluster_id, restored.cluster_id);
    let (store, reader) =
        Store::open(&wanted.data_dir.join("store"), &Options::default()).expect("it opens");
    assert_eq!((store.applied().0, reader.revision()), (1, restored.revision));

    let other = Restoration { data_dir: dir.path().join("other"), ..wanted };
    std::fs::write(&path, &bytes[..bytes.len() - 1]).expect("written");
    restore(&path, &other).expect_err("it is cut");
    let mut names: Vec<_> = std::fs::read_dir(dir.path())
        .expect("a directory")
        .map(|entry| entry.expect("it reads").file_name())
        .collect();
    names.sort();
    assert_eq!(names, ["backup", "restored", "source"], "nothing else is left");
}
