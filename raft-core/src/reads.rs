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
use crate::{Effect, Index, Instant, NodeId, Refusal, Requests, Round};

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
        if self.asked.is_some_and(|asked| asked.number == question) {
            self.asked = None;
            let ready = |requests| Effect::ReadReady { requests, index };
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
