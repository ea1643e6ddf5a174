//! A session: a lease that is kept alive in the background, and a deadline of our own after which
//! nobody here believes in it any more. It never asks the cluster whether the lease is still alive:
//! an answer to that may be old, and only a renewal that was granted moves the deadline.
//!
//! ```text
//!          send time of the last renewal that was granted
//!          │◄──────────────── time to live ────────────────►│
//!  ────────┼──────────────┬───────────────────┬─────────────┼───────► the cluster may give
//!          │   renewals every third of it     │◄── margin ──►│         the lease up from here on
//!          └──────────────┴───────────────────┤
//!                                          deadline: the session is lost, for good
//! ```
//!
//! *Who is trusted*: the cluster, that it keeps a lease for its whole time to live after a renewal
//! reached it; the clock of this machine, that it runs at most `margin / ttl` slower than the
//! cluster's. No clock is compared with another.
//!
//! *What it costs*: one small call every third of the time to live.

use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use kontiki_client::proto::etcdserverpb::LeaseGrantRequest;
use kontiki_client::proto::etcdserverpb::LeaseRevokeRequest;
use kontiki_client::proto::etcdserverpb::lease_client::LeaseClient;
use kontiki_client::{Client, ClientError, Retry};
use tokio::sync::{Mutex as Seat, OwnedMutexGuard};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::clock::Moment;
use crate::store::is_not_found;

/// Pauses between renewals that got no answer: short against any time to live.
const RETRY_MIN: Duration = Duration::from_millis(20);
const RETRY_MAX: Duration = Duration::from_millis(500);

/// How long a session lives without a renewal, and how early it gives itself up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionOptions {
    /// What the cluster is asked for, in whole seconds; it may grant more, never less.
    pub ttl: Duration,
    /// How long before the cluster may give the lease up the session is lost here: time for
    /// leader work to end, and for clocks that run at different speeds.
    pub margin: Duration,
}

/// Why there is no session.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// Leases count whole seconds.
    #[error("a session's time to live is a whole number of seconds, at least one: not {0:?}")]
    Ttl(Duration),
    /// Too little would be left to renew it in.
    #[error("the margin {margin:?} leaves less than half of the time to live {ttl:?}")]
    Margin {
        /// As asked for.
        margin: Duration,
        /// As asked for.
        ttl: Duration,
    },
    /// The cluster granted no lease, or nobody knows; a lease that nobody holds ends by itself.
    #[error(transparent)]
    Store(#[from] ClientError),
}

/// The session is lost: what it held may be another's by now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the session is lost: what it held may be another's by now; stop, and open a new one")]
pub struct SessionLost;

/// A lease that is kept alive. Clones are the same session; when the last one is dropped it is no
/// longer renewed, and ends with its time to live.
#[derive(Clone, Debug)]
pub struct Session {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    shared: Arc<Shared>,
    renewals: JoinHandle<()>,
    /// Who of this process is in which queue: the key of a place has room for one.
    seats: Mutex<HashMap<Bytes, Arc<Seat<()>>>>,
}

#[derive(Debug)]
struct Shared {
    client: Client,
    lease: i64,
    ttl: Duration,
    margin: Duration,
    /// `None` once it is lost: no late answer brings it back.
    deadline: Mutex<Option<Moment>>,
    lost: CancellationToken,
}

impl SessionOptions {
    /// This time to live, and a tenth of it for the margin.
    pub fn new(ttl: Duration) -> Self {
        Self { ttl, margin: ttl / 10 }
    }

    fn check(self) -> Result<i64, SessionError> {
        let Self { ttl, margin } = self;
        match i64::try_from(ttl.as_secs()) {
            Ok(seconds @ 1..) if ttl.subsec_nanos() == 0 => {
                if margin > ttl / 2 {
                    return Err(SessionError::Margin { margin, ttl });
                }
                Ok(seconds)
            }
            Ok(_) | Err(_) => Err(SessionError::Ttl(ttl)),
        }
    }
}

impl Session {
    /// Takes a lease and keeps it alive. Calls of its recipes take as long as those of `client`
    /// may; renewals have times of their own, and share its connections.
    ///
    /// # Errors
    /// When the options make no sense, or no lease is granted.
    pub async fn open(client: &Client, options: SessionOptions) -> Result<Self, SessionError> {
        let ttl = options.check()?;
        let asked_at = Moment::now();
        let granted = client.lease_grant(LeaseGrantRequest { ttl, id: 0 }).await?;
        let ttl = seconds(granted.ttl);
        let shared = Arc::new(Shared {
            client: client.clone(),
            lease: granted.id,
            ttl,
            margin: options.margin,
            deadline: Mutex::new(Some(deadline(asked_at, ttl, options.margin))),
            lost: CancellationToken::new(),
        });
        let renewals = tokio::spawn(keep_alive(shared.clone(), asked_at));
        Ok(Self { inner: Arc::new(Inner { shared, renewals, seats: Mutex::default() }) })
    }

    /// The id of the lease, for keys that are to go with the session.
    pub fn lease(&self) -> i64 {
        self.inner.shared.lease
    }

    /// The time to live that was granted.
    pub fn ttl(&self) -> Duration {
        self.inner.shared.ttl
    }

    /// The client that the session stands on.
    pub fn client(&self) -> &Client {
        &self.inner.shared.client
    }

    /// Whether the deadline is still to come. Looks at the clock each time, so that it is right in
    /// the first moment after a pause, before any timer has fired. Once false, always false.
    pub fn is_alive(&self) -> bool {
        self.inner.shared.is_alive()
    }

    /// How long it is alive if no renewal succeeds any more.
    pub fn remaining(&self) -> Duration {
        self.inner.shared.deadline().map_or(Duration::ZERO, Moment::remaining)
    }

    /// Cancelled when the session is lost or closed, even while every call hangs.
    pub fn lost(&self) -> CancellationToken {
        self.inner.shared.lost.clone()
    }

    /// Does `work` while the session is alive: looks at the clock before each of its steps, and
    /// drops it at the deadline.
    ///
    /// # Errors
    /// [`SessionLost`] when the deadline came first; how much of the work is done is not known.
    pub async fn run<T>(&self, work: impl Future<Output = T>) -> Result<T, SessionLost> {
        let mut work = pin!(work);
        let mut end = pin!(self.inner.shared.end());
        poll_fn(|context| {
            if end.as_mut().poll(context).is_ready() || !self.is_alive() {
                return Poll::Ready(Err(SessionLost));
            }
            work.as_mut().poll(context).map(Ok)
        })
        .await
    }

    /// Ends the session, and what goes with its lease at once. Takes as long as a call of the
    /// client at most, and may be repeated.
    ///
    /// # Errors
    /// When no endpoint answers: then the lease ends with its time to live.
    pub async fn close(&self) -> Result<(), ClientError> {
        let shared = &self.inner.shared;
        shared.give_up();
        self.inner.renewals.abort();
        let request = LeaseRevokeRequest { id: shared.lease };
        // Safe to repeat: an id is not given out a second time.
        let revoked = shared.client.call(Retry::Safe, request, |channel, request| async move {
            LeaseClient::new(channel).lease_revoke(request).await
        });
        match revoked.await {
            Ok(_) => Ok(()),
            Err(error) if is_not_found(&error) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The cluster says that there is no such lease: no need to wait for the deadline.
    pub(crate) fn give_up(&self) {
        self.inner.shared.give_up();
    }

    /// The right to one place under `key`, for one task of this process at a time.
    pub(crate) async fn seat(&self, key: &Bytes) -> Result<OwnedMutexGuard<()>, SessionLost> {
        let seat = {
            let mut seats = locked(&self.inner.seats);
            seats.retain(|_, seat| Arc::strong_count(seat) > 1);
            seats.entry(key.clone()).or_default().clone()
        };
        self.run(seat.lock_owned()).await
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.renewals.abort();
        self.shared.give_up();
    }
}

impl Shared {
    /// The deadline, unless it has passed.
    fn deadline(&self) -> Option<Moment> {
        let mut deadline = locked(&self.deadline);
        if deadline.is_some_and(|deadline| deadline <= Moment::now()) {
            *deadline = None;
            self.lost.cancel();
        }
        *deadline
    }

    fn is_alive(&self) -> bool {
        self.deadline().is_some()
    }

    fn give_up(&self) {
        *locked(&self.deadline) = None;
        self.lost.cancel();
    }

    /// Returns when the session is lost, at the deadline and no later than a timer fires.
    async fn end(&self) {
        while let Some(deadline) = self.deadline() {
            tokio::select! {
                () = self.lost.cancelled() => {}
                () = sleep(deadline.remaining()) => {}
            }
        }
    }

    /// A renewal that was sent at `sent_at` is granted. It is nothing to a session that is lost.
    fn extend(&self, sent_at: Moment, ttl: Duration) {
        let Some(old) = self.deadline() else { return };
        let new = deadline(sent_at, ttl, self.margin);
        if let Some(deadline) = &mut *locked(&self.deadline) {
            *deadline = old.max(new);
        }
    }

    /// One renewal; when it was sent. It has a third of the time to live, which its endpoints
    /// share, so that one that hangs leaves time for others, and for another round.
    async fn renew(&self) -> Result<Moment, ClientError> {
        let (began, began_at) = (Moment::now(), Instant::now());
        let renewed = self.client.within(self.ttl / 3).keep_alive_once(self.lease).await?;
        let sent_at = began + renewed.sent_at.duration_since(began_at);
        self.extend(sent_at, seconds(renewed.ttl_s));
        Ok(sent_at)
    }
}

/// Renews until the session is lost.
async fn keep_alive(shared: Arc<Shared>, granted_at: Moment) {
    let period = shared.ttl / 3;
    let mut next = granted_at + period;
    loop {
        let renewal = async {
            sleep(next.remaining()).await;
            shared.renew().await
        };
        let outcome = tokio::select! {
            biased;
            () = shared.end() => return,
            outcome = renewal => outcome,
        };
        next = match outcome {
            Ok(sent_at) => sent_at + period,
            Err(error) if is_not_found(&error) => return shared.give_up(),
            Err(_) => Moment::now() + (shared.ttl / 50).clamp(RETRY_MIN, RETRY_MAX),
        };
    }
}

fn deadline(sent_at: Moment, ttl: Duration, margin: Duration) -> Moment {
    sent_at + ttl.saturating_sub(margin)
}

fn seconds(ttl: i64) -> Duration {
    Duration::from_secs(u64::try_from(ttl).unwrap_or(0))
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
