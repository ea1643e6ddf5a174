//! Makes tables from a snapshot: its changes go through memory a few megabytes at a time and are
//! flushed, as all changes are. The mark is set with the last of them, after everything was
//! checked: tables without a mark are not whole, and nobody takes them for a store.

use std::sync::Arc;

use kontiki::Index;

use super::super::base::{Base, Mark, Upkeep, encode_mark};
use super::super::delta::Delta;
use super::super::error::{SnapshotError, StoreError};
use super::super::flush::write_changes;
use super::super::keeper::wait_for_merges;
use super::super::tables::Tables;
use super::Incoming;
use crate::proto::kontiki::SweepMark;

/// How far the revisions of a new cluster are from those in the snapshot that it is made of. The
/// old cluster went on after the snapshot was taken: what its clients saw must not come again as
/// something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RevisionBump {
    /// The new cluster's first revision is so far after the snapshot's last.
    pub by: u64,
    /// Whether everything before is compacted, so that a watch from an old revision ends and its
    /// client reads afresh, rather than wait for events that it missed.
    pub mark_compacted: bool,
    /// What is in the snapshot counts as the effect of the new log's entries up to here: behind
    /// them that log begins, so that members who join later are sent a snapshot.
    pub applied: Index,
}

impl Default for RevisionBump {
    fn default() -> Self {
        Self { by: 1_000_000_000, mark_compacted: true, applied: Index::ZERO }
    }
}

impl RevisionBump {
    /// The mark of a new cluster: of its log nothing was applied yet, and nobody is a member. Keys
    /// keep their leases, and these the time that they had.
    pub(in crate::store) fn new_cluster(self, mark: &Mark) -> Result<Mark, SnapshotError> {
        let by = i64::try_from(self.by).ok();
        let revision = by.and_then(|by| mark.revision.checked_add(by));
        // Revisions must be left to count on from there.
        let revision = revision.filter(|revision| *revision <= i64::MAX / 2);
        let revision = revision.ok_or(SnapshotError::BumpTooFar { from: mark.revision })?;
        let compacted = if self.mark_compacted { revision } else { mark.compacted };
        let leases = Arc::clone(&mark.leases);
        Ok(Mark { applied: self.applied, revision, compacted, leases, ..Mark::fresh() })
    }
}

/// Fills empty tables, to be worth `mark` in the end. So many bytes of changes are in memory at a
/// time.
pub(in crate::store) fn load(
    incoming: &mut Incoming<'_>,
    tables: &Tables,
    mark: &Mark,
    flush_bytes: usize,
) -> Result<Base, StoreError> {
    let compacted = incoming.mark.compacted;
    let sweep = SweepMark { done: compacted, ..SweepMark::default() };
    let mut upkeep = Upkeep { sweep, kept_bytes: 0 };
    let mut delta = Delta::default();
    while let Some(change) = incoming.next()? {
        upkeep.kept_bytes += change.kept_bytes();
        delta.push(change);
        if delta.bytes() >= flush_bytes {
            wait_for_merges(tables, || false);
            write_changes(tables, &std::mem::take(&mut delta), compacted, None)?;
        }
    }
    write_changes(tables, &delta, compacted, Some(encode_mark(mark, &upkeep)))?;
    Base::read(tables.clone())
}
