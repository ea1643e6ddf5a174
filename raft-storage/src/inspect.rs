//! Looks at a log without opening it: takes no lock, writes nothing, and so works beside the
//! process that has it open.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use raft_core::{Index, LogPosition, Membership, NodeId, SnapshotSource};

use crate::create::holds_batches;
use crate::disk::{Access, Disk, RealDisk, list_or_empty};
use crate::error::{DiskError, OpenError, SnapshotError};
use crate::meta::{Copies, Copy, Meta, NAMES};
use crate::open::identify;
use crate::preamble::FORMAT;
use crate::replay::{Failure, Replay, Tail};
use crate::sector::SECTOR_BYTES;
use crate::snapshots::{self, SnapshotFile};

/// How often a log that looks wrong is looked at: its writer may have been at work.
const LOOKS: u32 = 5;
const PAUSE: Duration = Duration::from_millis(2);

/// What a log holds.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Report {
    /// The directory.
    pub dir: String,
    /// The format of its files.
    pub format: u32,
    /// The cluster that it belongs to.
    pub cluster_id: u64,
    /// The node that it belongs to.
    pub node_id: u64,
    /// The number that was drawn for this disk.
    pub incarnation: u64,
    /// The voters that the log was made with; nobody on a node that joined later.
    pub voters: Vec<u64>,
    /// The copies of the meta file.
    pub meta_copies: Vec<MetaCopyReport>,
    /// The segments, as far as they can be read.
    pub segments: Vec<SegmentReport>,
    /// The newest hard state.
    pub hard_state: HardStateReport,
    /// The log that all segments together amount to, as far as they can be read.
    pub log: LogReport,
    /// The end of the newest snapshot that the log was told of.
    pub snapshot: Option<EntryReport>,
    /// The members at that snapshot, or the founders, and then those in the log.
    pub memberships: Vec<MembershipReport>,
    /// What the log held before it was damaged, where it does not hold as much again yet.
    pub claim: Option<EntryReport>,
    /// The snapshot files.
    pub snapshots: Vec<SnapshotReport>,
    /// What was damaged once and set aside.
    pub set_aside: Vec<String>,
    /// The newest batch; they are numbered from 1.
    pub last_batch: u64,
    /// The newest batch that the meta file knows to be synced.
    pub synced_batch: u64,
    /// Whether the log is as it should be.
    pub verdict: Verdict,
}

/// A copy of the meta file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct MetaCopyReport {
    /// Its name.
    pub file: String,
    /// How often the meta file was written, where the copy is valid. The highest one counts.
    pub generation: Option<u64>,
    /// "valid", "damaged", "missing" or "newer format".
    pub state: String,
}

/// A segment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct SegmentReport {
    /// Its name.
    pub file: String,
    /// How many bytes it has.
    pub bytes: u64,
    /// How many of them hold batches.
    pub used_bytes: u64,
    /// How many batches it holds.
    pub batches: u64,
    /// How many entries it holds, those that were cut later included.
    pub entries: u64,
    /// The first entry in it.
    pub first: Option<EntryReport>,
    /// The last entry in it.
    pub last: Option<EntryReport>,
}

/// The members from one entry of the log on.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct MembershipReport {
    /// The index of the entry; zero for the founders.
    pub index: u64,
    /// Who votes; in a joint phase, in the configuration that is being entered.
    pub voters: Vec<u64>,
    /// In a joint phase, who votes in the configuration that is being left.
    pub outgoing: Vec<u64>,
    /// Who is a member and does not vote.
    pub learners: Vec<u64>,
}

/// A snapshot file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct SnapshotReport {
    /// Its name.
    pub file: String,
    /// Its end.
    pub last: EntryReport,
    /// How many bytes of the state machine it holds, where that can be read.
    pub bytes: Option<u64>,
    /// "valid", or what is wrong with it. Its blocks are not read.
    pub state: String,
}

/// Where an entry stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct EntryReport {
    /// Its index.
    pub index: u64,
    /// Its term.
    pub term: u64,
}

/// A hard state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct HardStateReport {
    /// The newest term seen.
    pub term: u64,
    /// The vote given in it.
    pub vote: Option<u64>,
    /// A commit index that was reached.
    pub commit: u64,
}

/// A log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct LogReport {
    /// The first index that it may hold.
    pub first_index: u64,
    /// The last index; one less than the first in an empty log.
    pub last_index: u64,
    /// The term of the last entry.
    pub last_term: u64,
}

/// Whether a log is as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(tag = "verdict", rename_all = "snake_case"))]
pub enum Verdict {
    /// It is.
    Clean,
    /// A batch that was never acknowledged was torn; opening the log will cut it. When a process
    /// has the log open, it may also be writing just now.
    TornTail {
        /// The segment.
        file: String,
        /// Where the torn batch starts.
        offset: u64,
    },
    /// Bytes that were durable are not what was written. The log cannot be opened.
    Corrupt {
        /// The file, or the directory where one is missing.
        file: String,
        /// The first bad byte, or the start of its sector.
        offset: u64,
        /// What is wrong.
        reason: String,
    },
}

/// Looks at the log in a directory.
///
/// # Errors
/// There is none, or it has a newer format, or lost its identity, or the disk failed.
pub fn inspect(dir: &Path) -> Result<Report, OpenError> {
    inspect_on(&RealDisk, dir)
}

/// Looks at the log in a directory of this disk.
///
/// # Errors
/// See [`inspect`].
pub fn inspect_on(disk: &dyn Disk, dir: &Path) -> Result<Report, OpenError> {
    for _ in 1..LOOKS {
        match look(disk, dir) {
            Ok(report) if report.verdict == Verdict::Clean => return Ok(report),
            Err(OpenError::Absent { dir }) => return Err(OpenError::Absent { dir }),
            Ok(_) | Err(_) => std::thread::sleep(PAUSE),
        }
    }
    look(disk, dir)
}

fn look(disk: &dyn Disk, dir: &Path) -> Result<Report, OpenError> {
    let copies = Copies::read(disk, dir)?;
    if copies.newest().is_none() && copies.newer(dir).is_none() && !holds_batches(disk, dir)? {
        return Err(OpenError::Absent { dir: dir.to_owned() });
    }
    let meta = identify(&copies, dir)?;
    let names = disk.list(dir).map_err(|error| DiskError::new("list", dir, 0, error))?;
    let mut replay = Replay::new(disk, dir, meta, Access::Read);
    let verdict = match replay.run(&names) {
        Ok(Tail::Clean) => Verdict::Clean,
        Ok(Tail::Torn { first_sector, .. }) => {
            let file = replay.found.last().map(|found| name_of(&found.segment.path));
            let offset = first_sector * SECTOR_BYTES as u64;
            Verdict::TornTail { file: file.unwrap_or_default(), offset }
        }
        Err(Failure::Corrupt(damage)) => Verdict::Corrupt {
            file: name_of(&damage.file),
            offset: damage.offset,
            reason: damage.reason,
        },
        Err(other) => return Err(other.into()),
    };
    let mut report = report(dir, &copies, meta, &replay, verdict);
    report.snapshots = snapshot_files(disk, dir, meta)?;
    report.set_aside = names.into_iter().filter(|name| name.ends_with(".damaged")).collect();
    report.set_aside.sort_unstable();
    Ok(report)
}

fn report(
    dir: &Path,
    copies: &Copies,
    meta: &Meta,
    replay: &Replay<'_>,
    verdict: Verdict,
) -> Report {
    let (state, identity) = (&replay.state, meta.identity);
    Report {
        dir: dir.display().to_string(),
        format: FORMAT,
        cluster_id: identity.cluster_id,
        node_id: identity.node_id.get(),
        incarnation: identity.incarnation,
        voters: meta.founders.voters().map(NodeId::get).collect(),
        meta_copies: copies.0.iter().zip(NAMES).map(meta_copy).collect(),
        segments: replay.segments(),
        hard_state: HardStateReport {
            term: state.hard_state.term.0,
            vote: state.hard_state.vote.map(NodeId::get),
            commit: state.hard_state.commit.0,
        },
        log: LogReport {
            first_index: state.log.base().index.next().0,
            last_index: state.log.last_index().0,
            last_term: state.log.last().term.0,
        },
        snapshot: Some(state.snapshot).filter(|it| *it != LogPosition::ZERO).map(entry),
        memberships: state.memberships.iter().map(membership).collect(),
        claim: meta.claim.map(|claim| entry(claim.last)),
        snapshots: Vec::new(),
        set_aside: Vec::new(),
        last_batch: state.batch,
        synced_batch: meta.synced.batch,
        verdict,
    }
}

fn entry(position: LogPosition) -> EntryReport {
    EntryReport { index: position.index.0, term: position.term.0 }
}

fn membership((index, membership): &(Index, Arc<Membership>)) -> MembershipReport {
    let ids = |ids: &mut dyn Iterator<Item = NodeId>| ids.map(NodeId::get).collect();
    let members = membership.members().iter().map(|member| member.id);
    MembershipReport {
        index: index.0,
        voters: ids(&mut membership.voters()),
        outgoing: ids(&mut membership.outgoing()),
        learners: ids(&mut members.filter(|id| membership.is_learner(*id))),
    }
}

fn snapshot_files(
    disk: &dyn Disk,
    dir: &Path,
    meta: &Meta,
) -> Result<Vec<SnapshotReport>, OpenError> {
    let names = list_or_empty(disk, dir).map_err(|error| DiskError::new("list", dir, 0, error))?;
    let mut reports = Vec::new();
    for file in names {
        let Some(last) = snapshots::end_of(&file) else { continue };
        let found = SnapshotFile::open_on(disk, &dir.join(&file));
        let (bytes, state) = match found {
            Ok(found) if found.first_cluster_id() != meta.first_cluster_id => {
                (None, format!("of another cluster, {:x}", found.first_cluster_id()))
            }
            Ok(found) => (Some(found.len_bytes()), "valid".to_owned()),
            Err(SnapshotError::Missing { .. }) => continue,
            Err(error) => (None, error.to_string()),
        };
        reports.push(SnapshotReport { file, last: entry(last), bytes, state });
    }
    reports.sort_unstable_by_key(|report| report.last.index);
    Ok(reports)
}

fn meta_copy((copy, name): (&Copy, &str)) -> MetaCopyReport {
    let (generation, state) = match copy {
        Copy::Valid(meta) => (Some(meta.generation), "valid"),
        Copy::Newer(_) => (None, "newer format"),
        Copy::Damaged => (None, "damaged"),
        Copy::Missing => (None, "missing"),
    };
    MetaCopyReport { file: name.to_owned(), generation, state: state.to_owned() }
}

impl Replay<'_> {
    fn segments(&self) -> Vec<SegmentReport> {
        let segment = |found: &crate::replay::Found| SegmentReport {
            file: name_of(&found.segment.path),
            bytes: found.segment.bytes(),
            used_bytes: found.end * SECTOR_BYTES as u64,
            batches: found.batches,
            entries: found.entries,
            first: found.span.map(|(first, _)| entry(first)),
            last: found.span.map(|(_, last)| entry(last)),
        };
        self.found.iter().map(segment).collect()
    }
}

fn name_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str());
    name.to_string_lossy().into_owned()
}
