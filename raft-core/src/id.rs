//! The numbers of Raft, one type each, so that none can stand where another is meant.

use core::fmt;
use core::num::NonZeroU64;
use core::ops::{Add, Sub};
use core::time::Duration;

/// Names one node of a group. Never zero, so that an absent node costs no space.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct NodeId(NonZeroU64);

impl NodeId {
    /// The id `id`, or `None` when it is zero.
    pub const fn new(id: u64) -> Option<Self> {
        match NonZeroU64::new(id) {
            Some(id) => Some(Self(id)),
            None => None,
        }
    }

    /// The id as a number.
    pub const fn get(self) -> u64 {
        self.0.get()
    }
}

impl fmt::Debug for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "N{:x}", self.0)
    }
}

/// In hexadecimal, as etcd prints member ids.
impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}", self.0)
    }
}

/// Names one disk: made anew at random whenever a node's data directory is created. A node that
/// comes back with another one has lost its promises. Never zero.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Incarnation(NonZeroU64);

impl Incarnation {
    /// The incarnation `number`, or `None` when it is zero.
    pub const fn new(number: u64) -> Option<Self> {
        match NonZeroU64::new(number) {
            Some(number) => Some(Self(number)),
            None => None,
        }
    }

    /// It as a number.
    pub const fn get(self) -> u64 {
        self.0.get()
    }
}

impl fmt::Debug for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "D{:x}", self.0)
    }
}

/// In hexadecimal.
impl fmt::Display for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}", self.0)
    }
}

macro_rules! number {
    ($(#[$doc:meta])* $name:ident, $letter:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
        pub struct $name(pub u64);

        impl $name {
            /// Zero: before the first.
            pub const ZERO: Self = Self(0);

            /// The number after this one.
            #[must_use]
            pub const fn next(self) -> Self {
                Self(self.0 + 1)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($letter, "{}"), self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number! {
    /// A term: the logical clock of elections (Raft §5.1). At most one leader each.
    Term, "t"
}
number! {
    /// A position in the log. The first entry has index 1; 0 means "before the log".
    Index, "i"
}
number! {
    /// Stands for one write to storage. Grows with every write and is never used again, so a
    /// completion that arrives after a truncation cannot vouch for other entries.
    Ticket, "w"
}
number! {
    /// Names a request (a proposal or a read) of the caller. The caller numbers its requests
    /// upwards; one number is one request for as long as the node lives.
    RequestId, "r"
}
number! {
    /// Names a round in which a leader confirms that it still leads (thesis §6.4).
    Round, "round"
}

impl Index {
    /// The index before this one; zero stays zero.
    #[must_use]
    pub const fn prev(self) -> Self {
        Self(self.0.saturating_sub(1))
    }
}

/// A stretch of consecutive requests, so that a batch costs no more than one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Requests {
    /// The first of them.
    pub first: RequestId,
    /// How many; at least one in everything that the core emits.
    pub count: u64,
}

impl Requests {
    /// The single request `id`.
    pub const fn one(id: RequestId) -> Self {
        Self { first: id, count: 1 }
    }

    /// The id after the last one.
    pub const fn end(self) -> RequestId {
        RequestId(self.first.0.wrapping_add(self.count))
    }

    /// Whether all of `part`, which is at least one, are among them.
    pub(crate) fn contains(self, part: Self) -> bool {
        let offset = part.first.0.checked_sub(self.first.0);
        let end = offset.and_then(|offset| offset.checked_add(part.count));
        part.count > 0 && end.is_some_and(|end| end <= self.count)
    }

    /// As many, `distance` further on; numbers wrap around.
    #[must_use]
    pub(crate) const fn shifted(self, distance: u64) -> Self {
        Self { first: RequestId(self.first.0.wrapping_add(distance)), ..self }
    }

    /// The first `count` of them, and the others.
    pub(crate) fn split_at(self, count: u64) -> (Self, Self) {
        debug_assert!(count <= self.count, "a part is no larger than the whole");
        let first = RequestId(self.first.0.wrapping_add(count));
        (Self { count, ..self }, Self { first, count: self.count - count })
    }
}

/// Where an entry stands and which term wrote it. Ordered as Raft §5.4.1 compares logs:
/// the last term first, then the length. Derived order depends on the order of the fields.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct LogPosition {
    /// The term that wrote the entry.
    pub term: Term,
    /// The entry's index.
    pub index: Index,
}

impl LogPosition {
    /// Before the first entry.
    pub const ZERO: Self = Self { term: Term::ZERO, index: Index::ZERO };
}

impl fmt::Debug for LogPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{:?}", self.index, self.term)
    }
}

/// A moment, in nanoseconds since an origin of the caller's choice. Only differences count.
/// The caller's clock must be monotonic; a wall clock is never needed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Instant(pub u64);

impl Instant {
    /// The time from `earlier` to `self`; zero if `earlier` is later.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Instant {
    type Output = Self;
    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)))
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;
    fn sub(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)))
    }
}
