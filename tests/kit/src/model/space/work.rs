//! Working out what an act does to a node, once for each node and act: the only place where the
//! core runs.

use std::panic::{AssertUnwindSafe, catch_unwind};

use raft_core::Index;

use super::{BROKEN, Place, Space, Step, Steps};
use crate::model::act::Act;
use crate::model::local::{Local, Pace};
use crate::model::rules::Facts;

impl Space<'_> {
    /// What can happen to a node with an inbox.
    pub(super) fn edges_of(&mut self, place: Place) -> (u32, u32) {
        let key = (place.local, place.inbox);
        if let Some(&known) = self.pairs.get(&key) {
            return known;
        }
        let (start, end) = self.own_steps(place.local);
        let mut all: Vec<u32> = (start..end).collect();
        for at in 0..self.network.inboxes.get(place.inbox).len() {
            let packet = self.network.inboxes.get(place.inbox)[at];
            let (start, end) = self.received_steps(place.local, packet);
            all.extend(start..end);
        }
        let start = self.edges.len() as u32;
        self.edges.extend(all);
        let range = (start, self.edges.len() as u32);
        self.pairs.insert(key, range);
        range
    }

    pub(super) fn own_steps(&mut self, local: u32) -> Steps {
        if let Some(&known) = self.own.get(&local) {
            return known;
        }
        let acts = self.locals.get(local).acts(self.bounds);
        let steps = self.work_out(local, &acts);
        self.own.insert(local, steps);
        steps
    }

    pub(super) fn received_steps(&mut self, local: u32, packet: u32) -> Steps {
        if let Some(&known) = self.received.get(&(local, packet)) {
            return known;
        }
        let steps = self.work_out(local, &[Act::Receive(packet)]);
        self.received.insert((local, packet), steps);
        steps
    }

    pub(super) fn read_steps(&mut self, local: u32, floor: Index) -> Steps {
        let key = (local, floor.0 as u32);
        if let Some(&known) = self.read.get(&key) {
            return known;
        }
        let steps = self.work_out(local, &[Act::Read(floor)]);
        self.read.insert(key, steps);
        steps
    }

    /// The steps of these acts; one more where what is written may take time.
    fn work_out(&mut self, local: u32, acts: &[Act]) -> Steps {
        let first = self.steps.len() as u32;
        for &act in acts {
            if self.step(local, act, Pace::AtOnce) && self.bounds.stalls > 0 {
                self.step(local, act, Pace::Stalled);
            }
        }
        (first, self.steps.len() as u32)
    }

    /// Works out what an act does: the only place where the core runs. Nothing is kept of an act
    /// that changes nothing, or leads beyond the bounds. Returns whether something was written at
    /// once.
    fn step(&mut self, local: u32, act: Act, pace: Pace) -> bool {
        let before = self.locals.get(local);
        let packet = if let Act::Receive(packet) = act {
            Some(self.network.packets.get(packet))
        } else {
            None
        };
        let outcome = match judged(|| before.after(self.bounds, (act, pace), packet)) {
            Ok(outcome) => outcome,
            Err(rule) => {
                let local = self.rules.len() as u32;
                self.rules.push(rule);
                self.steps.push(Step { act, pace, local, facts: BROKEN, sent: (0, 0) });
                return true;
            }
        };
        let synced = outcome.synced;
        if !outcome.local.is_within(self.bounds) {
            return synced;
        }
        let after = self.local(outcome.local);
        let facts = self.facts(outcome.facts);
        let first = self.sent.len() as u32;
        for packet in outcome.sent {
            let packet = self.network.packets.number(packet, self.names.all(), &mut self.text);
            self.sent.push(packet);
        }
        let sent = (first, self.sent.len() as u32);
        if after != local || facts != 0 || sent.0 < sent.1 {
            self.steps.push(Step { act, pace, local: after, facts, sent });
        }
        synced
    }

    fn facts(&mut self, facts: Facts) -> u32 {
        if self.facts.is_empty() {
            self.facts.push(Facts::default());
            self.facts_numbers.insert(Facts::default(), 0);
        }
        let next = self.facts.len() as u32;
        let number = *self.facts_numbers.entry(facts.clone()).or_insert(next);
        if number == next {
            self.facts.push(facts);
        }
        number
    }

    pub(super) fn local(&mut self, local: Local) -> u32 {
        local.describe(&mut self.text);
        let id = u128::from(local.id().get());
        let term = local.store.durable().hard_state.term.0;
        let number = self.locals.number_as(local, id, self.names.all(), &self.text);
        if number as usize == self.terms.len() {
            self.terms.push(term);
        }
        number
    }
}

/// Runs something that panics where a rule is broken.
pub(super) fn judged<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        text.unwrap_or_else(|| "a panic without words".to_owned())
    })
}
