//! What a log amounts to, batch after batch: the same steps for the writer, which asserts them,
//! and for the replay, which checks them.

use std::sync::Arc;

use raft_core::{HardState, Index, LogPosition, Membership, SnapshotMark, TermRuns};

/// One step of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The log ends here now.
    Truncate(LogPosition),
    /// One more entry; its frame stands at this place of the stream.
    Entry { position: LogPosition, place: u64 },
    /// The entry before this step holds these members.
    Members(Arc<Membership>),
    /// The hard state is this now.
    HardState(HardState),
    /// There is this snapshot, and the log begins after this base now.
    Mark(SnapshotMark),
}

impl Step {
    /// Whether both are entries, and of one term.
    pub(crate) fn is_same_term(&self, next: &Self) -> bool {
        let term = |step: &Self| match step {
            Self::Entry { position, .. } => Some(position.term),
            Self::Truncate(_) | Self::Members(_) | Self::HardState(_) | Self::Mark(_) => None,
        };
        term(self).is_some() && term(self) == term(next)
    }
}

/// The log up to the end of a batch. Each segment begins with one, so that it can be read without
/// those before it.
///
/// Invariants: `memberships` is never empty; its indexes ascend, and those after the first are in
/// the log. `snapshot` is not before the base of the log and not past its end, or it is zero.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) log: TermRuns,
    pub(crate) hard_state: HardState,
    /// The end of the newest snapshot that was marked.
    pub(crate) snapshot: LogPosition,
    /// The members at that snapshot, or the founders, and then those in the log.
    pub(crate) memberships: Vec<(Index, Arc<Membership>)>,
    /// The number of the batch. The first one is 1.
    pub(crate) batch: u64,
    pub(crate) chain: u32,
}

impl State {
    /// Before the first batch of a new log.
    pub(crate) fn founded(membership: Arc<Membership>) -> Self {
        Self {
            log: TermRuns::default(),
            hard_state: HardState::default(),
            snapshot: LogPosition::ZERO,
            memberships: vec![(Index::ZERO, membership)],
            batch: 0,
            chain: 0,
        }
    }

    /// Takes a step that a log can take; else says why it cannot.
    pub(crate) fn apply(&mut self, step: &Step) -> Result<(), String> {
        match step {
            Step::Truncate(last) => {
                if self.log.term_at(last.index) != Some(last.term)
                    || last.index < self.snapshot.index
                {
                    return Err(format!("cuts to {last:?}, but {}", self.words()));
                }
                self.log.truncate(last.index);
                self.forget_members_behind(last.index);
            }
            Step::Entry { position, .. } => {
                let last = self.log.last();
                if position.index != last.index.next() || position.term < last.term {
                    return Err(format!("entry {position:?} cannot follow {last:?}"));
                }
                self.log.push(position.index, position.index, position.term);
            }
            Step::Members(membership) => {
                self.memberships.push((self.log.last_index(), Arc::clone(membership)));
            }
            Step::HardState(next) => {
                let old = self.hard_state;
                let broken = old.vote.is_some() && next.vote != old.vote;
                if next.term < old.term || (next.term == old.term && broken) {
                    return Err(format!("hard state {next:?} breaks the promise {old:?}"));
                }
                self.hard_state = *next;
            }
            Step::Mark(mark) => self.mark(mark)?,
        }
        Ok(())
    }

    /// Takes what was checked already: one step, or consecutive entries of one term, at once.
    ///
    /// # Panics
    /// When the log cannot take them.
    pub(crate) fn take(&mut self, steps: &[Step]) {
        match (steps.first(), steps.last()) {
            (
                Some(Step::Entry { position: first, .. }),
                Some(Step::Entry { position: last, .. }),
            ) => {
                self.log.push(first.index, last.index, first.term);
            }
            _ => steps.iter().for_each(|step| self.apply(step).expect("it was checked")),
        }
    }

    /// Lets the log begin after the base of `mark`.
    fn mark(&mut self, mark: &SnapshotMark) -> Result<(), String> {
        let SnapshotMark { snapshot, base } = mark;
        let (old, last) = (self.log.base(), snapshot.last);
        if base.index < old.index || last.index < self.snapshot.index {
            return Err(format!("marks {last:?} with base {base:?}, but {}", self.words()));
        }
        let mut log = self.log.clone();
        let goes_on = log.term_at(base.index) == Some(base.term);
        if goes_on {
            log.compact(*base);
        } else {
            log = TermRuns::starting_after(*base);
        }
        if log.term_at(last.index) != Some(last.term) {
            return Err(format!("marks {last:?} with base {base:?}, but {}", self.words()));
        }
        self.log = log;
        // Up to the snapshot everything is committed, so its members are the newest up to there;
        // those behind it are in the log, or go with it.
        self.memberships.retain(|(index, _)| goes_on && *index > snapshot.membership_index);
        let members = (snapshot.membership_index, Arc::clone(&snapshot.membership));
        self.memberships.insert(0, members);
        self.snapshot = last;
        Ok(())
    }

    fn forget_members_behind(&mut self, last: Index) {
        let first = self.memberships.first().map(|(index, _)| *index);
        self.memberships.retain(|(index, _)| *index <= last || Some(*index) == first);
    }

    fn words(&self) -> String {
        let (base, last, snapshot) = (self.log.base(), self.log.last(), self.snapshot);
        format!("the log begins after {base:?}, ends at {last:?}, and the snapshot is {snapshot:?}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use raft_core::{NodeId, Snapshot, Term};

    fn at(index: u64, term: u64) -> LogPosition {
        LogPosition { term: Term(term), index: Index(index) }
    }

    fn hard(term: u64, vote: Option<u64>) -> Step {
        let vote = vote.and_then(NodeId::new);
        Step::HardState(HardState { term: Term(term), vote, commit: Index(0) })
    }

    fn entry(index: u64, term: u64) -> Step {
        Step::Entry { position: at(index, term), place: 0 }
    }

    fn members(count: u64) -> Arc<Membership> {
        Arc::new(Membership::new((1..=count).filter_map(NodeId::new)).expect("voters"))
    }

    fn mark(last: LogPosition, membership_index: u64, base: LogPosition) -> Step {
        let membership_index = Index(membership_index);
        let snapshot = Snapshot { last, membership: members(9), membership_index };
        Step::Mark(SnapshotMark { snapshot, base })
    }

    fn after(steps: &[Step]) -> State {
        let mut state = State::founded(members(1));
        steps.iter().for_each(|step| assert_eq!(state.apply(step), Ok(()), "{step:?}"));
        state
    }

    #[test]
    fn gaps_falling_terms_and_broken_promises_are_refused() {
        let mut state = after(&[
            entry(1, 2),
            entry(2, 3),
            Step::Truncate(at(1, 2)),
            entry(2, 2),
            hard(3, None),
            hard(3, Some(1)),
            hard(3, Some(1)),
        ]);
        for step in [
            entry(4, 3),
            entry(2, 3),
            entry(3, 1),
            Step::Truncate(at(3, 2)),
            Step::Truncate(at(1, 1)),
            hard(2, None),
            hard(3, None),
            hard(3, Some(2)),
        ] {
            assert!(state.apply(&step).is_err(), "{step:?}");
        }
        assert_eq!(state.apply(&hard(4, None)), Ok(()));
    }

    #[test]
    fn a_mark_keeps_what_agrees_and_drops_a_log_that_does_not() {
        let log = [entry(1, 1), entry(2, 1), entry(3, 2), entry(4, 2)];
        let kept = after(&[&log[..], &[mark(at(3, 2), 0, at(2, 1))]].concat());
        assert_eq!((kept.log.base(), kept.log.last()), (at(2, 1), at(4, 2)));
        let dropped = after(&[&log[..], &[mark(at(4, 3), 0, at(4, 3))]].concat());
        assert_eq!((dropped.log.base(), dropped.log.last()), (at(4, 3), at(4, 3)));
        assert_eq!(dropped.snapshot, at(4, 3));
    }

    #[test]
    fn a_mark_never_goes_back_and_never_leaves_a_gap() {
        let mut state =
            after(&[entry(1, 1), entry(2, 1), entry(3, 1), mark(at(2, 1), 0, at(2, 1))]);
        for step in [
            mark(at(2, 1), 0, at(1, 1)),
            mark(at(1, 1), 0, at(1, 1)),
            mark(at(9, 1), 0, at(8, 1)),
            mark(at(4, 1), 0, at(2, 1)),
            Step::Truncate(at(1, 1)),
        ] {
            let before = state.clone();
            assert!(state.apply(&step).is_err(), "{step:?}");
            assert_eq!(state, before);
        }
        let mut state =
            after(&[entry(1, 1), entry(2, 1), entry(3, 1), mark(at(3, 1), 0, at(1, 1))]);
        assert!(state.apply(&mark(at(2, 1), 0, at(1, 1))).is_err(), "an older snapshot");
    }

    #[test]
    fn members_follow_the_log() {
        let change = |index| [entry(index, 1), Step::Members(members(index))];
        let log = [change(1), change(2), change(3), change(4)].concat();
        let indexes = |steps: &[Step]| {
            let state = after(&[&log[..], steps].concat());
            state.memberships.iter().map(|(index, _)| index.0).collect::<Vec<_>>()
        };
        assert_eq!(indexes(&[]), [0, 1, 2, 3, 4]);
        assert_eq!(indexes(&[Step::Truncate(at(2, 1))]), [0, 1, 2]);
        assert_eq!(indexes(&[mark(at(3, 1), 3, at(1, 1))]), [3, 4]);
        assert_eq!(indexes(&[mark(at(3, 1), 3, at(1, 1)), Step::Truncate(at(3, 1))]), [3]);
        assert_eq!(indexes(&[mark(at(3, 9), 2, at(3, 9))]), [2]);
    }
}
