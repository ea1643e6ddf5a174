//! What a driver wants done: to the network, the disk, the state machine, the callers.

use core::time::Duration;

use raft_core::{Envelope, Membership, NodeId};
use raft_driver::{Ending, MembersNow, SnapshotJob, StateMachine, Work};

use super::node::{Applying, FileJob, Waiter};
use super::ship::{Parcel, Piece};
use super::{Cluster, Due, Happening, Mark};

/// Who asks for other members and other leaders. Nobody waits for the answer.
pub(super) const OPERATOR: Waiter = (u64::MAX, 0);

/// How many of the newest messages can come again.
const ARCHIVE_MAX: usize = 300;
/// How many of the newest pieces of snapshots.
const PARCELS_MAX: usize = 40;
/// How long a sender of a snapshot waits for an answer.
const SILENCE: Duration = Duration::from_millis(400);
/// How long what waits on a link that is held waits until it looks again.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

impl<S: StateMachine> Cluster<S> {
    pub(super) fn hand_out(&mut self, id: NodeId, mut work: Work<Waiter>) {
        let disk = self.nodes[&id].incarnation;
        for envelope in work.sends.drain(..) {
            self.send(envelope, disk);
        }
        if let Some(running) = &mut self.get(id).running {
            running.writes.append(&mut work.writes);
            running.tasks.extend(work.tasks.drain(..));
        }
        self.write_next(id);
        self.apply_next(id);
        for load in work.loads.drain(..) {
            self.begin_file(id, FileJob::Load(load));
        }
        for job in work.snapshots.drain(..) {
            match job {
                SnapshotJob::Send { peer, term } => {
                    self.tell_story(|| format!("{id:?} sends {peer:?} a snapshot"));
                    self.begin_file(id, FileJob::Open { peer, term });
                }
                SnapshotJob::Retain(last) => self.begin_file(id, FileJob::Retain(last)),
                SnapshotJob::Cancel => {
                    if let Some(running) = &mut self.get(id).running {
                        running.outgoing.clear();
                        running.files.retain(|_, job| !matches!(job, FileJob::Open { .. }));
                    }
                }
            }
        }
        for (waiter, ending) in work.ended.drain(..) {
            self.on_ended(waiter, ending);
        }
        for members in work.members.drain(..) {
            if let MembersNow::Settled(_, membership) = members {
                self.on_settled(&membership);
            }
        }
        self.leave_if_removed(id);
        self.set_timer(id);
    }

    pub(super) fn on_ended(&mut self, waiter: Waiter, ending: Ending) {
        if waiter != OPERATOR {
            return self.answer_end(waiter, ending);
        }
        match ending {
            Ending::Changed(_) => self.mark(Mark::ChangeDone),
            Ending::Refused(raft_core::Refusal::Transfer(_)) => self.mark(Mark::TransferFailed),
            _ => {}
        }
    }

    fn on_settled(&mut self, membership: &Membership) {
        for id in membership.removed() {
            self.mark(Mark::MemberRemoved);
            let is_lost = self.nodes.get(id).is_some_and(|node| node.gone == Some("impostor"));
            if is_lost {
                self.mark(Mark::MemberReplaced);
            }
        }
    }

    /// As a node does that its group has removed, once it does not lead any more.
    fn leave_if_removed(&mut self, id: NodeId) {
        let Some(raft) = self.nodes[&id].raft() else { return };
        if raft.is_removed() && raft.role() != raft_core::RoleKind::Leader {
            self.mark(Mark::RemovedStops);
            self.get(id).gone = Some("removed");
            self.stop(id, "its group has removed it");
        }
    }

    fn send(&mut self, envelope: Envelope, disk: u64) {
        if self.archive.len() == ARCHIVE_MAX {
            self.archive.pop_front();
        }
        self.archive.push_back((envelope.clone(), disk));
        if self.dice.network.chance(self.weather.lost) {
            return;
        }
        if self.dice.network.chance(self.weather.repeated) {
            self.post(envelope.to, Happening::Heard(envelope.clone(), disk));
        }
        self.post(envelope.to, Happening::Heard(envelope, disk));
    }

    pub(super) fn send_piece(&mut self, id: NodeId, to: NodeId, piece: Piece) {
        let incarnation = self.nodes[&id].incarnation;
        let parcel = Parcel { from: id, to, incarnation, piece };
        if self.parcels.len() == PARCELS_MAX {
            self.parcels.pop_front();
        }
        self.parcels.push_back(parcel.clone());
        if !self.dice.network.chance(self.weather.lost) {
            self.post(to, Happening::Parcel(parcel));
        }
    }

    /// Puts it on its way.
    pub(super) fn post(&mut self, to: NodeId, what: Happening<S>) {
        let most = Duration::from_millis(self.weather.latency_ms);
        let least = most / 10;
        let after = self.dice.network.within((least, most.max(least)));
        self.schedule(after, Due::Node(to, what), None);
    }

    /// Something has come to the end of a link: it arrives, waits, or is lost.
    pub(super) fn arrive(&mut self, to: NodeId, what: Happening<S>) {
        let from = match &what {
            Happening::Heard(envelope, _) => envelope.from,
            Happening::Parcel(parcel) => parcel.from,
            _ => return self.happen(to, what),
        };
        if self.network.is_cut((from, to)) {
            self.figures.lost += 1;
        } else if self.network.is_held((from, to)) {
            self.schedule(LOOK_AGAIN, Due::Node(to, what), None);
        } else {
            self.happen(to, what);
        }
    }

    pub(super) fn await_receipt(&mut self, id: NodeId, peer: NodeId, transfer: u64, heard: u64) {
        self.happen_later(id, SILENCE, Happening::Silence { peer, transfer, heard });
    }

    /// Whatever waits to be written goes into one write, as soon as the one before is done.
    pub(super) fn write_next(&mut self, id: NodeId) {
        let Some(running) = &mut self.get(id).running else { return };
        if running.writes.is_empty() || !running.writing.is_empty() {
            return;
        }
        running.writing = std::mem::take(&mut running.writes);
        if self.nodes[&id].disk_state.stalled {
            return; // It ends when the disk works again.
        }
        let after = self.disk_time(id);
        self.happen_later(id, after, Happening::Written);
    }

    pub(super) fn disk_time(&mut self, id: NodeId) -> Duration {
        let most = Duration::from_micros(self.plan.settings.sync_us);
        let slow = Duration::from_millis(self.nodes[&id].disk_state.slow_ms);
        slow + self.dice.disk.within((most / 10, most))
    }

    /// The state machine does one thing at a time, in order.
    pub(super) fn apply_next(&mut self, id: NodeId) {
        let most = Duration::from_micros(self.plan.settings.apply_us);
        let (after, at_once) =
            (self.dice.nodes.within((Duration::ZERO, most)), self.dice.nodes.chance(500));
        let Some(running) = &mut self.get(id).running else { return };
        if running.is_applying {
            return;
        }
        let Some(task) = running.tasks.pop_front() else { return };
        running.is_applying = true;
        let applying = if at_once {
            Applying::Now(running.applier.perform(task))
        } else {
            Applying::Later(task)
        };
        self.happen_later(id, after, Happening::Applied(applying));
    }

    pub(super) fn begin_file(&mut self, id: NodeId, job: FileJob) {
        let after = self.disk_time(id);
        self.numbers += 1;
        let number = self.numbers;
        let Some(running) = &mut self.get(id).running else { return };
        running.files.insert(number, job);
        self.happen_later(id, after, Happening::File(number));
    }
}
