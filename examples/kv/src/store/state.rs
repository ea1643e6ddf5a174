//! What is read and written under one lock: the changes in memory above the tables on disk.
//!
//! ```text
//!   active    the changes since `frozen`; the only part that ever changes
//!   frozen    changes on their way into the tables
//!   base      the tables, as of the last flush
//! ```
//! A key is looked up from the top down: the first part that knows it at the wanted revision has
//! the answer.

use std::iter::Peekable;
use std::sync::Arc;

use bytes::Bytes;

use super::base::{Base, Mark};
use super::delta::{Delta, Fresh};
use super::error::{KvError, StoreError};
use super::format::{Change, Revision, Version};
use super::lease::Attached;
use super::scan::Scan;
use super::span::Span;

/// As a revision to read at: the newest.
pub(super) const NEWEST: i64 = i64::MAX;

/// Changes that wait to be flushed, and what holds once they are.
pub(super) struct Frozen {
    pub delta: Delta,
    pub mark: Mark,
}

/// The content of the store; `base.mark <= frozen.mark <= mark`.
pub(super) struct State {
    pub active: Delta,
    pub frozen: Option<Arc<Frozen>>,
    pub base: Arc<Base>,
    pub mark: Mark,
    /// The keys of each lease, now.
    pub attached: Attached,
}

impl State {
    pub fn new(base: Base) -> Result<Self, StoreError> {
        let (mark, attached) = (base.mark.clone(), Attached::read(&base)?);
        Ok(Self { active: Delta::default(), frozen: None, base: Arc::new(base), mark, attached })
    }

    /// What stays as it is now, to be read: it shares all but the list of the active changes, and
    /// knows not which keys a lease has.
    pub fn view(&self) -> Self {
        Self {
            active: self.active.clone(),
            frozen: self.frozen.clone(),
            base: Arc::clone(&self.base),
            mark: self.mark.clone(),
            attached: Attached::default(),
        }
    }

    /// The version of `key` at revision `at`.
    pub fn find(&self, key: &[u8], at: i64) -> Result<Option<Version>, StoreError> {
        match self.fresh(key, at) {
            Some(change) => Ok(change.version()),
            None => self.base.find(key, at),
        }
    }

    /// The revision that a request to read at `revision` means.
    pub fn readable(&self, revision: i64) -> Result<i64, KvError> {
        match revision {
            ..=0 => Ok(NEWEST),
            _ if revision > self.mark.revision => Err(KvError::FutureRevision),
            _ if revision < self.mark.compacted => Err(KvError::Compacted),
            _ => Ok(revision),
        }
    }

    /// All that is needed to read `span` at revision `at`, without the lock.
    pub fn cut(&self, span: Span, at: i64) -> Cut {
        let fresh = match &span {
            Span::Empty => Vec::new(),
            Span::Point(key) => self.fresh(key, at).map(Fresh::from).into_iter().collect(),
            Span::Range { .. } => self.fresh_range(&span, at),
        };
        let revision = self.mark.revision;
        Cut { span, at, revision, fresh, base: Arc::clone(&self.base) }
    }

    /// Hands the changes over to be flushed. Only while nothing else is.
    pub fn freeze(&mut self) {
        assert!(self.frozen.is_none(), "one flush at a time");
        let delta = std::mem::take(&mut self.active);
        self.frozen = Some(Arc::new(Frozen { delta, mark: self.mark.clone() }));
    }

    /// The changes in memory from `from` on, in order of revision.
    pub fn fresh_changes(&self, from: Revision) -> impl Iterator<Item = &Change> {
        let frozen = self.frozen.as_ref().map(|frozen| frozen.delta.since(from));
        frozen.unwrap_or_default().iter().chain(self.active.since(from))
    }

    fn fresh(&self, key: &[u8], at: i64) -> Option<&Change> {
        let frozen = || self.frozen.as_ref().and_then(|frozen| frozen.delta.find(key, at));
        self.active.find(key, at).or_else(frozen)
    }

    fn fresh_range(&self, span: &Span, at: i64) -> Vec<Fresh> {
        let active = self.active.scan(span, at);
        let Some(frozen) = &self.frozen else { return active.map(Fresh::from).collect() };
        let (mut active, mut frozen) = (active.peekable(), frozen.delta.scan(span, at).peekable());
        let mut fresh = Vec::new();
        loop {
            let change = match (active.peek(), frozen.peek()) {
                (None, None) => return fresh,
                (Some(_), None) => active.next(),
                (Some(newer), Some(older)) if newer.key < older.key => active.next(),
                (Some(newer), Some(older)) if newer.key == older.key => {
                    frozen.next();
                    active.next()
                }
                (_, Some(_)) => frozen.next(),
            };
            fresh.extend(change.map(Fresh::from));
        }
    }
}

/// A span at a revision, to be read without the lock.
pub(super) struct Cut {
    /// The revision of the store when it was cut.
    pub revision: i64,
    pub base: Arc<Base>,
    span: Span,
    at: i64,
    fresh: Vec<Fresh>,
}

impl Cut {
    /// The versions in it, by key.
    pub fn rows(&mut self) -> Rows<'_> {
        let fresh = std::mem::take(&mut self.fresh);
        match &self.span {
            Span::Empty => Rows::Point(None),
            Span::Point(key) => {
                let version = match fresh.into_iter().next() {
                    Some(fresh) => Ok(fresh.version),
                    None => self.base.find(key, self.at),
                };
                Rows::Point(version.transpose().map(|row| row.map(|row| (key.clone(), row))))
            }
            Span::Range { .. } => {
                let (fresh, base) = (fresh.into_iter(), self.base.scan(&self.span, self.at));
                Rows::Range(Box::new(Merged { fresh: fresh.peekable(), base: base.peekable() }))
            }
        }
    }
}

type Row = Result<(Bytes, Version), StoreError>;

/// The versions in a [`Cut`], by key.
pub(super) enum Rows<'a> {
    Point(Option<Row>),
    Range(Box<Merged<'a>>),
}

impl Iterator for Rows<'_> {
    type Item = Row;

    fn next(&mut self) -> Option<Row> {
        match self {
            Self::Point(row) => row.take(),
            Self::Range(rows) => rows.next(),
        }
    }
}

/// What is fresh, above what the tables have.
pub(super) struct Merged<'a> {
    fresh: Peekable<std::vec::IntoIter<Fresh>>,
    base: Peekable<Scan<'a>>,
}

impl Iterator for Merged<'_> {
    type Item = Row;

    fn next(&mut self) -> Option<Row> {
        let Self { fresh, base } = self;
        loop {
            match (fresh.peek(), base.peek()) {
                (None, _) | (_, Some(Err(_))) => return base.next(),
                (Some(newer), Some(Ok((key, _)))) if *key < newer.key => return base.next(),
                (Some(newer), Some(Ok((key, _)))) if *key == newer.key => {
                    base.next();
                }
                (Some(_), _) => {}
            }
            // A deletion hides what the tables have, and shows nothing itself.
            let Fresh { key, version } = fresh.next()?;
            if let Some(version) = version {
                return Some(Ok((key, version)));
            }
        }
    }
}
