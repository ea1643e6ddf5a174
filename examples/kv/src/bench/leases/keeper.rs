//! Keeps the leases of one client alive, on one stream. It believes the clock of the holder: a
//! renewal is worth what it says from when it was asked for, and one that comes later than the
//! lease lived has lost it. It never renews a lease twice at once.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use kontiki_client::proto::etcdserverpb::LeaseKeepAliveRequest;
use kontiki_client::proto::etcdserverpb::lease_client::LeaseClient;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;

use super::Stats;
use crate::cli::Failure;

/// Renewals that wait to be sent; whoever is behind this far waits for the store.
const SENDING_MAX: usize = 256;
/// When nothing is due.
const IDLE: Duration = Duration::from_secs(3600);

/// A lease that is held.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lease {
    id: i64,
    ttl: Duration,
    /// When the last successful renewal was sent.
    renewed_at: Instant,
}

impl Lease {
    pub(super) fn new(id: i64, ttl_s: i64, renewed_at: Instant) -> Self {
        Self { id, ttl: Duration::from_secs(ttl_s.try_into().unwrap_or(0)), renewed_at }
    }

    fn due(&self) -> Instant {
        self.renewed_at + self.ttl / 3
    }
}

/// Each lease is either in `waiting` or in `asked`.
pub(super) struct Keeper {
    stats: Arc<Stats>,
    /// Those to be renewed, by when.
    waiting: BinaryHeap<Reverse<(Instant, i64)>>,
    leases: HashMap<i64, Lease>,
    /// When the renewals were sent that are not answered.
    asked: HashMap<i64, Instant>,
    lost: usize,
}

impl Keeper {
    pub(super) fn new(stats: Arc<Stats>) -> Self {
        Self {
            stats,
            waiting: BinaryHeap::new(),
            leases: HashMap::new(),
            asked: HashMap::new(),
            lost: 0,
        }
    }

    /// Keeps all that `granted` brings, until whoever holds the other side of `end` lets go; how
    /// many were lost.
    pub(super) async fn run(
        mut self,
        channel: Channel,
        mut granted: mpsc::Receiver<Lease>,
        mut end: watch::Receiver<()>,
    ) -> Result<usize, Failure> {
        // A stream opens with its first request.
        let Some(first) = granted.recv().await else { return Ok(0) };
        let (requests, sent) = mpsc::channel(SENDING_MAX);
        self.leases.insert(first.id, first);
        self.asked.insert(first.id, Instant::now());
        requests.send(LeaseKeepAliveRequest { id: first.id }).await.map_err(Failure::new)?;
        let answers = LeaseClient::new(channel).lease_keep_alive(ReceiverStream::new(sent)).await;
        let mut answers = answers.map_err(Failure::new)?.into_inner();
        loop {
            let due = self.waiting.peek().map_or_else(|| Instant::now() + IDLE, |next| next.0.0);
            tokio::select! {
                Some(lease) = granted.recv() => self.on_granted(lease),
                answer = answers.message() => {
                    let answer = answer.map_err(Failure::new)?;
                    let answer = answer.ok_or_else(|| Failure::new("the renewals have ended"))?;
                    self.on_answer(answer.id, answer.ttl, Instant::now());
                }
                permit = async { sleep_until(due).await; requests.reserve().await } => {
                    let permit = permit.map_err(Failure::new)?;
                    if let Some(Reverse((_, id))) = self.waiting.pop() {
                        self.asked.insert(id, Instant::now());
                        permit.send(LeaseKeepAliveRequest { id });
                    }
                }
                _ = end.changed() => return Ok(self.lost_by(Instant::now())),
            }
        }
    }

    fn on_granted(&mut self, lease: Lease) {
        self.leases.insert(lease.id, lease);
        self.waiting.push(Reverse((lease.due(), lease.id)));
    }

    fn on_answer(&mut self, id: i64, ttl_s: i64, now: Instant) {
        let Some(sent_at) = self.asked.remove(&id) else { return };
        let Some(lease) = self.leases.get_mut(&id) else { return };
        self.stats.lock().took(now - sent_at);
        if ttl_s <= 0 || now >= lease.renewed_at + lease.ttl {
            self.leases.remove(&id);
            self.lost += 1;
            return;
        }
        *lease = Lease::new(id, ttl_s, sent_at);
        self.waiting.push(Reverse((lease.due(), id)));
    }

    /// With those whose time is over, though nobody has answered yet.
    fn lost_by(&self, now: Instant) -> usize {
        let over = |lease: &&Lease| now >= lease.renewed_at + lease.ttl;
        self.lost + self.leases.values().filter(over).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keeper_of_one(granted_at: Instant) -> Keeper {
        let mut keeper = Keeper::new(Arc::new(Stats::new()));
        keeper.on_granted(Lease::new(7, 9, granted_at));
        keeper
    }

    #[test]
    fn a_lease_is_renewed_when_a_third_of_its_time_is_over() {
        let start = Instant::now();
        let mut keeper = keeper_of_one(start);
        let due = |keeper: &Keeper| keeper.waiting.peek().map(|next| next.0.0);
        assert_eq!(due(&keeper), Some(start + Duration::from_secs(3)));
        keeper.waiting.pop();
        // What counts is when it was asked for, not when the answer came.
        let sent_at = start + Duration::from_secs(3);
        keeper.asked.insert(7, sent_at);
        keeper.on_answer(7, 9, start + Duration::from_secs(5));
        assert_eq!(due(&keeper), Some(sent_at + Duration::from_secs(3)));
        assert_eq!(keeper.lost_by(start + Duration::from_secs(5)), 0);
        assert_eq!(keeper.stats.lock().latency_us.len(), 1);
    }

    #[test]
    fn a_lease_is_lost_when_the_store_says_so_or_the_answer_is_late_or_never_comes() {
        let start = Instant::now();
        let after = |s| start + Duration::from_secs(s);
        for (ttl_s, answered_at) in [(0, after(4)), (9, after(9))] {
            let mut keeper = keeper_of_one(start);
            keeper.waiting.pop();
            keeper.asked.insert(7, after(3));
            keeper.on_answer(7, ttl_s, answered_at);
            assert_eq!(keeper.lost_by(answered_at), 1, "{ttl_s}");
            assert!(keeper.waiting.is_empty(), "it is not asked for again");
        }
        assert_eq!(keeper_of_one(start).lost_by(after(8)), 0);
        assert_eq!(keeper_of_one(start).lost_by(after(9)), 1);
    }
}
