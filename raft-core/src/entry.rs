//! Log entries, and [`Entries`]: a stretch of them that is cheap to clone, because the same
//! stretch goes to the log, to storage and to every peer.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::hash::{Hash, Hasher};
use core::ops::{Deref, Range};

use bytes::Bytes;

use crate::{Index, LogPosition, Membership, Term};

/// What an entry carries.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Payload {
    /// Nothing: the first entry of every leader (Raft §8).
    Empty,
    /// A command of the user, opaque to Raft.
    Command(Bytes),
    /// The members from here on: in force as soon as it stands in the log (Raft §6).
    Membership(Arc<Membership>),
}

impl Payload {
    /// The bytes that the payload holds.
    pub fn len(&self) -> usize {
        match self {
            Self::Empty => 0,
            Self::Command(bytes) => bytes.len(),
            Self::Membership(membership) => membership.encoded_len(),
        }
    }

    /// Whether it holds no byte.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// One entry of the log.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Entry {
    /// Its place in the log.
    pub index: Index,
    /// The term of the leader that wrote it.
    pub term: Term,
    /// What it carries.
    pub payload: Payload,
}

impl Entry {
    /// What every bound in bytes counts for an entry beside its payload: about what the entry
    /// costs in memory, on the wire or on disk.
    pub const OVERHEAD_BYTES: usize = 64;

    /// Where it stands.
    pub fn position(&self) -> LogPosition {
        LogPosition { term: self.term, index: self.index }
    }

    /// The bytes that every bound in bytes counts for this entry.
    pub fn size_bytes(&self) -> usize {
        Self::OVERHEAD_BYTES + self.payload.len()
    }
}

/// Consecutive entries, shared by reference count: clones and slices allocate nothing, and a
/// single entry is held in place.
#[derive(Clone, Default)]
pub struct Entries(Inner);

#[derive(Clone, Default)]
enum Inner {
    #[default]
    None,
    One(Entry),
    Many {
        all: Arc<[Entry]>,
        start: usize,
        end: usize,
    },
}

impl Entries {
    /// No entries.
    pub const EMPTY: Self = Self(Inner::None);

    /// A proposal of these payloads: entries whose place in the log is not known yet. The
    /// leader fills it in, in place while nobody shares them.
    pub fn proposal(payloads: impl IntoIterator<Item = Bytes>) -> Self {
        let entry = |bytes| Entry {
            index: Index::ZERO,
            term: Term::ZERO,
            payload: Payload::Command(bytes),
        };
        payloads.into_iter().map(entry).collect()
    }

    /// The part of it in `range`, which counts from its own start.
    ///
    /// # Panics
    /// When `range` reaches past the end.
    #[must_use]
    pub fn slice(&self, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= self.len(), "a slice lies inside");
        match (&self.0, range.len()) {
            (_, 0) | (Inner::None, _) => Self::EMPTY,
            (Inner::One(entry), _) => Self(Inner::One(entry.clone())),
            (Inner::Many { all, start, .. }, 1) => {
                Self(Inner::One(all[start + range.start].clone()))
            }
            (Inner::Many { all, start, .. }, _) => Self(Inner::Many {
                all: Arc::clone(all),
                start: start + range.start,
                end: start + range.end,
            }),
        }
    }

    /// The bytes that every bound in bytes counts for these entries.
    pub fn size_bytes(&self) -> usize {
        self.iter().map(Entry::size_bytes).sum()
    }

    /// Gives the entries consecutive places from `first` on, written in `term`.
    pub(crate) fn stamp(&mut self, first: Index, term: Term) {
        let stamp = |entries: &mut [Entry]| {
            for (entry, index) in entries.iter_mut().zip(first.0..) {
                (entry.index, entry.term) = (Index(index), term);
            }
        };
        match &mut self.0 {
            Inner::None => {}
            Inner::One(entry) => (entry.index, entry.term) = (first, term),
            Inner::Many { all, start, end } => match Arc::get_mut(all) {
                Some(entries) => stamp(&mut entries[*start..*end]),
                None => {
                    let mut own: Vec<Entry> = all[*start..*end].to_vec();
                    stamp(&mut own);
                    *self = own.into();
                }
            },
        }
    }
}

impl Deref for Entries {
    type Target = [Entry];
    fn deref(&self) -> &[Entry] {
        match &self.0 {
            Inner::None => &[],
            Inner::One(entry) => core::slice::from_ref(entry),
            Inner::Many { all, start, end } => &all[*start..*end],
        }
    }
}

impl From<Vec<Entry>> for Entries {
    fn from(mut entries: Vec<Entry>) -> Self {
        if entries.len() <= 1 {
            return entries.pop().map(Self::from).unwrap_or_default();
        }
        let end = entries.len();
        Self(Inner::Many { all: entries.into(), start: 0, end })
    }
}

impl From<Entry> for Entries {
    fn from(entry: Entry) -> Self {
        Self(Inner::One(entry))
    }
}

impl FromIterator<Entry> for Entries {
    fn from_iter<I: IntoIterator<Item = Entry>>(entries: I) -> Self {
        let mut entries = entries.into_iter();
        if entries.size_hint().1.is_some_and(|most| most <= 1) {
            return entries.next().map(Self::from).unwrap_or_default();
        }
        // Where the length is known, they are written where they stay.
        let all: Arc<[Entry]> = entries.collect();
        match &*all {
            [] => Self::EMPTY,
            [one] => one.clone().into(),
            [_, _, ..] => Self(Inner::Many { start: 0, end: all.len(), all }),
        }
    }
}

impl core::fmt::Debug for Entries {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl PartialEq for Entries {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Entries {}

impl Hash for Entries {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for Entries {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (**self).serialize(serializer)
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for Entries {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::deserialize(deserializer).map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn some(count: u64) -> Entries {
        Entries::proposal((0..count).map(|byte| Bytes::from(vec![byte as u8])))
    }

    fn bytes(entries: &Entries) -> Vec<u8> {
        let byte = |entry: &Entry| match &entry.payload {
            Payload::Command(bytes) => bytes[0],
            Payload::Empty | Payload::Membership(_) => u8::MAX,
        };
        entries.iter().map(byte).collect()
    }

    #[test]
    fn slices_of_slices_are_slices() {
        for count in 0..5 {
            let all = some(count);
            for start in 0..=all.len() {
                for end in start..=all.len() {
                    let part = all.slice(start..end);
                    assert_eq!(bytes(&part), bytes(&all)[start..end]);
                    let tail = part.slice(part.len().min(1)..part.len());
                    assert_eq!(bytes(&tail), bytes(&part)[part.len().min(1)..]);
                }
            }
        }
    }

    #[test]
    #[should_panic = "a slice lies inside"]
    fn a_slice_lies_inside() {
        let _ = some(3).slice(1..2).slice(0..2);
    }

    #[test]
    fn entries_are_stamped_in_place_or_in_a_copy() {
        for count in 0..4 {
            let mut mine = some(count);
            let theirs = mine.clone();
            mine.stamp(Index(7), Term(2));
            let positions: Vec<_> = mine.iter().map(Entry::position).collect();
            let expected = (7..7 + count).map(|at| LogPosition { term: Term(2), index: Index(at) });
            assert_eq!(positions, expected.collect::<Vec<_>>());
            assert!(theirs.iter().all(|entry| entry.index == Index::ZERO), "a copy is a copy");
        }
    }

    #[test]
    fn it_does_not_matter_how_entries_came_together() {
        let collected: Entries = some(3).iter().filter(|_| true).cloned().collect();
        assert_eq!(collected, some(3));
        assert_eq!(Entries::from(some(1).to_vec()), some(1));
        assert_eq!(Entries::from(Vec::new()), Entries::EMPTY);
        assert_eq!(some(2).size_bytes(), 2 * (Entry::OVERHEAD_BYTES + 1));
    }
    #[test]
    fn entries_that_differ_are_not_equal() {
        assert_ne!(some(2), some(3));
        assert_ne!(some(3).slice(1..2), some(3).slice(2..3));
    }

    #[test]
    fn an_empty_payload_holds_no_byte() {
        assert!(Payload::Empty.is_empty() && Payload::Command(Bytes::new()).is_empty());
        assert!(!Payload::Command(Bytes::from_static(b"x")).is_empty());
    }
}
