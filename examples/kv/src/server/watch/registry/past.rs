//! Those who are behind are brought up again from history: one reading serves all who lack just
//! that part, and streams take turns, so that a long way back keeps nobody waiting.

use std::sync::Arc;

use super::{Registry, Slot, StreamSlot};
use crate::server::watch::index::Keys;
use crate::server::watch::queue::{Content, Happening, Showing};
use crate::server::watch::ranges::End;

/// A part of history for those who are behind; see [`Registry::deliver`].
pub(in crate::server::watch) struct Past<'a> {
    pub from: i64,
    pub until: i64,
    pub happenings: &'a [Arc<Happening>],
    /// The revision of the store when it was read.
    pub revision: i64,
}

/// How many streams, and how many watches, share one part of history.
const STREAMS_MAX: usize = 64;
const WATCHES_MAX: usize = 1024;

impl Registry {
    /// There is room in the stream's queue again.
    pub fn on_room(&mut self, stream: StreamSlot) {
        if let Some(it) = self.streams.get_mut(stream)
            && !it.behind.is_empty()
            && !std::mem::replace(&mut it.is_ready, true)
        {
            self.ready.push_back(stream);
        }
    }

    /// Whether history is to be read.
    pub fn is_lacking(&self) -> bool {
        !self.ready.is_empty()
    }

    /// From where history is to be read for the stream whose turn it is, and whether with what was
    /// there before.
    pub fn turn(&mut self) -> Option<(i64, bool)> {
        loop {
            let stream = &mut self.streams[*self.ready.front()?];
            match stream.behind.first() {
                Some((next, _)) if stream.queue.asks_for_room() => {
                    return Some((*next, stream.previous > 0));
                }
                Some(_) | None => stream.is_ready = false,
            }
            self.ready.pop_front();
        }
    }

    /// Hands a part of history to those who lack just that, beginning with the stream whose turn
    /// it was. It goes to the end of the line.
    pub fn deliver(&mut self, past: &Past<'_>) {
        let mut by_key: Vec<u32> = (0..).take(past.happenings.len()).collect();
        by_key.sort_by_key(|number| past.happenings[*number as usize].key());
        let mut left = WATCHES_MAX;
        // The others keep their places in the line.
        let sharing: Vec<_> = self.ready.iter().copied().take(STREAMS_MAX).collect();
        let first = self.ready.pop_front();
        for at in sharing {
            let behind = &self.streams[at].behind;
            let lacking = behind.range((past.from, 0)..=(past.until, usize::MAX));
            let lacking: Vec<_> = lacking.take(left).copied().collect();
            left -= lacking.len();
            for (_, slot) in lacking {
                if !self.bring(slot, past, &by_key) {
                    break;
                }
            }
            self.answer_progress(at);
        }
        first.into_iter().for_each(|at| self.rest(at));
    }

    /// Brings one watch up to the end of `past`. Whether there was room.
    fn bring(&mut self, slot: Slot, past: &Past<'_>, by_key: &[u32]) -> bool {
        let watch = &mut self.watches[slot];
        let wanted = happenings_of(&watch.keys, past.happenings, by_key);
        let wanted: Vec<_> = wanted.into_iter().filter(|it| watch.wants(it)).collect();
        if wanted.iter().any(|happening| watch.lacks(happening)) {
            return true; // Another stream's turn: it was read without what was there before.
        }
        if !wanted.is_empty() {
            let content = Content::Events(wanted, Showing::from(&*watch));
            let reply = watch.reply(past.revision, content);
            if self.streams[watch.stream].queue.offer(reply).is_err() {
                return false;
            }
            watch.is_told = true;
        }
        let stream = &mut self.streams[watch.stream];
        stream.behind.remove(&(watch.next, slot));
        watch.next = past.until + 1;
        self.place(slot);
        true
    }

    /// Ends the watches that lack what a compaction gave up, in the stream whose turn it is.
    pub fn give_up(&mut self, compacted: i64) {
        let Some(at) = self.ready.pop_front() else { return };
        let lost = self.streams[at].behind.range(..(compacted, 0)).take(WATCHES_MAX);
        let lost: Vec<_> = lost.copied().collect();
        for (_, slot) in lost {
            let (watch, stream) = (&self.watches[slot], &mut self.streams[at]);
            if stream.queue.offer(watch.reply(0, Content::Compacted(compacted))).is_err() {
                break;
            }
            stream.watches.remove(&watch.id);
            self.forget(slot);
        }
        self.rest(at);
    }

    /// The stream's turn is over.
    fn rest(&mut self, at: StreamSlot) {
        self.streams[at].is_ready = false;
        // Without room it is asked for once there is some.
        if self.streams[at].queue.asks_for_room() {
            self.on_room(at);
        }
        self.answer_progress(at);
    }
}

/// What happened to these keys, in order; `by_key` has the numbers of what happened, by key.
fn happenings_of(
    keys: &Keys,
    happenings: &[Arc<Happening>],
    by_key: &[u32],
) -> Vec<Arc<Happening>> {
    let key = |number: &u32| happenings[*number as usize].key();
    let before = |end: &[u8]| by_key.partition_point(|number| key(number) < end);
    let (start, end) = match keys {
        Keys::One(one) => (before(one), by_key.partition_point(|number| key(number) <= &one[..])),
        Keys::Range(start, End::Before(end)) => (before(start), before(end)),
        Keys::Range(start, End::Never) => (before(start), by_key.len()),
    };
    let mut numbers = by_key[start..end].to_vec();
    numbers.sort_unstable();
    numbers.into_iter().map(|number| Arc::clone(&happenings[number as usize])).collect()
}
