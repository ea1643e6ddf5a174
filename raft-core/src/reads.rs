//! Linearizable reads without the log: ReadIndex (Raft §8, thesis §6.4).
//!
//! A read waits until a round of heartbeats that was *sent after it arrived* is answered by a
//! quorum: then this node still led when the read came, and the commit index noted at the
//! start of the round covers every write that was acknowledged before. Rounds are numbered by
//! the leader, within its term. One round is under way at a time and serves all that waited
//! when it began.

use alloc::vec::Vec;
use core::time::Duration;

use crate::untracked::Untracked;
use crate::{Effect, Index, Instant, NodeId, Refusal, Requests, Round, seeded};

/// How many separate readers may wait; consecutive requests count as one.
const WAITING_MAX: usize = 4096;

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Reader {
    Local(Requests),
    Remote { peer: NodeId, question: Round },
}

/// A leader's rounds. Invariant: nobody is confirmed by a round sent before they asked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Rounds {
    /// The newest round begun.
    pub(crate) newest: Round,
    waiting: Vec<Reader>,
    confirming: Vec<Reader>,
    /// The commit index when the newest round began.
    index: Index,
}

impl Rounds {
    /// Someone asks. Copies of a question collapse: what serves the first serves all.
    pub(crate) fn ask(&mut self, reader: Reader) -> Result<(), Refusal> {
        if let (Reader::Local(more), Some(Reader::Local(last))) = (reader, self.waiting.last_mut())
            && last.end() == more.first
        {
            last.count += more.count;
            return Ok(());
        }
        let asked = |readers: &[Reader]| readers.contains(&reader);
        if matches!(reader, Reader::Remote { .. })
            && (asked(&self.waiting) || asked(&self.confirming))
        {
            return Ok(());
        }
        if self.waiting.len() >= WAITING_MAX {
            return Err(Refusal::Overloaded);
        }
        if seeded!(ReadJoinsRoundUnderWay) && !self.confirming.is_empty() {
            self.confirming.push(reader);
            return Ok(());
        }
        self.waiting.push(reader);
        Ok(())
    }

    /// Begins a round for all that wait, unless one is under way.
    pub(crate) fn begin(&mut self, commit: Index) -> Option<Round> {
        if !self.confirming.is_empty() || self.waiting.is_empty() {
            return None;
        }
        core::mem::swap(&mut self.waiting, &mut self.confirming);
        (self.newest, self.index) = (self.newest.next(), commit);
        Some(self.newest)
    }

    /// A quorum has echoed `round`: those it serves, and their read index.
    pub(crate) fn confirm(
        &mut self,
        round: Round,
    ) -> Option<(alloc::vec::Drain<'_, Reader>, Index)> {
        if round < self.newest || self.confirming.is_empty() {
            return None;
        }
        Some((self.confirming.drain(..), self.index))
    }

    /// Leadership is lost: nobody here can answer any more.
    pub(crate) fn refuse(&mut self, reason: Refusal, effects: &mut Vec<Effect>) {
        for reader in self.confirming.drain(..).chain(self.waiting.drain(..)) {
            if let Reader::Local(requests) = reader {
                effects.push(Effect::Refuse { requests, reason });
            }
        }
    }
}

/// A follower's question to the leader. One is under way at a time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Questions {
    waiting: Vec<Requests>,
    asking: Vec<Requests>,
    asked: Option<Question>,
}

/// A question under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Question {
    number: Round,
    sent_at: Untracked<Instant>,
    refuse_at: Untracked<Instant>,
}

impl Questions {
    /// Someone asks.
    pub(crate) fn ask(&mut self, requests: Requests) -> Result<(), Refusal> {
        if let Some(last) = self.waiting.last_mut()
            && last.end() == requests.first
        {
            last.count += requests.count;
            return Ok(());
        }
        if self.waiting.len() >= WAITING_MAX {
            return Err(Refusal::Overloaded);
        }
        self.waiting.push(requests);
        Ok(())
    }

    /// Begins a question for all that wait, unless one is under way. `fresh` was never used.
    /// Returns whether it is to be sent.
    pub(crate) fn begin(&mut self, fresh: Round, now: Instant, refuse_at: Instant) -> bool {
        if self.asked.is_some() || self.waiting.is_empty() {
            return false;
        }
        core::mem::swap(&mut self.waiting, &mut self.asking);
        let (sent_at, refuse_at) = (Untracked(now), Untracked(refuse_at));
        self.asked = Some(Question { number: fresh, sent_at, refuse_at });
        true
    }

    /// The question under way, if it is to be sent again, for it or its answer may be lost:
    /// those it serves asked before it first left. Not before `patience` has passed, since the
    /// first heartbeat after a question is usually the one that the question caused.
    pub(crate) fn again(&mut self, now: Instant, patience: Duration) -> Option<Round> {
        let asked = self.asked.as_mut().filter(|asked| now.since(asked.sent_at.0) >= patience)?;
        asked.sent_at = Untracked(now);
        Some(asked.number)
    }

    /// When the question under way is given up.
    pub(crate) fn refuse_at(&self) -> Option<Instant> {
        self.asked.map(|asked| asked.refuse_at.0)
    }

    /// Gives up the question under way; the others wait on.
    pub(crate) fn refuse_asking(&mut self, reason: Refusal, effects: &mut Vec<Effect>) {
        self.asked = None;
        let all = self.asking.drain(..);
        effects.extend(all.map(|requests| Effect::Refuse { requests, reason }));
    }

    /// The leader answered. Only the question under way counts.
    pub(crate) fn on_reply(&mut self, question: Round, index: Index, effects: &mut Vec<Effect>) {
        let fits = |asked: Question| asked.number == question || seeded!(OlderReadReplyServes);
        if self.asked.is_some_and(fits) {
            self.asked = None;
            let ready = |requests| Effect::ReadReady { requests, index, until: None };
            effects.extend(self.asking.drain(..).map(ready));
        }
    }

    /// The leader is lost.
    pub(crate) fn refuse(&mut self, reason: Refusal, effects: &mut Vec<Effect>) {
        self.asked = None;
        let all = self.asking.drain(..).chain(self.waiting.drain(..));
        effects.extend(all.map(|requests| Effect::Refuse { requests, reason }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RequestId;

    fn local(id: u64) -> Reader {
        Reader::Local(Requests::one(RequestId(id)))
    }

    fn remote(question: u64) -> Reader {
        let peer = NodeId::new(2).expect("not zero");
        Reader::Remote { peer, question: Round(question) }
    }

    fn confirmed(rounds: &mut Rounds, round: u64) -> Vec<Reader> {
        rounds.confirm(Round(round)).map(|(readers, _)| readers.collect()).unwrap_or_default()
    }

    #[test]
    fn a_round_serves_those_who_asked_before_it_began() {
        let mut rounds = Rounds::default();
        rounds.ask(local(1)).expect("there is room");
        assert_eq!(rounds.begin(Index(7)), Some(Round(1)));
        rounds.ask(local(2)).expect("there is room");
        assert_eq!(rounds.begin(Index(8)), None, "one round at a time");
        assert_eq!(confirmed(&mut rounds, 0), []);
        assert_eq!(confirmed(&mut rounds, 1), [local(1)]);
        assert_eq!(confirmed(&mut rounds, 1), [], "once");
        assert_eq!(rounds.begin(Index(8)), Some(Round(2)));
        assert_eq!(confirmed(&mut rounds, 1), [], "an older echo is for older reads");
        assert_eq!(confirmed(&mut rounds, 2), [local(2)]);
    }

    #[test]
    fn copies_of_a_question_collapse() {
        let mut rounds = Rounds::default();
        rounds.ask(remote(5)).expect("there is room");
        rounds.ask(remote(5)).expect("it is there");
        rounds.begin(Index(1));
        rounds.ask(remote(5)).expect("it is being served");
        assert_eq!(rounds.begin(Index(1)), None);
        assert_eq!(confirmed(&mut rounds, 1), [remote(5)]);
        assert_eq!(rounds.begin(Index(1)), None, "nobody waits");
    }

    #[test]
    fn readers_in_a_row_count_as_one_and_others_are_bounded() {
        let (mut rounds, mut questions) = (Rounds::default(), Questions::default());
        for id in 0..2 * WAITING_MAX as u64 {
            assert_eq!(rounds.ask(local(id)), Ok(()));
        }
        for id in 0..WAITING_MAX as u64 {
            assert_eq!(questions.ask(Requests::one(RequestId(2 * id))), Ok(()));
        }
        for id in 1..WAITING_MAX as u64 {
            assert_eq!(rounds.ask(remote(id)), Ok(()));
        }
        assert_eq!(rounds.ask(remote(0)), Err(Refusal::Overloaded));
        assert_eq!(questions.ask(Requests::one(RequestId(1))), Err(Refusal::Overloaded));
    }

    #[test]
    fn only_the_question_under_way_is_answered() {
        let (mut questions, mut effects) = (Questions::default(), Vec::new());
        let read = Requests::one(RequestId(1));
        questions.ask(read).expect("there is room");
        assert!(questions.begin(Round(10), Instant(0), Instant(9)));
        questions.on_reply(Round(9), Index(3), &mut effects);
        assert_eq!(effects, []);
        assert_eq!(questions.again(Instant(0), Duration::from_nanos(1)), None);
        assert_eq!(questions.again(Instant(1), Duration::from_nanos(1)), Some(Round(10)));
        questions.on_reply(Round(10), Index(3), &mut effects);
        questions.on_reply(Round(10), Index(3), &mut effects);
        assert_eq!(effects, [Effect::ReadReady { requests: read, index: Index(3), until: None }]);
        assert_eq!(questions.refuse_at(), None);
    }
    #[test]
    fn readers_in_a_row_are_answered_together() {
        let (mut questions, mut effects) = (Questions::default(), Vec::new());
        for (first, count) in [(1, 2), (3, 3), (7, 1)] {
            let requests = Requests { first: RequestId(first), count };
            questions.ask(requests).expect("there is room");
        }
        assert!(questions.begin(Round(1), Instant(0), Instant(9)));
        questions.on_reply(Round(1), Index(4), &mut effects);
        let ready = |first, count| Effect::ReadReady {
            requests: Requests { first: RequestId(first), count },
            index: Index(4),
            until: None,
        };
        assert_eq!(effects, [ready(1, 5), ready(7, 1)]);
    }
}
