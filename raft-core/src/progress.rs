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

use crate::untracked::Untracked;
use crate::{Index, Instant, Round};

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
            matched: Index::ZERO,
            next: last.next(),
            commit_sent: Index::ZERO,
            forwarded: Index::ZERO,
            round_acked: Round::ZERO,
            loading: false,
            moved: false,
            heard_at: Untracked(now),
            echoed: Untracked(Instant(0)),
            catch_up: None,
            departs_at: None,
            pace: Pace::Probe { waiting: false },
        }
    }

    /// The peer holds everything up to `matched`; the leader's log begins after `base`.
    pub(crate) fn on_accept(&mut self, matched: Index, base: Index) {
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
    }

    /// The transfer of a snapshot has ended: the peer holds what it covers, or it failed and is
    /// tried again when the peer is heard.
    pub(crate) fn on_snapshot_sent(&mut self, last: Option<Index>) {
        if let Pace::Snapshot = self.pace {
            self.next = last.unwrap_or(Index::ZERO).max(self.matched).next();
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
