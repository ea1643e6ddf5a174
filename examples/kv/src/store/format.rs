//! The rows of the three tables, byte by byte. Numbers in keys are big-endian so that rows sort
//! by them; numbers in values are varints.
//!
//! ```text
//! keys       'k' key              -> 0  create  main sub  version  lease  value
//!                                    1  create  main sub  version  lease  value length
//!            'm'                  -> StoreMark (proto/kontiki.proto)
//! revisions  main:8 sub:4         -> 0  previous main sub  its bytes  create version lease
//!                                       key length  key  value
//!                                    1  previous main sub  its bytes  key length  key
//! index      key' 0 0 !main:8 !sub:4 -> 0 or 1
//! ```
//! A row of `keys` starts with 1 when the value is long, and only in `revisions`. Rows of the other
//! two tables have 0 for a put and 1 for a deletion. In `key'` each zero byte is written as
//! `0 255`, so that keys sort in `index` as they do in `keys`.

use bytes::{Buf, BufMut, Bytes};
use prost::encoding::{decode_varint, encode_varint};

use super::error::StoreError;

/// The longest key that is stored: its row in `index` must fit into 65,535 bytes.
pub const KEY_BYTES_MAX: usize = 32_760;

/// Values longer than this are not written a second time beside their key.
pub(super) const INLINE_BYTES_MAX: usize = 1024;

/// The row of `keys` that holds the mark.
pub(super) const MARK: &[u8] = b"m";

const PUT: u8 = 0;
const DELETION: u8 = 1;

/// The number of a change: that of its request, then its place within it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Revision {
    pub main: i64,
    pub sub: u32,
}

impl Revision {
    /// Stands for "there is none": the first real one is 2.
    pub const NONE: Self = Self { main: 0, sub: 0 };

    pub fn is_none(self) -> bool {
        self == Self::NONE
    }

    pub fn row(self) -> [u8; 12] {
        let mut row = [0; 12];
        row[..8].copy_from_slice(&self.main.to_be_bytes());
        row[8..].copy_from_slice(&self.sub.to_be_bytes());
        row
    }

    pub fn from_row(mut row: &[u8]) -> Result<Self, StoreError> {
        if row.len() != 12 {
            return Err(StoreError::Corrupt("a revision is not 12 bytes long"));
        }
        let revision = Self { main: row.get_i64(), sub: row.get_u32() };
        if revision.main < 0 {
            return Err(StoreError::Corrupt("a revision is negative"));
        }
        Ok(revision)
    }
}

/// Where the value of a version is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Here(Bytes),
    /// A part of a block of a table, which it keeps in memory.
    InBlock(Bytes),
    /// In `revisions`, at the version's own revision; so many bytes.
    Elsewhere(u64),
}

/// One version of a key: what a put left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Version {
    pub create: i64,
    pub modified: Revision,
    pub version: i64,
    pub lease: i64,
    pub value: Value,
}

impl Version {
    pub fn value_len(&self) -> u64 {
        match &self.value {
            Value::Here(value) | Value::InBlock(value) => value.len() as u64,
            Value::Elsewhere(len) => *len,
        }
    }
}

/// What a version or a deletion counts for in the size of the store.
pub(super) fn kept_bytes(key: &[u8], value_len: u64) -> u64 {
    32 + key.len() as u64 + value_len
}

/// What a put wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Put {
    pub create: i64,
    pub version: i64,
    pub lease: i64,
    pub value: Bytes,
}

/// One change of one key; without a `put` it is a deletion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Change {
    pub key: Bytes,
    pub at: Revision,
    /// The version that it replaced or deleted.
    pub previous: Revision,
    /// What that version counts for; 0 where there was none.
    pub previous_bytes: u64,
    pub put: Option<Put>,
}

impl Change {
    /// What it counts for itself.
    pub fn kept_bytes(&self) -> u64 {
        kept_bytes(&self.key, self.put.as_ref().map_or(0, |put| put.value.len() as u64))
    }

    /// Whether a compaction at `compacted` keeps the version that it replaced or deleted: it was
    /// there at that revision, or was written exactly then.
    pub fn keeps_previous(&self, compacted: i64) -> bool {
        let is_kept = self.at.main > compacted || self.previous.main == compacted;
        is_kept && !self.previous.is_none()
    }

    /// The version that it left, or `None` after a deletion.
    pub fn version(&self) -> Option<Version> {
        self.put.as_ref().map(|put| Version {
            create: put.create,
            modified: self.at,
            version: put.version,
            lease: put.lease,
            value: Value::Here(put.value.clone()),
        })
    }

    /// Its row in `revisions`.
    pub fn encode(&self) -> Vec<u8> {
        let value_len = self.put.as_ref().map_or(0, |put| put.value.len());
        let mut row = Vec::with_capacity(48 + self.key.len() + value_len);
        row.push(if self.put.is_some() { PUT } else { DELETION });
        encode_varint(self.previous.main.cast_unsigned(), &mut row);
        encode_varint(self.previous.sub.into(), &mut row);
        encode_varint(self.previous_bytes, &mut row);
        if let Some(put) = &self.put {
            for number in [put.create, put.version, put.lease] {
                encode_varint(number.cast_unsigned(), &mut row);
            }
        }
        encode_varint(self.key.len() as u64, &mut row);
        row.put_slice(&self.key);
        if let Some(put) = &self.put {
            row.put_slice(&put.value);
        }
        row
    }

    /// Reads a row of `revisions`.
    pub fn decode(at: Revision, mut row: Bytes) -> Result<Self, StoreError> {
        let kind = byte(&mut row)?;
        let previous = revision(&mut row)?;
        let previous_bytes = number(&mut row)?.cast_unsigned();
        let numbers = match kind {
            PUT => Some([number(&mut row)?, number(&mut row)?, number(&mut row)?]),
            DELETION => None,
            _ => return Err(StoreError::Corrupt("a change of unknown kind")),
        };
        let key_len = usize::try_from(number(&mut row)?).unwrap_or(usize::MAX);
        if key_len > row.len() {
            return Err(StoreError::Corrupt("a key longer than its row"));
        }
        let key = row.split_to(key_len);
        let put =
            numbers.map(|[create, version, lease]| Put { create, version, lease, value: row });
        Ok(Self { key, at, previous, previous_bytes, put })
    }
}

/// The row of `keys` for a key's newest version, from the change that made it.
pub(super) fn encode_version(at: Revision, put: &Put) -> Vec<u8> {
    let inline = put.value.len() <= INLINE_BYTES_MAX;
    let mut row = Vec::with_capacity(40 + if inline { put.value.len() } else { 0 });
    row.push(u8::from(!inline));
    encode_varint(put.create.cast_unsigned(), &mut row);
    encode_varint(at.main.cast_unsigned(), &mut row);
    encode_varint(at.sub.into(), &mut row);
    encode_varint(put.version.cast_unsigned(), &mut row);
    encode_varint(put.lease.cast_unsigned(), &mut row);
    if inline {
        row.put_slice(&put.value);
    } else {
        encode_varint(put.value.len() as u64, &mut row);
    }
    row
}

/// Reads a row of `keys`.
pub(super) fn decode_version(mut row: Bytes) -> Result<Version, StoreError> {
    let place = byte(&mut row)?;
    let create = number(&mut row)?;
    let modified = revision(&mut row)?;
    let version = number(&mut row)?;
    let lease = number(&mut row)?;
    let value = match place {
        0 => Value::InBlock(row),
        1 => Value::Elsewhere(number(&mut row)?.cast_unsigned()),
        _ => return Err(StoreError::Corrupt("a value of unknown place")),
    };
    Ok(Version { create, modified, version, lease, value })
}

/// The key of a row in `keys`.
pub(super) fn key_row(key: &[u8]) -> Vec<u8> {
    let mut row = Vec::with_capacity(1 + key.len());
    row.push(b'k');
    row.extend_from_slice(key);
    row
}

/// What all rows of `index` for one key start with, and no row of another key.
pub(super) fn index_prefix(key: &[u8]) -> Vec<u8> {
    let mut row = Vec::with_capacity(key.len() + 16);
    for part in key.split_inclusive(|byte| *byte == 0) {
        row.extend_from_slice(part);
        if part.last() == Some(&0) {
            row.push(255);
        }
    }
    row.extend_from_slice(&[0, 0]);
    row
}

/// The key of a row in `index`: newer versions of a key come first.
pub(super) fn index_row(key: &[u8], at: Revision) -> Vec<u8> {
    let mut row = index_prefix(key);
    row.put_i64(!at.main);
    row.put_u32(!at.sub);
    row
}

/// The value of a row in `index`.
pub(super) fn index_value(change: &Change) -> &'static [u8] {
    if change.put.is_some() { &[PUT] } else { &[DELETION] }
}

/// The value of a row in `index` for a version that a put left.
pub(super) const INDEX_PUT: &[u8] = &[PUT];

/// One row of `index`, read.
pub(super) struct Indexed {
    pub key: Bytes,
    pub at: Revision,
    pub is_put: bool,
}

/// Reads a row of `index`.
pub(super) fn decode_index(row: &[u8], value: &[u8]) -> Result<Indexed, StoreError> {
    let bad = StoreError::Corrupt("a row of the index");
    let Some(end) = row.len().checked_sub(14) else { return Err(bad) };
    let (escaped, mut rest) = row.split_at(end);
    if rest.get_u16() != 0 {
        return Err(bad);
    }
    let at = Revision { main: !rest.get_i64(), sub: !rest.get_u32() };
    let mut key = Vec::with_capacity(end);
    let mut bytes = escaped.iter();
    while let Some(&byte) = bytes.next() {
        key.push(byte);
        if byte == 0 && bytes.next() != Some(&255) {
            return Err(bad);
        }
    }
    match value {
        [PUT] => Ok(Indexed { key: key.into(), at, is_put: true }),
        [DELETION] => Ok(Indexed { key: key.into(), at, is_put: false }),
        _ => Err(bad),
    }
}

fn byte(row: &mut Bytes) -> Result<u8, StoreError> {
    row.try_get_u8().map_err(|_| StoreError::Corrupt("a row is too short"))
}

fn number(row: &mut Bytes) -> Result<i64, StoreError> {
    let number = decode_varint(row).map_err(|_| StoreError::Corrupt("a number in a row"))?;
    Ok(number.cast_signed())
}

fn revision(row: &mut Bytes) -> Result<Revision, StoreError> {
    let main = number(row)?;
    let sub = u32::try_from(number(row)?);
    Ok(Revision { main, sub: sub.map_err(|_| StoreError::Corrupt("a number in a row"))? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_sorts_as_keys_do_and_newer_versions_first() {
        let keys: [&[u8]; 8] = [b"\0", b"\0\0", b"\0\x01", b"\0\xff", b"a", b"a\0", b"a\0b", b"ab"];
        let mut rows = Vec::new();
        for key in keys {
            for main in [9, 8, 2] {
                rows.push(index_row(key, Revision { main, sub: 1 }));
                rows.push(index_row(key, Revision { main, sub: 0 }));
            }
        }
        assert!(rows.is_sorted(), "{rows:?}");
        for (row, expected) in rows.iter().zip(keys.iter().flat_map(|key| [key; 6])) {
            assert!(row.starts_with(&index_prefix(expected)));
            assert_eq!(decode_index(row, INDEX_PUT).expect("a row").key, *expected);
        }
    }

    #[test]
    fn rows_read_back_and_cut_rows_are_errors() {
        let put = Put { create: 3, version: 300, lease: -1, value: Bytes::from_static(b"v") };
        let at = Revision { main: i64::MAX, sub: 7 };
        let previous = Revision { main: 4, sub: 1 };
        for put in [Some(put), None] {
            let key = Bytes::from_static(b"k\0");
            let change = Change { key, at, previous, previous_bytes: 1 << 40, put };
            let row = Bytes::from(change.encode());
            assert_eq!(Change::decode(at, row.clone()).expect("a change"), change);
            for len in 0..row.len() - usize::from(change.put.is_some()) {
                Change::decode(at, row.slice(..len)).expect_err("a cut row");
            }
            if let Some(put) = &change.put {
                let row = Bytes::from(encode_version(at, put));
                let version = decode_version(row.clone()).expect("a version");
                assert_eq!(version.value, Value::InBlock(put.value.clone()));
                let value = Value::Here(put.value.clone());
                let version = Version { value, ..version };
                assert_eq!(Some(version), change.version());
                for len in 0..row.len() - 1 {
                    decode_version(row.slice(..len)).expect_err("a cut row");
                }
            }
        }
    }
}
