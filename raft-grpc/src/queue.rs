//! What waits for one peer on one lane, bounded in bytes and in messages, and the stream that
//! drains it. The stream lives as long as one connection, the queue as long as the peer.
//!
//! ```text
//!            begin            open              close
//!   Closed ─────────► Opening ─────────► Open ─────────► Closed
//! ```
//! While it is not open it keeps only what was queued lately, so that the first vote request
//! of a node's life is not lost, and a reconnect replays no seconds of garbage.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use raft_core::Envelope;
use tokio_stream::Stream;

use crate::split::{self, size_bytes};
use crate::{encode, proto};

/// The bounds of a queue and of what is taken from it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) bytes_max: usize,
    pub(crate) messages_max: usize,
    pub(crate) batch_bytes_max: usize,
    pub(crate) message_bytes_max: usize,
    pub(crate) stale_after: Duration,
}

/// What waits. Its counters never go back.
#[derive(Debug)]
pub(crate) struct Queue {
    limits: Limits,
    state: Mutex<State>,
}

/// The counters of a queue.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) queued_messages: usize,
    pub(crate) queued_bytes: usize,
    pub(crate) sent_messages: u64,
    pub(crate) sent_bytes: u64,
    pub(crate) dropped_messages: u64,
    pub(crate) too_large_messages: u64,
}

/// Invariants: `counts.queued_*` describe `waiting`; a waker is kept only for the stream of
/// `session`.
#[derive(Debug, Default)]
pub(crate) struct State {
    waiting: VecDeque<(Envelope, usize)>,
    counts: Counts,
    /// Counts the connections; a stream of an older one ends.
    session: u64,
    open: bool,
    /// Since when the oldest waits, while not open.
    since: Option<Instant>,
    /// A question of the peer, to be answered on the stream of `session`.
    question: Option<u64>,
    waker: Option<Waker>,
}

impl Queue {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { limits, state: Mutex::default() }
    }

    /// For pushing several messages under one lock.
    pub(crate) fn pusher(&self) -> Pusher<'_> {
        let mut state = self.lock();
        if !state.open {
            state.age(Instant::now(), self.limits.stale_after);
        }
        Pusher { limits: &self.limits, state }
    }

    /// Begins a connection: its stream yields nothing before [`open`](Self::open).
    pub(crate) fn begin(self: &Arc<Self>) -> Outgoing {
        let mut state = self.lock();
        state.session += 1;
        (state.open, state.question) = (false, None);
        Outgoing { queue: Arc::clone(self), session: state.session, taken: Vec::new() }
    }

    /// Both sides know each other: the stream may talk.
    pub(crate) fn open(&self) {
        let mut state = self.lock();
        state.age(Instant::now(), self.limits.stale_after);
        state.open = true;
        state.since = None;
        wake(state);
    }

    /// The connection is gone, or never came to be. Its stream ends. What waited for an open
    /// one is of no use: it may be part of a sequence whose beginning is lost.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.session += 1;
        if std::mem::take(&mut state.open) {
            state.drop_waiting();
        }
        wake(state);
    }

    /// The peer asks whether this node lives: its stream is to say so at once.
    pub(crate) fn answer(&self, question: u64) {
        let mut state = self.lock();
        state.question = Some(question);
        wake(state);
    }

    pub(crate) fn counts(&self) -> Counts {
        self.lock().counts
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Every change is complete before anything can panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Wakes the stream after the lock is free, or it would only wait for it.
fn wake(mut state: MutexGuard<'_, State>) {
    let waker = state.waker.take();
    drop(state);
    if let Some(waker) = waker {
        waker.wake();
    }
}

/// Pushes under one lock.
pub(crate) struct Pusher<'a> {
    limits: &'a Limits,
    state: MutexGuard<'a, State>,
}

impl Pusher<'_> {
    /// Queues `envelope`, or drops it where there is no room. A message larger than the queue
    /// still finds its place when nothing else waits: else it could never be sent.
    pub(crate) fn push(&mut self, envelope: Envelope) {
        let size = size_bytes(&envelope);
        let State { waiting, counts, .. } = &mut *self.state;
        let fits = counts.queued_bytes.saturating_add(size) <= self.limits.bytes_max;
        if waiting.len() >= self.limits.messages_max || !(fits || waiting.is_empty()) {
            counts.dropped_messages += 1;
            return;
        }
        counts.queued_messages += 1;
        counts.queued_bytes += size;
        waiting.push_back((envelope, size));
    }

    /// The stream's waker, if it sleeps and has something to do now.
    pub(crate) fn into_waker(mut self) -> Option<Waker> {
        if !self.state.open {
            if self.state.since.is_none() && !self.state.waiting.is_empty() {
                self.state.since = Some(Instant::now());
            }
            return None;
        }
        self.state.waker.take()
    }
}

impl State {
    fn age(&mut self, now: Instant, stale_after: Duration) {
        if self.since.is_some_and(|since| now.duration_since(since) > stale_after) {
            self.drop_waiting();
        }
    }

    fn drop_waiting(&mut self) {
        self.counts.dropped_messages += self.waiting.len() as u64;
        self.waiting.clear();
        (self.counts.queued_messages, self.counts.queued_bytes) = (0, 0);
        self.since = None;
    }

    /// Moves to `taken` what fills one gRPC message.
    fn take(&mut self, limits: &Limits, taken: &mut Vec<Envelope>) {
        let mut bytes = 0;
        while let Some((_, size)) = self.waiting.front() {
            if !taken.is_empty() && bytes + size > limits.batch_bytes_max {
                return;
            }
            // What is larger than a whole batch goes in parts; a single entry goes alone.
            let Some((part, size)) = self.take_front(limits.batch_bytes_max) else { return };
            if size > limits.message_bytes_max {
                self.refuse_too_large(size, limits);
                continue;
            }
            self.counts.sent_messages += 1;
            self.counts.sent_bytes += size as u64;
            bytes += size;
            taken.push(part);
        }
    }

    fn take_front(&mut self, bytes_max: usize) -> Option<(Envelope, usize)> {
        let (envelope, size) = self.waiting.front_mut()?;
        if *size > bytes_max
            && let Some(part) = split::front(envelope, bytes_max)
        {
            let rest = size_bytes(envelope);
            self.counts.queued_bytes -= *size - rest;
            *size = rest;
            let part_size = size_bytes(&part);
            return Some((part, part_size));
        }
        let (envelope, size) = self.waiting.pop_front()?;
        self.counts.queued_messages -= 1;
        self.counts.queued_bytes -= size;
        Some((envelope, size))
    }

    fn refuse_too_large(&mut self, size: usize, limits: &Limits) {
        self.counts.too_large_messages += 1;
        if self.counts.too_large_messages == 1 {
            let max = limits.message_bytes_max;
            tracing::error!(size, max, "an entry exceeds message_bytes_max and is never sent");
        }
    }
}

/// The stream of one connection: yields all that waits, in gRPC messages of bounded size.
/// Polled by the HTTP/2 layer itself, so that a message crosses no task on its way there, and
/// what is queued while that is busy goes into one message.
#[derive(Debug)]
pub(crate) struct Outgoing {
    queue: Arc<Queue>,
    session: u64,
    taken: Vec<Envelope>,
}

impl Stream for Outgoing {
    type Item = proto::Batch;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        let mut state = this.queue.lock();
        if state.session != this.session {
            return Poll::Ready(None);
        }
        let mut answer = None;
        if state.open {
            state.take(&this.queue.limits, &mut this.taken);
            answer = state.question.take();
        }
        if this.taken.is_empty() && answer.is_none() {
            match &mut state.waker {
                Some(waker) => waker.clone_from(context.waker()),
                none => *none = Some(context.waker().clone()),
            }
            return Poll::Pending;
        }
        drop(state);
        let batch = encode::batch(this.taken.drain(..));
        Poll::Ready(Some(proto::Batch { answer: answer.unwrap_or(0), ..batch }))
    }
}
