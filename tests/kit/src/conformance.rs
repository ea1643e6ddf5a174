//! Suites that an adapter of anybody must pass, each in a few lines of the adapter's own tests:
//!
//! ```text
//!   port of raft-core   suite               what the harness supplies
//!   LogStore            log_store::check    a medium, opening; power cuts and failures if it can
//!   SnapshotStore       snapshot_store::check   the same, and damage
//!   Transport           transport::check    ends, starting and stopping them, waiting
//! ```
//!
//! Each module shows an adapter and its harness. The suites touch no file, no socket and no clock:
//! all of that is the harness's. What a harness cannot do is left out and listed in the figures.
//! A [`Violation`] says which rule is broken, with which seed, and what was found instead of what.

use std::fmt;

use raft_core::{LogStore, Write};

pub mod log_store;
mod model;
pub mod snapshot_store;
pub mod transport;
pub mod wal;
pub mod writes;

pub use model::Model;

/// A rule that an adapter breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation<Rule> {
    /// The rule.
    pub rule: Rule,
    /// The seed of the run that shows it; `None` where it takes none.
    pub seed: Option<u64>,
    /// What was found, and what was expected.
    pub found: String,
}

impl<Rule: fmt::Display> fmt::Display for Violation<Rule> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rule, seed, found } = self;
        write!(f, "broken rule: {rule}\n  ")?;
        if let Some(seed) = seed {
            write!(f, "seed {seed}: ")?;
        }
        f.write_str(found)
    }
}

impl<Rule: fmt::Display + fmt::Debug> std::error::Error for Violation<Rule> {}

/// Writes, with what belongs before it and after it: snapshots before their marks, and old ones
/// are let go of once the new ones are marked.
pub(crate) fn persist<H: log_store::Harness>(
    harness: &H,
    store: &mut H::Store,
    writes: &[Write],
) -> Result<(), <H::Store as LogStore>::Error> {
    let marks = || writes.iter().filter_map(|write| write.snapshot.as_ref());
    marks().for_each(|mark| harness.publish(store, &mark.snapshot));
    store.persist(writes)?;
    if let Some(mark) = marks().next_back() {
        harness.retain(store, mark.snapshot.last);
    }
    Ok(())
}
