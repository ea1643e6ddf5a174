//! The suite for [`LogStore`]: durability at power cuts, atomic writes, cuts of the log, hard
//! state, reading, snapshot marks, failures, recovery, identity.
//!
//! An adapter, and all that its test has to say:
//!
//! ```
//! use std::sync::{Arc, Mutex, PoisonError};
//!
//! use raft_core::{Entry, Index, LogReader, LogStore, Saved, Write};
//! use raft_testkit::conformance::{Model, log_store};
//!
//! /// Keeps a log in memory: as durable as what it is kept on.
//! #[derive(Clone, Default)]
//! struct Memory(Arc<Mutex<Model>>);
//!
//! impl LogStore for Memory {
//!     type Error = String;
//!     type Reader = Self;
//!
//!     fn persist(&mut self, writes: &[Write]) -> Result<(), String> {
//!         let mut log = self.0.lock().map_err(|error| error.to_string())?;
//!         writes.iter().for_each(|write| log.apply(write));
//!         Ok(())
//!     }
//!
//!     fn reader(&self) -> Self {
//!         self.clone()
//!     }
//! }
//!
//! impl LogReader for Memory {
//!     type Error = String;
//!
//!     fn read(
//!         &self,
//!         first: Index,
//!         last: Index,
//!         bytes_max: usize,
//!         entries: &mut Vec<Entry>,
//!     ) -> Result<(), String> {
//!         let log = self.0.lock().map_err(|error| error.to_string())?;
//!         entries.extend_from_slice(log.between(first, last, bytes_max));
//!         Ok(())
//!     }
//! }
//!
//! struct InMemory;
//!
//! impl log_store::Harness for InMemory {
//!     type Store = Memory;
//!     type Medium = Memory;
//!
//!     fn medium(&self) -> Memory {
//!         Memory::default()
//!     }
//!
//!     fn open(&self, medium: &Memory) -> Result<(Memory, Saved), String> {
//!         let saved = medium.0.lock().unwrap_or_else(PoisonError::into_inner).saved();
//!         Ok((medium.clone(), saved))
//!     }
//!
//!     // What is in memory when a call returns is on this medium.
//!     fn power_cut(&self, medium: &Memory, _moment: usize, _seed: u64) -> Option<Memory> {
//!         let left = medium.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
//!         Some(Memory(Arc::new(Mutex::new(left))))
//!     }
//! }
//!
//! let figures = log_store::check(&InMemory, 0..20)?;
//! println!("{figures}");
//! # Ok::<(), log_store::Violation>(())
//! ```
//!
//! A harness on a simulated disk, which can cut the power anywhere, is
//! [`WalOnSimDisk`](crate::conformance::wal::WalOnSimDisk).

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;

#[cfg(doc)]
use raft_core::LogStore;

mod bench;
mod harness;
mod random;
mod rules;

pub use harness::{Failure, Harness, Stranger};

/// A rule that a store breaks.
pub type Violation = super::Violation<Rule>;

/// What a store must keep to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// A new store holds nothing but the founders.
    FirstStart,
    /// Entries come back as they were written, whatever their kind and size.
    AsWritten,
    /// The writes of one call take effect in their order.
    Order,
    /// A cut removes what lies behind it, for good.
    Truncation,
    /// The newest hard state comes back whole, written with entries or without.
    HardState,
    /// The members come back, as far as the log reaches.
    Members,
    /// A reader keeps to what was asked for.
    Reading,
    /// Before the base nothing is read, and that is no error.
    BeforeBase,
    /// A snapshot mark moves the base, and what the log does not agree with takes its place.
    Marks,
    /// What was acknowledged is there after a crash.
    Durable,
    /// A write is there as a whole or not at all, and nothing is there that was not written.
    Atomic,
    /// A second recovery gives what the first one gave.
    RecoveredTwice,
    /// A store that is closed holds what it held.
    Closed,
    /// After an error nothing is written any more.
    Poisoned,
    /// A store opens for nobody but its owner.
    Identity,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::FirstStart => "a new store holds nothing but the founders",
            Self::AsWritten => "entries come back as they were written",
            Self::Order => "the writes of one call take effect in their order",
            Self::Truncation => "a cut removes what lies behind it, for good",
            Self::HardState => "the newest hard state comes back, with entries or without",
            Self::Members => "the members come back, as far as the log reaches",
            Self::Reading => "a reader keeps to what was asked for",
            Self::BeforeBase => "before the base nothing is read, and that is no error",
            Self::Marks => "a snapshot mark moves the base of the log",
            Self::Durable => "what was acknowledged is there after a crash",
            Self::Atomic => "a write is there as a whole or not at all",
            Self::RecoveredTwice => "a second recovery gives what the first one gave",
            Self::Closed => "a store that is closed holds what it held",
            Self::Poisoned => "after an error nothing is written any more",
            Self::Identity => "a store opens for nobody but its owner",
        })
    }
}

/// What was tried.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Calls to `persist`.
    pub calls: u64,
    /// Recoveries after a power cut.
    pub power_cuts: u64,
    /// Recoveries after the death or the end of a process.
    pub restarts: u64,
    /// Rules that were not tried, or not under power cuts, for the harness cannot show them.
    pub left_out: BTreeSet<Rule>,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { calls, power_cuts, restarts, left_out } = self;
        write!(f, "{calls} calls, {power_cuts} power cuts, {restarts} restarts")?;
        left_out.iter().try_for_each(|rule| write!(f, "\n  not shown in full: {rule}"))
    }
}

/// Tries every rule, and makes a random run of each of these seeds.
///
/// # Errors
/// The first rule that was found broken.
pub fn check<H: Harness>(harness: &H, seeds: Range<u64>) -> Result<Figures, Violation> {
    let mut figures = Figures::default();
    rules::check(harness, &mut figures)?;
    for seed in seeds {
        random::check(harness, seed, &mut figures)?;
    }
    Ok(figures)
}
