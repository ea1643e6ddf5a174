//! What happens to a node, and what it makes of it.

use core::time::Duration;
use std::sync::Arc;

use raft_core::{
    Envelope, Incarnation, LogReader as _, LogStore as _, NodeId, Snapshot, SnapshotSource,
    SnapshotStore as _, Term,
};
use raft_driver::{BuildFailed, Done, Failure, Input, StateMachine, build_snapshot};

use super::node::{Applying, FileJob};
use super::ship::{Next, Outgoing, Parcel, Piece};
use super::{Cluster, Happening, Mark, Sentence};

impl<S: StateMachine> Cluster<S> {
    /// Something happens to a node. One that is down misses it; a paused one hears of it later.
    pub(super) fn happen(&mut self, id: NodeId, what: Happening<S>) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        if let Some(backlog) = &mut node.paused {
            return backlog.push_back(what);
        }
        if node.running.is_none() {
            if let Happening::Asked(client, attempt, _) = what {
                self.turn_away(client, attempt);
            }
            return;
        }
        match what {
            Happening::Heard(envelope, disk) => self.on_heard(id, envelope, disk),
            Happening::Parcel(parcel) => self.on_parcel(id, parcel),
            Happening::Written => self.on_written(id),
            Happening::Applied(applying) => self.on_applied(id, applying),
            Happening::File(number) => self.on_file(id, number),
            Happening::Silence { peer, transfer, heard } => {
                self.on_silence(id, peer, transfer, heard);
            }
            Happening::Asked(client, attempt, ask) => self.on_asked(id, client, attempt, ask),
            Happening::Wish(wish) => self.on_wish(id, wish),
            Happening::Told(Sentence::Removed) => {
                self.mark(Mark::RemovedStops);
                self.get(id).gone = Some("removed");
                self.stop(id, "its group has removed it");
            }
            Happening::Told(Sentence::Impostor) => {
                self.mark(Mark::WipedRefused);
                self.get(id).gone = Some("impostor");
                self.stop(id, "its group knows it with another disk");
            }
        }
    }

    /// The driver takes this in.
    pub(super) fn input(&mut self, id: NodeId, input: Input) {
        let now = self.now;
        let Some(node) = self.nodes.get_mut(&id) else { return };
        let local = node.clock.local(now);
        let Some(running) = &mut node.running else { return };
        let mut work = Default::default();
        running.driver.handle(local, input, &mut work);
        self.hand_out(id, work);
    }

    /// Its timer is due. **A timer does something**, or it would never be done.
    pub(super) fn fire(&mut self, id: NodeId) {
        self.input(id, Input::Timer);
        let Some(due) = self.nodes[&id].due else { return };
        if due <= self.now {
            self.break_off(format!("{id:?} has a timer that does nothing"));
        }
    }

    fn on_heard(&mut self, id: NodeId, envelope: Envelope, disk: u64) {
        let from = envelope.from;
        if !self.admit(id, from, disk) {
            return;
        }
        self.identify(id, from, disk);
        self.figures.messages += 1;
        self.input(id, Input::Receive(envelope));
    }

    /// As a transport does: nobody talks to a node that was removed, or that has another disk
    /// than it is known with, in either direction.
    fn admit(&mut self, id: NodeId, from: NodeId, disk: u64) -> bool {
        let knows = |at: NodeId, other: NodeId, disk: u64| {
            let raft = self.nodes.get(&at)?.raft()?;
            let is_settled = raft.membership_index() <= raft.commit_index();
            let membership = raft.membership();
            if is_settled && membership.was_removed(other) {
                return Some(Sentence::Removed);
            }
            let known = membership.member(other)?.incarnation?;
            (Incarnation::new(disk) != Some(known)).then_some(Sentence::Impostor)
        };
        if let Some(sentence) = knows(id, from, disk) {
            self.happen_later(from, Duration::from_millis(1), Happening::Told(sentence));
            return false;
        }
        let own = self.nodes[&id].incarnation;
        !matches!(knows(from, id, own), Some(Sentence::Impostor))
    }

    fn identify(&mut self, id: NodeId, peer: NodeId, disk: u64) {
        let Some(running) = &mut self.get(id).running else { return };
        let Some(incarnation) = Incarnation::new(disk) else { return };
        if running.identified.insert(peer, incarnation) != Some(incarnation) {
            self.input(id, Input::Identified { peer, incarnation });
        }
    }

    /// A write has had its time.
    fn on_written(&mut self, id: NodeId) {
        let Some(running) = &mut self.get(id).running else { return };
        let writes = std::mem::take(&mut running.writing);
        let segments = running.wal.persist(&writes);
        match segments {
            Ok(()) => {
                let Some(ticket) = writes.last().map(|write| write.ticket) else { return };
                let had_claim = running.driver.raft().claim().is_some();
                if writes.iter().any(|write| write.snapshot.is_some()) {
                    self.mark(Mark::SnapshotTaken);
                }
                self.court.bench().shadow(id).sync(ticket);
                self.input(id, Input::Persisted(ticket));
                let raft = self.nodes[&id].raft();
                if had_claim && raft.is_some_and(|raft| raft.claim().is_none()) {
                    self.mark(Mark::ClaimSettled);
                }
                self.write_next(id);
            }
            Err(error) => {
                let is_full = error.to_string().contains("No space");
                self.mark(if is_full { Mark::DiskFull } else { Mark::StorageFailed });
                self.fail(id, &error.to_string());
            }
        }
    }

    /// As a node does whose disk fails: the others are asked to go on without it, and it stops.
    pub(super) fn fail(&mut self, id: NodeId, reason: &str) {
        self.input(id, Input::StorageFailed);
        self.stop(id, reason);
    }

    fn on_applied(&mut self, id: NodeId, applying: Applying<S>) {
        let Some(running) = &mut self.get(id).running else { return };
        let performed = match applying {
            Applying::Now(performed) => performed,
            Applying::Later(task) => running.applier.perform(task),
        };
        running.is_applying = false;
        match performed {
            Ok(Done::Applied { progress, answers }) => {
                let missing = running.driver.misses(progress);
                for (waiter, applied) in answers {
                    self.answer_applied(waiter, applied);
                }
                match missing {
                    Some(missing) => self.break_off(format!("{id:?} cannot apply {missing}")),
                    None => self.input(id, Input::Applied(progress)),
                }
            }
            Ok(Done::Installed(index)) => self.input(id, Input::Installed(index)),
            Ok(Done::Captured(captured)) => self.on_captured(id, captured),
            Err(Failure::Storage(reason)) => {
                self.mark(Mark::StorageFailed);
                self.fail(id, &reason);
            }
            Err(Failure::Machine(reason)) => {
                self.tell_story(|| format!("the state machine of {id:?} fails: {reason}"));
                self.break_off(reason);
            }
        }
        self.apply_next(id);
    }

    fn on_captured(&mut self, id: NodeId, captured: Result<raft_driver::Captured, String>) {
        let now = self.now;
        let node = self.get(id);
        let local = node.clock.local(now);
        let Some(running) = &mut node.running else { return };
        let index = captured.as_ref().ok().map(|captured| captured.index);
        let snapshot = running.driver.captured(local, index);
        if let (Some(snapshot), Ok(captured)) = (snapshot, captured) {
            self.court.bench().oracles.on_snapshot(id, &snapshot);
            self.begin_file(id, FileJob::Build(snapshot, captured.state));
        }
        self.set_timer(id);
    }

    fn on_file(&mut self, id: NodeId, number: u64) {
        let Some(running) = &mut self.get(id).running else { return };
        let Some(job) = running.files.remove(&number) else { return };
        match job {
            FileJob::Build(snapshot, state) => {
                let built = build_snapshot(&running.snapshots, &snapshot, state, || false);
                self.on_built(id, snapshot, built.map_err(|error| error.to_string()));
            }
            FileJob::Retain(last) => {
                if running.snapshots.retain(last).is_ok() {
                    self.mark(Mark::SnapshotsForgotten);
                }
            }
            FileJob::Open { peer, term } => {
                let source = running.snapshots.newest().ok().flatten();
                match source {
                    Some(source) => self.begin_sending(id, peer, term, source),
                    None => self.input(id, Input::SnapshotSent { peer, last: None }),
                }
            }
            FileJob::Load(load) => {
                let raft_driver::Load { peer, first, last, bytes_max } = load;
                let mut entries = Vec::new();
                match running.reader.read(first, last, bytes_max, &mut entries) {
                    Ok(()) => self.input(id, Input::Loaded { peer, entries: entries.into() }),
                    Err(error) => self.fail(id, &error.to_string()),
                }
            }
            FileJob::Receive(parcel) => self.on_received(id, parcel),
        }
    }

    fn on_built(&mut self, id: NodeId, snapshot: Snapshot, built: Result<(), String>) {
        match built {
            Ok(()) => {
                self.court.bench().shadow(id).publish(snapshot.clone());
                self.input(id, Input::Built(Ok(snapshot)));
            }
            Err(reason) => {
                self.mark(Mark::BuildFailed);
                self.tell_story(|| format!("{id:?} writes no snapshot: {reason}"));
                self.input(id, Input::Built(Err(BuildFailed)));
            }
        }
    }

    fn begin_sending(
        &mut self,
        id: NodeId,
        peer: NodeId,
        term: Term,
        source: Arc<dyn SnapshotSource>,
    ) {
        let transfer = self.dice.nodes.any();
        let outgoing = Outgoing::new(id, term, transfer, source);
        let offer = outgoing.offer();
        if let Some(running) = &mut self.get(id).running {
            running.outgoing.insert(peer, outgoing);
        }
        self.send_piece(id, peer, offer);
        self.await_receipt(id, peer, transfer, 0);
    }

    /// A piece of a snapshot, or what a peer says to one.
    fn on_parcel(&mut self, id: NodeId, parcel: Parcel) {
        if !self.admit(id, parcel.from, parcel.incarnation) {
            return;
        }
        let Piece::Receipt { transfer, state } = parcel.piece else {
            return self.begin_file(id, FileJob::Receive(parcel));
        };
        let peer = parcel.from;
        let Some(running) = &mut self.get(id).running else { return };
        let Some(outgoing) = running.outgoing.get_mut(&peer) else { return };
        let next = outgoing.on_receipt(transfer, state);
        let heard = outgoing.heard;
        self.go_on_sending(id, peer, next);
        if transfer == self.transfer_to(id, peer) {
            self.await_receipt(id, peer, transfer, heard);
        }
    }

    fn transfer_to(&self, id: NodeId, peer: NodeId) -> u64 {
        let running = self.nodes[&id].running.as_ref();
        running.and_then(|it| it.outgoing.get(&peer)).map_or(0, |it| it.offer.transfer)
    }

    fn on_silence(&mut self, id: NodeId, peer: NodeId, transfer: u64, heard: u64) {
        let Some(running) = &mut self.get(id).running else { return };
        let Some(outgoing) = running.outgoing.get_mut(&peer) else { return };
        if outgoing.offer.transfer != transfer || outgoing.heard != heard {
            return;
        }
        let next = outgoing.on_silence();
        self.go_on_sending(id, peer, next);
        if transfer == self.transfer_to(id, peer) {
            self.await_receipt(id, peer, transfer, heard);
        }
    }

    fn go_on_sending(&mut self, id: NodeId, peer: NodeId, next: Next) {
        match next {
            Next::Send(piece) => self.send_piece(id, peer, piece),
            Next::Nothing => {}
            Next::Ended(last) => {
                if last.is_none() {
                    self.mark(Mark::SnapshotTransferFailed);
                }
                if let Some(running) = &mut self.get(id).running {
                    running.outgoing.remove(&peer);
                }
                self.input(id, Input::SnapshotSent { peer, last });
            }
        }
    }

    fn on_received(&mut self, id: NodeId, parcel: Parcel) {
        let Some(running) = &mut self.get(id).running else { return };
        let received = running.incoming.take(&parcel, &running.snapshots);
        if let Some(mark) = received.mark {
            self.mark(mark);
        }
        if let Some((term, snapshot)) = received.snapshot {
            let from = parcel.from;
            if self.network.is_any_cut() {
                self.mark(Mark::SnapshotDuringPartition);
            }
            self.tell_story(|| format!("{id:?} has received a snapshot of {:?}", snapshot.last));
            self.court.bench().shadow(id).publish(snapshot.clone());
            self.input(id, Input::SnapshotReceived { from, term, snapshot });
        }
        if let Some(state) = received.answer {
            let transfer = parcel.transfer();
            self.send_piece(id, parcel.from, Piece::Receipt { transfer, state });
        }
    }

    fn on_wish(&mut self, id: NodeId, wish: raft_driver::Wish) {
        let now = self.now;
        let node = self.get(id);
        let local = node.clock.local(now);
        let Some(running) = &mut node.running else { return };
        let mut work = Default::default();
        running.driver.wish(local, wish, super::hand_out::OPERATOR, &mut work);
        self.hand_out(id, work);
    }

    /// Whether a leader that hands over stands still now.
    pub(super) fn note_pause(&mut self, id: NodeId) {
        let Some(raft) = self.nodes[&id].raft() else { return };
        if raft.transferring_to().is_some() {
            self.mark(Mark::TransferOldLeaderPaused);
        }
        self.court.bench().paused.insert(id);
    }
}
