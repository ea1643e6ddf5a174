//! Suites for adapters.
pub mod log_store;
mod model;
pub mod wal;
pub mod writes;
pub use model::Model;

use raft_core::{LogStore, Write};

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
