//! Proposals that have not ended. Each ends exactly once: committed, superseded, unknown, or
//! refused before it began.
//!
//! ```text
//!   led here ────────────────▶ placed ──────────▶ committed | superseded
//!   handed on ──▶ forwarded ──▶  │                     ▲
//!                     │          ▼ leader lost         │
//!                     │       doubtful ────────────────┘
//!                     ▼          ▼ time is up
//!                  unknown    unknown
//! ```

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::log::Log;
use crate::untracked::Untracked;
use crate::{Effect, Index, Instant, Outcome, Refusal, Requests, Term, seeded};

/// Invariants: `placed` ascends in index; `forwarded` and `doubtful` ascend in time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Proposals {
    /// In the log of the leader of the current term.
    placed: VecDeque<Placed>,
    /// In the log of a leader that is gone: another entry may take their place, or not.
    doubtful: VecDeque<(Placed, Untracked<Instant>)>,
    /// On their way to the leader.
    forwarded: VecDeque<(Requests, Untracked<Instant>)>,
}

/// Proposals and the place of the first one's entry; the others stand behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Placed {
    requests: Requests,
    first: Index,
    term: Term,
}

impl Proposals {
    pub(crate) fn place(&mut self, requests: Requests, first: Index, term: Term) {
        let placed = Placed { requests, first, term };
        let at = match self.placed.back() {
            Some(newest) if newest.first > first => {
                self.placed.partition_point(|other| other.first <= first)
            }
            _ => self.placed.len(),
        };
        self.placed.insert(at, placed);
    }

    pub(crate) fn forward(&mut self, requests: Requests, unknown_at: Instant) {
        self.forwarded.push_back((requests, Untracked(unknown_at)));
    }

    /// The leader answered for some of what was handed on together: a transport may split what
    /// is large. An answer that comes late, or twice, changes nothing.
    pub(crate) fn on_reply(
        &mut self,
        requests: Requests,
        outcome: Result<Index, Refusal>,
        term: Term,
        effects: &mut Vec<Effect>,
    ) {
        let asked = |(known, _): &(Requests, _)| known.contains(requests);
        let Some(at) = self.forwarded.iter().position(asked) else { return };
        let Some((known, unknown_at)) = self.forwarded.remove(at) else { return };
        let (before, rest) = known.split_at(requests.first.0 - known.first.0);
        let (_, after) = rest.split_at(requests.count);
        for open in [after, before].into_iter().filter(|open| open.count > 0) {
            self.forwarded.insert(at, (open, unknown_at));
        }
        match outcome {
            Ok(first) => self.place(requests, first, term),
            Err(reason) => effects.push(Effect::Refuse { requests, reason }),
        }
    }

    /// The leader is gone, so the placed ones are no longer sure to end by themselves.
    pub(crate) fn doubt(&mut self, unknown_at: Instant) {
        if seeded!(ProposalsForgotten) {
            return;
        }
        let placed = self.placed.drain(..);
        self.doubtful.extend(placed.map(|placed| (placed, Untracked(unknown_at))));
    }

    /// The log is committed up to `commit`: what stands there is decided for ever.
    pub(crate) fn on_commit(&mut self, commit: Index, log: &Log, effects: &mut Vec<Effect>) {
        while let Some(placed) = self.placed.front_mut() {
            if placed.first > commit {
                break;
            }
            match placed.settle(commit, log, effects) {
                None => drop(self.placed.pop_front()),
                Some(rest) => *placed = rest,
            }
        }
        let newest = log.term_at(commit);
        self.doubtful.retain_mut(|(placed, _)| match placed.settle(commit, log, effects) {
            // Terms never fall along a log: behind a newer one, nothing of the old can stand.
            Some(rest) if newest > Some(rest.term) => {
                effects.push(rest.resolve(Outcome::Superseded));
                false
            }
            Some(rest) => {
                *placed = rest;
                true
            }
            None => seeded!(EndsTwice),
        });
    }

    /// Gives up on what has waited long enough. After a storage failure: on everything.
    pub(crate) fn on_timer(&mut self, now: Instant, effects: &mut Vec<Effect>) {
        let mut unknown = |requests| {
            let denied = seeded!(UnknownAsSuperseded);
            let outcome = if denied { Outcome::Superseded } else { Outcome::Unknown };
            effects.push(Effect::Resolve { requests, outcome });
        };
        while let Some((requests, _)) = self.forwarded.pop_front_if(|(_, at)| at.0 <= now) {
            unknown(requests);
        }
        while let Some((placed, _)) = self.doubtful.pop_front_if(|(_, at)| at.0 <= now) {
            unknown(placed.requests);
        }
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        let forwarded = self.forwarded.front().map(|(_, at)| at.0);
        let doubtful = self.doubtful.front().map(|(_, at)| at.0);
        forwarded.into_iter().chain(doubtful).min()
    }

    /// What must hold after every event.
    pub(crate) fn check(&self) {
        assert!(self.placed.iter().is_sorted_by_key(|placed| placed.first), "placed in order");
        assert!(self.forwarded.iter().is_sorted_by_key(|(_, at)| at.0), "forwarded in order");
        assert!(self.doubtful.iter().is_sorted_by_key(|(_, at)| at.0), "doubtful in order");
    }
}

impl Placed {
    /// Ends the part that `commit` decides; what is left waits on. What a snapshot covers is
    /// decided, but where no newer entry of the same term shows how, nobody here can know.
    fn settle(&self, commit: Index, log: &Log, effects: &mut Vec<Effect>) -> Option<Self> {
        if self.first > commit {
            return Some(*self);
        }
        let last = Index(self.first.0 + self.requests.count - 1);
        let decided = commit.min(last);
        let stands = log.term_at(decided) == Some(self.term) || seeded!(SupersededAsCommitted);
        let count = if stands {
            // Equal index and term: everything before is equal too (Raft §5.3, Log Matching).
            decided.0 - self.first.0 + 1
        } else if self.first < log.base().index {
            effects.push(self.resolve(Outcome::Unknown));
            return None;
        } else {
            let kept = (self.first.0..=decided.0).map(Index);
            kept.take_while(|&index| log.term_at(index) == Some(self.term)).count() as u64
        };
        let (committed, rest) = self.requests.split_at(count);
        if count > 0 {
            let outcome = Outcome::Committed { first: self.first };
            effects.push(Effect::Resolve { requests: committed, outcome });
        }
        if rest.count == 0 {
            return None;
        }
        let first = Index(self.first.0 + count);
        if first <= commit {
            // Another entry is committed here, and behind it nothing of the old term can be.
            effects.push(Self { requests: rest, ..*self }.resolve(Outcome::Superseded));
            return None;
        }
        Some(Self { requests: rest, first, term: self.term })
    }

    fn resolve(&self, outcome: Outcome) -> Effect {
        Effect::Resolve { requests: self.requests, outcome }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::RequestId;

    fn requests(first: u64, count: u64) -> Requests {
        Requests { first: RequestId(first), count }
    }

    #[test]
    fn what_was_handed_on_together_may_be_answered_in_parts() {
        let (mut proposals, mut effects) = (Proposals::default(), Vec::new());
        proposals.forward(requests(10, 9), Instant(5));
        let overloaded = Err(Refusal::Overloaded);
        proposals.on_reply(requests(13, 3), overloaded, Term(1), &mut effects);
        proposals.on_reply(requests(13, 3), overloaded, Term(1), &mut effects);
        proposals.on_reply(requests(17, 9), overloaded, Term(1), &mut effects);
        proposals.on_reply(requests(10, 0), overloaded, Term(1), &mut effects);
        proposals.on_reply(requests(10, 2), Ok(Index(1)), Term(1), &mut effects);
        let refused = Effect::Refuse { requests: requests(13, 3), reason: Refusal::Overloaded };
        assert_eq!(effects, [refused], "once, and only for what was asked");

        effects.clear();
        proposals.on_timer(Instant(5), &mut effects);
        let unknown = |requests| Effect::Resolve { requests, outcome: Outcome::Unknown };
        assert_eq!(effects, [unknown(requests(12, 1)), unknown(requests(16, 3))]);
        assert_eq!(proposals.placed.len(), 1, "the part that was taken waits for its commit");
    }

    /// A log of these terms, all of it committed.
    fn log(terms: &[u64]) -> Log {
        let mut runs = crate::TermRuns::default();
        for (&term, index) in terms.iter().zip(1..) {
            runs.push(Index(index), Index(index), Term(term));
        }
        Log::restore(runs)
    }

    fn ended(requests: Requests, outcome: Outcome) -> Effect {
        Effect::Resolve { requests, outcome }
    }

    #[test]
    fn a_batch_is_committed_as_far_as_its_entries_are() {
        let (mut proposals, mut effects) = (Proposals::default(), Vec::new());
        proposals.place(requests(1, 3), Index(1), Term(1));
        proposals.on_commit(Index(2), &log(&[1, 1, 1]), &mut effects);
        assert_eq!(effects, [ended(requests(1, 2), Outcome::Committed { first: Index(1) })]);
        effects.clear();
        proposals.on_commit(Index(3), &log(&[1, 1, 1]), &mut effects);
        assert_eq!(effects, [ended(requests(3, 1), Outcome::Committed { first: Index(3) })]);
    }

    #[test]
    fn what_another_leader_replaced_is_superseded_behind_what_it_kept() {
        let (mut proposals, mut effects) = (Proposals::default(), Vec::new());
        proposals.place(requests(1, 3), Index(1), Term(1));
        proposals.doubt(Instant(9));
        proposals.on_commit(Index(3), &log(&[1, 2, 2]), &mut effects);
        let kept = ended(requests(1, 1), Outcome::Committed { first: Index(1) });
        assert_eq!(effects, [kept, ended(requests(2, 2), Outcome::Superseded)]);
    }

    #[test]
    fn nothing_of_an_older_term_stands_behind_a_newer_one() {
        let (mut proposals, mut effects) = (Proposals::default(), Vec::new());
        proposals.place(requests(1, 1), Index(5), Term(1));
        proposals.place(requests(2, 1), Index(6), Term(2));
        proposals.doubt(Instant(9));
        proposals.on_commit(Index(2), &log(&[1, 2]), &mut effects);
        assert_eq!(effects, [ended(requests(1, 1), Outcome::Superseded)], "r2 may follow yet");
        effects.clear();
        proposals.on_timer(Instant(9), &mut effects);
        assert_eq!(effects, [ended(requests(2, 1), Outcome::Unknown)]);
        assert_eq!(proposals.deadline(), None);
    }

    #[test]
    fn places_that_become_known_out_of_order_end_in_order() {
        let (mut proposals, mut effects) = (Proposals::default(), Vec::new());
        proposals.place(requests(2, 1), Index(2), Term(1));
        proposals.place(requests(1, 1), Index(1), Term(1));
        proposals.check();
        proposals.on_commit(Index(2), &log(&[1, 1]), &mut effects);
        assert_eq!(effects.len(), 2);
    }
    /// A snapshot covers the first, and its term is still known: it was committed, and what
    /// stands behind it was not. Of what lies further back, nobody knows.
    #[test]
    fn what_a_snapshot_covers_is_decided_as_far_as_its_terms_are_known() {
        for (base, outcomes) in [
            (
                1,
                vec![
                    ended(requests(1, 1), Outcome::Committed { first: Index(1) }),
                    ended(requests(2, 2), Outcome::Superseded),
                ],
            ),
            (2, vec![ended(requests(1, 3), Outcome::Unknown)]),
        ] {
            let (mut proposals, mut effects) = (Proposals::default(), Vec::new());
            let mut log = log(&[1, 2, 2]);
            let term = log.term_at(Index(base)).expect("it is in the log");
            log.compact(crate::LogPosition { term, index: Index(base) });
            proposals.place(requests(1, 3), Index(1), Term(1));
            proposals.doubt(Instant(9));
            proposals.on_commit(Index(3), &log, &mut effects);
            assert_eq!(effects, outcomes, "cut behind {base}");
        }
    }
}
