//! What a log amounts to, batch after batch: the same steps for the writer, which asserts them,
//! and for the replay, which checks them.

use raft_core::{HardState, Index, LogPosition, Term, TermRuns};

/// One step of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The log ends here now.
    Truncate(LogPosition),
    /// One more entry; its frame stands at this place of the stream.
    Entry { position: LogPosition, place: u64 },
    /// The hard state is this now.
    HardState(HardState),
}

/// The log up to the end of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) log: TermRuns,
    pub(crate) hard_state: HardState,
    /// The number of the batch. The first one is 1.
    pub(crate) batch: u64,
    pub(crate) chain: u32,
}

/// The end of a batch, in a few numbers: what a segment starts with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Checkpoint {
    pub(crate) batch: u64,
    pub(crate) chain: u32,
    pub(crate) last: LogPosition,
    pub(crate) hard_state: HardState,
}

impl Checkpoint {
    /// Before the first batch of a new log.
    pub(crate) const START: Self = Self {
        batch: 0,
        chain: 0,
        last: LogPosition::ZERO,
        hard_state: HardState { term: Term::ZERO, vote: None, commit: Index::ZERO },
    };
}

impl State {
    /// A log that goes on after this.
    pub(crate) fn starting_after(checkpoint: Checkpoint) -> Self {
        let Checkpoint { batch, chain, last, hard_state } = checkpoint;
        Self { log: TermRuns::starting_after(last), hard_state, batch, chain }
    }

    /// Where it stands.
    pub(crate) fn checkpoint(&self) -> Checkpoint {
        let Self { hard_state, batch, chain, .. } = *self;
        Checkpoint { batch, chain, last: self.log.last(), hard_state }
    }

    /// Takes a step that a log can take; else says why it cannot.
    pub(crate) fn apply(&mut self, step: &Step) -> Result<(), String> {
        match *step {
            Step::Truncate(last) => {
                if self.log.term_at(last.index) != Some(last.term) {
                    return Err(format!(
                        "cuts to {last:?}, which {:?} does not hold",
                        self.log.last()
                    ));
                }
                self.log.truncate(last.index);
            }
            Step::Entry { position, .. } => {
                let last = self.log.last();
                if position.index != last.index.next() || position.term < last.term {
                    return Err(format!("entry {position:?} cannot follow {last:?}"));
                }
                self.log.push(position.index, position.index, position.term);
            }
            Step::HardState(next) => {
                let old = self.hard_state;
                let broken = old.vote.is_some() && next.vote != old.vote;
                if next.term < old.term || (next.term == old.term && broken) {
                    return Err(format!("hard state {next:?} breaks the promise {old:?}"));
                }
                self.hard_state = next;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use raft_core::NodeId;

    fn at(index: u64, term: u64) -> LogPosition {
        LogPosition { index: Index(index), term: Term(term) }
    }

    fn hard(term: u64, vote: Option<u64>) -> Step {
        let vote = vote.and_then(NodeId::new);
        Step::HardState(HardState { term: Term(term), vote, commit: Index(0) })
    }

    #[test]
    fn gaps_falling_terms_and_broken_promises_are_refused() {
        let mut state = State::starting_after(Checkpoint::START);
        let entry = |index, term| Step::Entry { position: at(index, term), place: 0 };
        let good = [
            entry(1, 2),
            entry(2, 3),
            Step::Truncate(at(1, 2)),
            entry(2, 2),
            hard(3, None),
            hard(3, Some(1)),
            hard(3, Some(1)),
        ];
        for step in good {
            assert_eq!(state.apply(&step), Ok(()), "{step:?}");
        }
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
}
