//! A log that was written as it should be, and then harmed: bits flip, sectors change places or
//! come twice, files are cut, or gone. Opening it says so, or finds what was acknowledged.
//!
//! One harm cannot be told from a torn write (see the source of the replay): whole sectors of the
//! log's end that turn into zeros, behind what the meta files know to be synced. Then the log may
//! end before that, as it was at some time; never with an entry that it did not hold.

use std::path::PathBuf;

use raft_core::{HardState, Index, LogPosition, LogStore, SnapshotStore};
use raft_storage::{OnDamage, OpenError, Options, Recovered, Wal};

use super::Input;
use super::follower::end_of;
use super::log::Log;
use crate::conformance::Model;
use crate::conformance::wal::WalOnSimDisk;
use crate::disk::SimDisk;

const SECTOR_BYTES: usize = 512;
const HARMS_MAX: usize = 16;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Harm {
    /// Nothing was changed.
    None,
    /// Some bytes were.
    Bytes,
    /// Zeros may stand where sectors of the log were.
    Sectors,
}

/// Writes a log, does harm to it, and opens it.
pub fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let log = Log::write(&mut input);
    let on_damage = if input.flag() { OnDamage::Repair } else { OnDamage::Refuse };
    let mut files = log.files.clone();
    let mut harm = Harm::None;
    for _ in 0..HARMS_MAX {
        if input.is_empty() {
            break;
        }
        harm = harm.max(do_harm(&mut files, &mut input));
    }
    if files == log.files {
        harm = Harm::None;
    }
    let disk = SimDisk::new();
    files.iter().for_each(|(path, bytes)| disk.put_file(path, bytes));
    opens(&log, &disk, harm, on_damage);
}

fn do_harm(files: &mut Vec<(PathBuf, Vec<u8>)>, input: &mut Input<'_>) -> Harm {
    let kind = input.below(10);
    let is_lock = |path: &PathBuf| path.ends_with("LOCK");
    let wanted = input.place(files.len());
    let (path, bytes) = &mut files[wanted];
    if is_lock(path) || bytes.is_empty() {
        return Harm::None;
    }
    let at = input.place(bytes.len());
    let sector = at / SECTOR_BYTES * SECTOR_BYTES;
    match kind {
        0..=1 => bytes[at] ^= 1 << input.below(8),
        2 => bytes[at] = input.byte(),
        3 => {
            let end = bytes.len().min(sector + SECTOR_BYTES * (1 + input.place(4)));
            bytes[sector..end].fill(0);
        }
        4 => bytes.truncate(if input.flag() { sector } else { at }),
        5 => bytes.extend(vec![input.byte(); 1 + input.place(1024)]),
        6 => drop(files.remove(wanted)),
        _ => {
            let source = bytes[sector..bytes.len().min(sector + SECTOR_BYTES)].to_vec();
            let other = input.place(files.len());
            put_sector(files, (wanted, sector), other, source, kind == 7, input);
        }
    }
    if kind <= 2 { Harm::Bytes } else { Harm::Sectors }
}

/// Puts a sector in another place; in its own, where they change places, what stood there.
fn put_sector(
    files: &mut [(PathBuf, Vec<u8>)],
    (from, sector): (usize, usize),
    to: usize,
    source: Vec<u8>,
    is_swap: bool,
    input: &mut Input<'_>,
) {
    let target = &mut files[to].1;
    if target.len() < SECTOR_BYTES || source.len() < SECTOR_BYTES {
        return;
    }
    let at = input.place(target.len() / SECTOR_BYTES) * SECTOR_BYTES;
    let place = &mut target[at..at + SECTOR_BYTES];
    let old = place.to_vec();
    place.copy_from_slice(&source);
    if is_swap {
        files[from].1[sector..sector + SECTOR_BYTES].copy_from_slice(&old);
    }
}

fn opens(log: &Log, disk: &SimDisk, harm: Harm, on_damage: OnDamage) {
    let before = disk.files();
    let (wal, found) = match open(disk, on_damage) {
        Ok(opened) => opened,
        Err(error) => {
            assert_ne!(harm, Harm::None, "a log that was left alone is opened: {error}");
            let changed = before.iter().find(|file| !disk.files().contains(file));
            assert_eq!(changed, None, "an error changes nothing: {error}");
            return;
        }
    };
    let held = Model::read(&found.clone().into_saved(Index::ZERO), &wal.reader());
    let held = held.unwrap_or_else(|error| panic!("what was verified cannot be read: {error}"));
    let possible = if harm == Harm::Sectors { log.undecided() } else { log.newest() };
    let is_whole = found.claim.is_none() && possible.contains(&held);
    if !is_whole {
        assert!(!found.repairs.is_empty(), "{:?} was repaired without a word", end_of(&held));
        assert_eq!(on_damage, OnDamage::Repair, "{:?}: {:?}", end_of(&held), found.repairs);
        let wrong = |model| wrong(&found, &held, model, log);
        let wrong: Vec<String> = possible.iter().map_while(wrong).collect();
        assert!(wrong.len() < possible.len(), "{:?}: {wrong:#?}", found.repairs);
    }
    snapshot(&wal, &found);
    drop(wal);
    let (_, again) = open(disk, on_damage).expect("what was opened is opened again");
    assert_eq!(again, Recovered { repairs: Vec::new(), ..found }, "it comes to the same");
}

fn open(disk: &SimDisk, on_damage: OnDamage) -> Result<(Wal, Recovered), OpenError> {
    let options = Options { on_damage, ..WalOnSimDisk::options(disk) };
    Wal::open(WalOnSimDisk::dir(), WalOnSimDisk::identity().owner(), &options)
}

/// What is wrong with a repaired log, if it was this before: it promises what was promised, holds
/// nothing but what was held, and claims what is missing.
fn wrong(found: &Recovered, held: &Model, model: &Model, log: &Log) -> Option<String> {
    let promise = |it: &HardState| (it.term, it.vote);
    if promise(&found.hard_state) != promise(&model.hard_state) {
        return Some(format!("{:?} forgets {:?}", found.hard_state, model.hard_state));
    }
    if found.hard_state.commit > found.log.last_index() {
        return Some(format!("{:?} and ends at {:?}", found.hard_state, found.log.last()));
    }
    for entry in &held.entries {
        let is_old = entry.index <= model.base.index && log.written.contains(entry);
        if !is_old && !model.entries.contains(entry) {
            return Some(format!("{:?} is out of date", entry.position()));
        }
    }
    let claim = found.claim.map_or(found.log.last(), |claim| claim.last);
    if claim != end_of(model) {
        return Some(format!("claims {claim:?} and held {:?}", end_of(model)));
    }
    let newest = model.snapshot.index.max(model.hard_state.commit);
    (found.snapshot.index > newest).then(|| format!("no such snapshot: {:?}", found.snapshot))
}

/// A snapshot gives what was written, or says that it is damaged.
fn snapshot(wal: &Wal, found: &Recovered) {
    let Ok(newest) = wal.snapshots().newest() else { return };
    let last = newest.as_ref().map_or(LogPosition::ZERO, |it| it.snapshot().last);
    assert_eq!(last, found.snapshot, "the one that is marked is the newest");
    let Some(source) = newest else { return };
    let mut bytes = vec![0; source.len_bytes() as usize];
    if let Ok(read) = source.read_at(0, &mut bytes) {
        assert!(bytes[..read] == WalOnSimDisk::body(last), "a block is not what was written");
    }
}
