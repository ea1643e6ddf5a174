//! The queue behind elections and locks: whoever wants to hold something puts a key of its own
//! under one prefix, and the key that was created first holds. It never believes what it has not
//! just read: "you hold" is said after one transaction that found the own key, of the same
//! creation and with the lease, and none before it.
//!
//! ```text
//!  name/3f01  created at 12   holds                 its token is 12
//!  name/3f07  created at 15   watches name/3f01
//!  name/3f02  created at 21   watches name/3f07     one end wakes one waiter, not all
//! ```
//!
//! The key ends in the id of the lease, so that a first write whose outcome is unknown is simply
//! tried again: it finds what it did. These are etcd's names and its order, and programs that use
//! the recipes of other clients stand in the same queue.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use kontiki_client::ClientError;
use kontiki_client::proto::etcdserverpb::range_request::{SortOrder, SortTarget};
use kontiki_client::proto::etcdserverpb::watch_create_request::FilterType;
use kontiki_client::proto::etcdserverpb::{
    Compare, DeleteRangeRequest, PutRequest, RangeRequest, TxnRequest, WatchCreateRequest,
};
use kontiki_client::proto::mvccpb::event::EventType;
use tokio::runtime::Handle;
use tokio::sync::OwnedMutexGuard;
use tokio::time::{sleep, timeout};

use crate::fence::{Fence, Token};
use crate::session::{Session, SessionLost};
use crate::store::{found, revision, settle};

/// From the end of one watch to the next question.
const PAUSE: Duration = Duration::from_millis(50);

/// Why something is not held. In each case nothing is held.
#[derive(Debug, thiserror::Error)]
pub enum AcquireError {
    /// The session was lost while waiting: open a new one.
    #[error(transparent)]
    Lost(#[from] SessionLost),
    /// Somebody deleted the key of this waiter: campaign again, if that was not meant.
    #[error("the key of this waiter was deleted by somebody else")]
    Removed,
    /// The store refuses, and would again.
    #[error(transparent)]
    Refused(ClientError),
}

/// A key in the queue. Dropped, it is left in the background.
#[derive(Debug)]
pub(crate) struct Place {
    session: Session,
    prefix: Bytes,
    fence: Fence,
    /// From before the key may be gone.
    leaves: AtomicBool,
    /// Taken when the place is left.
    seat: Mutex<Option<OwnedMutexGuard<()>>>,
}

/// All keys of a queue begin so.
pub(crate) fn prefix(name: &str) -> Bytes {
    format!("{name}/").into()
}

/// Who comes first in a queue.
pub(crate) fn first(prefix: &Bytes) -> RangeRequest {
    sorted(RangeRequest::prefix(prefix.clone()), SortOrder::Ascend)
}

fn sorted(range: RangeRequest, order: SortOrder) -> RangeRequest {
    let (sort_order, sort_target) = (order.into(), SortTarget::Create.into());
    RangeRequest { sort_order, sort_target, limit: 1, ..range }
}

impl Place {
    /// Joins the queue, and waits until it is the first.
    pub(crate) async fn first_of(
        session: &Session,
        name: &str,
        value: Bytes,
    ) -> Result<Self, AcquireError> {
        let mut place = Self::reserve(session, name).await?;
        let no_key = Compare::create_revision(place.key().clone(), 0);
        place.enter(TxnRequest::when([no_key]), value).await?;
        place.until_first().await?;
        Ok(place)
    }

    /// Is the first, if nobody is in the queue; `None` if somebody is. Waits for nobody.
    pub(crate) async fn only_of(
        session: &Session,
        name: &str,
        value: Bytes,
    ) -> Result<Option<Self>, AcquireError> {
        let mut place = Self::reserve(session, name).await?;
        let RangeRequest { key, range_end, .. } = RangeRequest::prefix(place.prefix.clone());
        let nobody = Compare { range_end, ..Compare::create_revision(key, 0) };
        if !place.enter(TxnRequest::when([nobody]), value).await? {
            place.forget();
            return Ok(None);
        }
        // A key of this session that an earlier try left may have others before it.
        if place.predecessor().await?.is_some() {
            place.leave().await?;
            return Ok(None);
        }
        Ok(Some(place))
    }

    /// A place that is not in the queue yet. From here on a drop leaves it.
    async fn reserve(session: &Session, name: &str) -> Result<Self, AcquireError> {
        let prefix = prefix(name);
        let key: Bytes = format!("{name}/{:x}", session.lease()).into();
        let seat = session.seat(&key).await?;
        Ok(Self {
            session: session.clone(),
            prefix,
            fence: Fence::new(key, Token(0)),
            leaves: AtomicBool::new(false),
            seat: Mutex::new(Some(seat)),
        })
    }

    pub(crate) fn fence(&self) -> &Fence {
        &self.fence
    }

    pub(crate) fn session(&self) -> &Session {
        &self.session
    }

    pub(crate) fn is_held(&self) -> bool {
        self.session.is_alive() && !self.leaves.load(Ordering::Acquire)
    }

    fn key(&self) -> &Bytes {
        self.fence.key()
    }

    fn seat(&self) -> MutexGuard<'_, Option<OwnedMutexGuard<()>>> {
        self.seat.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes the key where `condition` holds; otherwise finds what it wrote before. Whether it
    /// has a key now.
    async fn enter(&mut self, condition: TxnRequest, value: Bytes) -> Result<bool, AcquireError> {
        let put = PutRequest::new(self.key().clone(), value.clone());
        let put = put.with_lease(self.session.lease());
        let enter = condition.then(put.clone()).otherwise(RangeRequest::key(self.key().clone()));
        loop {
            let answer = settle(&self.session, &enter).await?;
            if answer.succeeded {
                self.fence = Fence::new(self.key().clone(), Token::of_revision(revision(&answer)));
                return Ok(true);
            }
            let Some(kv) = found(answer).next().flatten() else { return Ok(false) };
            self.fence = Fence::new(self.key().clone(), Token::of_revision(kv.create_revision));
            if kv.value == value {
                return Ok(true);
            }
            let overwrite = TxnRequest::when([self.fence.compare()]).then(put.clone());
            if settle(&self.session, &overwrite).await?.succeeded {
                return Ok(true);
            }
        }
    }

    async fn until_first(&self) -> Result<(), AcquireError> {
        while let Some((key, seen)) = self.predecessor().await? {
            // A watch that breaks unseen must not keep the queue waiting: looked at again.
            let gone = timeout(self.session.ttl(), self.gone(key, seen + 1));
            // Gone or not, the next question tells.
            let _ = self.session.run(gone).await?;
        }
        Ok(())
    }

    /// The one before this, and the revision at which it was; or that there is none, with the
    /// own key and its lease alive, all in one step.
    ///
    /// # Errors
    /// When that is not so, or the session is lost by the time it is known.
    pub(crate) async fn predecessor(&self) -> Result<Option<(Bytes, i64)>, AcquireError> {
        let range = sorted(RangeRequest::prefix(self.prefix.clone()), SortOrder::Descend);
        let before = RangeRequest {
            max_create_revision: self.fence.token().as_revision().saturating_sub(1).max(1),
            keys_only: true,
            ..range
        };
        let lives = Compare::lease(self.key().clone(), self.session.lease());
        let check = TxnRequest::when([self.fence.compare(), lives]).then(before);
        let answer = settle(&self.session, &check).await?;
        if !self.session.is_alive() {
            return Err(SessionLost.into());
        }
        if !answer.succeeded {
            return Err(AcquireError::Removed);
        }
        let revision = revision(&answer);
        Ok(found(answer).next().flatten().map(|kv| (kv.key, revision)))
    }

    /// Returns when `key` is deleted, or the watch of it ends.
    async fn gone(&self, key: Bytes, from: i64) {
        let filters = vec![FilterType::Noput.into()];
        let request = WatchCreateRequest { filters, ..WatchCreateRequest::key(key) };
        if let Ok(mut watcher) = self.session.client().watch(request.from_revision(from)).await {
            while let Ok(changes) = watcher.next().await {
                if changes.events.iter().any(|event| event.r#type() == EventType::Delete) {
                    return;
                }
            }
        }
        sleep(PAUSE).await;
    }

    /// Takes the key out of the queue, if it is still the one that was put there: a newer one of
    /// the same name is another's business. Once it is out this does nothing.
    pub(crate) async fn leave(&self) -> Result<(), AcquireError> {
        if self.seat().is_none() {
            return Ok(());
        }
        self.leaves.store(true, Ordering::Release);
        depart(&self.session, &self.fence).await?;
        self.forget();
        Ok(())
    }

    /// Lets others of this process in, without a word to the store.
    fn forget(&self) {
        self.seat().take();
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let seat = self.seat().take();
        if let (Some(seat), true, Ok(runtime)) =
            (seat, self.session.is_alive(), Handle::try_current())
        {
            let (session, fence) = (self.session.clone(), self.fence.clone());
            runtime.spawn(async move {
                // When it fails the session is lost, and the key goes with it.
                let _ = depart(&session, &fence).await;
                drop(seat);
            });
        }
    }
}

async fn depart(session: &Session, fence: &Fence) -> Result<(), AcquireError> {
    let key = fence.key().clone();
    let ours = match fence.token() {
        // Dropped before its first write had an answer: whatever this session put there.
        Token(0) => Compare::lease(key.clone(), session.lease()),
        Token(_) => fence.compare(),
    };
    let txn = TxnRequest::when([ours]).then(DeleteRangeRequest::key(key));
    settle(session, &txn).await.map(drop)
}
