//! A hash of what the store keeps, for comparing members: it depends on the entries that were
//! applied, and not on what was flushed, merged or swept so far.

use std::sync::Arc;

use super::base::{Base, Mark};
use super::error::{Failure, KvError, StoreError};
use super::format::{Change, Revision};
use super::keeper::Shared;

/// The hash of a store, and what it covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateHash {
    /// Castagnoli's CRC over all versions, in order of revision.
    pub hash: u32,
    /// The newest revision in it.
    pub revision: i64,
    /// The compacted revision: older versions are not in it.
    pub compacted: i64,
}

pub(super) fn hash(shared: &Shared, at: Option<i64>) -> Result<StateHash, Failure> {
    let at = at.filter(|at| *at > 0);
    let wanted = {
        let state = shared.read();
        state.readable(at.unwrap_or(0))?;
        state.mark.clone()
    };
    // It is taken from the tables alone, so as not to hold up writers.
    let is_flushed = |mark: &Mark| mark.applied >= wanted.applied;
    if !is_flushed(&shared.read().base.mark) {
        shared.demand_flush();
        shared.wait_until(|state| is_flushed(&state.base.mark))?;
    }
    let base = Arc::clone(&shared.read().base);
    let (revision, compacted) = (at.unwrap_or(wanted.revision), base.mark.compacted);
    if revision < compacted {
        return Err(KvError::Compacted.into());
    }
    let mut hash = 0;
    for change in base.changes(Revision::NONE) {
        let change = change?;
        if change.at.main > revision {
            break;
        }
        if change.at.main > compacted || survives(&base, &change, compacted)? {
            hash = crc32c::crc32c_append(hash, &change.at.row());
            hash = crc32c::crc32c_append(hash, &change.encode());
        }
    }
    Ok(StateHash { hash, revision, compacted })
}

/// Whether a compaction at or after this change keeps it.
fn survives(base: &Base, change: &Change, compacted: i64) -> Result<bool, StoreError> {
    if change.put.is_none() {
        return Ok(change.at.main == compacted);
    }
    let kept = base.find(&change.key, compacted)?;
    Ok(kept.is_some_and(|kept| kept.modified == change.at))
}
