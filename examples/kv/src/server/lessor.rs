//! Ends the leases whose time is over, and renews the others: on the node that leads, and on no
//! other.
//!
//! ```text
//!   leadership ─▶ read (own term applied) ─▶ Tenure ─▶ expired, notes ─▶ log, with the term
//!   keep-alive ─▶ Renewals ─┬ leads ─▶ read (leadership confirmed) ─▶ Tenure::renew
//!                           └ follows ─▶ kontiki.Admin of the leader
//!   Machine ─▶ Lessor::learn: what the log has made of leases
//! ```
//! A node that was leader and does not know that its time is over confirms nothing, for the read
//! fails; what it wants to write comes to the log under another term, where it does nothing
//! (scenario B80).

mod renewals;
mod tenure;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use kontiki::{Consistency, LeadershipWatch, Term};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;
use tokio::time::{sleep, sleep_until};

use super::backend::{Backend, RETRY_PAUSE};
use crate::proto::kontiki::command::Action;
use crate::proto::kontiki::{LeaseCheckpoint, LeaseRevoke};
use crate::store::{StoreReader, encode};
use renewals::{Ask, LeaderLink, ROUND_MAX};
use tenure::Tenure;

/// How many revocations may be on their way into the log.
const REVOKES_MAX: usize = 64;
/// How long to wait before a lease is revoked again that could not be.
const REVOKE_PAUSE: Duration = Duration::from_millis(100);
/// Of how many leases is noted what is left in one entry.
const NOTES_MAX: usize = 1000;

/// Knows until when leases last while this node leads. Clones share it.
#[derive(Clone)]
pub(super) struct Lessor(Arc<Shared>);

struct Shared {
    reader: StoreReader,
    /// Only while this node leads, and has applied all that came before.
    tenure: Mutex<Option<Tenure>>,
    /// Something may be due earlier than before.
    changed: Notify,
    asks: mpsc::Sender<Ask>,
    leader: LeaderLink,
    /// How often is noted what is left of a lease.
    interval: Duration,
}

/// What came of something that was to be written.
enum Written {
    Revoke(LeaseRevoke, bool),
    Notes(Vec<i64>),
}

impl Lessor {
    /// For the store behind `reader`. What is left of a lease is noted in the log after each
    /// `interval`.
    pub fn new(reader: StoreReader, interval: Duration) -> (Self, mpsc::Receiver<Ask>) {
        let (asks, asked) = mpsc::channel(ROUND_MAX);
        let (tenure, changed, leader) = (Mutex::default(), Notify::new(), LeaderLink::default());
        let shared = Shared { reader, tenure, changed, asks, leader, interval };
        (Self(Arc::new(shared)), asked)
    }

    /// Takes in what was applied. Called in the order of the log.
    pub fn learn(&self, ids: &[i64]) {
        let mut tenure = self.tenure();
        let Some(tenure) = &mut *tenure else { return };
        for id in ids {
            tenure.learn(*id, self.0.reader.lease(*id), Instant::now());
        }
        self.0.changed.notify_one();
    }

    /// How many seconds leases have left, as far as they are there; `None` where this node does
    /// not lead.
    pub fn times(&self, ids: &[i64]) -> Option<Vec<Option<i64>>> {
        let now = Instant::now();
        let tenure = self.tenure();
        let tenure = tenure.as_ref()?;
        Some(ids.iter().map(|id| tenure.remaining(*id, now)).collect())
    }

    /// Does all this for a node, as long as it runs.
    pub async fn run(backend: Backend, asked: mpsc::Receiver<Ask>) {
        let lessor = &backend.lessor;
        tokio::select! {
            () = lessor.serve(&backend, asked) => {}
            () = lessor.lead(&backend) => {}
            _ = backend.node.stopped() => {}
        }
    }

    async fn lead(&self, backend: &Backend) {
        let mut leadership = backend.node.leadership();
        loop {
            let seen = leadership.current();
            let is_over = match seen.is_leader() {
                true => self.lead_in(backend, seen.term, &mut leadership).await.is_none(),
                false => leadership.changed().await.is_none(),
            };
            *self.tenure() = None;
            if is_over {
                return;
            }
        }
    }

    /// As long as this node leads in `term`; `None` when it stops.
    async fn lead_in(
        &self,
        backend: &Backend,
        term: Term,
        leadership: &mut LeadershipWatch,
    ) -> Option<()> {
        let leads = || backend.leads_in(term);
        // Until an entry of this term is applied, the store may lack what is committed.
        while let Err(error) = backend.node.read(Consistency::Linearizable).await {
            if !leads() {
                return Some(());
            }
            tracing::debug!(%error, "the lessor waits for its term to begin");
            sleep(RETRY_PAUSE).await;
        }
        if leads() {
            // Whatever is applied from here on is learned.
            let mut tenure = self.tenure();
            let (leases, now) = (self.0.reader.leases(), Instant::now());
            let grace = backend.config.election_timeout;
            *tenure = Some(Tenure::begin(term, &leases, now, grace, self.0.interval));
        }
        let (mut writing, mut revoking, mut is_noting) = (JoinSet::new(), 0, false);
        while leads() {
            let (revokes, notes, next_at) = self.due(REVOKES_MAX - revoking, is_noting);
            revoking += revokes.len();
            for revoke in revokes {
                writing.spawn(write_revoke(backend.clone(), revoke));
            }
            if let Some(checkpoint) = notes {
                is_noting = true;
                writing.spawn(write_notes(backend.clone(), checkpoint));
            }
            // While all hands are full, nothing is looked at.
            let next_at = next_at.filter(|_| revoking < REVOKES_MAX);
            let timer = sleep_until(next_at.unwrap_or_else(Instant::now).into());
            tokio::select! {
                changed = leadership.changed() => drop(changed?),
                Some(written) = writing.join_next() => match written {
                    Ok(Written::Revoke(revoke, is_done)) => {
                        revoking -= 1;
                        self.on_revoke(&revoke, is_done);
                    }
                    Ok(Written::Notes(ids)) => {
                        is_noting = false;
                        self.on_notes(ids);
                    }
                    Err(panic) => tracing::error!(%panic, "a write of the lessor has failed"),
                },
                () = self.0.changed.notified() => {}
                () = timer, if next_at.is_some() => {}
            }
        }
        Some(())
    }

    /// What is to be written now, and when there is more.
    fn due(
        &self,
        revokes_max: usize,
        is_noting: bool,
    ) -> (Vec<LeaseRevoke>, Option<LeaseCheckpoint>, Option<Instant>) {
        let mut tenure = self.tenure();
        let Some(tenure) = &mut *tenure else { return (Vec::new(), None, None) };
        let now = Instant::now();
        let revokes = tenure.expired(now, revokes_max);
        // One after the other: what is noted later is to be later in the log.
        let leases = if is_noting { Vec::new() } else { tenure.notes(now, NOTES_MAX) };
        let notes = LeaseCheckpoint { term: tenure.term().0, leases };
        let is_noting = is_noting || !notes.leases.is_empty();
        let next_at = if is_noting { tenure.next_end() } else { tenure.next_at() };
        (revokes, Some(notes).filter(|notes| !notes.leases.is_empty()), next_at)
    }

    fn on_revoke(&self, revoke: &LeaseRevoke, is_done: bool) {
        if let Some(tenure) = &mut *self.tenure()
            && !is_done
        {
            tenure.not_revoked(revoke, Instant::now() + REVOKE_PAUSE);
        }
    }

    fn on_notes(&self, ids: Vec<i64>) {
        if let Some(tenure) = &mut *self.tenure() {
            tenure.noted(ids, Instant::now());
        }
    }

    fn tenure(&self) -> MutexGuard<'_, Option<Tenure>> {
        // Should a panic have left half a change, leases last too long until the next leader.
        self.0.tenure.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Backend {
    /// Whether this node leads in `term`, as far as it knows. Asked after a read that was
    /// confirmed, the answer is that it led when the read began.
    fn leads_in(&self, term: Term) -> bool {
        let seen = self.node.leadership().current();
        seen.is_leader() && seen.term == term
    }
}

async fn write_revoke(backend: Backend, revoke: LeaseRevoke) -> Written {
    // That there is no such lease any more is as good. The term is checked where it is applied.
    let applied = backend.node.propose(encode(Action::LeaseRevoke(revoke))).await;
    Written::Revoke(revoke, applied.is_ok())
}

async fn write_notes(backend: Backend, checkpoint: LeaseCheckpoint) -> Written {
    let ids = checkpoint.leases.iter().map(|lease| lease.id).collect();
    let applied = backend.node.propose(encode(Action::LeaseCheckpoint(checkpoint))).await;
    if let Err(error) = applied {
        tracing::debug!(%error, "what is left of leases could not be noted");
    }
    Written::Notes(ids)
}
