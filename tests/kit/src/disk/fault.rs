//! What can be made to go wrong, and when.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// The kinds of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// Open, list, read or ask for a length.
    Read,
    /// Make a file.
    Create,
    /// Write to a file.
    Write,
    /// Sync a file.
    Sync,
    /// Change the length of a file.
    SetLen,
    /// Give a file another name.
    Rename,
    /// Take a file away.
    Remove,
    /// Make a directory.
    CreateDir,
    /// Sync a directory.
    SyncDir,
}

/// What goes wrong.
#[derive(Clone)]
pub enum Fault {
    /// It fails with this error code of the operating system. A sync that fails loses what it
    /// was to make durable, for good.
    Error(i32),
    /// It takes at most so many bytes.
    Short(usize),
    /// This runs first, and may take its time.
    Stall(Arc<dyn Fn() + Send + Sync>),
}

impl Fault {
    /// `EIO`.
    pub const IO: i32 = 5;
    /// `ENOSPC`.
    pub const NO_SPACE: i32 = 28;

    pub(super) fn shortened(&self, bytes: usize) -> usize {
        match self {
            Self::Short(most) => bytes.min(*most),
            Self::Error(_) | Self::Stall(_) => bytes,
        }
    }
}

impl fmt::Debug for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Error(code) => write!(f, "Error({code})"),
            Self::Short(bytes) => write!(f, "Short({bytes})"),
            Self::Stall(_) => f.write_str("Stall"),
        }
    }
}

/// Faults to come.
#[derive(Debug, Default)]
pub(super) struct Faults {
    counts: BTreeMap<Operation, u64>,
    planned: BTreeMap<(Operation, u64), Fault>,
}

impl Faults {
    pub(super) fn add(&mut self, operation: Operation, nth: u64, fault: Fault) {
        let count = self.counts.get(&operation).copied().unwrap_or(0);
        self.planned.insert((operation, count + nth), fault);
    }

    pub(super) fn forget(&mut self) {
        self.planned.clear();
    }

    pub(super) fn next(&mut self, operation: Operation) -> Option<Fault> {
        let count = self.counts.entry(operation).or_default();
        *count += 1;
        self.planned.remove(&(operation, *count))
    }
}
