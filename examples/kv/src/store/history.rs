//! Every version that is kept, in order of revision, from a view of the store that nothing changes
//! any more. It depends on the entries that were applied, and not on what was flushed, merged or
//! swept so far: equal states have equal histories.

use super::error::StoreError;
use super::format::{Change, Revision};
use super::state::State;

/// The changes of a view that its compaction did not give up, oldest first.
pub(super) struct History {
    view: State,
    tables: Box<dyn Iterator<Item = Result<Change, StoreError>> + Send>,
    /// The next change to look for in memory, once the tables are through.
    fresh: Revision,
}

impl History {
    pub fn new(view: State) -> Self {
        let tables = Box::new(view.base.changes(Revision::NONE));
        let fresh = Revision { main: view.base.mark.revision + 1, sub: 0 };
        Self { view, tables, fresh }
    }

    fn next_fresh(&mut self) -> Option<Change> {
        let change = self.view.fresh_changes(self.fresh).next()?.clone();
        self.fresh = Revision { sub: change.at.sub + 1, ..change.at };
        Some(change)
    }

    /// Whether the newest compaction keeps this change: the last version of its key up to there,
    /// and everything exactly there, because a watch may start at it.
    fn survives(&self, change: &Change) -> Result<bool, StoreError> {
        let (base, compacted) = (&self.view.base, self.view.mark.compacted);
        if change.at.main >= compacted {
            return Ok(true);
        }
        let is_swept = base.upkeep.sweep.done == compacted;
        if is_swept && change.at.main <= base.mark.revision {
            return Ok(true);
        }
        if change.put.is_none() {
            return Ok(false);
        }
        let kept = self.view.find(&change.key, compacted)?;
        Ok(kept.is_some_and(|kept| kept.modified == change.at))
    }
}

impl Iterator for History {
    type Item = Result<Change, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let change = match self.tables.next() {
                Some(Ok(change)) => change,
                Some(Err(error)) => return Some(Err(error)),
                None => self.next_fresh()?,
            };
            match self.survives(&change) {
                Ok(true) => return Some(Ok(change)),
                Ok(false) => {}
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

/// The checksum over a history: over each change, with its revision.
pub(super) fn append_hash(hash: u32, change: &Change, row: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c_append(hash, &change.at.row()), row)
}
