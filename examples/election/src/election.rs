//! An election: of all who campaign under one name one leads, in the order in which they came.
//! It never says "you lead" on the strength of an event: see the module `queue`.
//!
//! *Guarantees*: tokens grow from leader to leader. Of those whose session is alive by its own
//! deadline at most one leads. A leader that was paused may not know yet that it is none: what it
//! writes has to carry its token ([`fence`](crate::fence)).
//!
//! *Who is trusted*: the cluster, and the speed of the own clock ([`session`](crate::session)).
//!
//! *What it costs*: to campaign three calls and one watch of one key; one transaction for each
//! time to live of the session while waiting; nothing while leading but the session.

use bytes::Bytes;
use kontiki_client::proto::etcdserverpb::{PutRequest, TxnRequest};
use kontiki_client::{Client, ClientError};
use tokio_util::sync::CancellationToken;

use crate::fence::{Fence, FencedError, Token};
use crate::observe::{Holder, Observer};
use crate::queue::{self, AcquireError, Place};
use crate::session::Session;

/// An election in which this process may stand.
#[derive(Clone, Debug)]
pub struct Election {
    session: Session,
    name: String,
}

/// This session leads, or did: a leadership never comes back. Dropped, it is resigned in the
/// background.
#[derive(Debug)]
pub struct Leadership {
    place: Place,
}

impl Election {
    /// The election `name`, for a candidate with this session.
    pub fn new(session: &Session, name: impl Into<String>) -> Self {
        Self { session: session.clone(), name: name.into() }
    }

    /// Waits until this session leads, and shows `value` to observers while it waits and leads.
    /// It waits for an unreachable cluster too, as long as the session is alive. Dropped half way,
    /// it leaves the queue in the background. A second campaign of the same session waits for the
    /// first one's end.
    ///
    /// A write of which a dropped campaign never heard may still be on its way then: the place it
    /// makes is found by the next campaign of this session, and ends with the session at the
    /// latest.
    ///
    /// # Errors
    /// When the session is lost, somebody deletes the key, or the store refuses.
    pub async fn campaign(&self, value: impl Into<Bytes>) -> Result<Leadership, AcquireError> {
        let place = Place::first_of(&self.session, &self.name, value.into()).await?;
        Ok(Leadership { place })
    }

    /// Who leads now.
    ///
    /// # Errors
    /// When no endpoint answers, or the store refuses.
    pub async fn leader(&self) -> Result<Option<Holder>, ClientError> {
        let range = queue::first(&queue::prefix(&self.name));
        let answer = self.session.client().range(range).await?;
        Ok(answer.kvs.into_iter().next().map(Holder::from))
    }

    /// Who leads, now and from now on.
    ///
    /// # Errors
    /// When no endpoint answers, or the store refuses.
    pub async fn observe(client: &Client, name: &str) -> Result<Observer, ClientError> {
        Observer::open(client, queue::prefix(name)).await
    }
}

impl Leadership {
    /// Larger than that of every leader before: the revision at which this candidate came.
    pub fn token(&self) -> Token {
        self.place.fence().token()
    }

    /// What guards this leader's writes into the cluster.
    pub fn fence(&self) -> &Fence {
        self.place.fence()
    }

    /// Whether it may be believed in: not resigned, nor about to be, and the deadline of the session still to come.
    pub fn is_held(&self) -> bool {
        self.place.is_held()
    }

    /// Cancelled when the session is lost: what leads has to end then.
    pub fn lost(&self) -> CancellationToken {
        self.place.session().lost()
    }

    /// Asks the cluster, in one transaction, whether this is still so: own key, own creation, own
    /// lease, and nobody before it. Does not extend anything.
    ///
    /// # Errors
    /// When it is not so, or the session is lost before there is an answer.
    pub async fn confirm(&self) -> Result<(), AcquireError> {
        self.place.predecessor().await.map(drop)
    }

    /// Shows another value to observers, if this still leads.
    ///
    /// # Errors
    /// [`FencedError::Stale`] when it does not; else as those of [`Client::txn`]: after an unknown
    /// outcome it may be done again.
    pub async fn proclaim(&self, value: impl Into<Bytes>) -> Result<(), FencedError> {
        let session = self.place.session();
        let put = PutRequest::new(self.fence().key().clone(), value.into());
        let put = TxnRequest::default().then(put.with_lease(session.lease()));
        self.fence().write(session.client(), put).await.map(drop)
    }

    /// Hands over at once. May be repeated, and by then deletes nobody else's key, nor a newer one
    /// of this session.
    ///
    /// # Errors
    /// When the session is lost first, or the store refuses: then the key goes with the session.
    pub async fn resign(&self) -> Result<(), AcquireError> {
        self.place.leave().await
    }
}
