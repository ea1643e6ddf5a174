//! Hands out the work of a turn: to the log, the transport, the disk and the callers.

use std::sync::{Arc, PoisonError};

use raft_core::{LogReader, RoleChange, SnapshotStore};
use raft_driver::{Load, MembersNow, SnapshotJob, StateMachine};

use super::Shell;
use crate::completion::{Completion, Opened, Reports};
use crate::transport::Peers;

impl<S: StateMachine, L: LogReader, T: Peers> Shell<S, L, T> {
    /// Hands out the work of this turn. What answers nobody any more is dropped.
    pub(super) fn hand_out(&mut self) {
        let work = &mut self.work;
        if !work.sends.is_empty() {
            self.transport.send(&mut work.sends);
        }
        if !work.writes.is_empty() {
            // A storage thread that has gone has reported why.
            let _ = self.writes.send(std::mem::take(&mut work.writes));
        }
        for load in work.loads.drain(..) {
            spawn_load(self.reader.clone(), load, self.reports.clone());
        }
        for (caller, ending) in work.ended.drain(..) {
            caller.end(ending, self.clock);
        }
        for members in work.members.drain(..) {
            match members {
                MembersNow::InForce(index, membership) => {
                    tracing::info!(%index, members = %membership, "the members changed");
                    self.transport.reach(&membership);
                }
                MembersNow::Settled(index, membership) => {
                    self.transport.settle(index, &membership);
                }
            }
        }
        for regression in work.regressions.drain(..) {
            tracing::error!(peer = %regression.peer, acknowledged = %regression.acknowledged,
                holds = %regression.holds, "a peer has lost entries that it had acknowledged");
        }
        for change in work.role_changes.drain(..) {
            log_role(&change);
        }
        if !work.snapshots.is_empty() {
            self.do_snapshot_jobs();
        }
        self.refresh_views();
    }

    fn do_snapshot_jobs(&mut self) {
        for job in std::mem::take(&mut self.work.snapshots) {
            let store = Arc::clone(&self.snapshots);
            match job {
                SnapshotJob::Send { peer, term } => {
                    let (transfer, reports) = (self.transfers.begin(peer), self.reports.clone());
                    tokio::task::spawn_blocking(move || {
                        let source = open_newest(&*store);
                        let done = Completion::Opened { transfer, peer, term, source };
                        // Without a driver nobody needs it.
                        let _ = reports.send(done);
                    });
                }
                SnapshotJob::Cancel => {
                    self.transfers.cancel();
                    self.transport.cancel_snapshots();
                }
                SnapshotJob::Retain(last) => {
                    tokio::task::spawn_blocking(move || {
                        if let Err(error) = store.retain(last) {
                            tracing::warn!(%error, "old snapshots could not be removed");
                        }
                    });
                }
            }
        }
    }

    fn refresh_views(&mut self) {
        let views = &self.views;
        let mut status = views.status.lock().unwrap_or_else(PoisonError::into_inner);
        status.refresh(self.driver.raft(), &self.transfers);
        if *views.leadership.borrow() != status.leadership {
            views.leadership.send_replace(status.leadership);
        }
        if views.members.borrow().index != status.members.index
            || !Arc::ptr_eq(&views.members.borrow().membership, &status.members.membership)
        {
            views.members.send_replace(status.members.clone());
        }
        if *views.applied.borrow() != status.applied {
            views.applied.send_replace(status.applied);
        }
    }
}

fn log_role(change: &RoleChange) {
    let leader = change.leader.map(|leader| leader.to_string());
    tracing::info!(term = %change.term, role = ?change.role,
        leader = leader.as_deref().unwrap_or("none"), last = ?change.last, "role changed");
}

fn open_newest(store: &dyn SnapshotStore) -> Opened {
    let newest = store.newest().map_err(|error| error.to_string())?;
    newest.ok_or_else(|| "there is no file".into())
}

fn spawn_load<L: LogReader, A: Send + 'static>(reader: L, load: Load, reports: Reports<A>) {
    tokio::task::spawn_blocking(move || {
        let Load { peer, first, last, bytes_max } = load;
        let mut entries = Vec::new();
        let done = match reader.read(first, last, bytes_max, &mut entries) {
            Ok(()) => Completion::Loaded { peer, entries: entries.into() },
            Err(error) => Completion::StorageFailed(error.to_string()),
        };
        // Without a driver nobody needs them.
        let _ = reports.send(done);
    });
}
