//! What a log should hold, and the only helpers that touch the API of the log.

use std::path::Path;
use std::sync::Arc;

use raft_core::{Index, LogPosition, LogStore, Snapshot, SnapshotStore, Write};
use raft_storage::{
    Disk, Identity, OnDamage, OpenError, Options, Owner, Preparation, Recovered, Wal, WalError,
};
pub use raft_testkit::conformance::Model;
pub use raft_testkit::conformance::writes::{
    at, command, entries, founders as voters, hard, mark, node,
};
use raft_testkit::disk::SimDisk;
use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;

pub const DIR: &str = "/data/wal";

pub fn dir() -> &'static Path {
    Path::new(DIR)
}

pub fn identity() -> Identity {
    Identity { cluster_id: 0xc1, node_id: node(1), incarnation: 0xd15c }
}

pub fn owner() -> Owner {
    identity().owner()
}

/// Segments as small as they can be, so that everything rotates often.
pub fn options(disk: &SimDisk) -> Options {
    Options {
        segment_bytes: Options::SEGMENT_BYTES_MIN,
        preparation: Preparation::Inline,
        ..Options::on(Arc::new(disk.clone()) as Arc<dyn Disk>)
    }
}

pub fn create(disk: &SimDisk) -> Wal {
    Wal::create(dir(), identity(), &voters(), &options(disk)).expect("a new log").0
}

pub fn try_open(disk: &SimDisk) -> Result<(Wal, Recovered), OpenError> {
    Wal::open(dir(), owner(), &options(disk))
}

/// Opens it, and changes nothing where it is damaged.
pub fn open_strictly(disk: &SimDisk) -> Result<(Wal, Recovered), OpenError> {
    let options = Options { on_damage: OnDamage::Refuse, ..options(disk) };
    Wal::open(dir(), owner(), &options)
}

pub fn open(disk: &SimDisk) -> (Wal, Model) {
    let (wal, recovered) = try_open(disk).unwrap_or_else(|error| panic!("cannot open: {error}"));
    let model = model_of(&wal, &recovered);
    (wal, model)
}

pub fn random(seed: u64) -> Pcg64Mcg {
    Pcg64Mcg::seed_from_u64(seed)
}

/// What a state machine has at this place, for want of one.
pub fn body(last: LogPosition) -> Vec<u8> {
    format!("the state after {last:?}").repeat(40).into_bytes()
}

/// Makes a snapshot durable, as a node does before it marks it.
pub fn publish(wal: &Wal, snapshot: &Snapshot) {
    let mut sink = wal.snapshots().build(snapshot).expect("a healthy disk");
    sink.write(&body(snapshot.last)).expect("a healthy disk");
    sink.publish().expect("a healthy disk");
}

/// Writes, with what belongs before it and after it: snapshots before their marks, and old ones
/// are removed once the new ones are marked.
pub fn persist(wal: &mut Wal, writes: &[Write]) -> Result<(), WalError> {
    let marks = || writes.iter().filter_map(|write| write.snapshot.as_ref());
    marks().for_each(|mark| publish(wal, &mark.snapshot));
    wal.persist(writes)?;
    if let Some(mark) = marks().next_back() {
        wal.snapshots().retain(mark.snapshot.last).expect("a healthy disk");
    }
    Ok(())
}

/// Bit by bit, so that the test stands on nothing of what it tests.
pub fn crc32c(bytes: &[u8]) -> u32 {
    let step = |crc: u32, _| (crc >> 1) ^ (0x82f6_3b78 & (crc & 1).wrapping_neg());
    !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), step))
}

/// Makes a sector look like one of another batch.
pub fn restamp(disk: &SimDisk, path: &Path, sector: usize, stamp: u16) {
    let (_, mut bytes) = disk.files().into_iter().find(|(it, _)| it == path).expect("it is there");
    let bytes = &mut bytes[sector * 512..][..512];
    // The check holds the place as well, which stays as it is.
    let place = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) ^ crc32c(&bytes[4..]);
    bytes[6..8].copy_from_slice(&stamp.to_le_bytes());
    let check = place ^ crc32c(&bytes[4..]);
    bytes[..4].copy_from_slice(&check.to_le_bytes());
    for (offset, byte) in (sector as u64 * 512..).zip(bytes) {
        disk.corrupt(path, offset, |_| *byte);
    }
}

/// What a log holds, and whether that is what the recovery said.
pub fn model_of(wal: &Wal, recovered: &Recovered) -> Model {
    assert_eq!((recovered.identity, &recovered.founders), (identity(), &voters()));
    let saved = recovered.clone().into_saved(Index::ZERO);
    let model = Model::read(&saved, &wal.reader()).expect("the entries that it speaks of");
    let newest = wal.snapshots().newest().expect("a healthy disk");
    let newest = newest.map(|source| {
        let mut bytes = vec![0; source.len_bytes() as usize];
        assert_eq!(source.read_at(0, &mut bytes).expect("sound blocks"), bytes.len());
        assert_eq!(bytes, body(source.snapshot().last));
        source.snapshot().last
    });
    assert_eq!(newest.unwrap_or(LogPosition::ZERO), recovered.snapshot, "the one that counts");
    model
}
