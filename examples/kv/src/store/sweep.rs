//! Deletes the versions that a compaction gave up.
//!
//! A compaction at revision `c` takes effect at once, when its entry is applied: from then on
//! nothing before `c` is read. What it made needless is deleted afterwards, a bounded step at a
//! time: every change up to `c` dooms the version that it replaced, and a deletion before `c`
//! dooms itself. What was written exactly at `c` stays, because a watch may start there.
//!
//! The sweep works for the compaction that the mark on disk knows of, never for a later one: a
//! crash must not bring back a state that wants what was deleted. How far it came is in the mark.

use super::base::{Base, Upkeep};
use super::error::StoreError;
use super::flush::{remove, write_mark};
use super::format::{Revision, index_row};
use super::tables::Tables;
use crate::proto::kontiki::SweepMark;

/// How many changes one step looks at.
pub(super) const STEP_CHANGES: usize = 64 * 1024;

/// Whether something is left to be deleted.
pub(super) fn is_due(base: &Base) -> bool {
    base.mark.compacted > base.upkeep.sweep.done
}

/// Does one step, and reads the result.
pub(super) fn step(base: &Base, changes_max: usize) -> Result<Base, StoreError> {
    let sweep = &base.upkeep.sweep;
    let (done, target, from) = if sweep.target > sweep.done {
        (sweep.done, sweep.target, Revision { main: sweep.cursor_main, sub: sweep.cursor_sub })
    } else {
        (sweep.done, base.mark.compacted, Revision { main: sweep.done.max(0), sub: 0 })
    };
    let mut doomed = Doomed::default();
    let mut cursor = from;
    let mut is_done = true;
    for (seen, change) in base.changes(from).enumerate() {
        let change = change?;
        if change.at.main > target {
            break;
        }
        if seen == changes_max {
            (cursor, is_done) = (change.at, false);
            break;
        }
        if change.keeps_previous(done) && !change.keeps_previous(target) {
            doomed.add(&change.key, change.previous, change.previous_bytes);
        }
        if change.put.is_none() && change.at.main < target {
            doomed.add(&change.key, change.at, change.kept_bytes());
        }
    }
    let sweep = match is_done {
        true => SweepMark { done: target, ..SweepMark::default() },
        false => SweepMark { done, target, cursor_main: cursor.main, cursor_sub: cursor.sub },
    };
    let kept_bytes = base.upkeep.kept_bytes.saturating_sub(doomed.bytes);
    doomed.delete(&base.tables)?;
    write_mark(&base.tables, &base.mark, &Upkeep { sweep, kept_bytes })?;
    Base::read(base.tables.clone())
}

/// Rows to delete.
#[derive(Default)]
struct Doomed {
    revisions: Vec<Revision>,
    index: Vec<Vec<u8>>,
    bytes: u64,
}

impl Doomed {
    fn add(&mut self, key: &[u8], at: Revision, bytes: u64) {
        self.revisions.push(at);
        self.index.push(index_row(key, at));
        self.bytes += bytes;
    }

    fn delete(mut self, tables: &Tables) -> Result<(), StoreError> {
        self.index.sort_unstable();
        self.revisions.sort_unstable();
        remove(&tables.index, self.index)?;
        remove(&tables.revisions, self.revisions.into_iter().map(Revision::row))
    }
}
