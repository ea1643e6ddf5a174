//! Disks that do not keep what they took: a byte changes in a file at rest, or a sync fails and the
//! power goes. What was acknowledged is there, or the log says that it is not: it refuses to be
//! opened, or claims what it once held. Nothing is ever silently less than it was.

// scenarios B61, B64

use std::path::PathBuf;

use raft_core::{Entry, Index, LogStore, SnapshotSource, SnapshotStore, Write};
use raft_storage::{OpenError, Wal};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::conformance::log_store::{Failure, Harness};
use crate::conformance::wal::WalOnSimDisk;
use crate::conformance::{Model, persist};
use crate::disk::SimDisk;

/// The most calls of one log.
const CALLS_MAX: usize = 24;

/// One log, and what befalls it.
///
/// # Panics
/// When something is silently less than it was.
pub fn befall(seed: u64) {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    match random.random_range(0..3) {
        0 => lose_a_sync(&mut random),
        _ => change_a_byte(&mut random),
    }
}

/// A log after some calls, and every entry that was ever in it.
fn log(random: &mut Pcg64Mcg) -> (Wal, SimDisk, Model, Vec<Entry>) {
    let (disk, mut model) = (SimDisk::new(), Model::default());
    let (mut wal, _) = WalOnSimDisk.open(&disk).expect("a healthy disk");
    let mut ever = Vec::new();
    for _ in 0..random.random_range(1..=CALLS_MAX) {
        let (writes, after) = step(&model, random);
        ever.extend(writes.iter().flat_map(|write| write.entries.iter().cloned()));
        persist(&WalOnSimDisk, &mut wal, &writes).expect("a healthy disk");
        model = after;
    }
    (wal, disk, model, ever)
}

/// Writes that a node could make: what is cut gives way to a later term (Raft §5.3), so that equal
/// positions mean equal logs.
fn step(model: &Model, random: &mut Pcg64Mcg) -> (Vec<Write>, Model) {
    loop {
        let mut after = model.clone();
        let writes = after.step(random);
        let mut seen = model.clone();
        let gives_way = |write: &Write| {
            let cut = seen.entries.iter().filter(|it| Some(it.index) > write.truncate);
            let cut = write.truncate.and(cut.map(|entry| entry.term).max());
            seen.apply(write);
            cut.is_none() || write.entries.first().map(|entry| entry.term) > cut
        };
        if writes.iter().all(gives_way) {
            return (writes, after);
        }
    }
}

fn lose_a_sync(random: &mut Pcg64Mcg) {
    let (mut wal, disk, acknowledged, _) = log(random);
    WalOnSimDisk.fail_next(&disk, Failure::Sync);
    let (writes, ahead) = step(&acknowledged, random);
    let sunk = wal.persist(&writes);
    let disk = disk.power_cut(random.random());
    let Ok((wal, saved)) = WalOnSimDisk::recover(&disk) else {
        panic!("a log that lost no more than its end is opened");
    };
    let found = Model::read(&saved, &wal.reader()).expect("every entry can be read");
    let is_there = found == ahead || (sunk.is_err() && found == acknowledged);
    assert!(is_there, "a sync failed, and {found:?} is left, though {sunk:?} was said");
}

fn change_a_byte(random: &mut Pcg64Mcg) {
    let (wal, disk, model, ever) = log(random);
    match random.random() {
        true => drop(wal),
        false => wal.close().expect("a healthy disk"),
    }
    let Some((path, offset)) = somewhere(&disk, random) else { return };
    let flip = 1 << random.random_range(0..8);
    disk.corrupt(&path, offset, |byte| byte ^ flip);
    let at = format!("{} byte {offset}", path.display());
    let options = WalOnSimDisk::options(&disk);
    let owner = WalOnSimDisk::identity().owner();
    let (wal, recovered) = match Wal::open(WalOnSimDisk::dir(), owner, &options) {
        Ok(opened) => opened,
        Err(OpenError::Disk(error)) => panic!("{at}: {error}"),
        Err(_) => return, // It says that it cannot be trusted.
    };
    let saved = recovered.into_saved(Index::ZERO);
    let found = Model::read(&saved, &wal.reader()).unwrap_or_else(|words| panic!("{at}: {words}"));
    let promise = |of: &Model| (of.hard_state.term, of.hard_state.vote);
    assert_eq!(promise(&found), promise(&model), "{at}: a promise is forgotten");
    let last = model.saved().log.last();
    assert!(
        saved.log.last() == last || saved.claim.is_some_and(|claim| claim.last >= last),
        "{at}: of a log up to {last:?} no more than {:?} is left, and nobody says so",
        saved.log.last()
    );
    for entry in &found.entries {
        let written = model.entries.iter().find(|it| it.index == entry.index);
        let covered = entry.index <= model.base.index;
        // A log that says that it lost its end may hold what was overwritten there.
        let is_old = saved.claim.is_some() && ever.contains(entry);
        let is_known = covered || written == Some(entry) || is_old;
        assert!(is_known, "{at}: {:?} was not written", entry.position());
    }
    if let Ok(Some(newest)) = wal.snapshots().newest() {
        is_what_was_built(&*newest, &at);
    }
}

/// A byte of a file that is in use: of the log, or of a snapshot.
fn somewhere(disk: &SimDisk, random: &mut Pcg64Mcg) -> Option<(PathBuf, u64)> {
    let mut files = disk.files();
    let counts = |path: &PathBuf| path.extension().is_some_and(|it| it == "wal" || it == "snap");
    files.retain(|(path, _)| counts(path));
    if files.is_empty() {
        return None;
    }
    let (path, bytes) = files.swap_remove(random.random_range(0..files.len()));
    let used: Vec<usize> = (0..bytes.len()).filter(|&offset| bytes[offset] != 0).collect();
    let offset = *used.get(random.random_range(0..used.len().max(1)))?;
    Some((path, offset as u64))
}

/// A snapshot gives the bytes that it was built of, or an error.
fn is_what_was_built(source: &dyn SnapshotSource, at: &str) {
    let mut bytes = vec![0; source.len_bytes() as usize];
    let last = source.snapshot().last;
    if source.read_at(0, &mut bytes).is_ok() {
        assert_eq!(bytes, WalOnSimDisk::body(last), "{at}: another state is served");
    }
}
