//! Takes in what threads and transport report.

use std::sync::Arc;

use raft_core::{Instant, LogReader, NodeId, Term};
use raft_driver::{BuildFailed, Captured, Done, Failure, Input, StateMachine};

use super::{AnswerOf, Shell};
use crate::completion::{Completion, Opened};
use crate::error::StopReason;
use crate::transfers::TransferId;
use crate::transport::{Notice, OutgoingSnapshot, Peers};

impl<S: StateMachine, L: LogReader, T: Peers> Shell<S, L, T> {
    /// Something is done, or failed. Returns why the node stops, if it does.
    pub(super) fn complete(
        &mut self,
        now: Instant,
        done: Completion<AnswerOf<S>>,
    ) -> Option<StopReason> {
        let input = match done {
            Completion::Persisted(ticket) => Input::Persisted(ticket),
            Completion::Loaded { peer, entries } => Input::Loaded { peer, entries },
            Completion::Task(Ok(done)) => return self.on_done(now, done),
            Completion::Task(Err(Failure::Storage(reason))) => {
                return Some(self.fail(now, StopReason::Storage(reason)));
            }
            // A node whose state goes on no more must not lead either.
            Completion::Task(Err(Failure::Machine(reason))) => {
                return Some(self.fail(now, StopReason::StateMachine(reason)));
            }
            Completion::Built { snapshot, result: Ok(()) } => {
                tracing::info!(last = ?snapshot.last, "wrote a snapshot");
                Input::Built(Ok(snapshot))
            }
            Completion::Built { snapshot, result: Err(reason) } => {
                tracing::warn!(last = ?snapshot.last, reason, "no snapshot was written; it is \
                    tried again later");
                Input::Built(Err(BuildFailed))
            }
            Completion::Opened { transfer, peer, term, source } => {
                return self.open_transfer(now, (transfer, peer), term, source);
            }
            Completion::SnapshotSent { transfer, peer, last } => {
                if !self.transfers.end(peer, transfer) {
                    return None; // Another one has taken its place.
                }
                Input::SnapshotSent { peer, last }
            }
            Completion::StorageFailed(reason) => {
                return Some(self.fail(now, StopReason::Storage(reason)));
            }
        };
        self.driver.handle(now, input, &mut self.work);
        None
    }

    /// The state machine has done something.
    fn on_done(&mut self, now: Instant, done: Done<AnswerOf<S>>) -> Option<StopReason> {
        let input = match done {
            Done::Applied { progress, answers } => {
                for (caller, applied) in answers {
                    caller.applied(applied);
                }
                if let Some(missing) = self.driver.misses(progress) {
                    return Some(StopReason::Storage(format!(
                        "the log does not hold entry {missing} any more, and the state machine \
                         has not applied it; replace this node by a new member"
                    )));
                }
                Input::Applied(progress)
            }
            Done::Installed(index) => Input::Installed(index),
            Done::Captured(captured) => {
                self.build(now, captured);
                return None;
            }
        };
        self.driver.handle(now, input, &mut self.work);
        None
    }

    /// Nothing that is not durable yet can be trusted to become so.
    fn fail(&mut self, now: Instant, reason: StopReason) -> StopReason {
        self.driver.handle(now, Input::StorageFailed, &mut self.work);
        reason
    }

    fn build(&mut self, now: Instant, captured: Result<Captured, String>) {
        let captured = captured.map_err(|reason| {
            tracing::warn!(reason, "the state machine gives no snapshot; it is asked again later");
        });
        let index = captured.as_ref().ok().map(|captured| captured.index);
        let snapshot = self.driver.captured(now, index);
        if let (Some(snapshot), Ok(captured)) = (snapshot, captured) {
            let (store, reports) = (Arc::clone(&self.snapshots), self.reports.clone());
            self.builder.start(store, snapshot, captured.state, reports);
        }
    }

    fn open_transfer(
        &mut self,
        now: Instant,
        (transfer, peer): (TransferId, NodeId),
        term: Term,
        source: Opened,
    ) -> Option<StopReason> {
        match source {
            Ok(source) => {
                let source = self.transfers.watch(peer, transfer, source)?;
                let reports = self.reports.clone();
                let ended = move |last| {
                    let _ = reports.send(Completion::SnapshotSent { transfer, peer, last });
                };
                self.transport.send_snapshot(OutgoingSnapshot::new(peer, term, source, ended));
            }
            Err(reason) => {
                tracing::warn!(%peer, reason, "there is no snapshot to send");
                if self.transfers.end(peer, transfer) {
                    let input = Input::SnapshotSent { peer, last: None };
                    self.driver.handle(now, input, &mut self.work);
                }
            }
        }
        None
    }

    pub(super) fn on_notice(&mut self, now: Instant, notice: Notice) -> Option<StopReason> {
        let input = match notice {
            Notice::Identified { peer, incarnation } => Input::Identified { peer, incarnation },
            Notice::SnapshotReceived { from, term, snapshot } => {
                Input::SnapshotReceived { from, term, snapshot }
            }
            Notice::Removed => return Some(StopReason::Removed),
            Notice::Impostor(reason) => return Some(StopReason::Impostor(reason)),
            Notice::SnapshotDamaged => Input::SnapshotDamaged,
            Notice::Damaged(reason) => {
                self.leave(now, StopReason::Damaged(reason));
                return None;
            }
        };
        self.driver.handle(now, input, &mut self.work);
        None
    }
}
