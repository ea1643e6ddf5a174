//! The versions of many keys on disk at one revision, by key.

use std::iter::Peekable;
use std::ops::Bound;

use bytes::Bytes;
use fjall::{Readable, Slice};

use super::base::Base;
use super::error::StoreError;
use super::format::{Indexed, Version, decode_index, decode_version, index_prefix, key_row};
use super::span::Span;

type Row = Result<(Bytes, Version), StoreError>;

/// The versions of many keys, by key.
pub(super) enum Scan<'a> {
    Nothing,
    /// At the newest revision: `keys` alone has all of them.
    Current(fjall::Iter),
    /// At an older one.
    Past(Box<Past<'a>>),
}

impl<'a> Scan<'a> {
    /// The versions of the keys in `span` at revision `at`.
    pub fn new(base: &'a Base, span: &Span, at: i64) -> Self {
        let (start, end) = match span {
            Span::Range { start, end } => (start, end.as_ref()),
            // A single key is found, not scanned.
            Span::Empty | Span::Point(_) => return Self::Nothing,
        };
        let high = end.map_or(Bound::Excluded(vec![b'l']), |end| Bound::Excluded(key_row(end)));
        let keys = base.snapshot.range(&base.tables.keys, (Bound::Included(key_row(start)), high));
        if at >= base.mark.revision {
            return Self::Current(keys);
        }
        let low = Bound::Included(index_prefix(start));
        let high = end.map_or(Bound::Unbounded, |end| Bound::Excluded(index_prefix(end)));
        let index = base.snapshot.range(&base.tables.index, (low, high));
        let index = Older { rows: index, at, last: None }.peekable();
        Self::Past(Box::new(Past { base, at, keys: Newest(keys).peekable(), index }))
    }
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
