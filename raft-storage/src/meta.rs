//! The meta file: whose log it is. Three copies, each in a file of its own.
//!
//! ```text
//!     0  preamble, magic "KONTMETA"
//!    16  length of the file      u64     72  synced: segment        u64
//!    24  generation              u64     80  first segment          u64
//!    32  cluster id              u64     88  number of voters       u64
//!    40  node id                 u64     96  the voters             u64 each
//!    48  disk incarnation        u64         zeros up to a multiple of 512, and in its last
//!    64  synced: batch           u64         four bytes a CRC-32C of everything before them
//! ```
//!
//! The copies are written one after another, each synced before the next, so a power cut damages
//! at most one; the valid copy of the highest generation counts. The *sync mark* says that the
//! log was known to be durable up to this batch, and that this segment exists: it moves when a
//! segment is added, when a log is opened and when it is closed, and is a lower bound otherwise.

use std::io;
use std::path::{Path, PathBuf};

use raft_core::{Membership, NodeId};

use crate::Identity;
use crate::check::crc;
use crate::disk::{Access, Disk, DiskFile, read_full, write_full};
use crate::error::DiskError;
use crate::frame::{u32_at, u64_at};
use crate::preamble::{self, Preamble};
use crate::sector::SECTOR_BYTES;

const MAGIC: [u8; 8] = *b"KONTMETA";
const VOTERS_OFFSET: usize = 96;
/// No meta file is longer: more voters than any cluster has.
const BYTES_MAX: u64 = 1 << 20;

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
    pub(crate) membership: Membership,
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

    fn encode(&self) -> Vec<u8> {
        let voters = self.membership.voters();
        let length = (VOTERS_OFFSET + voters.len() * 8 + 4).next_multiple_of(SECTOR_BYTES);
        let mut bytes = vec![0; length];
        preamble::put(&mut bytes, MAGIC);
        let numbers = [
            (16, length as u64),
            (24, self.generation),
            (32, self.identity.cluster_id),
            (40, self.identity.node_id.get()),
            (48, self.identity.incarnation),
            (64, self.synced.batch),
            (72, self.synced.segment),
            (80, self.first_segment),
            (88, voters.len() as u64),
        ];
        let voters = (VOTERS_OFFSET..).step_by(8).zip(voters.map(NodeId::get));
        for (offset, number) in numbers.into_iter().chain(voters) {
            bytes[offset..offset + 8].copy_from_slice(&number.to_le_bytes());
        }
        let check = crc(&bytes[..length - 4]);
        bytes[length - 4..].copy_from_slice(&check.to_le_bytes());
        bytes
    }
}

fn read_file(disk: &dyn Disk, path: &Path) -> io::Result<Vec<u8>> {
    let file = disk.open(path, Access::Read)?;
    let mut bytes = vec![0; file.len()?.min(BYTES_MAX) as usize];
    let read = read_full(&*file as &dyn DiskFile, &mut bytes, 0)?;
    bytes.truncate(read);
    Ok(bytes)
}

fn decode(bytes: &[u8]) -> Copy {
    match preamble::read(bytes, MAGIC) {
        Preamble::Newer(format) => Copy::Newer(format),
        Preamble::Bad => Copy::Damaged,
        Preamble::Known => decode_known(bytes).map_or(Copy::Damaged, Copy::Valid),
    }
}

fn decode_known(bytes: &[u8]) -> Option<Meta> {
    let length = bytes.len();
    let whole = length >= VOTERS_OFFSET + 4 && length.is_multiple_of(SECTOR_BYTES);
    if !whole
        || u64_at(bytes, 16) != length as u64
        || u32_at(bytes, length - 4) != crc(&bytes[..length - 4])
    {
        return None;
    }
    let number = |offset| u64_at(bytes, offset);
    let voters_end =
        usize::try_from(number(88)).ok()?.checked_mul(8)?.checked_add(VOTERS_OFFSET)?;
    let voters = bytes[..length - 4].get(VOTERS_OFFSET..voters_end)?.chunks_exact(8);
    let voters: Option<Vec<NodeId>> = voters.map(|voter| NodeId::new(u64_at(voter, 0))).collect();
    Some(Meta {
        generation: number(24),
        identity: Identity {
            cluster_id: number(32),
            node_id: NodeId::new(number(40))?,
            incarnation: number(48),
        },
        synced: SyncMark { batch: number(64), segment: number(72) },
        first_segment: number(80),
        membership: Membership::new(voters?)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meta(voters: u64) -> Meta {
        let node = |id| NodeId::new(id).expect("not zero");
        Meta {
            generation: 2,
            identity: Identity { cluster_id: 3, node_id: node(4), incarnation: 5 },
            synced: SyncMark { batch: 6, segment: 7 },
            first_segment: 1,
            membership: Membership::new((1..=voters).map(node)).expect("voters"),
        }
    }

    #[test]
    fn a_copy_comes_back_however_many_voters() {
        for voters in [1, 51, 52, 500] {
            let bytes = meta(voters).encode();
            assert_eq!(decode(&bytes), Copy::Valid(meta(voters)));
            assert_eq!(decode(&bytes[..bytes.len() - 1]), Copy::Damaged);
        }
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
