//! All streams and watches of a node, and how far each has come. It reads no store, waits for
//! nothing and knows no network: what happened is handed to it, and it decides who is told.
//!
//! ```text
//!   create ─▶ synced ── no room, or what it wants is not at hand ──▶ behind
//!               ▲   in the index, told of what happens                 │ in its stream's list, at
//!               └───────────── has come up to `dispatched` ◀───────────┘ its next revision
//! ```
//! Every change up to `dispatched` is in the queues of all synced watches that it concerns. A
//! synced watch takes no change before `next`; a watch behind has none from `next` on.

mod live;
mod past;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use slab::Slab;
use tonic::Status;

use super::index::{Index, Keys, Slot};
use super::queue::{Content, Happening, Previous, Queue, Reply};
use crate::proto::mvccpb::event::EventType;

pub(super) use past::Past;

/// The number of a stream on this node.
pub(super) type StreamSlot = usize;

/// What a client wants of a watch.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Wants {
    pub puts: bool,
    pub deletions: bool,
    pub previous: bool,
    pub progress: bool,
    pub fragments: bool,
}

/// A request for a watch.
#[derive(Debug)]
pub(super) struct Create {
    /// `None` when the range holds no key.
    pub keys: Option<Keys>,
    /// 0 has one chosen.
    pub watch_id: i64,
    /// 0 is from now on.
    pub start: i64,
    pub wants: Wants,
}

/// One watch.
#[derive(Debug)]
pub(super) struct Watch {
    pub stream: StreamSlot,
    pub id: i64,
    pub keys: Keys,
    pub wants: Wants,
    pub next: i64,
    /// Whether it was told something since the last look at who is idle.
    pub is_told: bool,
    standing: Standing,
}

#[derive(Clone, Copy, Debug)]
enum Standing {
    /// At this place of the index.
    Synced(usize),
    Behind,
}

impl Watch {
    /// Whether it wants to hear of this, its key apart.
    fn wants(&self, happening: &Happening) -> bool {
        let is_put = happening.event.r#type == i32::from(EventType::Put);
        let kind = if is_put { self.wants.puts } else { self.wants.deletions };
        kind && happening.revision() >= self.next
    }

    fn lacks(&self, happening: &Happening) -> bool {
        self.wants.previous && matches!(happening.previous, Previous::Unread)
    }

    fn reply(&self, revision: i64, content: Content) -> Reply {
        Reply { watch_id: self.id, revision, content }
    }
}

/// One stream.
pub(super) struct Stream {
    pub queue: Arc<Queue>,
    watches: HashMap<i64, Slot>,
    next_id: i64,
    /// Its watches that are behind, by the revision from which they lack events.
    behind: BTreeSet<(i64, Slot)>,
    /// Its synced watches that have not begun, by the revision at which they do.
    future: BTreeSet<(i64, Slot)>,
    is_ready: bool,
    /// A progress request is to be answered once this revision is dispatched.
    progress: Option<i64>,
    previous: usize,
}

/// All streams and watches.
pub(super) struct Registry {
    streams: Slab<Stream>,
    watches: Slab<Watch>,
    index: Index,
    dispatched: i64,
    /// Streams that have room for what their watches lack, each once.
    ready: VecDeque<StreamSlot>,
    /// Streams that wait for an answer to a progress request.
    asking: BTreeSet<StreamSlot>,
    previous: usize,
}

impl Registry {
    pub fn new() -> Self {
        Self {
            streams: Slab::new(),
            watches: Slab::new(),
            index: Index::new(),
            dispatched: 0,
            ready: VecDeque::new(),
            asking: BTreeSet::new(),
            previous: 0,
        }
    }

    pub fn open(&mut self, queue: Arc<Queue>) -> StreamSlot {
        self.streams.insert(Stream {
            queue,
            watches: HashMap::new(),
            next_id: 0,
            behind: BTreeSet::new(),
            future: BTreeSet::new(),
            is_ready: false,
            progress: None,
            previous: 0,
        })
    }

    pub fn close(&mut self, stream: StreamSlot) {
        let watches = std::mem::take(&mut self.streams[stream].watches);
        watches.into_values().for_each(|slot| drop(self.forget(slot)));
        self.asking.remove(&stream);
        self.ready.retain(|ready| *ready != stream);
        self.streams.remove(stream);
    }

    /// Ends all streams.
    pub fn end(&self, status: &Status) {
        self.streams.iter().for_each(|(_, stream)| stream.queue.end(status.clone()));
    }

    pub fn is_empty(&self) -> bool {
        self.watches.is_empty()
    }

    /// From where synced watches are to be told; `None` when nobody watches.
    pub fn next(&self) -> Option<i64> {
        (!self.is_empty()).then_some(self.dispatched + 1)
    }

    /// Adds a watch to a stream, or refuses it; the answer is in the queue. `revision` is that of
    /// the store at this moment.
    pub fn create(&mut self, stream: StreamSlot, create: Create, revision: i64) {
        if self.is_empty() {
            self.dispatched = revision;
        }
        let Stream { queue, watches, next_id, .. } = &mut self.streams[stream];
        let refuse = |reason| {
            queue.push(Reply { watch_id: -1, revision, content: Content::Refused(reason) });
        };
        let Some(keys) = create.keys else { return refuse("mvcc: watcher range is empty") };
        let id = match create.watch_id {
            0 => {
                while watches.contains_key(next_id) {
                    *next_id += 1;
                }
                *next_id += 1;
                *next_id - 1
            }
            id if watches.contains_key(&id) => {
                return refuse("mvcc: duplicate watch ID provided on the WatchStream");
            }
            id => id,
        };
        queue.push(Reply { watch_id: id, revision, content: Content::Created });
        let next = if create.start == 0 { revision + 1 } else { create.start };
        let (wants, standing) = (create.wants, Standing::Behind);
        let watch = Watch { stream, id, keys, wants, next, is_told: false, standing };
        let previous = usize::from(wants.previous);
        let slot = self.watches.insert(watch);
        let stream = &mut self.streams[stream];
        stream.watches.insert(id, slot);
        stream.previous += previous;
        self.previous += previous;
        self.place(slot);
    }

    /// Cancels a watch at its client's wish; one that is not there is not spoken of.
    pub fn cancel(&mut self, stream: StreamSlot, id: i64, revision: i64) {
        if let Some(slot) = self.streams[stream].watches.remove(&id) {
            let watch = self.forget(slot);
            let queue = &self.streams[stream].queue;
            queue.push(watch.reply(revision, Content::Canceled));
            self.answer_progress(stream);
        }
    }

    /// Answers a progress request now, or as soon as all that happened up to `revision` is in the
    /// stream's queue.
    pub fn ask_progress(&mut self, stream: StreamSlot, revision: i64) {
        if self.streams[stream].watches.is_empty() {
            let reply = Reply { watch_id: -1, revision, content: Content::Progress };
            return self.streams[stream].queue.push(reply);
        }
        self.streams[stream].progress = Some(revision);
        self.asking.insert(stream);
        self.answer_progress(stream);
    }

    /// Tells a stream's idle watches that wanted it how far they are, and has those that are not
    /// idle told next time.
    pub fn tell_idle(&mut self, stream: StreamSlot) {
        let revision = self.dispatched;
        let Stream { watches, queue, .. } = &self.streams[stream];
        for slot in watches.values() {
            let watch = &mut self.watches[*slot];
            if !watch.wants.progress {
                continue;
            }
            let is_synced = matches!(watch.standing, Standing::Synced(_));
            if !watch.is_told && is_synced && watch.next <= revision + 1 && queue.asks_for_room() {
                queue.push(watch.reply(revision, Content::Progress));
            }
            watch.is_told = false;
        }
    }

    /// Puts a watch that is nowhere where it belongs.
    fn place(&mut self, slot: Slot) {
        let watch = &mut self.watches[slot];
        let stream = &mut self.streams[watch.stream];
        if watch.next <= self.dispatched {
            watch.standing = Standing::Behind;
            stream.behind.insert((watch.next, slot));
            let at = watch.stream;
            return self.on_room(at);
        }
        if watch.next > self.dispatched + 1 {
            stream.future.insert((watch.next, slot));
        }
        watch.standing = Standing::Synced(self.index.add(&watch.keys, slot));
    }

    fn fall_behind(&mut self, slot: Slot, next: i64) {
        self.take_out(slot);
        let watch = &mut self.watches[slot];
        watch.next = next;
        let at = watch.stream;
        self.streams[at].behind.insert((next, slot));
        if self.streams[at].queue.asks_for_room() {
            self.on_room(at);
        }
    }

    /// Takes a watch out of where it stands.
    fn take_out(&mut self, slot: Slot) {
        let watch = &mut self.watches[slot];
        let stream = &mut self.streams[watch.stream];
        match std::mem::replace(&mut watch.standing, Standing::Behind) {
            Standing::Behind => {
                stream.behind.remove(&(watch.next, slot));
            }
            Standing::Synced(place) => {
                stream.future.remove(&(watch.next, slot));
                if let Some(moved) = self.index.remove(&watch.keys, place) {
                    self.watches[moved].standing = Standing::Synced(place);
                }
            }
        }
    }

    fn forget(&mut self, slot: Slot) -> Watch {
        self.take_out(slot);
        let watch = self.watches.remove(slot);
        let previous = usize::from(watch.wants.previous);
        self.streams[watch.stream].previous -= previous;
        self.previous -= previous;
        watch
    }

    fn answer_progress(&mut self, at: StreamSlot) {
        let (stream, revision) = (&mut self.streams[at], self.dispatched);
        while stream.future.first().is_some_and(|(next, _)| *next <= revision + 1) {
            stream.future.pop_first();
        }
        let is_synced = stream.behind.is_empty() && stream.future.is_empty();
        if is_synced && stream.progress.take_if(|asked| *asked <= revision).is_some() {
            self.asking.remove(&at);
            stream.queue.push(Reply { watch_id: -1, revision, content: Content::Progress });
        }
    }
}
