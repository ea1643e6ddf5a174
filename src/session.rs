//! The caller's side: numbers its commands, and proposes each until it has the answer.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use raft_driver::Applied;
use raft_driver::sessions::{Answer, Frame};
use tokio::time::{self, Instant};

use crate::error::{ProposeError, Refused};
use crate::node::Node;

/// How long is waited before a command is proposed again.
const RETRY_AFTER: Duration = Duration::from_millis(20);

/// A session: what is proposed through it is executed exactly once, however often it must be
/// sent. Clones share it. Dropped, it ends by itself after its lifetime; [`close`](Self::close)
/// ends it at once.
#[derive(Debug)]
pub struct Session<R> {
    node: Node<Answer<R>>,
    number: u64,
    calls: Arc<Mutex<Calls>>,
    patience: Duration,
}

/// Which numbers are given out, and which have no answer yet.
#[derive(Debug)]
struct Calls {
    next: u64,
    open: BTreeSet<u64>,
}

/// Why a command of a session has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// Not executed by this call: the session has ended, since nobody used it for its lifetime.
    /// An earlier try that was given up may have been executed. Open another session.
    #[error("the session has expired; open another one")]
    Expired,
    /// Not executed: more of the session's calls are open than their answers can be kept.
    #[error("too many calls of the session are open; wait for some of them")]
    Crowded,
    /// Not executed: too large, or the node has stopped before anything was sent.
    #[error(transparent)]
    Refused(ProposeError),
    /// There was no answer in time. It may have been executed, or may yet be.
    #[error("no answer in {patience:?}; it may have been executed, or may yet be")]
    Unknown {
        /// How long it was tried.
        patience: Duration,
    },
}

impl<R> Clone for Session<R> {
    fn clone(&self) -> Self {
        let (node, calls) = (self.node.clone(), Arc::clone(&self.calls));
        Self { node, number: self.number, calls, patience: self.patience }
    }
}

impl<R: Send + 'static> Session<R> {
    /// Begins a session on `node`, which runs a [`SessionMachine`](crate::SessionMachine). It
    /// ends when it was not used for `lifetime` of replicated time.
    ///
    /// # Errors
    /// No answer within 30 seconds, or a node that has stopped.
    pub async fn open(node: &Node<Answer<R>>, lifetime: Duration) -> Result<Self, SessionError> {
        let patience = Duration::from_secs(30);
        let lifetime_ms = u64::try_from(lifetime.as_millis()).unwrap_or(u64::MAX);
        // Asked twice, one of two sessions is never used, and ends.
        let applied = ask(node, Frame::Register { lifetime_ms }.encode(), patience).await?;
        match applied.response {
            Answer::Registered(number) => {
                let calls = Arc::new(Mutex::new(Calls { next: 1, open: BTreeSet::new() }));
                Ok(Self { node: node.clone(), number, calls, patience })
            }
            other => unreachable!("a registration is not answered by {}", name(&other)),
        }
    }

    /// How long a command is tried. 30 seconds by default.
    #[must_use]
    pub fn with_patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// The session's number.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Proposes a command until there is an answer, which is the first one it got. Calls of one
    /// session may go on at once, and are executed in any order then.
    ///
    /// # Errors
    /// See [`SessionError`].
    pub async fn propose(&self, command: Bytes) -> Result<Applied<R>, SessionError> {
        let call = Call::begin(&self.calls);
        let (session, number, answered) = (self.number, call.number, call.answered);
        let frame = Frame::Execute { session, number, answered, command };
        let Applied { index, response } = ask(&self.node, frame.encode(), self.patience).await?;
        match response {
            Answer::Done(response) => Ok(Applied { index, response }),
            Answer::Expired => Err(SessionError::Expired),
            Answer::Crowded => Err(SessionError::Crowded),
            other => unreachable!("an open command is not answered by {}", name(&other)),
        }
    }

    /// Keeps the session alive without a command.
    ///
    /// # Errors
    /// The session has ended, or there was no answer.
    pub async fn touch(&self) -> Result<(), SessionError> {
        let frame = Frame::Touch { session: self.number };
        match ask(&self.node, frame.encode(), self.patience).await?.response {
            Answer::Expired => Err(SessionError::Expired),
            _ => Ok(()),
        }
    }

    /// Ends the session, for all clones. What it waits for is given up.
    ///
    /// # Errors
    /// There was no answer; it ends by itself then.
    pub async fn close(self) -> Result<(), SessionError> {
        let frame = Frame::Close { session: self.number };
        ask(&self.node, frame.encode(), self.patience).await.map(drop)
    }
}

/// A command under way: its number is open until the call ends.
struct Call {
    calls: Arc<Mutex<Calls>>,
    number: u64,
    answered: u64,
}

impl Call {
    fn begin(calls: &Arc<Mutex<Calls>>) -> Self {
        let mut it = calls.lock().unwrap_or_else(PoisonError::into_inner);
        let number = it.next;
        it.next += 1;
        it.open.insert(number);
        let answered = *it.open.first().unwrap_or(&number);
        drop(it);
        Self { calls: Arc::clone(calls), number, answered }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let mut it = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        it.open.remove(&self.number);
    }
}

/// Proposes until there is an answer. Doing it twice does no harm.
async fn ask<R: Send + 'static>(
    node: &Node<Answer<R>>,
    frame: Bytes,
    patience: Duration,
) -> Result<Applied<Answer<R>>, SessionError> {
    let unknown = SessionError::Unknown { patience };
    let tried = async {
        let mut sent = false;
        loop {
            let error = match node.propose(frame.clone()).await {
                Ok(applied) => return Ok(applied),
                Err(error) => error,
            };
            match error {
                ProposeError::Refused(Refused::TooLarge) => {
                    return Err(SessionError::Refused(error));
                }
                ProposeError::Stopped if !sent => return Err(SessionError::Refused(error)),
                ProposeError::Stopped => return Err(SessionError::Unknown { patience }),
                ProposeError::Unknown => sent = true,
                ProposeError::NotLeader { .. } | ProposeError::Refused(_) => {}
            }
            time::sleep(RETRY_AFTER).await;
        }
    };
    time::timeout(patience, tried).await.unwrap_or(Err(unknown))
}

/// Moves replicated time on while this node leads, every `interval`, by its own monotonic clock.
/// To be run on every node of the group, or no session ever expires; returns when the node stops.
/// While nobody leads, time stands still, so that no session ends in a gap.
pub async fn keep_time<R: Send + 'static>(node: Node<Answer<R>>, interval: Duration) {
    let mut known: Option<(u64, Instant)> = None;
    loop {
        time::sleep(interval).await;
        if node.fencing_token().is_none() {
            known = None;
            continue;
        }
        let asked_at = Instant::now();
        let (from_ms, since) = known.unwrap_or((0, asked_at));
        let passed = u64::try_from((asked_at - since).as_millis()).unwrap_or(u64::MAX);
        let frame = Frame::Time { from_ms, to_ms: from_ms.saturating_add(passed) };
        match node.propose(frame.encode()).await {
            Ok(Applied { response: Answer::Time(now_ms), .. }) => known = Some((now_ms, asked_at)),
            Err(ProposeError::Stopped) => return,
            // Whoever leads asks again for the time before it moves it.
            Ok(_) | Err(_) => known = None,
        }
    }
}

fn name<R>(answer: &Answer<R>) -> &'static str {
    match answer {
        Answer::Registered(_) => "a registration",
        Answer::Done(_) => "a response",
        Answer::Noted => "a note",
        Answer::Expired => "an expiry",
        Answer::Forgotten => "an answer that was given before",
        Answer::Crowded => "a crowd",
        Answer::Time(_) => "the time",
        Answer::Foreign => "a foreign entry",
    }
}
