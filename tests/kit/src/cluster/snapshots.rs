//! Snapshots: taken, sent, received, put in place of a state machine.
//!
//! ```text
//!   take_snapshot ──▶ Build ──▶ file durable ──▶ SnapshotTaken
//!   SendSnapshot ──▶ Transfer ──▶ the peer's file durable ──▶ SnapshotReceived at the peer
//!                        └── lost, cancelled ──▶ SnapshotSent(None)      └──▶ SnapshotSent
//! ```

use core::time::Duration;

use raft_core::{Entry, Event, Index, LogPosition, NodeId, Term};

use super::{Cluster, File, Member, Task};

/// How long a transfer waits on a link that is held before it looks again.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// How many of the snapshots that were sent can arrive late.
const SENT_MAX: usize = 20;

/// A snapshot on its way.
#[derive(Clone, Debug)]
pub(super) struct Transfer {
    /// Names it: a newer one to the same peer replaces it.
    number: u64,
    from: NodeId,
    to: NodeId,
    /// The receiver's run when it began: what was received does not survive a crash.
    to_run: u64,
    term: Term,
    file: File,
}

impl Cluster {
    /// A node begins to take a snapshot of what its state machine has applied. Returns whether
    /// there was anything new to take.
    pub fn take_snapshot(&mut self, id: NodeId) -> bool {
        let member = &self.members[&id];
        let Some(raft) = member.raft().filter(|_| !member.is_building) else { return false };
        let applied = raft.applied_index();
        let Some(snapshot) = raft.snapshot_at(applied) else { return false };
        if applied <= raft.snapshot().index {
            return false;
        }
        let machine = member.machine[..applied.0 as usize].into();
        self.get_mut(id).is_building = true;
        let after = self.dice.within(self.conditions.build);
        self.schedule(id, after, Task::Build(File { snapshot, machine }));
        true
    }

    /// Takes snapshots as often as the options say.
    pub(super) fn after_apply(&mut self, id: NodeId, applied: Index) {
        let Some(every) = self.snapshot_every else { return };
        let raft = self.members[&id].raft();
        if raft.is_some_and(|raft| applied.0 >= raft.snapshot().index.0 + every) {
            self.take_snapshot(id);
        }
    }

    pub(super) fn end_build(&mut self, id: NodeId, file: File) {
        self.oracles.on_snapshot(id, &file.snapshot);
        let last = file.machine.last().map(Entry::position);
        assert_eq!(last, Some(file.snapshot.last), "{id:?} takes a snapshot of something else");
        let snapshot = file.snapshot.clone();
        let member = self.get_mut(id);
        member.is_building = false;
        member.store.publish(file);
        self.tell(id, Event::SnapshotTaken(snapshot));
    }

    /// The machine is replaced. It never goes back.
    pub(super) fn install(&mut self, id: NodeId, last: LogPosition) {
        let member = self.get_mut(id);
        let file = member.store.file(last).expect("only a durable snapshot is installed");
        let machine = file.machine.to_vec();
        assert!(machine.len() >= member.machine.len(), "{id:?} takes back what it applied");
        member.machine = machine;
        let after = self.dice.within(self.conditions.apply);
        self.schedule(id, after, Task::Tell(Event::Applied(last.index)));
    }

    pub(super) fn send_snapshot(&mut self, id: NodeId, to: NodeId, term: Term, least: LogPosition) {
        let file = self.members[&id].store().files().next_back().cloned();
        let file = file.expect("who has no log has a snapshot");
        assert!(file.snapshot.last >= least, "{id:?} sends what covers too little");
        self.numbers += 1;
        let number = self.numbers;
        let to_run = self.members.get(&to).map_or(0, Member::run);
        self.transfers.insert((id, to), number);
        let after = self.dice.within(self.conditions.transfer);
        let transfer = Transfer { number, from: id, to, to_run, term, file };
        if self.sent.len() == SENT_MAX {
            self.sent.pop_front();
        }
        self.sent.push_back(transfer.clone());
        self.schedule(id, after, Task::Transfer(transfer));
    }

    /// How many snapshots can arrive late.
    pub fn sent_snapshots(&self) -> usize {
        self.sent.len()
    }

    /// A snapshot that was sent once arrives now, whatever became of it; the oldest is number 0.
    /// Its sender does not hear of it.
    ///
    /// # Panics
    /// When there is no such snapshot.
    pub fn arrive_late(&mut self, number: usize) {
        let transfer = self.sent[number].clone();
        if self.members.get(&transfer.to).is_some_and(|it| it.raft().is_some()) {
            self.arrive(transfer);
        }
    }

    fn arrive(&mut self, transfer: Transfer) {
        let Transfer { from, to, term, file, .. } = transfer;
        let snapshot = file.snapshot.clone();
        self.note(to, || format!("has received {:?}", snapshot.last));
        self.get_mut(to).store.publish(file);
        self.tell(to, Event::SnapshotReceived { from, term, snapshot });
    }

    pub(super) fn cancel_snapshots(&mut self, id: NodeId) {
        self.transfers.retain(|(from, _), _| *from != id);
    }

    /// How many snapshots are on their way.
    pub fn transfers(&self) -> usize {
        self.transfers.len()
    }

    pub(super) fn end_transfer(&mut self, id: NodeId, transfer: Transfer) {
        let link = (id, transfer.to);
        if self.transfers.get(&link) != Some(&transfer.number) {
            return; // Replaced, or not wanted any more.
        }
        if self.network.is_held(link) {
            return self.schedule(id, LOOK_AGAIN, Task::Transfer(transfer));
        }
        self.transfers.remove(&link);
        let to = transfer.to;
        let failed = self.dice.chance(self.conditions.broken) || self.network.is_cut(link);
        let receiver = self.members.get(&to);
        let here = receiver.is_some_and(|it| it.run() == transfer.to_run && it.raft().is_some());
        let mut last = None;
        if here && !failed {
            if !self.network.is_cut((to, id)) {
                last = Some(transfer.file.snapshot.last);
            }
            self.arrive(transfer);
        }
        let after = self.dice.within(self.conditions.latency);
        self.schedule(id, after, Task::Tell(Event::SnapshotSent { peer: to, last }));
    }
}
