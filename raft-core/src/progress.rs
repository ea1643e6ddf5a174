//! What a leader knows of one peer, and how much it may send.
//!
//! ```text
//!            accepted                      
//!   Probe ─────────────▶ Replicate    one append at a time, or many under way
//!   ▲ ▲ │                   │  │
//!   │ │ │     rejected      │  │
//!   │ └─┼───────────────────┘  │
//!   │   ▼ what it needs is gone▼
//!   └ Snapshot ◀───────────────┘      nothing but the snapshot, until it is there
//! ```

use alloc::collections::VecDeque;
use core::time::Duration;

use crate::log::Log;
use crate::untracked::Untracked;
use crate::{Index, Instant, Round, seeded};

/// Invariants: `matched < next`; a peer's `matched` never falls while it keeps its disk.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Progress {
    /// The peer's log equals the leader's up to here, durably. Starts at zero: knowledge comes
    /// from the peer alone.
    pub(crate) matched: Index,
    /// The next index to send.
    pub(crate) next: Index,
    /// The commit index that the peer has been sent.
    pub(crate) commit_sent: Index,
    /// The last entry of a proposal that the peer handed on: it waits for its commit.
    pub(crate) forwarded: Index,
    /// The newest round that the peer has echoed.
    pub(crate) round_acked: Round,
    /// Entries are being loaded from storage for the peer.
    pub(crate) loading: bool,
    /// Something was accepted since the last heartbeat was answered.
    pub(crate) moved: bool,
    /// When the peer was last heard.
    pub(crate) heard_at: Untracked<Instant>,
    /// When the newest heartbeat left that it has answered: since then at least it is loyal.
    pub(crate) echoed: Untracked<Instant>,
    /// How a learner catches up; `None` for a voter.
    pub(crate) catch_up: Option<CatchUp>,
    /// How it comes back from a snapshot that it was sent.
    rejoin: Option<Rejoin>,
    /// It is no member any more: it is sent its removal until it knows of it, or until then.
    pub(crate) departs_at: Option<Untracked<Instant>>,
    pub(crate) pace: Pace,
}

/// Rounds of replication to a learner (thesis §4.2.1): in each it is sent what the log held when
/// the round began. One that ends within an election timeout shows that it keeps up, and so does
/// holding everything: the next round would take no time.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CatchUp {
    target: Index,
    began: Untracked<Instant>,
    pub(crate) done: bool,
}

impl CatchUp {
    pub(crate) fn new(target: Index, now: Instant) -> Self {
        Self { target, began: Untracked(now), done: false }
    }

    /// The learner holds everything up to `matched` now; the log ends at `last`.
    pub(crate) fn on_accept(&mut self, matched: Index, last: Index, now: Instant, most: Duration) {
        if matched >= self.target {
            let done = now.since(self.began.0) < most || matched >= last;
            *self = Self { target: last, began: Untracked(now), done };
        }
    }
}

/// The way from a snapshot to the end of the log, in rounds as those of [`CatchUp`]. The log is
/// kept for it meanwhile: else it would need the next snapshot, which is larger, and so on for
/// ever. Each round has to take less time than the one before, which bounds what is kept.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Rejoin {
    target: Index,
    began: Untracked<Instant>,
    took: Untracked<Duration>,
}

impl Rejoin {
    /// A peer holds the snapshot; the log ends at `last`.
    fn new(last: Index, now: Instant) -> Self {
        Self { target: last, began: Untracked(now), took: Untracked(Duration::MAX) }
    }

    /// The peer holds everything up to `matched`; the log ends at `last`. Nothing where it is
    /// there, or comes no nearer.
    fn on_accept(self, matched: Index, last: Index, now: Instant) -> Option<Self> {
        if matched < self.target {
            return Some(self);
        }
        let took = now.since(self.began.0);
        let goes_on = matched < last && took < self.took.0;
        goes_on.then_some(Self { target: last, began: Untracked(now), took: Untracked(took) })
    }
}

/// How the peer is sent entries.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Pace {
    /// Where the logs agree is not known: one append, then wait for the answer.
    Probe {
        /// An append is under way.
        waiting: bool,
    },
    /// The logs agree: appends follow one another without waiting.
    Replicate(Window),
    /// It needs what is gone, and is being sent a snapshot.
    Snapshot,
}

/// Appends under way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Window {
    /// Of each, its last index and size.
    appends: VecDeque<(Index, usize)>,
    bytes: usize,
}

impl Window {
    pub(crate) fn is_full(&self, appends_max: usize, bytes_max: usize) -> bool {
        self.appends.len() >= appends_max || self.bytes >= bytes_max
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.appends.is_empty()
    }

    pub(crate) fn push(&mut self, last: Index, bytes: usize) {
        self.appends.push_back((last, bytes));
        self.bytes += bytes;
    }

    /// Everything up to `matched` has arrived.
    pub(crate) fn free(&mut self, matched: Index) {
        while let Some(&(last, bytes)) = self.appends.front() {
            if last > matched {
                break;
            }
            self.bytes -= bytes;
            self.appends.pop_front();
        }
    }
}

impl Progress {
    /// A peer of a new leader whose log ends at `last`.
    pub(crate) fn new(last: Index, now: Instant) -> Self {
        Self {
            matched: if seeded!(MatchStartsAtLast) { last } else { Index::ZERO },
            next: last.next(),
            commit_sent: Index::ZERO,
            forwarded: Index::ZERO,
            round_acked: Round::ZERO,
            loading: false,
            moved: false,
            heard_at: Untracked(now),
            echoed: Untracked(Instant(0)),
            catch_up: None,
            rejoin: None,
            departs_at: None,
            pace: Pace::Probe { waiting: false },
        }
    }

    /// The peer holds everything up to `matched`.
    pub(crate) fn on_accept(&mut self, matched: Index, log: &Log, now: Instant) {
        let (base, last) = (log.base().index, log.last_index());
        if matched > self.matched {
            (self.matched, self.moved) = (matched, true);
        }
        self.next = self.next.max(self.matched.next());
        match &mut self.pace {
            // Something older: the snapshot is still what it needs.
            Pace::Snapshot if self.next <= base => {}
            Pace::Probe { .. } | Pace::Snapshot => {
                self.pace = Pace::Replicate(Window::default());
            }
            Pace::Replicate(window) => window.free(matched),
        }
        self.rejoin = self.rejoin.take().and_then(|it| it.on_accept(self.matched, last, now));
    }

    /// Where the log is kept for it: before the snapshot that it is sent, and then from what it
    /// holds on, as long as it lives and comes nearer.
    pub(crate) fn keep_after(
        &self,
        base: Index,
        now: Instant,
        patience: Duration,
    ) -> Option<Index> {
        match self.pace {
            Pace::Snapshot => Some(base),
            Pace::Probe { .. } | Pace::Replicate(_) => {
                let comes = self.rejoin.is_some() && self.is_live(now, patience);
                comes.then_some(self.matched)
            }
        }
    }

    /// The transfer of a snapshot has ended: the peer holds what it covers, or it failed and is
    /// tried again when the peer is heard.
    pub(crate) fn on_snapshot_sent(&mut self, last: Option<Index>, log: &Log, now: Instant) {
        if matches!(self.pace, Pace::Snapshot) && (last.is_some() || !seeded!(LostSnapshotStalls)) {
            let (held, end) = (last.unwrap_or(Index::ZERO), log.last_index());
            self.rejoin = last.map(|_| Rejoin::new(end, now));
            self.next = held.min(end).max(self.matched).next();
            self.pace = Pace::Probe { waiting: last.is_none() };
        }
    }

    /// Whether the peer could lead soon: it is heard, and its log follows the leader's.
    pub(crate) fn keeps_up(&self, now: Instant, patience: Duration) -> bool {
        let follows = matches!(self.pace, Pace::Replicate(_));
        let has_caught_up = self.catch_up.as_ref().is_none_or(|catch_up| catch_up.done);
        follows && has_caught_up && self.is_live(now, patience)
    }

    /// Whether the peer was heard lately.
    pub(crate) fn is_live(&self, now: Instant, patience: Duration) -> bool {
        now.since(self.heard_at.0) < patience
    }

    /// The logs differ, and agree at `agreed` at the latest: probe there.
    pub(crate) fn on_reject(&mut self, agreed: Index) {
        self.next = agreed.max(self.matched).next();
        self.pace = Pace::Probe { waiting: false };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LogPosition, Term, TermRuns};

    /// A log from `first` to `last`.
    fn log(first: u64, last: u64) -> Log {
        let base = LogPosition { term: Term(1), index: Index(first - 1) };
        let mut runs = TermRuns::starting_after(base);
        runs.push(Index(first), Index(last), Term(1));
        Log::restore(runs)
    }

    fn at(ms: u64) -> Instant {
        Instant(0) + Duration::from_millis(ms)
    }

    #[test]
    fn who_comes_back_is_waited_for_as_long_as_each_round_is_shorter() {
        let rejoin = Rejoin::new(Index(100), at(0));
        let rejoin = rejoin.on_accept(Index(60), Index(120), at(400)).expect("on its way");
        let rejoin = rejoin.on_accept(Index(100), Index(150), at(1000)).expect("one round");
        let rejoin = rejoin.on_accept(Index(149), Index(180), at(1400)).expect("on its way");
        let shorter = rejoin.clone().on_accept(Index(150), Index(180), at(1900));
        assert!(shorter.is_some(), "900 ms after 1000 ms");
        assert_eq!(rejoin.clone().on_accept(Index(150), Index(180), at(2000)), None, "no nearer");
        assert_eq!(rejoin.on_accept(Index(180), Index(180), at(1500)), None, "it is there");
    }
    #[test]
    fn a_learner_has_caught_up_after_a_short_round_or_when_it_holds_everything() {
        let most = Duration::from_secs(1);
        for (matched, last, ms, done) in [
            (99, 200, 1, false),   // The round is not over.
            (100, 200, 999, true), // A short one.
            (100, 200, 1000, false),
            (100, 200, 1001, false),
            (200, 200, 1001, true), // Everything.
            (201, 200, 1001, true),
        ] {
            let mut learner = CatchUp::new(Index(100), at(0));
            learner.on_accept(Index(matched), Index(last), at(ms), most);
            assert_eq!(learner.done, done, "{matched} of {last} after {ms} ms");
            let target = if matched < 100 { 100 } else { last };
            assert_eq!(learner.target, Index(target), "where the next round ends");
        }
    }

    #[test]
    fn a_window_is_full_of_appends_or_of_bytes_and_acknowledgements_free_it() {
        let mut window = Window::default();
        assert!(window.is_empty() && !window.is_full(1, 1));
        window.push(Index(3), 60);
        window.push(Index(5), 40);
        assert!(window.is_full(2, 101) && window.is_full(3, 100) && !window.is_full(3, 101));
        window.free(Index(4));
        assert!(window.is_full(1, 100) && window.is_full(2, 40) && !window.is_full(2, 41));
        window.free(Index(5));
        assert!(window.is_empty() && !window.is_full(1, 1));
    }

    #[test]
    fn a_peer_is_live_for_as_long_as_patience_lasts() {
        let peer = Progress::new(Index(5), at(10));
        let patience = Duration::from_millis(100);
        assert!(peer.is_live(at(10), patience) && peer.is_live(at(109), patience));
        assert!(!peer.is_live(at(110), patience));
    }

    #[test]
    fn an_acknowledgement_that_comes_twice_moves_nothing() {
        let mut peer = Progress::new(Index(5), at(0));
        peer.on_accept(Index(3), &log(1, 5), at(1));
        assert!(peer.moved);
        peer.moved = false;
        peer.on_accept(Index(3), &log(1, 5), at(2));
        peer.on_accept(Index(2), &log(1, 5), at(3));
        assert_eq!((peer.moved, peer.matched), (false, Index(3)));
    }

    #[test]
    fn a_snapshot_is_needed_until_the_peer_holds_what_the_log_begins_after() {
        let mut peer = Progress::new(Index(20), at(0));
        (peer.next, peer.pace) = (Index(1), Pace::Snapshot);
        peer.on_accept(Index(9), &log(11, 20), at(1));
        assert_eq!((&peer.pace, peer.next), (&Pace::Snapshot, Index(10)));
        peer.on_accept(Index(10), &log(11, 20), at(2));
        assert_eq!((&peer.pace, peer.next), (&Pace::Replicate(Window::default()), Index(11)));
    }
}
