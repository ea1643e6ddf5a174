//! The meta file: whose log it is, and what a damaged log once held. Three copies, each in a file
//! of its own.
//!
//! ```text
//!     0  preamble, magic "KONTMETA"         88  claim: index            u64, zeros: none
//!    16  length of the file      u64        96  claim: term             u64
//!    24  generation              u64       104  repair: kind            u64, 0 none 1 cut
//!    32  cluster id              u64                                         2 restart
//!    40  node id                 u64       112  repair: number          u64
//!    48  disk incarnation        u64       120  repair: segment         u64
//!    56  first cluster id        u64       128  repair: end, kept index u64 each
//!    64  synced: batch           u64       144  repair: promise         term, vote: u64 each
//!    72  synced: segment         u64       160  repair: snapshot        index, term, members'
//!    80  first segment           u64                                    index: u64 each
//!                                          184  length of the founders  u32
//!                                          188  length of the members at that snapshot  u32
//!                                          192  the founders, then those members
//!         zeros up to a multiple of 512, and in the last four bytes a CRC-32C of everything
//!         before them
//! ```
//!
//! The *first cluster id* is the one that the log was made with, and what segments and snapshots
//! carry. It differs from the cluster id after [`force_new_cluster`](crate::force_new_cluster).
//!
//! The copies are written one after another, each synced before the next, so a power cut damages
//! at most one; the valid copy of the highest generation counts. The *sync mark* says that the
//! log was known to be durable up to this batch, and that this segment exists: it moves when a
//! segment is added, when old ones go, when a log is opened and when it is closed, and is a lower
//! bound otherwise.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use raft_core::{Claim, Index, LogPosition, Membership, NodeId, Snapshot, Term};

use crate::Identity;
use crate::check::crc;
use crate::disk::{Access, Disk, DiskFile, read_full, write_full};
use crate::error::DiskError;
use crate::frame::{NUMBER_MAX, Promise, u32_at, u64_at};
use crate::preamble::{self, Preamble};
use crate::sector::SECTOR_BYTES;

pub(crate) const MAGIC: [u8; 8] = *b"KONTMETA";
const MEMBERS_OFFSET: usize = 192;
/// No meta file is longer: more members than any group has.
const BYTES_MAX: u64 = 16 << 20;

/// The names of the copies.
pub(crate) const NAMES: [&str; 3] = ["meta.0", "meta.1", "meta.2"];

/// Up to where the log is known to be durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SyncMark {
    pub(crate) batch: u64,
    /// The newest segment.
    pub(crate) segment: u64,
}

/// What a copy says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Meta {
    pub(crate) generation: u64,
    pub(crate) identity: Identity,
    pub(crate) synced: SyncMark,
    /// The number of the oldest segment that counts.
    pub(crate) first_segment: u64,
    /// The cluster that the log was made for.
    pub(crate) first_cluster_id: u64,
    /// Whom the log was made with; nobody on a node that joins.
    pub(crate) founders: Arc<Membership>,
    /// What the log held before it was damaged, until it holds as much again.
    pub(crate) claim: Option<Claim>,
    /// A repair that was begun. Until it is done, nothing else happens to the log.
    pub(crate) repair: Option<Repair>,
}

/// What is to become of a damaged log. Written down before anything is touched, so that a repair
/// that is cut short is begun again, and comes to the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Repair {
    /// Goes into the names of what is set aside.
    pub(crate) number: u64,
    pub(crate) kind: RepairKind,
    /// The newest promise; it may have been made behind the damage.
    pub(crate) promise: Promise,
    /// The snapshot that the log goes on from, where it has to be marked anew.
    pub(crate) snapshot: Option<Snapshot>,
}

/// How a damaged log goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RepairKind {
    /// With the batches before this sector of this segment, and of their entries with those up to
    /// `keep`.
    Cut { segment: u64, end: u64, keep: Index },
    /// With the snapshot, or with nothing, in this new segment.
    Restart { segment: u64 },
}

/// One copy as it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Copy {
    Valid(Meta),
    Newer(u32),
    Damaged,
    Missing,
}

/// All copies as they were found.
#[derive(Debug)]
pub(crate) struct Copies(pub(crate) [Copy; NAMES.len()]);

impl Copies {
    pub(crate) fn read(disk: &dyn Disk, dir: &Path) -> Result<Self, DiskError> {
        let mut copies = [Copy::Missing, Copy::Missing, Copy::Missing];
        for (copy, name) in copies.iter_mut().zip(NAMES) {
            let path = dir.join(name);
            *copy = match read_file(disk, &path) {
                Ok(bytes) => decode(&bytes),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Copy::Missing,
                Err(error) => return Err(DiskError::new("read", path, 0, error)),
            };
        }
        Ok(Self(copies))
    }

    /// The copy that counts.
    pub(crate) fn newest(&self) -> Option<&Meta> {
        let valid = self.0.iter().filter_map(|copy| match copy {
            Copy::Valid(meta) => Some(meta),
            Copy::Newer(_) | Copy::Damaged | Copy::Missing => None,
        });
        valid.max_by_key(|meta| meta.generation)
    }

    /// The first copy of a newer format: this version must not touch the directory.
    pub(crate) fn newer(&self, dir: &Path) -> Option<(PathBuf, u32)> {
        self.0.iter().zip(NAMES).find_map(|(copy, name)| match copy {
            Copy::Newer(format) => Some((dir.join(name), *format)),
            Copy::Valid(_) | Copy::Damaged | Copy::Missing => None,
        })
    }

    /// What is wrong with the copies, in words.
    pub(crate) fn faults(&self) -> Vec<String> {
        let newest = self.newest().map(|meta| meta.generation);
        let fault = |(copy, name): (&Copy, &str)| match copy {
            Copy::Valid(meta) if Some(meta.generation) == newest => None,
            Copy::Valid(_) => Some(format!("{name} is older than another copy")),
            Copy::Newer(_) | Copy::Damaged => Some(format!("{name} is damaged")),
            Copy::Missing => Some(format!("{name} is missing")),
        };
        self.0.iter().zip(NAMES).filter_map(fault).collect()
    }
}

impl Meta {
    /// Makes every copy say this. Durable when it returns.
    pub(crate) fn write(&self, disk: &dyn Disk, dir: &Path) -> Result<(), DiskError> {
        let (bytes, mut made) = (self.encode(), false);
        for name in NAMES {
            let path = dir.join(name);
            let error = |verb| {
                let path = path.clone();
                move |error| DiskError::new(verb, path, 0, error)
            };
            let file = match disk.open(&path, Access::ReadWrite) {
                Ok(file) => file,
                Err(missing) if missing.kind() == io::ErrorKind::NotFound => {
                    made = true;
                    disk.create(&path).map_err(error("create"))?
                }
                Err(other) => return Err(error("open")(other)),
            };
            if file.len().map_err(error("open"))? != bytes.len() as u64 {
                file.set_len(bytes.len() as u64).map_err(error("resize"))?;
            }
            write_full(&*file, &bytes, 0).map_err(error("write"))?;
            file.sync_data().map_err(error("sync"))?;
        }
        if made {
            disk.sync_dir(dir).map_err(|error| DiskError::new("sync", dir, 0, error))?;
        }
        Ok(())
    }

    /// What segments and snapshots carry.
    pub(crate) fn first_identity(&self) -> Identity {
        Identity { cluster_id: self.first_cluster_id, ..self.identity }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let founders = self.founders.encode();
        let repaired = self.repair.as_ref().and_then(|repair| repair.snapshot.as_ref());
        let members = repaired.map_or(Vec::new(), |snapshot| snapshot.membership.encode());
        let used = MEMBERS_OFFSET + founders.len() + members.len() + 4;
        let length = used.next_multiple_of(SECTOR_BYTES);
        let mut bytes = vec![0; length];
        preamble::put(&mut bytes, MAGIC);
        let claim = self.claim.map_or(LogPosition::ZERO, |claim| claim.last);
        for (offset, number) in [
            (16, length as u64),
            (24, self.generation),
            (32, self.identity.cluster_id),
            (40, self.identity.node_id.get()),
            (48, self.identity.incarnation),
            (56, self.first_cluster_id),
            (64, self.synced.batch),
            (72, self.synced.segment),
            (80, self.first_segment),
            (88, claim.index.0),
            (96, claim.term.0),
            (184, founders.len() as u64 | (members.len() as u64) << 32),
        ] {
            bytes[offset..offset + 8].copy_from_slice(&number.to_le_bytes());
        }
        let repair = self.repair.as_ref().map_or([0; 10], Repair::numbers);
        for (offset, number) in (104..).step_by(8).zip(repair) {
            bytes[offset..offset + 8].copy_from_slice(&number.to_le_bytes());
        }
        bytes[MEMBERS_OFFSET..][..founders.len()].copy_from_slice(&founders);
        bytes[MEMBERS_OFFSET + founders.len()..][..members.len()].copy_from_slice(&members);
        let check = crc(&bytes[..length - 4]);
        bytes[length - 4..].copy_from_slice(&check.to_le_bytes());
        bytes
    }
}

impl Repair {
    fn numbers(&self) -> [u64; 10] {
        let (kind, segment, end, keep) = match self.kind {
            RepairKind::Cut { segment, end, keep } => (1, segment, end, keep.0),
            RepairKind::Restart { segment } => (2, segment, 0, 0),
        };
        let (term, vote) = (self.promise.term.0, self.promise.vote.map_or(0, NodeId::get));
        let snapshot = self.snapshot.as_ref().map_or([0; 3], |snapshot| {
            [snapshot.last.index.0, snapshot.last.term.0, snapshot.membership_index.0]
        });
        let [index, last_term, members_index] = snapshot;
        [kind, self.number, segment, end, keep, term, vote, index, last_term, members_index]
    }

    /// `Some(None)` where there is none, `None` where the numbers make no sense.
    fn of(numbers: [u64; 10], members: &[u8]) -> Option<Option<Self>> {
        let [kind, number, segment, end, keep, term, vote, index, last_term, members_index] =
            numbers;
        let kind = match kind {
            0 => return Some(None),
            1 => RepairKind::Cut { segment, end, keep: Index(keep) },
            2 => RepairKind::Restart { segment },
            _ => return None,
        };
        let snapshot = match members {
            [] => None,
            members => Some(Snapshot {
                last: LogPosition { index: Index(index), term: Term(last_term) },
                membership: Arc::new(Membership::decode(members).ok()?),
                membership_index: Index(members_index),
            }),
        };
        let promise = Promise { term: Term(term), vote: NodeId::new(vote) };
        Some(Some(Self { number, kind, promise, snapshot }))
    }
}

fn read_file(disk: &dyn Disk, path: &Path) -> io::Result<Vec<u8>> {
    let file = disk.open(path, Access::Read)?;
    let mut bytes = vec![0; file.len()?.min(BYTES_MAX) as usize];
    let read = read_full(&*file as &dyn DiskFile, &mut bytes, 0)?;
    bytes.truncate(read);
    Ok(bytes)
}

pub(crate) fn decode(bytes: &[u8]) -> Copy {
    match preamble::read(bytes, MAGIC) {
        Preamble::Newer(format) => Copy::Newer(format),
        Preamble::Bad => Copy::Damaged,
        Preamble::Known => decode_known(bytes).map_or(Copy::Damaged, Copy::Valid),
    }
}

fn decode_known(bytes: &[u8]) -> Option<Meta> {
    let length = bytes.len();
    if !length.is_multiple_of(SECTOR_BYTES)
        || u64_at(bytes, 16) != length as u64
        || u32_at(bytes, length - 4) != crc(&bytes[..length - 4])
    {
        return None;
    }
    let number = |offset| u64_at(bytes, offset);
    // All but the ids and the vote are counted on from.
    let counted = [24].into_iter().chain((64..152).step_by(8)).chain((160..184).step_by(8));
    if counted.map(number).any(|number| number > NUMBER_MAX) {
        return None;
    }
    let rest = &bytes[MEMBERS_OFFSET..length - 4];
    let (founders, rest) = rest.split_at_checked(u32_at(bytes, 184) as usize)?;
    let members = rest.get(..u32_at(bytes, 188) as usize)?;
    let claim = LogPosition { index: Index(number(88)), term: Term(number(96)) };
    Some(Meta {
        generation: number(24),
        identity: Identity {
            cluster_id: number(32),
            node_id: NodeId::new(number(40))?,
            incarnation: number(48),
        },
        synced: SyncMark { batch: number(64), segment: number(72) },
        first_segment: number(80),
        first_cluster_id: number(56),
        founders: Arc::new(Membership::decode(founders).ok()?),
        claim: (claim != LogPosition::ZERO).then_some(Claim { last: claim }),
        repair: Repair::of(std::array::from_fn(|at| number(104 + 8 * at)), members)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(voters: u64) -> Arc<Membership> {
        let voters = (1..=voters).filter_map(NodeId::new);
        Arc::new(Membership::new(voters).unwrap_or_else(Membership::unknown))
    }

    fn meta(voters: u64) -> Meta {
        Meta {
            generation: 2,
            identity: Identity {
                cluster_id: 3,
                node_id: NodeId::new(4).expect("not zero"),
                incarnation: 5,
            },
            synced: SyncMark { batch: 6, segment: 7 },
            first_segment: 1,
            first_cluster_id: 8,
            founders: group(voters),
            claim: None,
            repair: None,
        }
    }

    fn with_repair(voters: u64) -> Meta {
        let last = LogPosition { index: Index(9), term: Term(10) };
        let snapshot = Snapshot { last, membership: group(voters), membership_index: Index(11) };
        let kind = RepairKind::Cut { segment: 12, end: 13, keep: Index(14) };
        let promise = Promise { term: Term(15), vote: NodeId::new(16) };
        let repair = Repair { number: 17, kind, promise, snapshot: Some(snapshot) };
        Meta { claim: Some(Claim { last }), repair: Some(repair), ..meta(voters) }
    }

    #[test]
    fn a_copy_comes_back_however_many_voters() {
        for voters in [0, 1, 20, 500] {
            for meta in [meta(voters), with_repair(voters)] {
                let bytes = meta.encode();
                assert_eq!(decode(&bytes), Copy::Valid(meta));
                assert_eq!(decode(&bytes[..bytes.len() - 1]), Copy::Damaged);
            }
        }
    }

    #[test]
    fn a_copy_comes_back_however_long_the_addresses_and_whatever_the_repair() {
        for length in 0..SECTOR_BYTES {
            let (one, two) = ("1".repeat(length / 2), "2".repeat(length - length / 2));
            let ids = (1..).filter_map(NodeId::new);
            let founders = Membership::founded(ids.zip([&*one, &*two]));
            let founders = Arc::new(founders.expect("voters"));
            let mut meta = Meta { founders, ..with_repair(1) };
            if let Some(repair) = &mut meta.repair {
                repair.kind = RepairKind::Restart { segment: 12 };
            }
            assert_eq!(decode(&meta.encode()), Copy::Valid(meta), "{length}");
        }
    }

    #[test]
    fn a_copy_holds_numbers_that_can_be_counted_on_from() {
        let counted = |generation| decode(&Meta { generation, ..meta(3) }.encode());
        assert!(matches!(counted(NUMBER_MAX), Copy::Valid(_)));
        assert_eq!(counted(NUMBER_MAX + 1), Copy::Damaged);
    }

    #[test]
    fn a_copy_is_as_long_as_it_says() {
        let whole = meta(3).encode();
        for (length, said) in [(600, 600), (512, 1024), (1024, 512)] {
            let mut bytes = whole.clone();
            bytes.resize(length, 0);
            bytes[16..24].copy_from_slice(&(said as u64).to_le_bytes());
            let check = crc(&bytes[..length - 4]);
            bytes[length - 4..].copy_from_slice(&check.to_le_bytes());
            assert_eq!(decode(&bytes), Copy::Damaged, "{length}, {said}");
        }
    }

    #[test]
    fn what_is_wrong_with_the_copies_is_said() {
        let older = Meta { generation: 1, ..meta(3) };
        let copies = Copies([Copy::Valid(older), Copy::Valid(meta(3)), Copy::Missing]);
        assert_eq!(copies.faults(), ["meta.0 is older than another copy", "meta.2 is missing"]);
        assert_eq!(copies.newest(), Some(&meta(3)));
    }

    #[test]
    fn every_changed_bit_is_damage() {
        let mut bytes = meta(3).encode();
        for bit in 0..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode(&bytes), Copy::Damaged, "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }
}
