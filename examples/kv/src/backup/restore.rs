//! Makes the data directory of a member of a new cluster out of a backup.
//!
//! Every member is made of the same file. The log of the new cluster begins behind entry 1, as if
//! that had brought what is in the backup: so it is sent as a snapshot to members that join
//! later. All is made beside the directory and renamed at the end; a crash before that leaves
//! nothing under the name that was asked for.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use kontiki::raft_core::{
    Entries, HardState, Index, LogPosition, LogStore, Membership, NodeId, Snapshot, SnapshotMark,
    SnapshotStore, Term, Ticket, Write,
};
use kontiki::raft_storage::{self, Identity, Wal};

use super::{Backup, BackupError};
use crate::config::{Member, UrlList, restored_cluster_id};
use crate::store::{self, RevisionBump, SnapshotStatus, Store, StoreError};

/// What the log begins behind.
const BASE: LogPosition = LogPosition { term: Term(1), index: Index(1) };
const CHUNK_BYTES: usize = 256 << 10;

/// What is to be made.
#[derive(Clone, Debug)]
pub struct Restoration {
    /// The directory of the member, which must not be there yet.
    pub data_dir: PathBuf,
    /// The member.
    pub member_id: NodeId,
    /// All members of the new cluster.
    pub members: Vec<Member>,
    /// How far revisions are moved on.
    pub bump: RevisionBump,
}

/// What was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restored {
    /// Of what.
    pub status: SnapshotStatus,
    /// The new cluster.
    pub cluster_id: u64,
    /// Its first revision.
    pub revision: i64,
}

/// Why nothing was made.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// The backup is of no use.
    #[error(transparent)]
    Backup(#[from] BackupError),
    /// Something is there already.
    #[error("{} is there already; name a directory that does not exist yet", .0.display())]
    Occupied(PathBuf),
    /// The store cannot be made.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The log cannot be made.
    #[error("cannot make the log: {0}")]
    Log(String),
    /// A directory cannot be made, renamed or synced.
    #[error("{}: {error}", path.display())]
    Disk {
        /// The directory.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
}

/// Makes the directory of a member.
///
/// # Errors
/// See [`RestoreError`]. Nothing was changed.
pub fn restore(backup: &Path, wanted: &Restoration) -> Result<Restored, RestoreError> {
    let target = &wanted.data_dir;
    if target.symlink_metadata().is_ok() {
        return Err(RestoreError::Occupied(target.clone()));
    }
    let mut backup = Backup::open(backup)?;
    let status = backup.status;
    let members = wanted.members.iter().map(|member| member.id);
    let RevisionBump { by, mark_compacted, .. } = wanted.bump;
    let content =
        [status.revision.cast_unsigned(), u64::from(status.hash), by, u64::from(mark_compacted)];
    let cluster_id = restored_cluster_id(members, &content);

    let parent = match target.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        Some(_) | None => PathBuf::from("."),
    };
    let failed = |path: &Path, error| RestoreError::Disk { path: path.to_owned(), error };
    std::fs::create_dir_all(&parent).map_err(|error| failed(&parent, error))?;
    let made = tempfile::Builder::new().prefix(".restoring-").tempdir_in(&parent);
    let made = made.map_err(|error| failed(&parent, error))?;
    let revision = fill(made.path(), &mut backup, cluster_id, wanted)?;
    sync(made.path()).map_err(|error| failed(made.path(), error))?;
    std::fs::rename(made.path(), target).map_err(|error| failed(target, error))?;
    // It has another name now, under which nobody removes it.
    drop(made.keep());
    sync(&parent).map_err(|error| failed(&parent, error))?;
    Ok(Restored { status, cluster_id, revision })
}

/// Fills an empty directory, durably.
fn fill(
    dir: &Path,
    backup: &mut Backup,
    cluster_id: u64,
    wanted: &Restoration,
) -> Result<i64, RestoreError> {
    let (path, bump) = (dir.join("store"), RevisionBump { applied: BASE.index, ..wanted.bump });
    Store::restore_for_new_cluster(&path, backup.snapshot()?, bump)?;
    let (store, reader) = Store::open(&path, &store::Options::default())?;
    make_log(&dir.join("raft"), cluster_id, wanted, store.snapshot()?)
        .map_err(|error| RestoreError::Log(error.to_string()))?;
    Ok(reader.revision())
}

fn make_log(
    dir: &Path,
    cluster_id: u64,
    wanted: &Restoration,
    mut state: impl Read,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let addresses =
        wanted.members.iter().map(|it| (it.id, UrlList(it.peer_urls.clone()).to_string()));
    let addresses: Vec<(NodeId, String)> = addresses.collect();
    let founders = addresses.iter().map(|(id, address)| (*id, address.as_str()));
    let founders = Membership::founded(founders).ok_or("a cluster has members")?;
    let incarnation = rand::random_range(1..=u64::MAX);
    let identity = Identity { cluster_id, node_id: wanted.member_id, incarnation };
    let options = raft_storage::Options::default();
    let (mut log, _) = Wal::create(dir, identity, &founders, &options)?;

    let membership_index = Index::ZERO;
    let snapshot = Snapshot { last: BASE, membership: founders.into(), membership_index };
    let mut sink = log.snapshots().build(&snapshot)?;
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let count = state.read(&mut chunk)?;
        if count == 0 {
            break;
        }
        sink.write(&chunk[..count])?;
    }
    sink.publish()?;
    log.persist(&[Write {
        ticket: Ticket(1),
        truncate: None,
        entries: Entries::default(),
        hard_state: Some(HardState { term: BASE.term, vote: None, commit: BASE.index }),
        snapshot: Some(Box::new(SnapshotMark { snapshot, base: BASE })),
    }])?;
    log.close()?;
    Ok(())
}

fn sync(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}
