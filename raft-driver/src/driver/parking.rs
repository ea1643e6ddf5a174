//! Requests that wait out a hand-over of leadership, so that their callers never hear of it.
//!
//! A hand-over shows itself: the leader knows of it, a voter is asked for a vote in its name, a
//! proposal is refused because of it. From then on there is a window of time in which what
//! would be refused is kept, and asked again as soon as a leader is known. Whoever still waits
//! when the window closes is refused, as surely not executed.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use raft_core::{Entries, Instant, Payload, RequestId, Requests, Term};

/// How many requests wait at most; beyond, they are refused.
const PARKED_MAX: usize = 1 << 16;

#[derive(Debug)]
pub(crate) struct Parking<W> {
    /// How long a window is open.
    patience: Duration,
    /// How long to wait before a leader that refused is asked again.
    pause: Duration,
    window: Option<Window>,
    parked: Vec<(W, Asked)>,
    /// What was handed on to a leader elsewhere, by request: it may refuse it. Ascending.
    forwarded: VecDeque<(Requests, Entries)>,
    retry_at: Instant,
}

#[derive(Clone, Copy, Debug)]
struct Window {
    /// The term whose leader hands over.
    term: Term,
    until: Instant,
}

/// What was asked for.
#[derive(Clone, Debug)]
pub(crate) enum Asked {
    Proposal(Bytes),
    Read(ReadKind),
}

/// What a read needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadKind {
    /// A round of confirmation.
    Confirmed,
    /// A lease will do.
    Leased,
}

impl<W> Parking<W> {
    pub(crate) fn new(patience: Duration, pause: Duration) -> Self {
        Self {
            patience,
            pause,
            window: None,
            parked: Vec::new(),
            forwarded: VecDeque::new(),
            retry_at: Instant(0),
        }
    }

    /// Leadership is being handed over in `term`. One window a hand-over: what is parked again
    /// and again must end some day.
    pub(crate) fn open(&mut self, now: Instant, term: Term) {
        let is_open_or_spent =
            |window: Window| window.term >= term && now < window.until + self.patience;
        if !self.window.is_some_and(is_open_or_spent) {
            self.window = Some(Window { term, until: now + self.patience });
        }
    }

    pub(crate) fn is_open(&self, now: Instant) -> bool {
        self.window.is_some_and(|window| now < window.until)
    }

    /// Gives it back where there is no room.
    pub(crate) fn park(&mut self, waiter: W, asked: Asked) -> Result<(), W> {
        if self.parked.len() >= PARKED_MAX {
            return Err(waiter);
        }
        self.parked.push((waiter, asked));
        Ok(())
    }

    /// A leader refused: it is not asked again at once.
    pub(crate) fn pause(&mut self, now: Instant) {
        self.retry_at = now + self.pause;
    }

    /// A new leader need not be waited for.
    pub(crate) fn resume(&mut self) {
        self.retry_at = Instant(0);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.parked.is_empty()
    }

    pub(crate) fn is_due(&self, now: Instant) -> bool {
        !self.parked.is_empty() && self.retry_at <= now
    }

    /// Takes out everybody.
    pub(crate) fn take(&mut self) -> Vec<(W, Asked)> {
        std::mem::take(&mut self.parked)
    }

    /// When to look again.
    pub(crate) fn deadline(&self, now: Instant) -> Option<Instant> {
        let window = self.window.filter(|_| !self.parked.is_empty())?;
        Some(if now < self.retry_at { window.until.min(self.retry_at) } else { window.until })
    }

    /// Keeps what is handed on to a leader elsewhere; `open` is the oldest request that has not
    /// ended.
    pub(crate) fn on_forward(&mut self, requests: Requests, entries: Entries, open: RequestId) {
        while self.forwarded.front().is_some_and(|(oldest, _)| oldest.end() <= open) {
            self.forwarded.pop_front();
        }
        self.forwarded.push_back((requests, entries));
    }

    /// All of it has ended.
    pub(crate) fn forget_forwarded(&mut self) {
        self.forwarded.clear();
    }

    /// The command of a request that was handed on.
    pub(crate) fn forwarded(&self, request: RequestId) -> Option<Bytes> {
        let at = self.forwarded.partition_point(|(requests, _)| requests.end() <= request);
        let (requests, entries) = self.forwarded.get(at)?;
        let offset = request.0.checked_sub(requests.first.0)?;
        match &entries.get(usize::try_from(offset).ok()?)?.payload {
            Payload::Command(bytes) => Some(bytes.clone()),
            Payload::Empty | Payload::Membership(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(2);
    const PAUSE: Duration = Duration::from_millis(10);

    fn at(seconds: u64) -> Instant {
        Instant(0) + Duration::from_secs(seconds)
    }

    fn lot() -> Parking<u32> {
        Parking::new(PATIENCE, PAUSE)
    }

    #[test]
    fn a_window_is_not_held_open_by_the_hand_over_it_is_for() {
        let mut lot = lot();
        assert!(!lot.is_open(at(0)));
        lot.open(at(0), Term(3));
        lot.open(at(1), Term(3));
        assert!(lot.is_open(at(1)) && !lot.is_open(at(2)), "two seconds, and no more");
        lot.open(at(3), Term(3));
        assert!(!lot.is_open(at(3)), "still the same hand-over");
        lot.open(at(3), Term(4));
        assert!(lot.is_open(at(3)), "the next one");
        lot.open(at(7), Term(4));
        assert!(lot.is_open(at(7)), "one that failed long ago says nothing of today's");
    }

    #[test]
    fn who_waits_is_looked_after_in_time() {
        let mut lot = lot();
        lot.open(at(0), Term(1));
        assert_eq!(lot.deadline(at(0)), None, "nobody waits");
        lot.park(7, Asked::Read(ReadKind::Confirmed)).expect("room");
        assert_eq!(lot.deadline(at(0)), Some(at(2)));
        lot.pause(at(0));
        assert!(!lot.is_due(at(0)));
        assert_eq!(lot.deadline(at(0)), Some(at(0) + PAUSE));
        lot.resume();
        assert!(lot.is_due(at(0)));
        assert_eq!(lot.take().len(), 1);
        assert!(!lot.is_due(at(0)));
    }

    #[test]
    fn there_is_room_for_so_many_and_no_more() {
        let mut lot = lot();
        for waiter in 0..PARKED_MAX as u32 {
            lot.park(waiter, Asked::Read(ReadKind::Leased)).expect("room");
        }
        assert_eq!(lot.park(0, Asked::Read(ReadKind::Leased)), Err(0));
    }

    #[test]
    fn what_was_handed_on_is_found_until_it_has_ended() {
        let mut lot = lot();
        let entries = |texts: &[&'static str]| {
            Entries::proposal(texts.iter().map(|text| Bytes::from_static(text.as_bytes())))
        };
        let requests = |first, count| Requests { first: RequestId(first), count };
        lot.on_forward(requests(1, 2), entries(&["a", "b"]), RequestId(1));
        lot.on_forward(requests(5, 1), entries(&["e"]), RequestId(1));
        let found = |lot: &Parking<u32>| [1, 2, 3, 5, 6].map(|id| lot.forwarded(RequestId(id)));
        let text = |text: &'static str| Some(Bytes::from_static(text.as_bytes()));
        assert_eq!(found(&lot), [text("a"), text("b"), None, text("e"), None]);
        lot.on_forward(requests(6, 1), entries(&["f"]), RequestId(3));
        assert_eq!(found(&lot), [None, None, None, text("e"), text("f")]);
    }
}
