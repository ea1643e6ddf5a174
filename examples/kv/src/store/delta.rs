//! The changes since the last flush, in memory: in order of revision, and by key.
//!
//! It is this small because Raft's own log is the journal: what is lost here with the process is
//! applied again from there.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::format::{Change, Revision, Version};
use super::span::Span;

/// Stands for "no older change in this delta".
const NONE: u32 = u32::MAX;

/// What a change counts for beside its key and value, which is about what it takes in memory.
const CHANGE_BYTES: usize = 256;

/// Changes in order of revision; `older[i]` is the change before `changes[i]` to the same key,
/// and `newest` has the last change of each key.
#[derive(Clone, Debug, Default)]
pub(super) struct Delta {
    changes: Vec<Change>,
    older: Vec<u32>,
    newest: BTreeMap<Bytes, u32>,
    bytes: usize,
}

impl Delta {
    /// Appends a change, the newest of all.
    pub fn push(&mut self, change: Change) {
        let newest = self.changes.last().map_or(Revision::NONE, |change| change.at);
        assert!(newest < change.at, "changes come in order of revision");
        let slot = u32::try_from(self.changes.len()).unwrap_or(NONE);
        assert!(slot < NONE, "a delta is flushed long before that");
        let value_len = change.put.as_ref().map_or(0, |put| put.value.len());
        self.bytes += CHANGE_BYTES + change.key.len() + value_len;
        let older = match self.newest.get_mut(&change.key) {
            Some(newest) => std::mem::replace(newest, slot),
            None => {
                self.newest.insert(change.key.clone(), slot);
                NONE
            }
        };
        self.older.push(older);
        self.changes.push(change);
    }

    /// About what it takes in memory.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The newest change of `key` that is not after `at`.
    pub fn find(&self, key: &[u8], at: i64) -> Option<&Change> {
        self.newest.get(key).and_then(|slot| self.back_to(*slot, at))
    }

    /// For each key of the span, in order, its newest change that is not after `at`.
    pub fn scan(&self, span: &Span, at: i64) -> impl Iterator<Item = &Change> {
        let keys = (*span != Span::Empty).then(|| self.newest.range::<[u8], _>(span.bounds()));
        keys.into_iter().flatten().filter_map(move |(_, slot)| self.back_to(*slot, at))
    }

    /// All changes from `from` on, in order of revision.
    pub fn since(&self, from: Revision) -> &[Change] {
        &self.changes[self.changes.partition_point(|change| change.at < from)..]
    }

    /// By key, in order: all changes of that key, the newest first.
    pub fn histories(&self) -> impl Iterator<Item = impl Iterator<Item = &Change> + Clone> {
        self.newest.values().map(|newest| {
            let older = |slot: &u32| Some(self.older[*slot as usize]).filter(|slot| *slot != NONE);
            std::iter::successors(Some(*newest), older).map(|slot| &self.changes[slot as usize])
        })
    }

    fn back_to(&self, mut slot: u32, at: i64) -> Option<&Change> {
        while slot != NONE {
            let change = &self.changes[slot as usize];
            if change.at.main <= at {
                return Some(change);
            }
            slot = self.older[slot as usize];
        }
        None
    }
}

/// What a delta knows of a key: its version, or that it is deleted.
#[derive(Clone, Debug)]
pub(super) struct Fresh {
    pub key: Bytes,
    pub version: Option<Version>,
}

impl From<&Change> for Fresh {
    fn from(change: &Change) -> Self {
        Self { key: change.key.clone(), version: change.version() }
    }
}
