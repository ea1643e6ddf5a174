//! Writes changes from memory into the tables.
//!
//! Each table is written as one sorted run and synced before it is seen. `keys` comes last, and
//! with it, in the same atomic step, the mark. A crash before that leaves rows of revisions after
//! the mark in the other two tables: no reader looks at them, and the same rows are written again
//! once Raft's log has been applied again.

use fjall::{Keyspace, UserKey};

use super::base::{Base, Mark, Upkeep, encode_mark};
use super::delta::Delta;
use super::error::StoreError;
use super::format::{
    Change, INDEX_PUT, MARK, Revision, encode_version, index_row, index_value, key_row,
};
use super::state::Frozen;
use super::tables::Tables;

/// Writes `frozen` above what `base` has read, and reads the result.
pub(super) fn flush(base: &Base, frozen: &Frozen) -> Result<Base, StoreError> {
    let mut upkeep = base.upkeep.clone();
    let kept_bytes = frozen.delta.since(Revision::NONE).iter().map(Change::kept_bytes);
    upkeep.kept_bytes += kept_bytes.sum::<u64>();
    let mark = encode_mark(&frozen.mark, &upkeep);
    write_changes(&base.tables, &frozen.delta, frozen.mark.compacted, Some(mark))?;
    Base::read(base.tables.clone())
}

/// Writes changes, and the mark with the last of them.
pub(super) fn write_changes(
    tables: &Tables,
    delta: &Delta,
    compacted: i64,
    mark: Option<Vec<u8>>,
) -> Result<(), StoreError> {
    write_revisions(tables, delta)?;
    write_index(tables, delta, compacted)?;
    write_keys(tables, delta, mark)
}

/// Writes all changes.
pub(super) fn write_revisions(tables: &Tables, delta: &Delta) -> Result<(), StoreError> {
    let mut rows = tables.revisions.start_ingestion()?;
    for change in delta.since(Revision::NONE) {
        rows.write(change.at.row(), change.encode())?;
    }
    Ok(rows.finish()?)
}

/// Writes a row for each deletion, and for each version that is not its key's newest any more.
pub(super) fn write_index(
    tables: &Tables,
    delta: &Delta,
    compacted: i64,
) -> Result<(), StoreError> {
    let mut rows = tables.index.start_ingestion()?;
    for history in delta.histories() {
        let mut oldest = None;
        for (age, change) in history.enumerate() {
            if age > 0 || change.put.is_none() {
                rows.write(index_row(&change.key, change.at), index_value(change))?;
            }
            oldest = Some(change);
        }
        // The version that the first of these changes replaced or deleted is in the tables,
        // unless it was given up.
        if let Some(oldest) = oldest
            && oldest.keeps_previous(compacted)
        {
            rows.write(index_row(&oldest.key, oldest.previous), INDEX_PUT)?;
        }
    }
    Ok(rows.finish()?)
}

/// Writes the newest version of each key, takes out the keys that were deleted, and sets the
/// mark.
fn write_keys(tables: &Tables, delta: &Delta, mark: Option<Vec<u8>>) -> Result<(), StoreError> {
    let mut rows = tables.keys.start_ingestion()?;
    for mut history in delta.histories() {
        let oldest = history.clone().last();
        let Some(newest) = history.next() else { continue };
        let was_there = oldest.is_some_and(|oldest| !oldest.previous.is_none());
        match &newest.put {
            Some(put) => rows.write(key_row(&newest.key), encode_version(newest.at, put))?,
            None if was_there => rows.write_tombstone(key_row(&newest.key))?,
            None => {}
        }
    }
    if let Some(mark) = mark {
        rows.write(MARK, mark)?;
    }
    Ok(rows.finish()?)
}

/// Sets the mark alone.
pub(super) fn write_mark(tables: &Tables, mark: &Mark, upkeep: &Upkeep) -> Result<(), StoreError> {
    let mut rows = tables.keys.start_ingestion()?;
    rows.write(MARK, encode_mark(mark, upkeep))?;
    Ok(rows.finish()?)
}

/// Takes rows out of a table; `rows` are sorted and differ.
pub(super) fn remove<R: Into<UserKey>>(
    table: &Keyspace,
    rows: impl IntoIterator<Item = R>,
) -> Result<(), StoreError> {
    let mut removed = table.start_ingestion()?;
    for row in rows {
        removed.write_tombstone(row)?;
    }
    Ok(removed.finish()?)
}
