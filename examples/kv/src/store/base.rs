//! The tables on disk, read as of the last flush.

use std::collections::BTreeMap;
use std::iter::Peekable;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use fjall::config::FilterPolicy;
use fjall::{Database, Keyspace, KeyspaceCreateOptions, Readable, Slice, Snapshot};
use prost::Message;
use raft_core::Index;

use super::error::StoreError;
use super::format::{
    Change, Indexed, MARK, Revision, Value, Version, decode_index, decode_version, index_prefix,
    index_row, key_row,
};
use super::span::Span;
use crate::proto::kontiki::{SetMember, StoreMark, SweepMark};

/// The newest format that this version reads, and the one that it writes.
const FORMAT: u32 = 1;

/// About the size of a block in a table.
const BLOCK_BYTES: usize = 4096;

/// The three tables, described in `format.rs`.
#[derive(Clone)]
pub(super) struct Tables {
    pub db: Database,
    pub keys: Keyspace,
    pub revisions: Keyspace,
    pub index: Keyspace,
}

impl Tables {
    pub fn open(path: &Path, cache_bytes: u64) -> Result<Self, StoreError> {
        // One worker merges tables in the background. Fjall's own journal and memtables stay
        // empty, because flushes write whole tables.
        let db = Database::builder(path).cache_size(cache_bytes).worker_threads(1).open()?;
        let searched = KeyspaceCreateOptions::default;
        // Rows of these two are found by a scan, or are known to be there: no Bloom filter.
        let scanned = || {
            KeyspaceCreateOptions::default()
                .filter_policy(FilterPolicy::disabled())
                .expect_point_read_hits(true)
        };
        let keys = db.keyspace("keys", searched)?;
        let revisions = db.keyspace("revisions", scanned)?;
        let index = db.keyspace("index", scanned)?;
        Ok(Self { db, keys, revisions, index })
    }

    /// Bytes of the tables on disk.
    pub fn disk_bytes(&self) -> u64 {
        [&self.keys, &self.revisions, &self.index].into_iter().map(Keyspace::disk_space).sum()
    }

    /// How many sorted runs of one table a read may have to look into.
    pub fn runs(&self) -> usize {
        [&self.keys, &self.revisions, &self.index]
            .into_iter()
            .map(Keyspace::l0_table_count)
            .max()
            .unwrap_or(0)
    }
}

/// What the store's content is worth: `compacted < revision`, and both come from entries up to
/// `applied`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Mark {
    pub applied: Index,
    pub revision: i64,
    pub compacted: i64,
    pub members: Arc<BTreeMap<u64, SetMember>>,
}

impl Mark {
    /// That of a store to which nothing was ever applied.
    fn fresh() -> Self {
        Self { applied: Index::ZERO, revision: 1, compacted: -1, members: Arc::default() }
    }
}

/// What only the thread that writes the tables knows and needs.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Upkeep {
    pub sweep: SweepMark,
    pub kept_bytes: u64,
}

/// Encodes both for the row [`MARK`].
pub(super) fn encode_mark(mark: &Mark, upkeep: &Upkeep) -> Vec<u8> {
    StoreMark {
        format: FORMAT,
        applied: mark.applied.0,
        revision: mark.revision,
        compacted: mark.compacted,
        members: mark.members.values().cloned().collect(),
        sweep: Some(upkeep.sweep),
        kept_bytes: upkeep.kept_bytes,
    }
    .encode_to_vec()
}

/// A consistent reading of the tables. `mark.revision` is the newest revision in `keys`; rows of
/// later ones can be in the other two tables after a crash, and are never looked at.
pub(super) struct Base {
    pub tables: Tables,
    pub snapshot: Snapshot,
    pub mark: Mark,
    pub upkeep: Upkeep,
}

impl Base {
    /// Reads the tables as they are now.
    pub fn read(tables: Tables) -> Result<Self, StoreError> {
        let snapshot = tables.db.snapshot();
        let (mark, upkeep) = match snapshot.get(&tables.keys, MARK)? {
            None => (Mark::fresh(), Upkeep::default()),
            Some(row) => {
                let mark = StoreMark::decode(&row[..])
                    .map_err(|_| StoreError::Corrupt("the mark cannot be read"))?;
                if mark.format > FORMAT {
                    return Err(StoreError::NewerFormat { found: mark.format, known: FORMAT });
                }
                let upkeep =
                    Upkeep { sweep: mark.sweep.unwrap_or_default(), kept_bytes: mark.kept_bytes };
                let members = mark.members.into_iter().map(|member| (member.id, member));
                let mark = Mark {
                    applied: Index(mark.applied),
                    revision: mark.revision,
                    compacted: mark.compacted,
                    members: Arc::new(members.collect()),
                };
                (mark, upkeep)
            }
        };
        Ok(Self { tables, snapshot, mark, upkeep })
    }

    /// The version of `key` at revision `at`.
    pub fn find(&self, key: &[u8], at: i64) -> Result<Option<Version>, StoreError> {
        if let Some(row) = self.snapshot.get(&self.tables.keys, key_row(key))? {
            let version = decode_version(row.into())?;
            if version.modified.main <= at {
                return Ok(Some(version));
            }
        }
        if at >= self.mark.revision {
            return Ok(None);
        }
        let end = index_row(key, Revision::NONE);
        let start = index_row(key, Revision { main: at, sub: u32::MAX });
        match self.snapshot.range(&self.tables.index, start..end).next() {
            None => Ok(None),
            Some(row) => {
                let (row, value) = row.into_inner()?;
                self.indexed(&decode_index(&row, &value)?)
            }
        }
    }

    /// The versions of the keys in `span` at revision `at`, by key.
    pub fn scan(&self, span: &Span, at: i64) -> Scan<'_> {
        let (start, end) = match span {
            Span::Range { start, end } => (start, end.as_ref()),
            // A single key is found, not scanned.
            Span::Empty | Span::Point(_) => return Scan::Nothing,
        };
        let high = end.map_or(Bound::Excluded(vec![b'l']), |end| Bound::Excluded(key_row(end)));
        let keys = self.snapshot.range(&self.tables.keys, (Bound::Included(key_row(start)), high));
        if at >= self.mark.revision {
            return Scan::Current(keys);
        }
        let low = Bound::Included(index_prefix(start));
        let high = end.map_or(Bound::Unbounded, |end| Bound::Excluded(index_prefix(end)));
        let index = self.snapshot.range(&self.tables.index, (low, high));
        let index = Older { rows: index, at, last: None }.peekable();
        Scan::Past(Box::new(Past { base: self, at, keys: Newest(keys).peekable(), index }))
    }

    /// The value of a version, as something that holds on to little else.
    pub fn value(&self, version: &Version) -> Result<Bytes, StoreError> {
        match &version.value {
            Value::Here(value) => Ok(value.clone()),
            Value::InBlock(value) => Ok(detach(value)),
            Value::Elsewhere(_) => {
                let change = self.change(version.modified)?;
                let put = change.and_then(|change| change.put);
                Ok(detach(&put.ok_or(StoreError::Corrupt("a value is missing"))?.value))
            }
        }
    }

    /// The change with exactly this revision, unless it is swept away.
    pub fn change(&self, at: Revision) -> Result<Option<Change>, StoreError> {
        let row = self.snapshot.get(&self.tables.revisions, at.row())?;
        row.map(|row| Change::decode(at, row.into())).transpose()
    }

    /// The changes from `from` on, in order of revision, those that were not swept away.
    pub fn changes(&self, from: Revision) -> impl Iterator<Item = Result<Change, StoreError>> {
        let end = Revision { main: self.mark.revision, sub: u32::MAX };
        let rows = self.snapshot.range(&self.tables.revisions, from.row()..=end.row());
        rows.map(|row| {
            let (key, row) = row.into_inner()?;
            Change::decode(Revision::from_row(&key)?, row.into())
        })
    }

    fn indexed(&self, indexed: &Indexed) -> Result<Option<Version>, StoreError> {
        if !indexed.is_put {
            return Ok(None);
        }
        let missing = StoreError::Corrupt("the index names a version that is missing");
        let version = self.change(indexed.at)?.ok_or(missing)?.version();
        Ok(version.map(|version| match version.value {
            Value::Here(value) => Version { value: Value::InBlock(value), ..version },
            Value::InBlock(_) | Value::Elsewhere(_) => version,
        }))
    }
}

/// A copy, where keeping a block of a table in memory would cost more.
fn detach(value: &Bytes) -> Bytes {
    if value.len() < BLOCK_BYTES / 2 { Bytes::copy_from_slice(value) } else { value.clone() }
}

type Row = Result<(Bytes, Version), StoreError>;

/// The versions of many keys, by key.
pub(super) enum Scan<'a> {
    Nothing,
    /// At the newest revision: `keys` alone has all of them.
    Current(fjall::Iter),
    /// At an older one.
    Past(Box<Past<'a>>),
}

impl Iterator for Scan<'_> {
    type Item = Row;

    fn next(&mut self) -> Option<Row> {
        match self {
            Self::Nothing => None,
            Self::Current(rows) => rows.next().map(decode_row),
            Self::Past(past) => past.next(),
        }
    }
}

/// A row in `keys` where it is old enough, else what the index says.
pub(super) struct Past<'a> {
    base: &'a Base,
    at: i64,
    keys: Peekable<Newest>,
    index: Peekable<Older>,
}

impl Iterator for Past<'_> {
    type Item = Row;

    fn next(&mut self) -> Option<Row> {
        let Self { base, at, keys, index } = self;
        loop {
            let key = match (keys.peek(), index.peek()) {
                (None, None) => return None,
                (Some(Err(_)), _) => return keys.next(),
                (_, Some(Err(_))) => return index.next()?.err().map(Err),
                (Some(Ok((key, _))), None) => key.clone(),
                (None, Some(Ok(indexed))) => indexed.key.clone(),
                (Some(Ok((key, _))), Some(Ok(indexed))) => key.min(&indexed.key).clone(),
            };
            let newest = keys.next_if(|row| matches!(row, Ok((other, _)) if *other == key));
            let older = index.next_if(|row| matches!(row, Ok(row) if row.key == key));
            if let Some(Ok((key, version))) = newest
                && version.modified.main <= *at
            {
                return Some(Ok((key, version)));
            }
            let Some(Ok(older)) = older else { continue };
            match base.indexed(&older) {
                Err(error) => return Some(Err(error)),
                Ok(Some(version)) => return Some(Ok((key, version))),
                Ok(None) => {}
            }
        }
    }
}

/// The rows of `keys`.
pub(super) struct Newest(fjall::Iter);

impl Iterator for Newest {
    type Item = Row;

    fn next(&mut self) -> Option<Row> {
        self.0.next().map(decode_row)
    }
}

/// The first row of `index` for each key that is not after `at`.
pub(super) struct Older {
    rows: fjall::Iter,
    at: i64,
    last: Option<Bytes>,
}

impl Iterator for Older {
    type Item = Result<Indexed, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        for row in self.rows.by_ref() {
            let read = |(row, value): (Slice, Slice)| decode_index(&row, &value);
            let indexed = match row.into_inner().map_err(StoreError::from).and_then(read) {
                Ok(indexed) => indexed,
                Err(error) => return Some(Err(error)),
            };
            if indexed.at.main <= self.at && self.last.as_ref() != Some(&indexed.key) {
                self.last = Some(indexed.key.clone());
                return Some(Ok(indexed));
            }
        }
        None
    }
}

fn decode_row(row: fjall::Guard) -> Row {
    let (key, row) = row.into_inner()?;
    Ok((Bytes::from(key).slice(1..), decode_version(row.into())?))
}
