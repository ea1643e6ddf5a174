//! Which endpoint is asked, how long, and whether the next one is: the table of the crate.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout_at};
use tonic::transport::Channel;
use tonic::{Response, Status};

use crate::endpoint::Endpoint;
use crate::error::{ClientError, Refusal, Verdict};
use crate::url::ClientUrl;

/// Between rounds of all endpoints: doubled with each, up to the second one.
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_millis(320);

/// How long to wait, and for what.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// Until a connection stands.
    pub dial: Duration,
    /// Until a call has its answer, however many endpoints are asked for it.
    pub command: Duration,
}

impl Default for Timeouts {
    /// Two seconds to connect, five for an answer.
    fn default() -> Self {
        Self { dial: Duration::from_secs(2), command: Duration::from_secs(5) }
    }
}

/// Whether a request may be sent again when nobody knows what became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// It changes nothing, or the same however often it is executed.
    Safe,
    /// Executed twice it may do harm.
    Never,
}

/// A client of some endpoints of one cluster. Clones share connections, and the endpoint that is
/// asked first: the first of the list, until it fails.
#[derive(Clone, Debug)]
pub struct Client {
    endpoints: Arc<[Arc<Endpoint>]>,
    current: Arc<AtomicUsize>,
    timeouts: Timeouts,
    asks_once: bool,
}

/// What an attempt at one endpoint came to.
enum Attempt<T> {
    Answered(T),
    NotSent(String),
    Failed(Verdict, Status),
}

/// What a call has learnt so far.
struct Tried {
    /// Of each endpoint, why it has not answered.
    reasons: Vec<Option<String>>,
    refused_here: Option<Status>,
    /// An endpoint may answer if it is asked again.
    may_answer: bool,
}

impl Client {
    /// A client of `endpoints`; connects when it is first asked.
    pub fn new(endpoints: Vec<ClientUrl>, timeouts: Timeouts) -> Self {
        let endpoints = endpoints.into_iter().map(|url| Arc::new(Endpoint::new(url))).collect();
        Self { endpoints, current: Arc::default(), timeouts, asks_once: false }
    }

    /// The same, with another time for answers.
    #[must_use]
    pub fn within(&self, command: Duration) -> Self {
        Self { timeouts: Timeouts { command, ..self.timeouts }, ..self.clone() }
    }

    /// The same, treating all calls like writes: for those who check what each single request
    /// came to.
    #[must_use]
    pub fn asking_once(&self) -> Self {
        Self { asks_once: true, ..self.clone() }
    }

    /// One client for each endpoint, in their order, over the same connections.
    pub fn each(&self) -> impl Iterator<Item = (ClientUrl, Self)> {
        self.endpoints.iter().map(|endpoint| {
            let client = Self {
                endpoints: [endpoint.clone()].into(),
                current: Arc::default(),
                ..self.clone()
            };
            (endpoint.url.clone(), client)
        })
    }

    /// How long this client waits.
    pub fn timeouts(&self) -> Timeouts {
        self.timeouts
    }

    /// Asks whatever there is to ask, as the table of the crate says: `ask` is called with the
    /// connection to one endpoint and the request, and again with another connection where this
    /// is safe.
    ///
    /// # Errors
    /// As the table says. [`ClientError::Unknown`] comes with [`Retry::Never`] only.
    pub async fn call<Q: Clone, T, F>(
        &self,
        retry: Retry,
        request: Q,
        ask: impl Fn(Channel, Q) -> F,
    ) -> Result<T, ClientError>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        let ask = |channel| ask(channel, request.clone());
        let retry = if self.asks_once { Retry::Never } else { retry };
        let deadline = Instant::now() + self.timeouts.command;
        let mut tried = Tried::new(self.endpoints.len());
        let mut pause = PAUSE_MIN;
        loop {
            if let Some(outcome) = self.round(retry, deadline, &ask, &mut tried).await {
                return outcome;
            }
            let next = Instant::now() + pause;
            if !tried.may_answer || next >= deadline {
                return Err(self.failure(tried));
            }
            sleep_until(next).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Asks each endpoint once, the current one first; `None` when all may be asked again.
    async fn round<T, F>(
        &self,
        retry: Retry,
        deadline: Instant,
        ask: &impl Fn(Channel) -> F,
        tried: &mut Tried,
    ) -> Option<Result<T, ClientError>>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        let count = self.endpoints.len();
        let first = self.current.load(Ordering::Relaxed);
        (tried.may_answer, tried.refused_here) = (false, None);
        for step in 0..count {
            let now = Instant::now();
            if now >= deadline {
                break;
            }
            // A silent endpoint takes its share of the time, and the others keep theirs.
            let share = (deadline - now) / u32::try_from(count - step).unwrap_or(u32::MAX);
            let until = match retry {
                Retry::Safe => now + share,
                Retry::Never => deadline,
            };
            let at = (first + step) % count;
            let endpoint = &self.endpoints[at];
            let reason = match self.attempt(endpoint, until, ask).await {
                Attempt::Answered(answer) => return Some(Ok(answer)),
                Attempt::NotSent(reason) => reason,
                Attempt::Failed(Verdict::Refused, status) => {
                    return Some(Err(ClientError::Refused(Refusal(status))));
                }
                Attempt::Failed(Verdict::RefusedHere, status) => {
                    tried.refused_here.insert(status).to_string()
                }
                Attempt::Failed(_, status) => {
                    let (endpoint, status) = (endpoint.url.clone(), Refusal(status));
                    if retry == Retry::Never {
                        self.leave(at);
                        return Some(Err(ClientError::Unknown { endpoint, status }));
                    }
                    tried.may_answer = true;
                    status.to_string()
                }
            };
            self.leave(at);
            tried.reasons[at] = Some(reason);
        }
        None
    }

    async fn attempt<T, F>(
        &self,
        endpoint: &Endpoint,
        until: Instant,
        ask: &impl Fn(Channel) -> F,
    ) -> Attempt<T>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        let connection = match endpoint.connect(self.timeouts.dial, until).await {
            Ok(connection) => connection,
            Err(reason) => return Attempt::NotSent(reason),
        };
        let started = Instant::now();
        let (status, is_broken) = match timeout_at(until, ask(connection.channel.clone())).await {
            Ok(Ok(answer)) => return Attempt::Answered(answer.into_inner()),
            Ok(Err(status)) => {
                let is_broken = std::error::Error::source(&status).is_some();
                (status, is_broken)
            }
            Err(_) => {
                let waited = format!("no answer within {:.1?}", until - started);
                (Status::deadline_exceeded(waited), true)
            }
        };
        if is_broken {
            endpoint.forget(&connection).await;
        }
        match Verdict::of(&status) {
            Verdict::NotSent => Attempt::NotSent(crate::error::root_cause(&status)),
            verdict => Attempt::Failed(verdict, status),
        }
    }

    /// Starts with another endpoint from now on, if this one is still the first.
    fn leave(&self, at: usize) {
        let next = (at + 1) % self.endpoints.len();
        let _ = self.current.compare_exchange(at, next, Ordering::Relaxed, Ordering::Relaxed);
    }

    fn failure(&self, tried: Tried) -> ClientError {
        if let (Some(status), false) = (tried.refused_here, tried.may_answer) {
            return ClientError::Refused(Refusal(status));
        }
        let reasons = self.endpoints.iter().zip(tried.reasons);
        let told = reasons.filter_map(|(endpoint, why)| Some((endpoint.url.clone(), why?)));
        ClientError::Unreachable(told.collect())
    }
}

impl Tried {
    fn new(count: usize) -> Self {
        Self { reasons: vec![None; count], refused_here: None, may_answer: false }
    }
}
