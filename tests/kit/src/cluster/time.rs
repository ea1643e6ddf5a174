//! Letting time pass: what is due next happens next, and the clock jumps there.

use core::time::Duration;

use raft_core::{Event, Instant, NodeId};

use super::{Cluster, Slot};
use crate::oracles::Seen;

/// Letting time pass.
impl Cluster {
    /// Does what is due next, and moves the clock there; `false` when nothing is due up to
    /// `limit`.
    pub fn step(&mut self, limit: Instant) -> bool {
        let task = self.agenda.keys().next().copied();
        let message = self.network.next();
        let timers = self.members.iter().filter_map(|(&id, member)| Some((member.timer()?, id)));
        let timer = timers.min();
        let times = [task.map(|slot| slot.0), message.map(|slot| slot.0), timer.map(|it| it.0)];
        let Some(next) = times.into_iter().flatten().min() else { return false };
        if next.max(self.clock) > limit {
            return false;
        }
        self.clock = self.clock.max(next);
        let due = |slot: &Slot| slot.0 <= next;
        if let Some(slot) = task.filter(due) {
            self.do_task(slot);
        } else if let Some(slot) = message.filter(due) {
            self.deliver_slot(slot);
        } else if let Some((_, id)) = timer {
            self.fire(id);
        }
        true
    }

    /// Lets this much time pass.
    pub fn run_for(&mut self, time: Duration) {
        let limit = self.clock + time;
        while self.step(limit) {}
        self.clock = limit;
    }

    /// Lets time pass until `done` holds, at most `most`. Returns how long it took.
    pub fn run_until(
        &mut self,
        most: Duration,
        mut done: impl FnMut(&Self) -> bool,
    ) -> Option<Duration> {
        let (start, limit) = (self.clock, self.clock + most);
        while !done(self) {
            if !self.step(limit) {
                self.clock = limit;
                return done(self).then_some(most);
            }
        }
        Some(self.clock.since(start))
    }

    /// Delivers everything that waits and is not held, and what follows from it, while the
    /// clocks stand still.
    pub fn settle(&mut self) {
        for _ in 0..100_000 {
            let task = self.agenda.keys().next().copied();
            if let Some(slot) = task.filter(|slot| slot.0 <= self.clock) {
                self.do_task(slot);
            } else if let Some(slot) = self.network.next() {
                self.deliver_slot(slot);
            } else {
                return;
            }
        }
        panic!("the nodes talk without end");
    }

    /// Ends what disks and state machines do without taking time.
    pub fn settle_disks(&mut self) {
        let due = |cluster: &Self| {
            let task = cluster.agenda.keys().next().copied();
            task.filter(|slot| slot.0 <= cluster.clock)
        };
        while let Some(slot) = due(self) {
            self.do_task(slot);
        }
    }

    /// Delivers the message in this place, held or not.
    pub fn deliver_slot(&mut self, slot: Slot) {
        if let Some(envelope) = self.network.take(slot) {
            self.deliver(envelope);
        }
    }

    pub(super) fn fire(&mut self, id: NodeId) {
        self.tell(id, Event::Timer);
        let member = &self.members[&id];
        let (now, raft) = (member.local(self.clock), member.raft().expect("it runs"));
        assert!(
            raft.deadline().is_none_or(|due| due > now),
            "{id:?} has a timer that does nothing"
        );
    }
}
