//! Leader election the way of Kubernetes: one record that the leader renews, and that another may
//! take once it has not changed for as long as it says. It never compares the record's times with
//! a clock: a candidate counts, on its own clock, from when it last saw the record change.
//!
//! ```text
//!  leader     renew ── renew ── renew ─ ✗ ─ ✗ ─ ✗ ─┤ renew deadline: stopped
//!  candidate    seen     seen     seen ─────────────────────┤ lease duration: takes the record
//! ```
//!
//! *Guarantees*: at most one leads of those whose clocks run equally fast, as the renew deadline is
//! shorter than the lease duration; a paused leader may believe it leads until it looks at the
//! clock, so writes carry the token. *Who is trusted*: the cluster, for one write at a time; the
//! speed of clocks. Identities have to be unique: one that restarts under the same need not wait.
//! *Costs*: a read every retry period for each candidate, a write for the leader, also when nothing
//! happens; failover takes up to the lease duration, where an
//! [`election`](crate::election) hands over as soon as a lease ends.

use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use kontiki_client::proto::etcdserverpb::{Compare, PutRequest, TxnRequest};
use kontiki_client::proto::mvccpb::KeyValue;
use kontiki_client::{Client, ClientError};
use serde::{Deserialize, Serialize};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::clock::Moment;
use crate::fence::Token;
use crate::store::revision;

/// Who stands for election, where, and how patiently.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElectorOptions {
    /// The key of the record.
    pub key: String,
    /// Who this is; nobody else may be called so.
    pub identity: String,
    /// How long others leave a record alone that does not change; in whole seconds.
    pub lease_duration: Duration,
    /// How long the leader tries to renew before it stops.
    pub renew_deadline: Duration,
    /// Between two tries, of the leader and of others.
    pub retry_period: Duration,
}

/// What makes no sense about options.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ElectorError {
    /// The record counts whole seconds.
    #[error("the lease duration is a whole number of seconds, at least one: not {0:?}")]
    LeaseDuration(Duration),
    /// Others would take the record from a leader that still believes in it.
    #[error("the renew deadline {0:?} must be shorter than the lease duration")]
    RenewDeadline(Duration),
    /// One failed try would be the last.
    #[error("the retry period {0:?} must be above zero and shorter than the renew deadline")]
    RetryPeriod(Duration),
    /// Nobody holds a record without a name.
    #[error("the identity must not be empty")]
    Identity,
}

/// What happens to a candidate. Calls are made in order, by the task that runs the elector: none
/// may block.
pub trait Candidate {
    /// This candidate leads, with a token larger than that of every leader before. `until` is
    /// cancelled before [`stopped`](Self::stopped) is called, and all work has to end with it.
    fn started(&mut self, token: Token, until: CancellationToken);
    /// This candidate leads no more; called once for each `started`.
    fn stopped(&mut self);
    /// Somebody leads who did not when it was told last, this candidate included.
    fn new_leader(&mut self, identity: &str);
}

/// The record, field by field as Kubernetes has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// Who leads; empty: nobody, it was released.
    pub holder_identity: String,
    /// How long it is left alone while it does not change.
    pub lease_duration_seconds: u64,
    /// When its holder came, by its own clock; for people only.
    pub acquire_time: String,
    /// When it was last renewed, by the holder's clock; for people only.
    pub renew_time: String,
    /// How often it was acquired.
    pub lease_transitions: u64,
}

/// Stands for election until it is told to end.
#[derive(Debug)]
pub struct LeaseElector {
    client: Client,
    options: ElectorOptions,
    seen: Option<Seen>,
    told: String,
}

/// The record as it was last read.
#[derive(Debug)]
struct Seen {
    record: Record,
    mod_revision: i64,
    /// The read that found it so was sent at this moment, or later.
    changed_at: Moment,
}

/// A term of this candidate.
struct Term {
    record: Record,
    /// Of the record as this leader wrote it last.
    mod_revision: i64,
    deadline: Moment,
}

impl ElectorOptions {
    /// Kubernetes' own times: fifteen seconds, ten, and two.
    pub fn new(key: impl Into<String>, identity: impl Into<String>) -> Self {
        Self {
            key: key.into(),
            identity: identity.into(),
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        }
    }

    fn check(&self) -> Result<(), ElectorError> {
        let Self { lease_duration, renew_deadline, retry_period, .. } = *self;
        if lease_duration.as_secs() == 0 || lease_duration.subsec_nanos() != 0 {
            return Err(ElectorError::LeaseDuration(lease_duration));
        }
        if renew_deadline >= lease_duration {
            return Err(ElectorError::RenewDeadline(renew_deadline));
        }
        if retry_period.is_zero() || retry_period >= renew_deadline {
            return Err(ElectorError::RetryPeriod(retry_period));
        }
        if self.identity.is_empty() { Err(ElectorError::Identity) } else { Ok(()) }
    }
}

impl LeaseElector {
    /// A candidate.
    ///
    /// # Errors
    /// When the options make no sense.
    pub fn new(client: &Client, options: ElectorOptions) -> Result<Self, ElectorError> {
        options.check()?;
        // A try that hangs ends in time for the next one.
        let client = client.within(options.retry_period);
        Ok(Self { client, options, seen: None, told: String::new() })
    }

    /// Leads whenever it can, any number of times, until `cancel`; then it releases the record, so
    /// that nobody has to wait. Errors of the cluster are tried again.
    pub async fn run(mut self, candidate: &mut impl Candidate, cancel: CancellationToken) {
        while let Some(term) = cancel.run_until_cancelled(self.acquire(candidate)).await {
            let until = CancellationToken::new();
            let token = Token::of_revision(term.mod_revision);
            self.tell(candidate, term.record.holder_identity.clone());
            candidate.started(token, until.clone());
            let released = self.lead(term, &cancel).await;
            until.cancel();
            candidate.stopped();
            if let Some(term) = released {
                self.release(term).await;
            }
        }
    }

    /// Waits until the record is free, and takes it.
    async fn acquire(&mut self, candidate: &mut impl Candidate) -> Term {
        loop {
            if let Ok(Some(term)) = self.try_acquire(candidate).await {
                return term;
            }
            // Candidates that all came at once do not ask at once for ever.
            sleep(self.options.retry_period.mul_f64(rand::random_range(1.0..1.2))).await;
        }
    }

    async fn try_acquire(
        &mut self,
        candidate: &mut impl Candidate,
    ) -> Result<Option<Term>, ClientError> {
        self.look().await?;
        let (transitions, mod_revision) = match &self.seen {
            None => (0, 0),
            Some(seen) => {
                let held_for = Duration::from_secs(seen.record.lease_duration_seconds);
                let ours = seen.record.holder_identity == self.options.identity;
                let free = ours || seen.record.holder_identity.is_empty();
                if !free && Moment::now() < seen.changed_at + held_for {
                    let holder = seen.record.holder_identity.clone();
                    self.tell(candidate, holder);
                    return Ok(None);
                }
                (seen.record.lease_transitions + 1, seen.mod_revision)
            }
        };
        let now = time();
        let record = Record {
            holder_identity: self.options.identity.clone(),
            lease_duration_seconds: self.options.lease_duration.as_secs(),
            acquire_time: now.clone(),
            renew_time: now,
            lease_transitions: transitions,
        };
        let sent_at = Moment::now();
        let deadline = sent_at + self.options.renew_deadline;
        // Of an unknown outcome the next look tells: a record of ours may be taken again.
        let written = self.write(&record, mod_revision).await?;
        let term = written.map(|mod_revision| Term { record, mod_revision, deadline });
        Ok(term.filter(|_| Moment::now() < deadline))
    }

    /// Leads until the renew deadline, or until the record is another's; if it is told to end
    /// before, what there is to release.
    async fn lead(&mut self, mut term: Term, cancel: &CancellationToken) -> Option<Term> {
        loop {
            let remaining = term.deadline.remaining();
            let renewal = async {
                sleep(self.options.retry_period).await;
                self.renew(&mut term).await
            };
            let outcome = tokio::select! {
                biased;
                () = cancel.cancelled() => None,
                () = sleep(remaining) => return None,
                outcome = renewal => Some(outcome),
            };
            match outcome {
                None => return Some(term),
                Some(Ok(true)) | Some(Err(_)) if Moment::now() < term.deadline => {}
                Some(_) => return None,
            }
        }
    }

    /// Writes the record again; whether it is still ours.
    async fn renew(&self, term: &mut Term) -> Result<bool, ClientError> {
        let sent_at = Moment::now();
        let record = Record { renew_time: time(), ..term.record.clone() };
        let written = match self.write(&record, term.mod_revision).await? {
            Some(mod_revision) => mod_revision,
            // Perhaps this leader's own, of which it never heard: writes of others have another
            // holder or another transition.
            None => match self.read().await? {
                Some((found, mod_revision)) if is_same_term(&found, &record) => {
                    term.mod_revision = mod_revision;
                    // A read extends nothing: the deadline waits for the next write.
                    return Ok(true);
                }
                Some(_) | None => return Ok(false),
            },
        };
        let deadline = sent_at + self.options.renew_deadline;
        *term = Term { record, mod_revision: written, deadline };
        Ok(true)
    }

    /// Lets others in at once, if the record is still this leader's. In bounded time; when it
    /// fails, others wait for the lease duration.
    async fn release(&self, term: Term) {
        let record = Record {
            holder_identity: String::new(),
            lease_duration_seconds: 1,
            renew_time: time(),
            ..term.record.clone()
        };
        let release = async {
            if self.write(&record, term.mod_revision).await?.is_none()
                && let Some((found, mod_revision)) = self.read().await?
                && is_same_term(&found, &term.record)
            {
                // A last renewal was executed after all.
                self.write(&record, mod_revision).await?;
            }
            Ok::<_, ClientError>(())
        };
        let _ = timeout(self.options.retry_period, release).await;
    }

    /// Writes the record if it was last written at `mod_revision`; the revision of the write.
    async fn write(&self, record: &Record, mod_revision: i64) -> Result<Option<i64>, ClientError> {
        let key = Bytes::from(self.options.key.clone());
        let value = serde_json::to_vec(record).unwrap_or_default();
        let txn = TxnRequest::when([Compare::mod_revision(key.clone(), mod_revision)]);
        let answer = self.client.txn(txn.then(PutRequest::new(key, value))).await?;
        Ok(answer.succeeded.then(|| revision(&answer)))
    }

    /// Reads the record, and notes when it changed.
    async fn look(&mut self) -> Result<(), ClientError> {
        let found = self.read().await?;
        let seen = self.seen.take();
        self.seen = found.map(|(record, mod_revision)| match seen {
            Some(seen) if seen.mod_revision == mod_revision => seen,
            // Counted from the answer: it was written before that, and others wait too long
            // rather than too short.
            _ => Seen { record, mod_revision, changed_at: Moment::now() },
        });
        Ok(())
    }

    async fn read(&self) -> Result<Option<(Record, i64)>, ClientError> {
        let found = self.client.get(self.options.key.clone()).await?;
        Ok(found.map(|kv| (parse(&kv), kv.mod_revision)))
    }

    fn tell(&mut self, candidate: &mut impl Candidate, holder: String) {
        if self.told != holder {
            candidate.new_leader(&holder);
            self.told = holder;
        }
    }
}

fn is_same_term(found: &Record, written: &Record) -> bool {
    found.holder_identity == written.holder_identity
        && found.lease_transitions == written.lease_transitions
        && found.acquire_time == written.acquire_time
}

/// What is no record is nobody's.
fn parse(kv: &KeyValue) -> Record {
    serde_json::from_slice(&kv.value).unwrap_or_else(|_| Record {
        holder_identity: String::new(),
        lease_duration_seconds: 0,
        acquire_time: String::new(),
        renew_time: String::new(),
        lease_transitions: 0,
    })
}

/// As Kubernetes writes times: RFC 3339 with microseconds.
fn time() -> String {
    format!("{:.6}", Timestamp::now())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_that_let_two_lead_or_nobody_are_refused() {
        let options = ElectorOptions::new("record", "a");
        assert_eq!(options.check(), Ok(()));
        let s = Duration::from_secs;
        let with = |lease, renew, retry| {
            ElectorOptions {
                lease_duration: lease,
                renew_deadline: renew,
                retry_period: retry,
                ..options.clone()
            }
            .check()
        };
        assert_eq!(with(s(10), s(10), s(1)), Err(ElectorError::RenewDeadline(s(10))));
        assert_eq!(with(s(10), s(5), s(5)), Err(ElectorError::RetryPeriod(s(5))));
        assert_eq!(with(s(10), s(5), s(0)), Err(ElectorError::RetryPeriod(s(0))));
        let half = Duration::from_millis(2500);
        assert_eq!(with(half, s(2), s(1)), Err(ElectorError::LeaseDuration(half)));
        let nobody = ElectorOptions { identity: String::new(), ..options.clone() };
        assert_eq!(nobody.check(), Err(ElectorError::Identity));
    }

    #[test]
    fn the_record_reads_as_that_of_kubernetes() {
        let text = r#"{"holderIdentity":"a","leaseDurationSeconds":15,"acquireTime":"2026-01-02T03:04:05.000006Z","renewTime":"2026-01-02T03:04:07.000000Z","leaseTransitions":3}"#;
        let record: Record = serde_json::from_str(text).expect("a record");
        assert_eq!((&record.holder_identity[..], record.lease_transitions), ("a", 3));
        assert_eq!(serde_json::to_string(&record).expect("a record"), text);
        let now = time();
        assert!(now.len() == 27 && now.ends_with('Z') && &now[19..20] == ".", "{now}");
    }
}
