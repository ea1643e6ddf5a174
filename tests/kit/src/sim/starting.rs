//! How nodes start, stop, and lose their power.

use raft_core::{Incarnation, Index, Instant, LogStore as _, NodeId};
use raft_driver::trace::What;
use raft_driver::{StateMachine, build_snapshot};

use super::machine::Judged;
use super::node::{FileJob, Opened, Running, Unopened, entries};
use super::{Cluster, Mark, shadow};
use crate::oracles::Seen as _;

impl<S: StateMachine> Cluster<S> {
    /// Starts a node, as a process does.
    pub(super) fn start(&mut self, id: NodeId) {
        let node = &self.nodes[&id];
        if node.running.is_some() || node.gone.is_some() {
            return;
        }
        let fresh = self.dice.nodes.any() | 1;
        let node = self.get(id);
        let is_new = node.run == 0;
        node.run += 1;
        node.paused = None;
        let opened = match node.open(fresh) {
            Ok(opened) => opened,
            Err(unopened) => return self.on_unopened(id, unopened),
        };
        if let Err(reason) = self.launch(id, opened) {
            let is_damaged = self.court.bench().shadow(id).is_damaged;
            self.tell_story(|| format!("{id:?} does not start: {reason}"));
            if is_damaged {
                self.mark(Mark::SnapshotLost);
            } else {
                self.break_off(format!("durability: {id:?} does not start: {reason}"));
            }
            return;
        }
        self.figures.restarts += u64::from(!is_new);
        self.tell_story(|| format!("{id:?} starts"));
        self.set_timer(id);
    }

    fn on_unopened(&mut self, id: NodeId, unopened: Unopened) {
        let is_damaged = self.court.bench().shadow(id).is_damaged;
        match unopened {
            Unopened::Disk(reason) => self.tell_story(|| format!("{id:?} cannot start: {reason}")),
            Unopened::Damage(reason) => {
                self.tell_story(|| format!("{id:?} refuses to start: {reason}"));
                self.mark(Mark::DamageFatal);
                if !is_damaged {
                    self.break_off(format!(
                        "durability: {id:?} takes a crash for damage: {reason}"
                    ));
                }
            }
        }
    }

    fn launch(&mut self, id: NodeId, opened: Opened) -> Result<(), String> {
        let found = shadow::image(&opened.saved, entries(&opened)?);
        let has_claim = found.claim().is_some();
        for repair in &opened.repairs {
            self.tell_story(|| format!("{id:?} mends its log: {repair}"));
        }
        if opened.is_snapshot_lost {
            self.mark(Mark::SnapshotLost);
        }
        if has_claim {
            self.mark(Mark::DamageClaimed);
        }
        if opened.saved.snapshot.index > Index::ZERO {
            self.mark(Mark::SnapshotRestored);
        }
        let pending = self.court.bench().shadow(id).store.pending().len();
        let kept = self.court.bench().shadow(id).on_open(id, found);
        match kept {
            Ok((0, false)) => self.mark(Mark::TornTail),
            Ok((kept, _)) if kept > 0 && pending > 0 => self.mark(Mark::UnacknowledgedSurvives),
            Ok(_) => {}
            Err(reason) => self.break_off(reason),
        }
        let machine = Judged::new((self.make)(), id, self.hashes.clone());
        let (seed, now) = (self.dice.nodes.any(), self.now);
        let node = &self.nodes[&id];
        let mut running = node.assemble(opened, machine, seed, now)?;
        let mut guard = self.court.bench();
        let bench = &mut *guard;
        let shadow = bench.shadow(id);
        (shadow.run, shadow.applied) = (node.run, running.driver.raft().applied_index());
        bench.recording.on_launch(id, node.run, node.incarnation);
        bench.oracles.on_start(id, running.driver.raft(), &bench.shadows[&id]);
        drop(guard);
        running.driver.observe(self.court.observer(id));
        self.get(id).running = Some(running);
        Ok(())
    }

    /// The process ends by itself: its disk failed, or it was told to. Its callers hear of it.
    pub(super) fn stop(&mut self, id: NodeId, reason: &str) {
        let Some(mut running) = self.get(id).running.take() else { return };
        self.tell_story(|| format!("{id:?} stops: {reason}"));
        let now = self.now;
        self.court.bench().recording.on_end(id, now, What::Stop);
        let mut work = Default::default();
        running.driver.stop(&mut work);
        for (waiter, ending) in work.ended {
            self.on_ended(waiter, ending);
        }
        // What was with the state machine is dropped, and so its callers hear that, too.
        let left = self.open.iter().filter(|(_, (at, _))| *at == id).map(|(waiter, _)| *waiter);
        for waiter in left.collect::<Vec<_>>() {
            self.answer_end(waiter, raft_driver::Ending::Unknown);
        }
        self.lay_down(id, running);
        let disk = self.nodes[&id].disk.kill();
        self.get(id).disk = disk;
    }

    /// The process is killed, or its machine loses its power, in the middle of what it does with
    /// its disk.
    pub(super) fn crash(&mut self, id: NodeId, is_power_cut: bool) {
        if self.get(id).running.is_none() && !is_power_cut {
            return;
        }
        if let Some(mut running) = self.get(id).running.take() {
            self.note_crash(id, &running);
            self.tell_story(|| {
                format!("{id:?} {}", if is_power_cut { "loses its power" } else { "is killed" })
            });
            self.forget_calls(id);
            let operations = self.dice.disk.pick(&[0, 1, 2, 3, 5, 8, 12, 30]);
            self.nodes[&id].disk.cut_after(operations);
            self.finish_some(&mut running);
            self.lay_down(id, running);
        }
        let seed = self.dice.disk.any();
        let node = self.get(id);
        node.paused = None;
        node.disk = if is_power_cut { node.disk.power_cut(seed) } else { node.disk.kill() };
        if self.nodes.values().all(|node| node.running.is_none()) {
            self.mark(Mark::AllDown);
        }
    }

    fn note_crash(&mut self, id: NodeId, running: &Running<S>) {
        let raft = running.driver.raft();
        let is_joint = raft.membership().is_joint();
        let leads = raft.role() == raft_core::RoleKind::Leader;
        let builds = running
            .files
            .values()
            .any(|job| matches!(job, FileJob::Build(..) | FileJob::Receive(_)));
        let marks = [
            (is_joint, Mark::CrashInJointConsensus),
            (is_joint && leads, Mark::LeaderLostInJointConsensus),
            (!running.writing.is_empty(), Mark::CrashInPersist),
            (builds, Mark::CrashInSnapshot),
        ];
        marks.iter().filter(|(is, _)| *is).for_each(|(_, mark)| self.mark(*mark));
        debug_assert_eq!(raft.id(), id, "each node has its own core");
    }

    /// What was under way gets as far as it gets before the power is off.
    fn finish_some(&mut self, running: &mut Running<S>) {
        let writes_first = self.dice.disk.chance(700);
        let write = |running: &mut Running<S>| {
            if !running.writing.is_empty() {
                let _ = running.wal.persist(&running.writing); // Nobody hears how it ended.
            }
        };
        if writes_first {
            write(running);
        }
        for (_, job) in std::mem::take(&mut running.files) {
            match job {
                FileJob::Build(snapshot, state) => {
                    let _ = build_snapshot(&running.snapshots, &snapshot, state, || false);
                }
                FileJob::Retain(last) => {
                    let _ = raft_core::SnapshotStore::retain(&running.snapshots, last);
                }
                FileJob::Receive(parcel) => {
                    let _ = running.incoming.take(&parcel, &running.snapshots);
                }
                FileJob::Open { .. } | FileJob::Load(_) => {}
            }
        }
        if !writes_first {
            write(running);
        }
    }

    fn lay_down(&mut self, id: NodeId, running: Running<S>) {
        drop(running);
        self.get(id).due = None;
        self.court.bench().on_down(id);
    }

    /// Sets the node's timer anew.
    pub(super) fn set_timer(&mut self, id: NodeId) {
        let now = self.now;
        let node = self.get(id);
        let local = node.clock.local(now);
        let due = node.running.as_ref().and_then(|running| running.driver.deadline(local));
        node.due = due.filter(|_| node.paused.is_none()).map(|due| node.clock.global(due));
    }

    /// When the next timer is due, and whose.
    pub(super) fn next_timer(&self) -> Option<(Instant, NodeId)> {
        self.nodes.iter().filter_map(|(id, node)| Some((node.due?, *id))).min()
    }

    /// Whether every node that runs knows the disk of this one, so that it would not be taken for
    /// itself with another.
    pub(super) fn is_known(&self, id: NodeId) -> bool {
        let known = Incarnation::new(self.nodes[&id].incarnation);
        let others = self.nodes.iter().filter(|(other, _)| **other != id);
        let bench = self.court.bench();
        known.is_some()
            && others.map(|(other, _)| &bench.shadows[other]).all(|shadow| {
                let (_, membership) = shadow.durable().membership();
                let is_joining = membership.members().is_empty();
                is_joining || membership.member(id).is_some_and(|it| it.incarnation == known)
            })
    }
}
