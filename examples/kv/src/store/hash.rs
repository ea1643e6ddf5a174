//! A hash of what the store keeps, for comparing members.

use super::error::Failure;
use super::history::{History, append_hash};
use super::keeper::Shared;
use super::lease;

/// The hash of a store, and what it covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateHash {
    /// Castagnoli's CRC over all versions, in order of revision.
    pub hash: u32,
    /// The same over the leases, in order of their ids; 0 where there are none.
    pub leases: u32,
    /// The newest revision in it.
    pub revision: i64,
    /// The compacted revision: older versions are not in it.
    pub compacted: i64,
}

pub(super) fn hash(shared: &Shared, at: Option<i64>) -> Result<StateHash, Failure> {
    let at = at.filter(|at| *at > 0);
    let view = {
        let state = shared.read();
        state.readable(at.unwrap_or(0))?;
        state.view()
    };
    let (revision, compacted) = (at.unwrap_or(view.mark.revision), view.mark.compacted);
    let (mut hash, leases) = (0, lease::hash(&view.mark.leases));
    for change in History::new(view) {
        let change = change?;
        if change.at.main > revision {
            break;
        }
        hash = append_hash(hash, &change, &change.encode());
    }
    Ok(StateHash { hash, leases, revision, compacted })
}
