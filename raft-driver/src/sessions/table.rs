//! The table of sessions: part of the replicated state, so everything here depends on entries of
//! the log alone.

use std::collections::BTreeMap;

use raft_core::seeded;
use serde::{Deserialize, Serialize};

/// How many sessions there are at most; beyond, the one that was used longest ago ends.
const SESSIONS_MAX: usize = 65_536;
/// How many answers a session waits for at most.
const ANSWERS_MAX: usize = 1024;

/// Invariant: a session keeps the answers to the numbers from `answered` on, and to no others.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Table<R> {
    /// Replicated time.
    now_ms: u64,
    sessions: BTreeMap<u64, Session<R>>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Session<R> {
    lifetime_ms: u64,
    used_at_ms: u64,
    answered: u64,
    answers: BTreeMap<u64, R>,
}

/// What is to be done with a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict<R> {
    New,
    Known(R),
    Expired,
    Forgotten,
    Crowded,
}

impl<R> Default for Table<R> {
    fn default() -> Self {
        Self { now_ms: 0, sessions: BTreeMap::new() }
    }
}

impl<R: Clone> Table<R> {
    /// Begins a session, under the index of its entry: a number that never comes again.
    pub(super) fn register(&mut self, index: u64, lifetime_ms: u64) -> u64 {
        if self.sessions.len() >= SESSIONS_MAX {
            let oldest = self.sessions.iter().min_by_key(|(id, it)| (it.used_at_ms, **id));
            if let Some(oldest) = oldest.map(|(id, _)| *id) {
                self.sessions.remove(&oldest);
            }
        }
        let used_at_ms = self.now_ms;
        let session = Session { lifetime_ms, used_at_ms, answered: 0, answers: BTreeMap::new() };
        self.sessions.insert(index, session);
        index
    }

    /// The session is used. Returns whether there is one.
    pub(super) fn touch(&mut self, session: u64) -> bool {
        let used = self.sessions.get_mut(&session);
        used.map(|session| session.used_at_ms = self.now_ms).is_some()
    }

    pub(super) fn close(&mut self, session: u64) {
        self.sessions.remove(&session);
    }

    /// Moves time on, unless somebody else did since it was `from_ms`: two leaders that follow
    /// one another must not count the same time twice. Returns what it is now.
    pub(super) fn advance(&mut self, from_ms: u64, to_ms: u64) -> u64 {
        if from_ms == self.now_ms && to_ms > from_ms {
            self.now_ms = to_ms;
            let lives = |it: &Session<R>| to_ms - it.used_at_ms <= it.lifetime_ms;
            self.sessions.retain(|_, session| lives(session));
        }
        self.now_ms
    }

    /// What is to be done with command `number`; the caller has all answers below `answered`.
    pub(super) fn judge(&mut self, session: u64, number: u64, answered: u64) -> Verdict<R> {
        let Some(session) = self.sessions.get_mut(&session) else { return Verdict::Expired };
        session.used_at_ms = self.now_ms;
        if answered > session.answered {
            session.answered = answered;
            session.answers = session.answers.split_off(&answered);
        }
        match session.answers.get(&number) {
            _ if number < session.answered => Verdict::Forgotten,
            Some(response) if !seeded!(RetryExecuted) => Verdict::Known(response.clone()),
            _ if session.answers.len() >= ANSWERS_MAX => Verdict::Crowded,
            _ => Verdict::New,
        }
    }

    /// Keeps the answer to a new command.
    pub(super) fn keep(&mut self, session: u64, number: u64, response: R) {
        let session = self.sessions.get_mut(&session).expect("it was judged to be new");
        session.answers.insert(number, response);
    }
}
