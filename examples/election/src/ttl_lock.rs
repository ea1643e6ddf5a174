//! A lock the way of Redis: set if absent with a time to live, renewed and released only by its
//! owner, with a counter that fences. It never waits, and nothing renews it in the background.
//!
//! Each step is one transaction: to acquire is to write the key if it is absent *and* to count; to
//! renew is to give the key a new time to live if it is still one's own; to release is to delete
//! it if it is one's own.
//!
//! *When it is enough*: for work that is better not done twice at once but does no harm when it is
//! (a cache is filled, a mail digest sent); or when what is written carries the token to where
//! smaller ones are refused ([`protected`](crate::protected)). *When it is not*: as the only thing
//! between two writers. An owner that was paused for longer than the time to live still believes
//! in the lock until it looks at the clock. Here the store is replicated by consensus, so that no
//! acknowledged lock is lost in a failover, as it may be with asynchronous replicas; against
//! pauses that helps nothing.
//!
//! *Who is trusted*: the cluster, and the speed of the own clock. *Costs*: a lease and a
//! transaction for each step; waiters ask again and again, in no order: where they queue, a
//! [`mutex`](crate::mutex) is the better lock.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use kontiki_client::proto::etcdserverpb::{
    Compare, DeleteRangeRequest, LeaseGrantRequest, PutRequest, RangeRequest, TxnRequest,
};
use kontiki_client::{Client, ClientError};

use crate::clock::Moment;
use crate::fence::Token;
use crate::store::{found, is_not_found, txn};

/// A lock with a time to live.
#[derive(Clone, Debug)]
pub struct TtlLock {
    client: Client,
    key: Bytes,
    counter: Bytes,
    ttl_s: i64,
}

/// The lock was acquired. It ends by itself; dropping it changes nothing.
#[derive(Debug)]
pub struct TtlHeld {
    lock: TtlLock,
    /// Nobody else writes this value.
    owner: Bytes,
    created: i64,
    token: Token,
    /// The lease of the key, and until when it is ours.
    grant: Mutex<Grant>,
}

#[derive(Clone, Copy, Debug)]
struct Grant {
    lease: i64,
    deadline: Moment,
}

/// Why a lock was not renewed.
#[derive(Debug, thiserror::Error)]
pub enum RenewError {
    /// Its time was over, or somebody deleted it: it may be another's. Stop.
    #[error("the lock is lost: its time to live was over")]
    Lost,
    /// As the client says. It is held until its old time is over; try again.
    #[error(transparent)]
    Store(#[from] ClientError),
}

impl TtlLock {
    /// The lock under `key`, which lives for `ttl`, rounded up to whole seconds, without a
    /// renewal. Acquisitions are counted under `key` + `.fence`: never delete that.
    pub fn new(client: &Client, key: &str, ttl: Duration) -> Self {
        let ttl_s = i64::try_from(ttl.as_millis().div_ceil(1000)).unwrap_or(i64::MAX).max(1);
        let (key, counter) = (key.to_owned().into(), format!("{key}.fence").into());
        Self { client: client.clone(), key, counter, ttl_s }
    }

    /// Takes the lock if nobody has it; `None` if somebody does.
    ///
    /// # Errors
    /// As the client says. Whatever was granted ends by itself.
    pub async fn acquire(&self) -> Result<Option<TtlHeld>, ClientError> {
        let grant = self.grant().await?;
        let owner = Bytes::from(format!("{:032x}", rand::random::<u128>()));
        let put = PutRequest::new(self.key.clone(), owner.clone()).with_lease(grant.lease);
        let acquire = TxnRequest::when([Compare::create_revision(self.key.clone(), 0)])
            .then(put)
            .then(PutRequest::new(self.counter.clone(), owner.clone()))
            .then(RangeRequest::key(self.counter.clone()))
            .then(RangeRequest::key(self.key.clone()));
        let answer = match self.client.txn(acquire).await {
            Err(ClientError::Unknown { .. }) => {
                // The value tells whether it was this that took the lock, and then nobody has
                // counted since.
                let ours = Compare::value(self.key.clone(), owner.clone());
                let look = TxnRequest::when([ours])
                    .then(RangeRequest::key(self.counter.clone()))
                    .then(RangeRequest::key(self.key.clone()));
                txn(&self.client, &look).await?
            }
            outcome => outcome?,
        };
        if !answer.succeeded {
            self.forget(grant);
            return Ok(None);
        }
        let mut found = found(answer);
        let count = found.next().flatten().map_or(0, |kv| kv.version);
        let created = found.next().flatten().map_or(0, |kv| kv.create_revision);
        let token = Token::of_revision(count);
        let grant = Mutex::new(grant);
        let held = TtlHeld { lock: self.clone(), owner, created, token, grant };
        Ok(held.is_valid().then_some(held))
    }

    async fn grant(&self) -> Result<Grant, ClientError> {
        let sent_at = Moment::now();
        let granted = self.client.lease_grant(LeaseGrantRequest { ttl: self.ttl_s, id: 0 }).await?;
        let ttl = Duration::from_secs(u64::try_from(granted.ttl).unwrap_or(0));
        // A tenth for clocks that run at different speeds.
        Ok(Grant { lease: granted.id, deadline: sent_at + (ttl - ttl / 10) })
    }

    /// Ends a lease that no key has. If that fails it ends by itself.
    fn forget(&self, grant: Grant) {
        let client = self.client.clone();
        tokio::spawn(async move { client.lease_revoke(grant.lease).await });
    }
}

impl TtlHeld {
    /// How many have acquired the lock by now, this owner included: grows with each.
    pub fn token(&self) -> Token {
        self.token
    }

    /// Whether its time is not over, by the own clock.
    pub fn is_valid(&self) -> bool {
        Moment::now() < self.current().deadline
    }

    /// Gives the lock its whole time to live again if it is still this owner's, in one step.
    ///
    /// # Errors
    /// [`RenewError::Lost`] when it is not; else as the client says.
    pub async fn renew(&self) -> Result<(), RenewError> {
        if !self.is_valid() {
            return Err(RenewError::Lost);
        }
        let (old, new) = (self.current(), self.lock.grant().await?);
        if !self.move_to(old.lease, new.lease).await? || !self.is_valid() {
            self.lock.forget(new);
            *self.locked() = Grant { deadline: Moment::now(), ..old };
            return Err(RenewError::Lost);
        }
        *self.locked() = new;
        self.lock.forget(old);
        Ok(())
    }

    /// Gives the key to another lease if it is still this owner's; whether it is. A step that was
    /// sent before, and is executed only now, finds another lease than it expects, and does
    /// nothing.
    async fn move_to(&self, mut old: i64, new: i64) -> Result<bool, ClientError> {
        loop {
            let [value, created] = self.ours();
            let put = PutRequest::new(self.lock.key.clone(), self.owner.clone()).with_lease(new);
            let renew =
                TxnRequest::when([value, created, Compare::lease(self.lock.key.clone(), old)])
                    .then(put)
                    .otherwise(RangeRequest::key(self.lock.key.clone()));
            let answer = match txn(&self.lock.client, &renew).await {
                Err(error) if is_not_found(&error) => return Ok(false),
                outcome => outcome?,
            };
            if answer.succeeded {
                return Ok(true);
            }
            match found(answer).next().flatten() {
                Some(kv) if kv.value == self.owner && kv.create_revision == self.created => {
                    if kv.lease == new {
                        return Ok(true);
                    }
                    // An earlier renewal, of which nobody heard, was executed after all.
                    old = kv.lease;
                }
                Some(_) | None => return Ok(false),
            }
        }
    }

    /// Lets others in, if the lock is still this owner's; whether it was.
    ///
    /// # Errors
    /// As the client says; the lock ends by itself.
    pub async fn release(&self) -> Result<bool, ClientError> {
        *self.locked() = Grant { deadline: Moment::now(), ..self.current() };
        let delete = DeleteRangeRequest::key(self.lock.key.clone());
        let release = TxnRequest::when(self.ours()).then(delete);
        // Twice is as good as once: the owner alone writes this value.
        let answer = txn(&self.lock.client, &release).await?;
        if answer.succeeded {
            self.lock.forget(self.current());
        }
        Ok(answer.succeeded)
    }

    fn ours(&self) -> [Compare; 2] {
        let key = self.lock.key.clone();
        [
            Compare::value(key.clone(), self.owner.clone()),
            Compare::create_revision(key, self.created),
        ]
    }

    fn current(&self) -> Grant {
        *self.locked()
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, Grant> {
        self.grant.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
