//! One session: a lease, a key that goes with it, and its renewal. It believes its own clock
//! alone, and never that an answer which took long is worth more than when it was asked for.

use std::time::Duration;

use kontiki_client::proto::etcdserverpb::{LeaseGrantRequest, PutRequest};
use kontiki_client::{Client, ClientError};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout_at};

/// After a renewal that failed, before the next attempt.
const PAUSE: Duration = Duration::from_millis(50);

/// A lease that is held.
pub(super) struct Session {
    client: Client,
    lease: i64,
    ttl: Duration,
    /// When the last successful renewal was sent.
    renewed_at: Instant,
}

/// What became of sessions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Kept {
    pub(super) lost: usize,
    pub(super) renewals: u64,
    pub(super) longest_pause: Duration,
    pub(super) least_left: Option<Duration>,
}

impl Kept {
    pub(super) fn add(&mut self, other: &Self) {
        self.lost += other.lost;
        self.renewals += other.renewals;
        self.longest_pause = self.longest_pause.max(other.longest_pause);
        self.least_left = match (self.least_left, other.least_left) {
            (Some(one), Some(two)) => Some(one.min(two)),
            (one, two) => one.or(two),
        };
    }
}

impl Session {
    /// A new lease, and the key that goes with it.
    pub(super) async fn open(client: Client, key: String, ttl_s: u32) -> Result<Self, ClientError> {
        let renewed_at = Instant::now();
        let request = LeaseGrantRequest { ttl: ttl_s.into(), id: 0 };
        let granted = client.lease_grant(request).await?;
        client.put(PutRequest::new(key, "held").with_lease(granted.id)).await?;
        let ttl = seconds(granted.ttl);
        let client = client.within(ttl / 3);
        Ok(Self { client, lease: granted.id, ttl, renewed_at })
    }

    /// Renews it until it is lost, or until whoever holds the other side of `end` lets go.
    pub(super) async fn keep(mut self, mut end: watch::Receiver<()>) -> Kept {
        let mut kept = Kept::default();
        loop {
            sleep_until(self.renewed_at + self.ttl / 3).await;
            if end.has_changed().is_err() {
                return kept;
            }
            let renewal = tokio::select! {
                renewal = self.renew(&mut kept) => renewal,
                _ = end.changed() => return kept,
            };
            if renewal == Renewal::Lost {
                kept.lost = 1;
                return kept;
            }
        }
    }

    /// Asks until it is renewed, or until its time is over.
    async fn renew(&mut self, kept: &mut Kept) -> Renewal {
        let lost_at = self.renewed_at + self.ttl;
        loop {
            match timeout_at(lost_at, self.client.keep_alive_once(self.lease)).await {
                Ok(Ok(renewed)) => {
                    let left = lost_at.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return Renewal::Lost; // Whoever worked on until now had no lease to do so.
                    }
                    kept.add(&Kept {
                        lost: 0,
                        renewals: 1,
                        longest_pause: renewed.sent_at - self.renewed_at,
                        least_left: Some(left),
                    });
                    (self.renewed_at, self.ttl) = (renewed.sent_at, seconds(renewed.ttl_s));
                    return Renewal::Done;
                }
                Err(_) | Ok(Err(ClientError::Refused(_))) => return Renewal::Lost,
                Ok(Err(ClientError::Unreachable(_) | ClientError::Unknown { .. })) => {
                    sleep_until((Instant::now() + PAUSE).min(lost_at)).await;
                }
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Renewal {
    Done,
    Lost,
}

fn seconds(count: i64) -> Duration {
    Duration::from_secs(count.try_into().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_sessions_the_worst_is_told() {
        let kept = |renewals, pause, left| Kept {
            lost: 0,
            renewals,
            longest_pause: Duration::from_secs(pause),
            least_left: Some(Duration::from_secs(left)),
        };
        let mut all = Kept::default();
        all.add(&kept(3, 2, 3));
        all.add(&Kept { lost: 1, ..Kept::default() });
        all.add(&kept(4, 4, 1));
        assert_eq!(all, Kept { lost: 1, ..kept(7, 4, 1) });
    }
}
