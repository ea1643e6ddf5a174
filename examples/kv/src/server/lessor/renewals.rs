//! Renewals, many at a time: what waits goes together, one round after the other.
//!
//! However many leases are kept alive, a round confirms leadership once, and a follower has one
//! call under way to the leader. What nobody can say yet is asked again, until it has taken as
//! long as a request may take.

use std::time::Duration;

use kontiki::{Consistency, NodeId};
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::time::{Instant, sleep_until, timeout};
use tonic::Status;
use tonic::transport::Channel;

use super::tenure::Renewal;
use super::{Backend, Lessor};
use crate::proto::kontiki::LeasesRequest;
use crate::proto::kontiki::admin_client::AdminClient;
use crate::server::backend::{no_leader, stopped, timed_out};

/// How many renewals wait to be taken up, and how many are in one round.
pub(super) const ROUND_MAX: usize = 4096;
/// How many wait to be asked again.
const WAITING_MAX: usize = 16 << 10;
/// How long they do.
const AGAIN_PAUSE: Duration = Duration::from_millis(20);

/// What a member answers to another for a lease of which nobody can say anything yet.
const LATER: i64 = -1;

/// Somebody waits for a lease to be renewed.
pub(in crate::server) struct Ask {
    id: i64,
    /// When it has taken too long.
    deadline: Instant,
    answer: oneshot::Sender<i64>,
}

/// The way to the leader, while nobody is on it.
pub(super) type LeaderLink = Mutex<Option<(NodeId, AdminClient<Channel>)>>;

impl Backend {
    /// Begins to renew a lease, wherever it is led. Waits only while too many others do.
    pub(in crate::server) async fn renew(&self, id: i64) -> Result<oneshot::Receiver<i64>, Status> {
        let (answer, answered) = oneshot::channel();
        let ask = Ask { id, deadline: self.deadline(), answer };
        self.lessor.0.asks.send(ask).await.map_err(|_| stopped())?;
        Ok(answered)
    }

    /// What came of it: the lease's TTL, or 0 where there is no such lease.
    pub(in crate::server) async fn renewed(
        &self,
        answered: oneshot::Receiver<i64>,
    ) -> Result<i64, Status> {
        let leader = || self.node.leadership().current().leader;
        answered.await.map_err(|_| match leader() {
            Some(_) => timed_out(),
            None => no_leader(),
        })
    }

    /// How many seconds the lease has left, as its leader knows; `None` where it is gone.
    pub(in crate::server) async fn lease_time(&self, id: i64) -> Result<Option<i64>, Status> {
        let deadline = self.deadline();
        loop {
            let times = match self.lease_times_here(&[id]).await? {
                Some(times) => Some(times),
                None => self.ask_leader(&[id], Errand::Times).await,
            };
            if let Some(Some(time)) = times.map(|times| times.first().copied()) {
                return Ok(Some(time).filter(|time| *time >= 0));
            }
            if Instant::now() >= deadline {
                return Err(timed_out());
            }
            sleep_until(Instant::now() + AGAIN_PAUSE).await;
        }
    }

    /// How many seconds leases have left, −1 where one is gone; `None` where another node leads.
    pub(in crate::server) async fn lease_times_here(
        &self,
        ids: &[i64],
    ) -> Result<Option<Vec<i64>>, Status> {
        self.linearizable().await?;
        let times = self.lessor.times(ids);
        Ok(times.map(|times| times.into_iter().map(|time| time.unwrap_or(-1)).collect()))
    }

    /// Renews leases that another member was asked to renew; `None` where this one does not lead.
    pub(in crate::server) async fn renew_here(&self, ids: &[i64]) -> Option<Vec<i64>> {
        let renewals = self.try_here(ids).await?;
        let ttl = |renewal: Renewal| match renewal {
            Renewal::Renewed(ttl) => ttl,
            Renewal::Gone => 0,
            Renewal::Later => LATER,
        };
        Some(renewals.into_iter().map(ttl).collect())
    }

    async fn try_here(&self, ids: &[i64]) -> Option<Vec<Renewal>> {
        let term = self.lessor.tenure().as_ref()?.term();
        // A round of messages that begins now: whoever leads later was elected after it.
        self.node.read(Consistency::Linearizable).await.ok()?;
        if !self.leads_in(term) {
            return None;
        }
        let renewals = {
            let mut tenure = self.lessor.tenure();
            let tenure = tenure.as_mut().filter(|tenure| tenure.term() == term)?;
            let now = std::time::Instant::now();
            ids.iter().map(|id| tenure.renew(*id, now)).collect::<Vec<_>>()
        };
        if renewals.contains(&Renewal::Later) {
            self.lessor.0.changed.notify_one();
        }
        Some(renewals)
    }

    async fn try_there(&self, ids: &[i64]) -> Option<Vec<Renewal>> {
        let renewal = |ttl: i64| match ttl {
            0 => Renewal::Gone,
            1.. => Renewal::Renewed(ttl),
            _ => Renewal::Later,
        };
        let ttls = self.ask_leader(ids, Errand::Renew).await?;
        Some(ttls.into_iter().map(renewal).collect())
    }

    /// Asks the leader, which must be another node, for a number for each lease.
    async fn ask_leader(&self, ids: &[i64], errand: Errand) -> Option<Vec<i64>> {
        let leader = self.node.leadership().current().leader.filter(|id| *id != self.id)?;
        let link = self.lessor.0.leader.lock().await.take();
        let mut admin = match link.filter(|(to, _)| *to == leader) {
            Some((_, admin)) => admin,
            None => self.admin_of_leader(self.deadline()).await?,
        };
        let request = LeasesRequest { ids: ids.to_vec() };
        let answer = match errand {
            Errand::Renew => admin.renew_leases(request).await,
            Errand::Times => admin.lease_times(request).await,
        };
        let numbers = answer.ok()?.into_inner().numbers;
        *self.lessor.0.leader.lock().await = Some((leader, admin));
        Some(numbers).filter(|numbers| numbers.len() == ids.len())
    }
}

/// What the leader is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Errand {
    Renew,
    Times,
}

impl Lessor {
    /// Renews what waits, as long as the node runs.
    pub(super) async fn serve(&self, backend: &Backend, mut asks: mpsc::Receiver<Ask>) {
        let (mut waiting, mut round) = (Vec::new(), Vec::new());
        let mut again_at = Instant::now();
        loop {
            tokio::select! {
                count = asks.recv_many(&mut round, ROUND_MAX), if waiting.len() < WAITING_MAX => {
                    if count == 0 {
                        return;
                    }
                }
                () = sleep_until(again_at), if !waiting.is_empty() => round.append(&mut waiting),
            }
            let ids: Vec<i64> = round.iter().map(|ask: &Ask| ask.id).collect();
            let renewals = try_to_renew(backend, &ids).await;
            let now = Instant::now();
            if waiting.is_empty() {
                again_at = now + AGAIN_PAUSE;
            }
            for (place, ask) in round.drain(..).enumerate() {
                // Whoever has gone needs no answer.
                let _ = match renewals.as_ref().map_or(Renewal::Later, |all| all[place]) {
                    Renewal::Renewed(ttl) => ask.answer.send(ttl),
                    Renewal::Gone => ask.answer.send(0),
                    Renewal::Later if ask.deadline > now => {
                        waiting.push(ask);
                        Ok(())
                    }
                    Renewal::Later => Ok(()),
                };
            }
        }
    }
}

/// One round; `None` where nobody can say anything. It does not outlast the leadership that it
/// began under.
async fn try_to_renew(backend: &Backend, ids: &[i64]) -> Option<Vec<Renewal>> {
    let mut leadership = backend.node.leadership();
    let seen = leadership.current();
    let attempt = async {
        if seen.is_leader() { backend.try_here(ids).await } else { backend.try_there(ids).await }
    };
    tokio::select! {
        renewals = timeout(backend.config.election_timeout, attempt) => renewals.ok().flatten(),
        _ = leadership.wait_for(|now| now != seen) => None,
    }
}
