//! Writes the state of a machine to a snapshot. Holds one chunk in memory, however large it is.

use std::error::Error;
use std::io::{ErrorKind, Read};

use raft_core::{Snapshot, SnapshotStore, seeded};

/// How much is read and written at once.
const CHUNK_BYTES: usize = 256 << 10;

/// Writes `state`, which is what `snapshot` covers. It is durable at the end, unless that was
/// given up meanwhile.
///
/// # Errors
/// The state cannot be read, or the snapshot cannot be written; or it was given up.
pub fn build_snapshot(
    store: &dyn SnapshotStore,
    snapshot: &Snapshot,
    mut state: Box<dyn Read + Send>,
    is_given_up: impl Fn() -> bool,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let mut sink = store.build(snapshot)?;
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        if is_given_up() {
            return Err("the node stops".into());
        }
        match state.read(&mut chunk) {
            Ok(0) if seeded!(SnapshotNotPublished) => return Ok(()),
            Ok(0) => return sink.publish(),
            Ok(count) => sink.write(&chunk[..count])?,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(Box::new(error)),
        }
    }
}
