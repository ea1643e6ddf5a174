//! Doing what a node wants done.

use raft_core::{Effect, Event, NodeId, Ticket};

use super::{Cluster, DiskMood, Load, Member, Task};
use crate::oracles::{Seen, Step};

impl Cluster {
    pub(super) fn get_mut(&mut self, id: NodeId) -> &mut Member {
        self.members.get_mut(&id).unwrap_or_else(|| panic!("there is no {id:?}"))
    }

    pub(super) fn note(&self, id: NodeId, what: impl FnOnce() -> String) {
        if self.trace {
            eprintln!("{:>10.3} ms {id:?} {}", self.clock.0 as f64 / 1e6, what());
        }
    }

    /// Something happens to a node. One that is down misses it; a paused one hears it later.
    pub(super) fn tell(&mut self, id: NodeId, event: Event) {
        let Some(member) = self.members.get_mut(&id) else { return };
        if member.paused {
            member.backlog.push_back(event);
            return;
        }
        if member.raft.is_none() {
            return;
        }
        if self.trace {
            eprintln!("{:>10.3} ms {id:?} <- {event:?}", self.clock.0 as f64 / 1e6);
        }
        self.record_event(id, &event);
        let clock = self.clock;
        let member = self.get_mut(id);
        let now = member.local(clock);
        let Some(raft) = &mut member.raft else { return };
        let mut effects = Vec::new();
        let applied = if let Event::Applied(index) = event { Some(index) } else { None };
        raft.handle(now, event, &mut effects);
        self.record_effects(id, &effects);
        let (members, effects) = (&self.members, effects);
        let raft = members[&id].raft().expect("it runs");
        let step = Step { id, now: self.clock, raft, members, effects: &effects };
        self.oracles.observe(&step);
        for effect in effects {
            self.note(id, || format!("   -> {effect:?}"));
            self.perform(id, effect);
        }
        let member = &self.members[&id];
        if let Some(raft) = member.raft() {
            self.oracles.after(id, raft, member);
        }
        if let Some(applied) = applied {
            self.after_apply(id, applied);
        }
    }

    fn perform(&mut self, id: NodeId, effect: Effect) {
        match effect {
            Effect::Send(envelope) => {
                let copies = if self.dice.chance(self.conditions.lost) { 0 } else { 1 };
                let more = if self.dice.chance(self.conditions.repeated) { 1 } else { 0 };
                for _ in 0..copies + more {
                    let due = self.clock + self.dice.within(self.conditions.latency);
                    self.network.send(envelope.clone(), due);
                }
            }
            Effect::Persist(write) => {
                let ticket = write.ticket;
                let member = self.get_mut(id);
                member.store.write(write);
                if member.disk == DiskMood::Working {
                    self.schedule_sync(id, ticket);
                }
            }
            Effect::Apply { first, last } => {
                let member = self.get_mut(id);
                let entries = member.store.live().entries(first, last);
                assert_eq!(entries.len() as u64, last.0 + 1 - first.0, "what is applied is here");
                member.machine.extend_from_slice(entries);
                let after = self.dice.within(self.conditions.apply);
                self.schedule(id, after, Task::Tell(Event::Applied(last)));
            }
            Effect::Load { peer, first, last, bytes_max } => {
                let after = self.dice.within(self.conditions.load);
                let load = Load { peer, first, last, bytes_max };
                if self.dice.chance(self.conditions.late) {
                    return self.schedule(id, after, Task::Load(load));
                }
                let store = self.members[&id].store();
                let is_here = store.durable().entry(first).is_some();
                let is_gone = first <= store.durable().base().index;
                assert!(is_here || is_gone, "{id:?} asks only for what is durable");
                let loaded = self.load(id, load);
                self.schedule(id, after, Task::Tell(loaded));
            }
            Effect::Install { last } => {
                self.install(id, last);
                self.news.push((id, effect));
            }
            Effect::SendSnapshot { peer, term, at_least } => {
                self.send_snapshot(id, peer, term, at_least);
                self.news.push((id, effect));
            }
            Effect::CancelSnapshots => {
                self.cancel_snapshots(id);
                self.news.push((id, effect));
            }
            Effect::ReadReady { .. }
            | Effect::Transferred { .. }
            | Effect::MembershipChanged { .. }
            | Effect::Resolve { .. }
            | Effect::Refuse { .. }
            | Effect::PeerRegressed { .. }
            | Effect::RoleChanged(_) => self.news.push((id, effect)),
        }
    }

    /// Reads what was asked for out of the log, as it is now: it may have been cut meanwhile.
    fn load(&self, id: NodeId, load: Load) -> Event {
        let Load { peer, first, last, bytes_max } = load;
        let entries = self.members[&id].store().read(first, last, bytes_max);
        Event::Loaded { peer, entries }
    }

    pub(super) fn schedule(&mut self, id: NodeId, after: core::time::Duration, task: Task) {
        self.numbers += 1;
        let (slot, run) = ((self.clock + after, self.numbers), self.members[&id].run);
        self.agenda.insert(slot, (id, run, task));
    }

    /// Syncs end in the order in which they began.
    pub(super) fn schedule_sync(&mut self, id: NodeId, ticket: Ticket) {
        let ends = self.clock + self.dice.within(self.conditions.sync);
        let clock = self.clock;
        let member = self.get_mut(id);
        member.synced_at = member.synced_at.max(ends);
        let after = member.synced_at.since(clock);
        self.schedule(id, after, Task::Sync(ticket));
    }

    pub(super) fn do_task(&mut self, slot: super::Slot) {
        let Some((id, run, task)) = self.agenda.remove(&slot) else { return };
        let member = &self.members[&id];
        if member.run != run || member.raft.is_none() {
            return; // What an earlier run began.
        }
        match task {
            Task::Sync(ticket) if member.disk == DiskMood::Working => self.end_sync(id, ticket),
            Task::Sync(_) => {}
            Task::Tell(event) => self.tell(id, event),
            Task::Load(load) => {
                let loaded = self.load(id, load);
                self.tell(id, loaded);
            }
            Task::Build(file) => self.end_build(id, file),
            Task::Transfer(transfer) => self.end_transfer(id, transfer),
        }
    }

    pub(super) fn end_sync(&mut self, id: NodeId, ticket: Ticket) {
        let member = self.get_mut(id);
        if member.raft.is_some() {
            member.store.sync(ticket);
            self.tell(id, Event::Persisted(ticket));
        }
    }
}
