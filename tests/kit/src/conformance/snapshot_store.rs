//! The suite for [`SnapshotStore`]: what is published is whole and durable, what is not never
//! counts; transfers go on, or give way to others; nothing damaged is handed on.
//!
//! An adapter, and all that its test has to say:
//!
//! ```
//! use std::sync::{Arc, Mutex, PoisonError};
//!
//! use raft_core::{
//!     LogPosition, Snapshot, SnapshotOffer, SnapshotSink, SnapshotSource, SnapshotStore,
//!     SnapshotStoreError,
//! };
//! use raft_testkit::conformance::snapshot_store::{self, crc32c};
//!
//! /// Keeps the newest snapshot in memory, and begins every transfer anew.
//! #[derive(Clone, Default)]
//! struct Memory(Arc<Mutex<State>>);
//!
//! #[derive(Default)]
//! struct State {
//!     newest: Option<Arc<Bytes>>,
//!     receiving: u64,
//! }
//!
//! struct Bytes(Snapshot, Vec<u8>);
//!
//! struct Sink {
//!     store: Memory,
//!     snapshot: Snapshot,
//!     bytes: Vec<u8>,
//!     offer: Option<(SnapshotOffer, u64)>,
//! }
//!
//! impl SnapshotStore for Memory {
//!     fn newest(&self) -> Result<Option<Arc<dyn SnapshotSource>>, SnapshotStoreError> {
//!         let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
//!         Ok(state.newest.clone().map(|it| it as Arc<dyn SnapshotSource>))
//!     }
//!
//!     fn build(&self, snapshot: &Snapshot) -> Result<Box<dyn SnapshotSink>, SnapshotStoreError> {
//!         let (store, snapshot) = (self.clone(), snapshot.clone());
//!         Ok(Box::new(Sink { store, snapshot, bytes: Vec::new(), offer: None }))
//!     }
//!
//!     fn receive(&self, offer: &SnapshotOffer) -> Result<Box<dyn SnapshotSink>, SnapshotStoreError> {
//!         let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
//!         state.receiving += 1;
//!         let (store, snapshot) = (self.clone(), offer.snapshot.clone());
//!         let offer = Some((offer.clone(), state.receiving));
//!         Ok(Box::new(Sink { store, snapshot, bytes: Vec::new(), offer }))
//!     }
//!
//!     fn retain(&self, _: LogPosition) -> Result<(), SnapshotStoreError> {
//!         Ok(()) // There is never more than one.
//!     }
//! }
//!
//! impl SnapshotSink for Sink {
//!     fn offset(&self) -> u64 {
//!         self.bytes.len() as u64
//!     }
//!
//!     fn write(&mut self, bytes: &[u8]) -> Result<(), SnapshotStoreError> {
//!         self.bytes.extend_from_slice(bytes);
//!         Ok(())
//!     }
//!
//!     fn publish(self: Box<Self>) -> Result<(), SnapshotStoreError> {
//!         let mut state = self.store.0.lock().unwrap_or_else(PoisonError::into_inner);
//!         if let Some((offer, turn)) = &self.offer {
//!             let found = (self.offset(), crc32c(&self.bytes));
//!             if found != (offer.len_bytes, offer.check) || state.receiving != *turn {
//!                 return Err("not what was offered".into());
//!             }
//!         }
//!         state.newest = Some(Arc::new(Bytes(self.snapshot.clone(), self.bytes.clone())));
//!         Ok(())
//!     }
//! }
//!
//! impl SnapshotSource for Bytes {
//!     fn snapshot(&self) -> &Snapshot {
//!         &self.0
//!     }
//!
//!     fn len_bytes(&self) -> u64 {
//!         self.1.len() as u64
//!     }
//!
//!     fn check(&self) -> u32 {
//!         crc32c(&self.1)
//!     }
//!
//!     fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<usize, SnapshotStoreError> {
//!         let rest = self.1.get(offset as usize..).unwrap_or_default();
//!         let count = rest.len().min(into.len());
//!         into[..count].copy_from_slice(&rest[..count]);
//!         Ok(count)
//!     }
//! }
//!
//! struct InMemory;
//!
//! impl snapshot_store::Harness for InMemory {
//!     type Home = Memory;
//!     type Medium = Memory;
//!
//!     fn medium(&self) -> Memory {
//!         Memory::default()
//!     }
//!
//!     fn open(&self, medium: &Memory) -> Result<Memory, String> {
//!         Ok(medium.clone())
//!     }
//!
//!     fn snapshots(&self, home: &Memory) -> Arc<dyn SnapshotStore> {
//!         Arc::new(home.clone())
//!     }
//! }
//!
//! let figures = snapshot_store::check(&InMemory)?;
//! println!("{figures}");
//! # Ok::<(), snapshot_store::Violation>(())
//! ```

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use raft_core::{Snapshot, SnapshotStore};

mod bench;
mod rules;

pub use bench::crc32c;

/// How the suite reaches a store. Only what has no default has to be written; what a medium
/// cannot do is said, and the rules that need it are left out and listed in the [`Figures`].
pub trait Harness {
    /// The store, with whatever else has to be open beside it.
    type Home;
    /// What it is kept on.
    type Medium;

    /// An empty one.
    fn medium(&self) -> Self::Medium;

    /// Opens what is on it, or makes it.
    ///
    /// # Errors
    /// Why that cannot be done.
    fn open(&self, medium: &Self::Medium) -> Result<Self::Home, String>;

    /// The store.
    fn snapshots(&self, home: &Self::Home) -> Arc<dyn SnapshotStore>;

    /// Marks a snapshot that was published in the log, where that decides what counts.
    fn mark(&self, home: &mut Self::Home, snapshot: &Snapshot) {
        let _ = (home, snapshot);
    }

    /// How many moments have passed at which the power could have been cut.
    fn moments(&self, medium: &Self::Medium) -> usize {
        let _ = medium;
        0
    }

    /// What a power cut at this moment leaves, decided by the seed; at the last of them, a cut
    /// now. `None` where that cannot be simulated: then processes die instead.
    fn power_cut(&self, medium: &Self::Medium, moment: usize, seed: u64) -> Option<Self::Medium> {
        let _ = (medium, moment, seed);
        None
    }

    /// Changes something in the newest snapshot that was published, behind the back of the store;
    /// the seed says what. `false` where that cannot be simulated.
    fn damage(&self, medium: &Self::Medium, seed: u64) -> bool {
        let _ = (medium, seed);
        false
    }
}

/// A rule that a store breaks.
pub type Violation = super::Violation<Rule>;

/// What a store must keep to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// A new store has no snapshot.
    Empty,
    /// A snapshot comes back as it was written, however it is read.
    Whole,
    /// The newest one that was published is the one that is served.
    Newest,
    /// What was not published never counts.
    Unpublished,
    /// What was published is there after a crash, and at any moment the old one or the new one.
    Durable,
    /// A transfer goes on where it was, or before that, and ends with what was offered.
    Resumed,
    /// Another transfer takes the place of an unfinished one.
    GivesWay,
    /// What is not what was offered is not published, and can be sent again.
    NotOffered,
    /// The newest stays when older ones go, and what is unfinished and old goes with them.
    Retain,
    /// Nothing damaged is handed on.
    Damaged,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "a new store has no snapshot",
            Self::Whole => "a snapshot comes back as it was written",
            Self::Newest => "the newest one that was published is served",
            Self::Unpublished => "what was not published never counts",
            Self::Durable => "what was published is there after a crash",
            Self::Resumed => "a transfer goes on, and ends with what was offered",
            Self::GivesWay => "another transfer takes the place of an unfinished one",
            Self::NotOffered => "what is not what was offered is not published",
            Self::Retain => "the newest stays when older ones go",
            Self::Damaged => "nothing damaged is handed on",
        })
    }
}

/// What was tried.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Snapshots that were published.
    pub published: u64,
    /// Recoveries after a power cut.
    pub power_cuts: u64,
    /// Rules that were not tried, or not under power cuts, for the harness cannot show them.
    pub left_out: BTreeSet<Rule>,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} snapshots, {} power cuts", self.published, self.power_cuts)?;
        self.left_out.iter().try_for_each(|rule| write!(f, "\n  not shown in full: {rule}"))
    }
}

/// Tries every rule.
///
/// # Errors
/// The first rule that was found broken.
pub fn check<H: Harness>(harness: &H) -> Result<Figures, Violation> {
    let mut figures = Figures::default();
    rules::check(harness, &mut figures)?;
    Ok(figures)
}
