//! What can go wrong, one enum per verb. Every message names the file and says what to do.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use raft_core::{Index, LogPosition};

use crate::{Identity, Owner};

/// A file operation that failed: which, where and why.
#[derive(Clone, Debug, thiserror::Error)]
#[error("cannot {verb} {} at byte {offset}: {source}", file.display())]
pub struct DiskError {
    /// What was tried.
    pub verb: &'static str,
    /// On which file or directory.
    pub file: PathBuf,
    /// At which byte of it; zero where the operation has no place.
    pub offset: u64,
    /// What the operating system said.
    #[source]
    pub source: Arc<io::Error>,
}

impl DiskError {
    pub(crate) fn new(
        verb: &'static str,
        file: impl Into<PathBuf>,
        offset: u64,
        source: io::Error,
    ) -> Self {
        Self { verb, file: file.into(), offset, source: Arc::new(source) }
    }
}

/// Bytes that were durable once and are not what was written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} is damaged at byte {offset}: {reason}; intact up to {intact:?}", file.display())]
pub struct Damage {
    /// The file.
    pub file: PathBuf,
    /// The first byte of the sector, or of the record, that is wrong.
    pub offset: u64,
    /// What is wrong with it.
    pub reason: String,
    /// The end of the log before the damage.
    pub intact: LogPosition,
}

/// Why a write, a sync or a read failed. Cheap to clone: a poisoned log hands out the same error
/// for ever.
#[derive(Clone, Debug, thiserror::Error)]
pub enum WalError {
    /// The disk failed. From a write or sync: the log takes no write any more. Stop the node;
    /// when the disk is well again, opening the log finds everything that was acknowledged.
    #[error("{0}")]
    Disk(#[from] DiskError),
    /// A read met damage. Stop the node; opening the log again repairs it, see
    /// [`Wal::open`](crate::Wal::open).
    #[error("{0}")]
    Corrupt(#[from] Damage),
    /// A snapshot beside the log is damaged or of no use.
    #[error("{0}")]
    Snapshot(#[from] SnapshotError),
    /// The log does not hold this index: it was cut, or never written. Ask for another.
    #[error("index {index} is not in the log, which holds {first}..={last}")]
    Absent {
        /// What was asked for.
        index: Index,
        /// The first index that the log holds.
        first: Index,
        /// The last index that the log holds.
        last: Index,
    },
}

/// Why a log cannot be opened. Nothing was changed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum OpenError {
    /// There is none. Make one with [`Wal::create`](crate::Wal::create).
    #[error("{} holds no log; a new node makes one when it joins or founds a cluster", dir.display())]
    Absent {
        /// The directory.
        dir: PathBuf,
    },
    /// Another process, or another part of this one, has it open.
    #[error("{} is in use by another process; stop it, or give this one another directory", dir.display())]
    Locked {
        /// The directory.
        dir: PathBuf,
    },
    /// It is the log of another node or of another cluster.
    #[error(
        "{} belongs to {found}, but this is {expected}; give each node its own directory, or \
         start this one with the ids that the directory has", dir.display()
    )]
    WrongOwner {
        /// The directory.
        dir: PathBuf,
        /// Whose log it is.
        found: Owner,
        /// Who wanted to open it.
        expected: Owner,
    },
    /// A file has a format that this version does not know. Use the version that wrote it.
    #[error(
        "{} has format {found}, and this version reads up to format {known}; use the newer \
         version that wrote it", file.display()
    )]
    NewerFormat {
        /// The file.
        file: PathBuf,
        /// The format that it has.
        found: u32,
        /// The newest format that is known here.
        known: u32,
    },
    /// Every copy of the meta file is lost or damaged, so nobody can say whose promises the log
    /// holds. Restore one of them from a copy, or let the node join anew under another id.
    #[error(
        "{} holds a log, but no copy of its identity ({reason}); it must never vote again as \
         the node it was: restore a meta file from a backup, or remove the node from its cluster \
         and add it anew with an empty directory", dir.display()
    )]
    IdentityLost {
        /// The directory.
        dir: PathBuf,
        /// What is wrong with the copies.
        reason: String,
    },
    /// Bytes that were known to be durable are not what was written, and
    /// [`OnDamage::Refuse`](crate::OnDamage) was asked for.
    #[error(
        "{0}. It was durable once, so this is no torn write but corruption: entries that were \
         acknowledged may be missing, and nothing was cut. Check the disk; then start the node, \
         which sets aside what is damaged and is sent it again by its peers"
    )]
    Corrupt(Damage),
    /// Bytes that were known to be durable are not what was written, and the newest vote may have
    /// been among them: a node that has forgotten a vote must not vote. Replace the member.
    #[error(
        "{0}. It was durable once, so this is corruption, and the newest vote of this node may be \
         among what is lost; it must never vote again as the member it was, and nothing was \
         changed. Check the disk; then replace this member by a new one with an empty directory \
         (kontiki member replace), or restore the newest backup of this directory"
    )]
    PromiseLost(Damage),
    /// The snapshot that the log needs cannot be used.
    #[error("{0}")]
    Snapshot(SnapshotError),
    /// A setting cannot work.
    #[error("{0}")]
    Options(#[from] OptionsError),
    /// The disk failed.
    #[error("{0}")]
    Disk(#[from] DiskError),
}

/// Why a log cannot be made.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CreateError {
    /// There is one, or the remains of one. Open it; or give the new node an empty directory.
    #[error(
        "{} holds a log already{}; open it, or give the new node an empty directory",
        dir.display(),
        identity.map(|it| format!(" ({it})")).unwrap_or_default()
    )]
    Exists {
        /// The directory.
        dir: PathBuf,
        /// Whose log it is, where that can be read.
        identity: Option<Identity>,
    },
    /// Another process, or another part of this one, is at work in the directory.
    #[error("{} is in use by another process; stop it, or give this one another directory", dir.display())]
    Locked {
        /// The directory.
        dir: PathBuf,
    },
    /// A setting cannot work.
    #[error("{0}")]
    Options(#[from] OptionsError),
    /// The disk failed. The directory holds no log yet; try again when the disk is well.
    #[error("{0}")]
    Disk(#[from] DiskError),
}

/// Why settings are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionsError {
    /// A segment has to hold its header and a batch.
    #[error("segment_bytes is {0}; make it at least {min}, 64 MiB is usual", min = crate::Options::SEGMENT_BYTES_MIN)]
    SegmentTooSmall(u64),
}

/// Why a snapshot cannot be read or written.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SnapshotError {
    /// There is none.
    #[error("there is no snapshot {}", file.display())]
    Missing {
        /// The file.
        file: PathBuf,
    },
    /// It is not what was written. Take another one, or let the leader send one.
    #[error("{0}; take another snapshot, or restore one from a backup")]
    Damaged(#[from] Damage),
    /// It was written in the log of another cluster.
    #[error(
        "{} is a snapshot of cluster {found:x}, but this is cluster {expected:x}; remove it, or \
         restore it into a new cluster", file.display()
    )]
    Foreign {
        /// The file.
        file: PathBuf,
        /// The cluster that it belongs to.
        found: u64,
        /// The cluster of the log beside it.
        expected: u64,
    },
    /// It has a format that this version does not know. Use the version that wrote it.
    #[error(
        "{} has format {found}, and this version reads up to format {known}; use the newer \
         version that wrote it", file.display()
    )]
    NewerFormat {
        /// The file.
        file: PathBuf,
        /// The format that it has.
        found: u32,
        /// The newest format that is known here.
        known: u32,
    },
    /// The same snapshot is being built already. Wait for it.
    #[error("{} is being built already; wait for it", file.display())]
    Busy {
        /// The file.
        file: PathBuf,
    },
    /// What was received is not what was offered. It was removed; begin anew.
    #[error("{} is not the snapshot that was offered: {reason}; send it again", file.display())]
    NotOffered {
        /// The file.
        file: PathBuf,
        /// How it differs.
        reason: &'static str,
    },
    /// Another transfer was begun in place of this one.
    #[error("{} gave way to another transfer", file.display())]
    Replaced {
        /// The file.
        file: PathBuf,
    },
    /// The disk failed.
    #[error("{0}")]
    Disk(#[from] DiskError),
}

/// Why no new cluster can be made of a log. Nothing was changed, unless the disk failed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum RecoverError {
    /// The log cannot be opened as it is.
    #[error("{0}")]
    Open(#[from] OpenError),
    /// Entries that the log once held are missing: a new cluster would go on without them.
    #[error(
        "{} is damaged: it held entries up to {claim:?}, and ends at {last:?} now. Take the \
         directory of another member; if all are damaged, start one, take a backup of the state \
         that it has (kontiki snapshot save answers without a leader), and restore that", dir.display()
    )]
    Incomplete {
        /// The directory.
        dir: PathBuf,
        /// What it held.
        claim: LogPosition,
        /// What it holds.
        last: LogPosition,
    },
    /// The node has not joined its cluster yet, and knows nothing of it.
    #[error("{} is of a node that has not joined a cluster yet; nothing is in it", dir.display())]
    NotJoined {
        /// The directory.
        dir: PathBuf,
    },
    /// The new cluster has the id of the old one. Draw another.
    #[error("cluster {cluster_id:x} is the old cluster; the new one needs an id of its own")]
    SameCluster {
        /// The id.
        cluster_id: u64,
    },
    /// The log failed on the way. Begin again when the disk is well.
    #[error("{0}")]
    Wal(#[from] WalError),
}
