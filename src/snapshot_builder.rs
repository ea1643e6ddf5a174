//! Builds snapshot files, one at a time, each on a thread of its own, so that neither the driver
//! nor the state machine waits for a disk.

use std::io::Read;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use raft_core::{Snapshot, SnapshotStore};
use raft_driver::{build_snapshot, describe};

use crate::completion::{Completion, Reports};

/// Dropped, it gives up what it builds, and waits for that.
#[derive(Default)]
pub(crate) struct SnapshotBuilder {
    given_up: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl SnapshotBuilder {
    /// Writes `state`, which is what `snapshot` covers, to a file, and reports the end.
    pub(crate) fn start<A: Send + 'static>(
        &mut self,
        store: Arc<dyn SnapshotStore>,
        snapshot: Snapshot,
        state: Box<dyn Read + Send>,
        reports: Reports<A>,
    ) {
        let given_up = Arc::clone(&self.given_up);
        let (about, reporter) = (snapshot.clone(), reports.clone());
        let thread = thread::Builder::new().name("kontiki-snapshot".into()).spawn(move || {
            let built = panic::catch_unwind(AssertUnwindSafe(|| {
                let is_given_up = || given_up.load(Ordering::Relaxed);
                build_snapshot(&*store, &snapshot, state, is_given_up)
                    .map_err(|error| error.to_string())
            }));
            let result = built.unwrap_or_else(|panic| Err(describe(&*panic)));
            // Without a driver nobody wants to know.
            let _ = reporter.send(Completion::Built { snapshot, result });
        });
        match thread {
            Ok(thread) => self.thread = Some(thread),
            Err(error) => {
                let result = Err(format!("cannot start a thread: {error}"));
                let _ = reports.send(Completion::Built { snapshot: about, result });
            }
        }
    }
}

impl Drop for SnapshotBuilder {
    fn drop(&mut self) {
        self.given_up.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
