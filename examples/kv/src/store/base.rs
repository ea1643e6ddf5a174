//! The tables on disk, read as of the last flush.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use fjall::{Readable, Snapshot};
use kontiki::Index;
use prost::Message;

use super::alarm::Alarms;
use super::error::StoreError;
use super::format::{
    Change, Indexed, MARK, Revision, Value, Version, decode_index, decode_version, index_row,
    key_row,
};
use super::lease::{Lease, Leases};
use super::scan::Scan;
use super::span::Span;
use super::tables::Tables;
use crate::proto::kontiki::{SetMember, StoreMark, SweepMark};

/// The newest format that this version reads.
const FORMAT: u32 = 2;
/// The first format with leases and alarms: who knows none would forget them.
const FORMAT_WITH_MORE: u32 = 2;
/// The format of a store that has nothing which came later.
const FORMAT_PLAIN: u32 = 1;

/// About the size of a block in a table.
const BLOCK_BYTES: usize = 4096;

/// What the store's content is worth: `compacted < revision`, and both come from entries up to
/// `applied`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Mark {
    pub applied: Index,
    pub revision: i64,
    pub compacted: i64,
    pub members: Arc<BTreeMap<u64, SetMember>>,
    pub leases: Arc<Leases>,
    pub alarms: Alarms,
}

impl Mark {
    /// That of a store to which nothing was ever applied.
    pub fn fresh() -> Self {
        Self {
            applied: Index::ZERO,
            revision: 1,
            compacted: -1,
            members: Arc::default(),
            leases: Arc::default(),
            alarms: Alarms::default(),
        }
    }

    /// The oldest format whose readers understand all of it.
    fn format(&self) -> u32 {
        let is_plain = self.leases.is_empty() && self.alarms.is_empty();
        if is_plain { FORMAT_PLAIN } else { FORMAT_WITH_MORE }
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
        format: mark.format(),
        applied: mark.applied.0,
        revision: mark.revision,
        compacted: mark.compacted,
        members: mark.members.values().cloned().collect(),
        sweep: Some(upkeep.sweep),
        kept_bytes: upkeep.kept_bytes,
        leases: mark.leases.iter().map(|(id, lease)| lease.encode(*id)).collect(),
        alarms: mark.alarms.all(),
    }
    .encode_to_vec()
}

/// Reads what [`encode_mark`] wrote.
pub(super) fn decode_mark(row: &[u8]) -> Result<(Mark, Upkeep), StoreError> {
    let mark =
        StoreMark::decode(row).map_err(|_| StoreError::Corrupt("the mark cannot be read"))?;
    if mark.format > FORMAT {
        return Err(StoreError::NewerFormat { found: mark.format, known: FORMAT });
    }
    let upkeep = Upkeep { sweep: mark.sweep.unwrap_or_default(), kept_bytes: mark.kept_bytes };
    let leases = mark.leases.iter().map(Lease::decode).collect::<Result<_, _>>()?;
    let members = mark.members.into_iter().map(|member| (member.id, member));
    let mark = Mark {
        applied: Index(mark.applied),
        revision: mark.revision,
        compacted: mark.compacted,
        members: Arc::new(members.collect()),
        leases: Arc::new(leases),
        alarms: mark.alarms.into_iter().collect(),
    };
    Ok((mark, upkeep))
}

/// A consistent reading of the tables. `mark.revision` is the newest revision in `keys`; rows of
/// later ones can be in the other two tables after a crash, and are never looked at.
pub(super) struct Base {
    pub tables: Tables,
    pub snapshot: Snapshot,
    pub mark: Mark,
    pub upkeep: Upkeep,
    /// What the tables took on disk when they were read. Merges in the background lower it.
    pub disk_bytes: u64,
}

impl Base {
    /// Reads the tables as they are now.
    pub fn read(tables: Tables) -> Result<Self, StoreError> {
        let snapshot = tables.db.snapshot();
        let (mark, upkeep) = match snapshot.get(&tables.keys, MARK)? {
            None => (Mark::fresh(), Upkeep::default()),
            Some(row) => decode_mark(&row)?,
        };
        let disk_bytes = tables.disk_bytes();
        Ok(Self { tables, snapshot, mark, upkeep, disk_bytes })
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
        Scan::new(self, span, at)
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
    pub fn changes(
        &self,
        from: Revision,
    ) -> impl Iterator<Item = Result<Change, StoreError>> + Send + use<> {
        let end = Revision { main: self.mark.revision, sub: u32::MAX };
        let rows = self.snapshot.range(&self.tables.revisions, from.row()..=end.row());
        rows.map(|row| {
            let (key, row) = row.into_inner()?;
            Change::decode(Revision::from_row(&key)?, row.into())
        })
    }

    /// The version that a row of `index` stands for.
    pub fn indexed(&self, indexed: &Indexed) -> Result<Option<Version>, StoreError> {
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
pub(super) fn detach(value: &Bytes) -> Bytes {
    if value.len() < BLOCK_BYTES / 2 { Bytes::copy_from_slice(value) } else { value.clone() }
}
