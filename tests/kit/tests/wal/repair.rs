//! Damage, and what comes of it: the node goes on with what is intact and remembers what it held;
//! or, where a vote may be lost, it does not start.

use std::path::PathBuf;

use raft_core::{Claim, HardState, Index, LogStore, Term};
use raft_storage::{OpenError, Recovered, Wal, inspect_on};
use raft_testkit::disk::{Image, SimDisk};
use raft_testkit::fuzz::follower::{end_of, filler, next};
use rand::RngExt;

use crate::model::{
    Model, at, command, create, dir, entries, hard, mark, model_of, open, persist, random,
    try_open, voters,
};

/// A log as Raft may write it: entries are cut only for those of a later term.
struct Run {
    disk: SimDisk,
    model: Model,
}

fn run(seed: u64, steps: usize) -> Run {
    let (disk, mut random) = (SimDisk::new(), random(seed));
    let (mut wal, mut model) = (create(&disk), Model::default());
    for _ in 0..steps {
        let writes = next(&model, &mut random);
        persist(&mut wal, &writes).expect("a healthy disk");
        writes.iter().for_each(|write| model.apply(write));
    }
    Run { disk, model }
}

fn files(image: &Image, ending: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = SimDisk::from_image(image.clone()).files();
    files.retain(|(path, _)| path.to_str().is_some_and(|path| path.ends_with(ending)));
    files
}

/// What is recovered promises what was promised, holds nothing but what was held, and claims
/// what is missing.
fn check(wal: &Wal, recovered: &Recovered, model: &Model, at: &str) {
    let promise = |hard_state: &HardState| (hard_state.term, hard_state.vote);
    let (found, expected) = (&recovered.hard_state, &model.hard_state);
    assert_eq!(promise(found), promise(expected), "{at}: a vote was forgotten");
    assert!(found.commit <= recovered.log.last_index(), "{at}: it has what it calls committed");
    let held = model_of(wal, recovered);
    for entry in &held.entries {
        let is_right = model.entries.contains(entry) || entry.index <= model.base.index;
        assert!(is_right, "{at}: {:?} is out of date", entry.position());
    }
    let claim = recovered.claim.map_or(recovered.log.last(), |claim| claim.last);
    assert_eq!(claim, end_of(model), "{at}: the claim is the end of the log");
    assert!(recovered.snapshot.index <= model.snapshot.index.max(model.hard_state.commit), "{at}");
}

/// The node is sent again what it lacks, and is whole.
fn heal(mut wal: Wal, disk: &SimDisk, recovered: &Recovered, model: &Model, at: &str) {
    let last = recovered.log.last_index();
    let log_goes_on = last >= model.base.index;
    if !log_goes_on {
        let members = model.memberships[0].clone();
        persist(&mut wal, &[mark(model.base, model.base, members)]).expect("a healthy disk");
    }
    let missing = model.entries.iter().filter(|entry| !log_goes_on || entry.index > last);
    for entry in missing {
        assert_eq!(wal.claim().map(|claim| claim.last), Some(end_of(model)), "{at}");
        wal.persist(&[entries([entry.clone()])]).expect("a healthy disk");
    }
    assert_eq!(wal.claim(), None, "{at}: the log is whole again");
    drop(wal);
    let (wal, recovered) = try_open(disk).unwrap_or_else(|error| panic!("{at}: {error}"));
    assert_eq!((recovered.claim, recovered.repairs.len()), (None, 0), "{at}: healed for good");
    assert_eq!(recovered.log.last(), end_of(model), "{at}");
    assert_eq!(model_of(&wal, &recovered).hard_state.vote, model.hard_state.vote, "{at}");
}

// scenario B64
#[test]
fn whatever_is_damaged_no_vote_is_forgotten_and_what_is_missing_is_claimed() {
    let (mut repaired, mut refused) = (0, 0);
    for seed in 0..12 {
        let Run { disk, model } = run(seed, 60);
        let image = disk.image();
        let mut random = random(seed);
        for (path, bytes) in files(&image, ".wal") {
            for sector in 0..bytes.len() / 512 {
                let disk = SimDisk::from_image(image.clone());
                let byte = (sector * 512 + random.random_range(0..512)) as u64;
                disk.corrupt(&path, byte, |byte| byte ^ 1 << random.clone().random_range(0..8));
                let at = format!("seed {seed}, {} byte {byte}", path.display());
                let before = disk.files();
                match try_open(&disk) {
                    Ok((wal, recovered)) => {
                        assert!(!recovered.repairs.is_empty(), "{at}: damage is never silent");
                        check(&wal, &recovered, &model, &at);
                        drop(wal);
                        let (wal, again) = try_open(&disk).expect("a repaired log");
                        assert_eq!(again, Recovered { repairs: Vec::new(), ..recovered }, "{at}");
                        let kept = files(&disk.image(), ".damaged");
                        assert!(kept.iter().any(|(_, found)| *found != bytes), "{at}: kept");
                        heal(wal, &disk, &again, &model, &at);
                        repaired += 1;
                    }
                    Err(OpenError::PromiseLost(damage)) => {
                        assert_eq!((damage.file, damage.offset / 512), (path.clone(), byte / 512));
                        assert_eq!(disk.files(), before, "{at}: nothing was changed");
                        refused += 1;
                    }
                    Err(other) => panic!("{at}: {other}"),
                }
            }
        }
    }
    // Only damage at the very end of a log is beyond repair.
    assert!(repaired > 8 * refused, "{repaired} repaired, {refused} refused");
}

// The same for sectors that turn into zeros. In the very last batch that looks like a torn write:
// what the docs of the replay call undecidable.
#[test]
fn lost_sectors_are_claimed_too() {
    let (mut repaired, mut torn) = (0, 0);
    for seed in 0..12 {
        let Run { disk, model } = run(seed, 60);
        let image = disk.image();
        for (path, bytes) in files(&image, ".wal") {
            let used = |sector: &usize| bytes[sector * 512..][..512].iter().any(|byte| *byte != 0);
            for sector in (0..bytes.len() / 512).filter(used) {
                let disk = SimDisk::from_image(image.clone());
                (0..512).for_each(|byte| disk.corrupt(&path, (sector * 512 + byte) as u64, |_| 0));
                let at = format!("seed {seed}, {} sector {sector}", path.display());
                match try_open(&disk) {
                    Ok((_, recovered))
                        if recovered.repairs.iter().all(|it| it.contains("torn")) =>
                    {
                        torn += 1;
                    }
                    Ok((wal, recovered)) => {
                        check(&wal, &recovered, &model, &at);
                        heal(wal, &disk, &recovered, &model, &at);
                        repaired += 1;
                    }
                    Err(OpenError::PromiseLost(_)) => {}
                    Err(other) => panic!("{at}: {other}"),
                }
            }
        }
    }
    assert!(repaired > 100 && torn <= 12 * 4, "{repaired} repaired, {torn} taken for torn");
}

// And for whole segments that are missing.
#[test]
fn lost_segments_are_claimed_too() {
    for seed in 0..12 {
        let Run { disk, model } = run(seed, 60);
        let segments = files(&disk.image(), ".wal");
        for (number, (path, _)) in segments.iter().enumerate() {
            let disk = SimDisk::from_image(disk.image());
            raft_storage::Disk::remove(&disk, path).expect("it is there");
            let at = format!("seed {seed}, without {}", path.display());
            match try_open(&disk) {
                Ok((wal, recovered)) => {
                    assert!(number + 1 < segments.len(), "{at}: the end is lost");
                    check(&wal, &recovered, &model, &at);
                    heal(wal, &disk, &recovered, &model, &at);
                }
                Err(OpenError::PromiseLost(_)) => assert_eq!(number + 1, segments.len(), "{at}"),
                Err(other) => panic!("{at}: {other}"),
            }
        }
    }
}

// A repair that is cut short, at any step, is begun again and comes to the same.
#[test]
fn a_repair_may_be_cut_short_as_often_as_it_likes() {
    for seed in 0..4 {
        let Run { disk, model } = run(seed, 50);
        let image = disk.image();
        let segments = files(&image, ".wal");
        for (path, bytes) in [&segments[0], &segments[segments.len() / 2]] {
            for byte in [5, bytes.len() as u64 / 2] {
                let disk = SimDisk::from_image(image.clone());
                disk.corrupt(path, byte, |byte| byte ^ 4);
                disk.keep_history();
                let Ok((wal, recovered)) = try_open(&disk) else { continue };
                drop(wal);
                for (boundary, image) in disk.history().iter().enumerate() {
                    for outcome in 0..7 {
                        let disk = SimDisk::from_image(image.after_power_cut(outcome));
                        let at = format!("seed {seed}, byte {byte}, {boundary}, {outcome}");
                        let (wal, again) =
                            try_open(&disk).unwrap_or_else(|error| panic!("{at}: {error}"));
                        check(&wal, &again, &model, &at);
                        assert_eq!(again.log, recovered.log, "{at}");
                        assert_eq!(again.claim, recovered.claim, "{at}");
                        assert!(!files(&disk.image(), ".damaged").is_empty(), "{at}");
                    }
                }
            }
        }
    }
}

/// A log that begins behind a snapshot.
fn behind_a_snapshot() -> (SimDisk, Model) {
    let disk = SimDisk::new();
    let (mut wal, mut model) = (create(&disk), Model::default());
    let writes = [
        entries((1..=20).map(|index| filler(index, 1))),
        hard(2, Some(3), 18),
        mark(at(18, 1), at(15, 1), (Index(0), voters().into())),
        entries([filler(21, 2)]),
    ];
    for write in writes {
        persist(&mut wal, std::slice::from_ref(&write)).expect("a healthy disk");
        model.apply(&write);
    }
    (disk, model)
}

/// Changes a byte where this stands in the log.
fn corrupt_at(disk: &SimDisk, needle: &[u8]) {
    let found = files(&disk.image(), ".wal").into_iter().find_map(|(path, bytes)| {
        let found = bytes.windows(needle.len()).position(|window| window == needle);
        found.map(|offset| (path, offset as u64))
    });
    let (path, offset) = found.expect("it stands in the log");
    disk.corrupt(&path, offset, |byte| byte ^ 1);
}

// scenario B54: the log names a snapshot that is not there.
#[test]
fn a_log_whose_snapshot_is_missing_or_damaged_begins_anew_and_claims_what_it_held() {
    let (disk, model) = behind_a_snapshot();
    let (path, _) = files(&disk.image(), ".snap").remove(0);
    type Harm = fn(&SimDisk, &std::path::Path);
    let missing: Harm = |disk, path| raft_storage::Disk::remove(disk, path).expect("it is there");
    let damaged: Harm = |disk, path| disk.corrupt(path, 40, |byte| byte ^ 1);
    let segments = files(&disk.image(), ".wal");
    for harm in [missing, damaged] {
        let disk = SimDisk::from_image(disk.image());
        harm(&disk, &path);
        let (wal, recovered) = try_open(&disk).expect("its promises are certain");
        assert!(recovered.repairs[0].contains("begins anew, with nothing"), "{recovered:?}");
        assert_eq!(recovered.claim, Some(Claim { last: at(21, 2) }));
        assert_eq!((recovered.log.last(), recovered.snapshot), (at(0, 0), at(0, 0)));
        assert_eq!(recovered.hard_state, HardState { commit: Index(0), ..model.hard_state });
        assert_eq!(recovered.memberships[0].0, Index(0));
        drop(wal);
        let report = inspect_on(&disk, dir()).expect("a log");
        let claim = report.claim.expect("it is shown");
        assert_eq!((claim.index, claim.term), (21, 2));
        let aside = report.set_aside.iter().filter(|name| name.contains(".wal."));
        assert_eq!(aside.count(), segments.len(), "{report:?}");
        let (wal, again) = try_open(&disk).expect("a repaired log");
        heal(wal, &disk, &again, &model, "missing snapshot");
    }
}

// The new segment of a first try is none of what is kept.
#[test]
fn a_new_beginning_may_be_cut_short_as_well() {
    let (disk, _) = behind_a_snapshot();
    let segments = files(&disk.image(), ".wal").len();
    let (path, _) = files(&disk.image(), ".snap").remove(0);
    raft_storage::Disk::remove(&disk, &path).expect("it is there");
    disk.keep_history();
    let (_, recovered) = try_open(&disk).expect("its promises are certain");
    for (boundary, image) in disk.history().iter().enumerate() {
        let disk = SimDisk::from_image(image.clone());
        let (_, again) = try_open(&disk).unwrap_or_else(|error| panic!("{boundary}: {error}"));
        assert_eq!((again.log, again.claim), (recovered.log.clone(), recovered.claim));
        assert_eq!(files(&disk.image(), ".damaged").len(), segments, "{boundary}");
    }
}

// Behind the snapshot that the log goes on from, what is intact is kept.
#[test]
fn a_log_that_is_damaged_behind_its_snapshot_keeps_what_stands_between() {
    let (disk, mut model) = behind_a_snapshot();
    let (mut wal, _) = open(&disk);
    for index in 22..=24 {
        let write = entries([command(index, 2, format!("needle {index}").as_bytes())]);
        wal.persist(std::slice::from_ref(&write)).expect("a healthy disk");
        model.apply(&write);
    }
    drop(wal);
    corrupt_at(&disk, b"needle 23");
    let (wal, recovered) = try_open(&disk).expect("its promises are certain");
    assert_eq!((recovered.snapshot, recovered.log.last()), (at(18, 1), at(22, 2)));
    check(&wal, &recovered, &model, "behind the snapshot");
    heal(wal, &disk, &recovered, &model, "behind the snapshot");
}

// The engine has met a damaged block while it restored its state machine, and starts again.
#[test]
fn a_snapshot_that_was_set_aside_counts_as_missing() {
    let (disk, _) = behind_a_snapshot();
    let (path, bytes) = files(&disk.image(), ".snap").remove(0);
    disk.corrupt(&path, bytes.len() as u64 - 100, |byte| byte ^ 1);
    let (wal, recovered) = try_open(&disk).expect("its header is sound");
    assert_eq!(recovered.claim, None);
    wal.snapshots().verify(at(18, 1)).expect_err("a block is damaged");
    wal.snapshots().set_aside(at(18, 1)).expect("a healthy disk");
    drop(wal);
    assert_eq!(try_open(&disk).expect("repaired").1.claim, Some(Claim { last: at(21, 2) }));
    assert_eq!(files(&disk.image(), ".snap.damaged").len(), 1);
}

// Damage in front of a snapshot's end costs nothing but the entries that it covers.
#[test]
fn a_log_that_is_damaged_before_its_snapshot_goes_on_from_the_snapshot() {
    let (disk, model) = behind_a_snapshot();
    let needle = filler(17, 1);
    let raft_core::Payload::Command(needle) = &needle.payload else { panic!("a command") };
    corrupt_at(&disk, &needle[..100]);
    let (wal, recovered) = try_open(&disk).expect("its promises are certain");
    assert_eq!((recovered.log.base(), recovered.log.last()), (at(18, 1), at(18, 1)));
    assert!(recovered.repairs[0].contains("goes on from the snapshot 18:t1"), "{recovered:?}");
    check(&wal, &recovered, &model, "before the snapshot");
    heal(wal, &disk, &recovered, &model, "before the snapshot");
}

// A claim is not given up because a log of the same length was written in an older term.
#[test]
fn a_claim_is_reached_as_votes_compare_logs() {
    let (disk, _) = behind_a_snapshot();
    let (path, _) = files(&disk.image(), ".snap").remove(0);
    raft_storage::Disk::remove(&disk, &path).expect("it is there");
    let (mut wal, _) = try_open(&disk).expect("its promises are certain");
    wal.persist(&[entries((1..=40).map(|index| filler(index, 1)))]).expect("a healthy disk");
    assert_eq!(wal.claim(), Some(Claim { last: at(21, 2) }), "longer, and older");
    wal.persist(&[entries([filler(41, 3)])]).expect("a healthy disk");
    assert_eq!(wal.claim(), None);
    drop(wal);
    assert_eq!(try_open(&disk).expect("a log").1.claim, None);
}

#[test]
fn the_refusal_says_what_to_do() {
    let disk = SimDisk::new();
    let mut wal = create(&disk);
    wal.persist(&[hard(1, Some(2), 0)]).expect("a healthy disk");
    drop(wal);
    let (path, _) = files(&disk.image(), ".wal").remove(0);
    disk.corrupt(&path, 600, |byte| byte ^ 1);
    let refusal = try_open(&disk).map(drop).expect_err("the only vote").to_string();
    assert!(refusal.contains("is damaged at byte 512"), "{refusal}");
    assert!(refusal.contains("kontiki member replace"), "{refusal}");
    assert!(matches!(open_twice(&disk), Err(OpenError::PromiseLost(_))));
}

fn open_twice(disk: &SimDisk) -> Result<(), OpenError> {
    let _ = try_open(disk);
    try_open(disk).map(drop)
}

#[test]
fn damage_in_space_that_was_never_used_costs_nothing() {
    let disk = SimDisk::new();
    let mut wal = create(&disk);
    wal.persist(&[hard(1, Some(2), 0), entries([filler(1, 1)])]).expect("a healthy disk");
    drop(wal);
    let (path, bytes) = files(&disk.image(), ".wal").remove(0);
    disk.corrupt(&path, bytes.len() as u64 - 7, |byte| byte ^ 1);
    let (wal, recovered) = try_open(&disk).expect("nothing is lost");
    assert_eq!((recovered.claim, recovered.repairs.len()), (None, 1));
    assert_eq!(recovered.log.last_index(), Index(1));
    drop(wal);
    assert_eq!(open(&disk).1.last(), 1);
    assert!(try_open(&disk).expect("a log").1.repairs.is_empty());
}

// Intact batches behind a first damage say nothing about a vote that a second one has taken.
#[test]
fn a_vote_behind_intact_batches_is_missed_too() {
    let disk = SimDisk::new();
    let mut wal = create(&disk);
    let entry = |index| entries([command(index, 1, b"small")]);
    let writes = [hard(1, Some(2), 0), entry(1), entry(2), hard(2, Some(3), 0)];
    writes.into_iter().for_each(|write| wal.persist(&[write]).expect("a healthy disk"));
    drop(wal);
    let (path, _) = files(&disk.image(), ".wal").remove(0);
    // Each batch has a sector of its own, behind the header.
    disk.corrupt(&path, 2 * 512 + 50, |byte| byte ^ 1);
    let once = SimDisk::from_image(disk.image());
    assert_eq!(try_open(&once).expect("the end is intact").1.hard_state.term, Term(2));
    disk.corrupt(&path, 4 * 512 + 50, |byte| byte ^ 1);
    let refused = try_open(&disk).map(drop);
    assert!(matches!(refused, Err(OpenError::PromiseLost(_))), "{refused:?}");
}
