//! The streams from one peer, and which of its processes they come from.
//!
//! A node that restarts comes as a new process (a new *session*) while the streams of the old
//! one may still seem open, because nobody has told this side that they are dead. But when a
//! data directory was copied, the old process lives, and the new one is its twin: both would
//! speak with one voice, and promise different things. The rule that tells them apart:
//!
//! 1. No stream of the older session is open: the newcomer is welcome. This is the restart.
//! 2. Else the older session is asked for a sign of life, on its own streams. While it is
//!    silent, the newcomer waits, for half of the greeting's time.
//! 3. It answers: these are twins. The newcomer is refused, as often as it comes, and
//!    reported. Messages of earlier are no answer: they may have been on their way already
//!    when their sender died.
//! 4. It stays silent: it is dead, or cut off. The newcomer takes over, and the older streams
//!    end. Should it live after all, it comes again, and is asked about in its turn.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use raft_core::{Envelope, Lane};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep};

use crate::peer::PerLane;
use crate::split::size_bytes;

/// How often a newcomer looks whether the older session has answered.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// How many questions wait to be asked on a stream.
const QUESTIONS_MAX: usize = 16;

/// The streams from one peer.
#[derive(Debug, Default)]
pub(crate) struct Readings(Mutex<State>);

/// Invariant: all streams in `lanes` are of `session`.
#[derive(Debug, Default)]
struct State {
    session: Option<u64>,
    lanes: PerLane<Option<Handle>>,
    received: PerLane<Received>,
    /// The newest question, and the newest that was answered. Numbers begin at one.
    asked: u64,
    answered: u64,
    /// It is no peer any more: no stream is read again.
    closed: bool,
}

/// One open stream, from outside. Dropped, it ends the stream.
#[derive(Debug)]
struct Handle {
    _end: oneshot::Sender<()>,
    questions: mpsc::Sender<u64>,
}

/// One open stream, from inside.
#[derive(Debug)]
pub(crate) struct Open {
    /// Resolves when the stream has to end.
    pub(crate) ended: oneshot::Receiver<()>,
    /// What to ask on it.
    pub(crate) questions: mpsc::Receiver<u64>,
}

/// What has come on a lane.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Received {
    pub(crate) messages: u64,
    /// As every bound counts them.
    pub(crate) bytes: u64,
}

impl Received {
    pub(crate) fn of(envelopes: &[Envelope]) -> Self {
        let bytes = envelopes.iter().map(|envelope| size_bytes(envelope) as u64).sum();
        Self { messages: envelopes.len() as u64, bytes }
    }
}

/// Two live processes of one identity.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Twins;

impl Readings {
    /// Lets `session` in, by the rule above.
    pub(crate) async fn admit(&self, session: u64, patience: Duration) -> Result<(), Twins> {
        let Some(question) = self.lock().admit_or_ask(session) else { return Ok(()) };
        let deadline = Instant::now() + patience;
        loop {
            sleep(LOOK_EVERY).await;
            let mut state = self.lock();
            if state.is_uncontested(session) || Instant::now() >= deadline {
                state.take_over(session);
                return Ok(());
            }
            if state.answered >= question {
                return Err(Twins);
            }
        }
    }

    /// A stream of `session` opens; an older one of the lane ends. `None` where another session
    /// was let in meanwhile, or nobody is any more.
    pub(crate) fn open(&self, lane: Lane, session: u64) -> Option<Open> {
        let mut state = self.lock();
        if state.closed || state.session != Some(session) {
            return None;
        }
        let (end, ended) = oneshot::channel();
        let (questions, to_ask) = mpsc::channel(QUESTIONS_MAX);
        *state.lanes.of_mut(lane) = Some(Handle { _end: end, questions });
        Some(Open { ended, questions: to_ask })
    }

    /// A batch has come on a stream of `session`.
    pub(crate) fn on_received(&self, lane: Lane, session: u64, new: Received, answer: u64) {
        let mut state = self.lock();
        let received = state.received.of_mut(lane);
        received.messages += new.messages;
        received.bytes += new.bytes;
        if state.session == Some(session) {
            state.answered = state.answered.max(answer.min(state.asked));
        }
    }

    /// Ends every stream.
    pub(crate) fn end(&self) {
        self.lock().lanes = PerLane::default();
    }

    /// Ends every stream, for good.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.lanes = PerLane::default();
    }

    pub(crate) fn is_live(&self, lane: Lane) -> bool {
        is_live(self.lock().lanes.of(lane))
    }

    pub(crate) fn is_any_live(&self) -> bool {
        self.lock().lanes.both().into_iter().any(is_live)
    }

    pub(crate) fn received(&self, lane: Lane) -> Received {
        *self.lock().received.of(lane)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_live(handle: &Option<Handle>) -> bool {
    // Its other end goes with the stream's reader.
    handle.as_ref().is_some_and(|handle| !handle.questions.is_closed())
}

impl State {
    /// Whether nothing speaks against `session`.
    fn is_uncontested(&self, session: u64) -> bool {
        self.session == Some(session) || !self.lanes.both().into_iter().any(is_live)
    }

    fn take_over(&mut self, session: u64) {
        if self.session.replace(session) != Some(session) {
            self.lanes = PerLane::default();
            self.answered = self.asked;
        }
    }

    /// Lets `session` in, or returns the number of the question put to the session before it.
    fn admit_or_ask(&mut self, session: u64) -> Option<u64> {
        if self.is_uncontested(session) {
            self.take_over(session);
            return None;
        }
        self.asked += 1;
        for handle in self.lanes.both().into_iter().flatten() {
            // Where so many wait, the stream is not read: it is as good as silent.
            let _ = handle.questions.try_send(self.asked);
        }
        Some(self.asked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_millis(100);

    /// A peer with an open stream of session 1.
    async fn with_one() -> (Readings, Open) {
        let readings = Readings::default();
        readings.admit(1, PATIENCE).await.expect("nobody is there");
        let open = readings.open(Lane::Control, 1).expect("let in");
        (readings, open)
    }

    #[tokio::test]
    async fn a_restart_is_let_in_at_once_when_the_old_stream_has_ended() {
        let (readings, open) = with_one().await;
        drop(open);
        let begun = Instant::now();
        assert_eq!(readings.admit(2, Duration::from_secs(60)).await, Ok(()));
        assert!(begun.elapsed() < Duration::from_secs(30));
        assert!(readings.open(Lane::Bulk, 1).is_none(), "the older session is over");
        assert!(readings.open(Lane::Bulk, 2).is_some());
    }

    #[tokio::test]
    async fn a_silent_stream_gives_way_and_old_messages_are_no_answer() {
        let (readings, mut open) = with_one().await;
        let (admitted, ()) = tokio::join!(readings.admit(2, PATIENCE), async {
            let _question = open.questions.recv().await.expect("asked");
            readings.on_received(Lane::Control, 1, Received { messages: 5, bytes: 0 }, 0);
        });
        assert_eq!(admitted, Ok(()));
        assert!(open.ended.await.is_err(), "the older stream ends");
    }

    #[tokio::test]
    async fn a_stream_that_answers_stays_and_the_other_is_a_twin() {
        let (readings, mut open) = with_one().await;
        let (admitted, ()) = tokio::join!(readings.admit(2, Duration::from_secs(60)), async {
            let question = open.questions.recv().await.expect("asked");
            readings.on_received(Lane::Control, 1, Received::default(), question);
        });
        assert_eq!(admitted, Err(Twins));
        assert!(readings.is_live(Lane::Control));
        assert_eq!(readings.admit(1, PATIENCE).await, Ok(()), "the first one is no twin");
    }
}
