//! For a cluster that has lost its quorum for good: makes a new cluster of what one member holds.
//! Offline, by hand, and only then: entries that this member lacks are given up.

use std::path::Path;

use raft_core::{
    Entries, Entry, HardState, Index, LogPosition, LogStore, Member, Membership, NodeId, Payload,
    Ticket, Write,
};

use crate::error::{OpenError, RecoverError};
use crate::options::{Identity, OnDamage, Options};
use crate::wal::Wal;

/// What [`force_new_cluster`] did, and what may be lost by it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forced {
    /// Whose log it was.
    pub before: Identity,
    /// Whose log it is.
    pub identity: Identity,
    /// The members that the new cluster goes on without.
    pub dropped: Vec<NodeId>,
    /// The newest commit index that this member had written down. What it holds up to here was
    /// committed.
    pub commit: Index,
    /// The end of its log. Entries behind `commit` up to here may have been committed or not, and
    /// are committed now. Whatever the others committed behind it is lost.
    pub last: LogPosition,
    /// The entry that makes this node the only voter.
    pub membership: LogPosition,
}

/// Makes a new cluster, of which this node is the only member, out of the log in `dir`. To be
/// used when a majority of the old cluster is lost for good. The members that may still live are
/// of another cluster from now on, and are refused.
///
/// When it is cut short, do it again.
///
/// # Errors
/// See [`RecoverError`].
pub fn force_new_cluster(
    dir: &Path,
    cluster_id: u64,
    options: &Options,
) -> Result<Forced, RecoverError> {
    // A repaired log lacks entries that it once acknowledged.
    let strict = Options { on_damage: OnDamage::Refuse, ..options.clone() };
    let (mut wal, recovered) = Wal::open_checked(dir, &strict, |_| Ok(()))?;
    let (before, last) = (recovered.identity, recovered.log.last());
    let dir = dir.to_owned();
    if before.cluster_id == cluster_id {
        return Err(RecoverError::SameCluster { cluster_id });
    }
    if let Some(claim) = recovered.claim {
        return Err(RecoverError::Incomplete { dir, claim: claim.last, last });
    }
    let newest = recovered.memberships.last().map(|(_, membership)| membership);
    let members = newest.map_or(&[][..], |membership| membership.members());
    let address = members.iter().find(|member| member.id == before.node_id);
    let address = address.map_or("", |member: &Member| member.address.as_str());
    let Some(alone) =
        Membership::founded([(before.node_id, address)]).filter(|_| !members.is_empty())
    else {
        return Err(RecoverError::NotJoined { dir });
    };
    let others = members.iter().map(|member| member.id).filter(|id| *id != before.node_id);
    let dropped = others.collect();

    // First the new name, so that no member of the old cluster ever talks to the new one.
    wal.meta.identity.cluster_id = cluster_id;
    wal.write_meta().map_err(OpenError::Disk)?;
    let identity = wal.identity();
    let HardState { term, commit, .. } = recovered.hard_state;
    let term = term.next();
    let membership = LogPosition { term, index: last.index.next() };
    let payload = Payload::Membership(alone.into());
    wal.persist(&[Write {
        ticket: Ticket(0),
        truncate: None,
        entries: Entries::from(Entry { index: membership.index, term, payload }),
        hard_state: Some(HardState { term, vote: Some(before.node_id), commit }),
        snapshot: None,
    }])?;
    wal.close()?;
    Ok(Forced { before, identity, dropped, commit, last, membership })
}
