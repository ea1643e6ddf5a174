//! A lock: an election without a value, for work that is done by one at a time. It never unlocks
//! what another has locked since.
//!
//! *Guarantees, trust and costs* are those of an [`election`](crate::election): of holders whose
//! session is alive at most one, tokens grow, waiters hold in the order in which they came. A lock
//! that is kept for others is no proof for a write: use its token.

use bytes::Bytes;
use tokio_util::sync::CancellationToken;

use crate::fence::{Fence, Token};
use crate::queue::{AcquireError, Place};
use crate::session::Session;

/// A lock that all who know its name share.
#[derive(Clone, Debug)]
pub struct Mutex {
    session: Session,
    name: String,
}

/// The lock is held, or was. Dropped, it is unlocked in the background.
#[derive(Debug)]
pub struct Held {
    place: Place,
}

impl Mutex {
    /// The lock `name`, for holders with this session.
    pub fn new(session: &Session, name: impl Into<String>) -> Self {
        Self { session: session.clone(), name: name.into() }
    }

    /// Waits until the lock is held. Tasks that share a session wait for each other. Dropped half
    /// way, it leaves the queue in the background.
    ///
    /// # Errors
    /// When the session is lost, somebody deletes the key, or the store refuses.
    pub async fn lock(&self) -> Result<Held, AcquireError> {
        let place = Place::first_of(&self.session, &self.name, Bytes::new()).await?;
        Ok(Held { place })
    }

    /// Takes the lock if nobody has it or waits for it, in one step; `None` if somebody does.
    /// Another task of this session is waited for, like an answer.
    ///
    /// # Errors
    /// When the session is lost, somebody deletes the key, or the store refuses.
    pub async fn try_lock(&self) -> Result<Option<Held>, AcquireError> {
        let place = Place::only_of(&self.session, &self.name, Bytes::new()).await?;
        Ok(place.map(|place| Held { place }))
    }
}

impl Held {
    /// Larger than that of every holder before.
    pub fn token(&self) -> Token {
        self.place.fence().token()
    }

    /// What guards this holder's writes into the cluster.
    pub fn fence(&self) -> &Fence {
        self.place.fence()
    }

    /// Whether it may be believed in: not unlocked, nor about to be, and the deadline of the session still to come.
    pub fn is_held(&self) -> bool {
        self.place.is_held()
    }

    /// Cancelled when the session is lost: what needs the lock has to end then.
    pub fn lost(&self) -> CancellationToken {
        self.place.session().lost()
    }

    /// Lets the next one in. May be repeated.
    ///
    /// # Errors
    /// When the session is lost first, or the store refuses: then the key goes with the session.
    pub async fn unlock(&self) -> Result<(), AcquireError> {
        self.place.leave().await
    }
}
