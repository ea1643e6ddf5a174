//! What happens is told to those who are synced, at once and in order. Whoever cannot be told is
//! behind from there on, and is waited for by nobody.

use std::sync::Arc;

use super::{Registry, Slot, Standing};
use crate::server::watch::queue::{Content, Happening, Showing};

impl Registry {
    /// Whether a synced watch wants to know what the key of this change held before.
    pub fn wants_previous(&self, happening: &Happening) -> bool {
        let mut wants = false;
        if self.previous > 0 {
            let watches = &self.watches;
            self.index.watching(happening.key(), |slot| {
                wants |= watches[slot].wants.previous && watches[slot].wants(happening);
            });
        }
        wants
    }

    /// Tells the synced watches what happened from `dispatched` to `until`.
    pub fn dispatch(&mut self, happenings: &[Arc<Happening>], until: i64) {
        let mut told: Vec<(Slot, usize)> = Vec::new();
        for revision in happenings.chunk_by(|a, b| a.revision() == b.revision()) {
            told.clear();
            for (number, happening) in revision.iter().enumerate() {
                if happening.revision() > self.dispatched {
                    self.index.watching(happening.key(), |slot| told.push((slot, number)));
                }
            }
            if revision.len() > 1 {
                told.sort_unstable();
            }
            for told in told.chunk_by(|a, b| a.0 == b.0) {
                self.tell(told[0].0, told.iter().map(|(_, number)| &revision[*number]));
            }
        }
        self.dispatched = self.dispatched.max(until);
        for stream in self.asking.iter().copied().collect::<Vec<_>>() {
            self.answer_progress(stream);
        }
    }

    /// Tells one watch what happened at one revision.
    fn tell<'a>(&mut self, slot: Slot, happenings: impl Iterator<Item = &'a Arc<Happening>>) {
        let watch = &mut self.watches[slot];
        let wanted = happenings.filter(|happening| watch.wants(happening));
        let wanted: Vec<_> = wanted.cloned().collect();
        let Some(revision) = wanted.first().map(|first| first.revision()) else { return };
        let lacks = wanted.iter().any(|happening| watch.lacks(happening));
        watch.is_told = true;
        let reply = watch.reply(revision, Content::Events(wanted, Showing::from(&*watch)));
        if lacks || self.streams[watch.stream].queue.offer(reply).is_err() {
            self.fall_behind(slot, revision);
        }
    }

    /// What happened after `dispatched` cannot be told from memory any more: everyone whom it may
    /// concern is behind from here on.
    pub fn lose(&mut self, until: i64) {
        let from = self.dispatched + 1;
        let lost: Vec<_> = self
            .watches
            .iter()
            .filter(|(_, watch)| matches!(watch.standing, Standing::Synced(_)))
            .filter(|(_, watch)| watch.next <= until)
            .map(|(slot, watch)| (slot, watch.next.max(from)))
            .collect();
        self.dispatched = self.dispatched.max(until);
        lost.into_iter().for_each(|(slot, next)| self.fall_behind(slot, next));
    }
}
