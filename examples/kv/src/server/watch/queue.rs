//! What one stream has still to be told: one queue, in which everything keeps its order, and whose
//! size is bounded.
//!
//! ```text
//!   hub, requests ─▶ offer ─▶ [ replies ] ─▶ poll ─▶ client
//!                      └─ no: the watch falls behind, and the queue asks for it when it has room
//! ```
//! What is offered is taken as long as less than the [`Bounds`] waits, however large it is: a
//! revision is never split, so that one reply may exceed any bound alone.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use tokio::sync::Notify;
use tonic::Status;

use super::registry::Watch;
use crate::proto::mvccpb::{Event, KeyValue};

/// How much may wait.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub replies: usize,
    /// Of keys and values.
    pub bytes: usize,
}

/// What a client's stream may have waiting.
pub(super) const BOUNDS: Bounds = Bounds { replies: 512, bytes: 512 << 10 };

/// What a reply counts for beside keys and values.
const REPLY_BYTES: usize = 64;

/// One change, shared by all who are told of it.
#[derive(Debug)]
pub(super) struct Happening {
    /// Without what was there before.
    pub event: Event,
    pub previous: Previous,
    pub bytes: usize,
}

/// What a key held before a change.
#[derive(Debug)]
pub(super) enum Previous {
    /// Nobody has looked yet.
    Unread,
    /// Nothing, or nothing that is still kept.
    Nothing,
    Was(KeyValue),
}

impl Happening {
    pub fn new(event: Event, previous: Previous) -> Self {
        let len = |kv: &KeyValue| kv.key.len() + kv.value.len() + 48;
        let before = if let Previous::Was(kv) = &previous { len(kv) } else { 0 };
        let bytes = event.kv.as_ref().map_or(0, len) + before;
        Self { event, previous, bytes }
    }

    pub fn revision(&self) -> i64 {
        self.event.kv.as_ref().map_or(0, |kv| kv.mod_revision)
    }

    pub fn key(&self) -> &[u8] {
        self.event.kv.as_ref().map_or(&[], |kv| &kv.key)
    }
}

/// One reply, not yet a message.
#[derive(Clone, Debug)]
pub(super) struct Reply {
    /// −1 where it is about no single watch.
    pub watch_id: i64,
    /// What the header shows.
    pub revision: i64,
    pub content: Content,
}

/// What is replied.
#[derive(Clone, Debug)]
pub(super) enum Content {
    Created,
    Refused(&'static str),
    Events(Vec<Arc<Happening>>, Showing),
    Canceled,
    Compacted(i64),
    Progress,
}

/// How a watch wants its events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Showing {
    pub previous: bool,
    pub fragments: bool,
}

impl From<&Watch> for Showing {
    fn from(watch: &Watch) -> Self {
        Self { previous: watch.wants.previous, fragments: watch.wants.fragments }
    }
}

impl Reply {
    fn bytes(&self) -> usize {
        match &self.content {
            Content::Events(events, _) => {
                REPLY_BYTES + events.iter().map(|event| event.bytes).sum::<usize>()
            }
            _ => REPLY_BYTES,
        }
    }
}

/// There is no room for it now. The queue says when there is: see [`Next::Starved`].
#[derive(Debug)]
pub(super) struct Full;

/// What a stream has still to be told.
pub(super) struct Queue {
    bounds: Bounds,
    inner: Mutex<Inner>,
    /// Something was taken out, or the queue has ended.
    freed: Notify,
}

#[derive(Default)]
struct Inner {
    replies: VecDeque<Reply>,
    bytes: usize,
    /// Something was refused for which there was no room.
    is_starved: bool,
    /// How the stream ends; nothing is taken or given out any more.
    end: Option<Status>,
    has_ended: bool,
    waker: Option<Waker>,
}

impl Inner {
    fn is_full(&self, bounds: Bounds) -> bool {
        self.replies.len() >= bounds.replies || self.bytes >= bounds.bytes
    }

    fn push(&mut self, reply: Reply) -> Option<Waker> {
        if self.has_ended {
            return None;
        }
        self.bytes += reply.bytes();
        self.replies.push_back(reply);
        self.waker.take()
    }
}

/// What comes out of a queue.
#[derive(Debug)]
pub(super) enum Next {
    Reply(Reply),
    /// The same, and there is room again for what was refused.
    Starved(Reply),
    End(Status),
}

impl Queue {
    pub fn new(bounds: Bounds) -> Self {
        Self { bounds, inner: Mutex::default(), freed: Notify::new() }
    }

    /// Takes a reply, if there is room.
    pub fn offer(&self, reply: Reply) -> Result<(), Full> {
        let mut inner = self.inner();
        if inner.is_full(self.bounds) {
            inner.is_starved = true;
            return Err(Full);
        }
        let waker = inner.push(reply);
        drop(inner);
        waker.into_iter().for_each(Waker::wake);
        Ok(())
    }

    /// Takes a reply whatever else waits. For those of which there is never more than one beyond
    /// what [`room`](Self::room) has let in.
    pub fn push(&self, reply: Reply) {
        let waker = self.inner().push(reply);
        waker.into_iter().for_each(Waker::wake);
    }

    /// Whether there is room. Where there is none, the queue says when there is.
    pub fn asks_for_room(&self) -> bool {
        let mut inner = self.inner();
        let is_full = inner.is_full(self.bounds);
        inner.is_starved |= is_full;
        !is_full
    }

    /// Waits until there is room, or the queue has ended.
    pub async fn room(&self) {
        while self.is_full() {
            self.freed.notified().await;
        }
    }

    /// Whether nothing more is taken for now.
    pub fn is_full(&self) -> bool {
        let inner = self.inner();
        inner.is_full(self.bounds) && !inner.has_ended
    }

    /// Ends the stream at once. What the client was not told yet, it finds where it goes.
    pub fn end(&self, status: Status) {
        let mut inner = self.inner();
        if inner.has_ended {
            return;
        }
        inner.has_ended = true;
        inner.end = Some(status);
        (inner.replies, inner.bytes) = (VecDeque::new(), 0);
        let waker = inner.waker.take();
        drop(inner);
        waker.into_iter().for_each(Waker::wake);
        self.freed.notify_one();
    }

    /// The next reply; after the end nothing.
    pub fn poll_next(&self, context: &mut Context<'_>) -> Poll<Option<Next>> {
        let mut inner = self.inner();
        if inner.has_ended {
            return Poll::Ready(inner.end.take().map(Next::End));
        }
        let Some(reply) = inner.replies.pop_front() else {
            inner.waker = Some(context.waker().clone());
            return Poll::Pending;
        };
        inner.bytes -= reply.bytes();
        let Bounds { replies, bytes } = self.bounds;
        let is_half_empty = inner.replies.len() <= replies / 2 && inner.bytes <= bytes / 2;
        let is_fed = inner.is_starved && is_half_empty;
        inner.is_starved &= !is_fed;
        drop(inner);
        self.freed.notify_one();
        Poll::Ready(Some(if is_fed { Next::Starved(reply) } else { Next::Reply(reply) }))
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    pub fn weight(&self) -> (usize, usize) {
        let inner = self.inner();
        (inner.replies.len(), inner.bytes)
    }
}
