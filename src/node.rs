//! The handle of a running node.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use raft_core::{ChangeSet, Index, NodeId};
use raft_driver::{Applied, Codec, CodecError, ReadKind};
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};

use crate::clock::Clock;
use crate::error::{
    ChangeMembershipError, ProposeError, ReadError, Refused, StopReason, TransferLeadershipError,
};
use crate::reads::{Consistency, ReadPermit};
use crate::status::{FencingToken, Leadership, LeadershipWatch, Members, MembersWatch, Status};

/// A running node. Clones are cheap and share it; when the last one is dropped, it stops.
pub struct Node<R> {
    shared: Arc<Shared<R>>,
}

pub(crate) struct Shared<R> {
    pub(crate) requests: mpsc::Sender<Request<R>>,
    /// What waits to be proposed or to be answered, in bytes.
    pub(crate) budget: Arc<Semaphore>,
    pub(crate) entry_bytes_max: usize,
    pub(crate) leadership: watch::Receiver<Leadership>,
    pub(crate) members: watch::Receiver<Members>,
    pub(crate) applied: watch::Receiver<Index>,
    /// Of the times that permits carry.
    pub(crate) clock: Clock,
    pub(crate) stopped: watch::Receiver<Option<StopReason>>,
    pub(crate) status: Arc<Mutex<Status>>,
}

/// What a handle asks of the driver.
pub(crate) enum Request<R> {
    Propose(Bytes, Proposer<R>),
    Read(ReadKind, Reader),
    Change(ChangeSet, Changer),
    Transfer(Option<NodeId>, Mover),
    Shutdown,
}

/// Who waits for a response, and the room that the command takes.
pub(crate) struct Proposer<R> {
    pub(crate) answer: oneshot::Sender<Result<Applied<R>, ProposeError>>,
    pub(crate) _room: OwnedSemaphorePermit,
}

/// Who waits to read.
pub(crate) type Reader = oneshot::Sender<Result<ReadPermit, ReadError>>;
/// Who waits for other members.
pub(crate) type Changer = oneshot::Sender<Result<Index, ChangeMembershipError>>;
/// Who waits for another leader.
pub(crate) type Mover = oneshot::Sender<Result<NodeId, TransferLeadershipError>>;

impl<R: Send + 'static> Node<R> {
    pub(crate) fn new(shared: Shared<R>) -> Self {
        Self { shared: Arc::new(shared) }
    }

    /// Proposes a command, and waits until it is applied here. The response is this node's
    /// state machine's. Waits for room when too much is under way on this node.
    ///
    /// Once it is acknowledged, the command survives the loss of any minority of the voters'
    /// disks. Dropping the future leaves the outcome open.
    ///
    /// # Errors
    /// See [`ProposeError`]; only [`Unknown`](ProposeError::Unknown) leaves open whether the
    /// command was executed.
    pub async fn propose(&self, command: Bytes) -> Result<Applied<R>, ProposeError> {
        if command.len() > self.shared.entry_bytes_max {
            return Err(ProposeError::Refused(Refused::TooLarge));
        }
        let room = u32::try_from(command.len()).unwrap_or(u32::MAX);
        let room = Arc::clone(&self.shared.budget).acquire_many_owned(room).await;
        let (answer, answered) = oneshot::channel();
        let proposer = Proposer { answer, _room: room.map_err(|_| ProposeError::Stopped)? };
        let request = Request::Propose(command, proposer);
        self.shared.requests.send(request).await.map_err(|_| ProposeError::Stopped)?;
        // The driver answers everyone; should it be torn down, nobody knows.
        answered.await.unwrap_or(Err(ProposeError::Unknown))
    }

    /// Proposes a typed command in the format of `codec`.
    ///
    /// # Errors
    /// The command cannot be encoded, and nothing was proposed; or, inside, what
    /// [`propose`](Self::propose) says.
    pub async fn propose_typed<C: Serialize>(
        &self,
        codec: &impl Codec,
        command: &C,
    ) -> Result<Result<Applied<R>, ProposeError>, CodecError> {
        let bytes = codec.encode(command)?;
        Ok(self.propose(bytes).await)
    }

    /// Waits until the state machine of this node may be read. A permit under a
    /// [`Lease`](Consistency::Lease) must still be valid after the read;
    /// [`read_with`](Self::read_with) sees to it.
    ///
    /// # Errors
    /// See [`ReadError`]. A [`Stale`](Consistency::Stale) read fails only when the node has
    /// stopped; it waits for as long as it takes.
    pub async fn read(&self, consistency: Consistency) -> Result<ReadPermit, ReadError> {
        let kind = match consistency {
            Consistency::Linearizable => ReadKind::Confirmed,
            Consistency::Lease => ReadKind::Leased,
            Consistency::Stale { at_least } => return self.read_stale(at_least).await,
        };
        let (answer, answered) = oneshot::channel();
        let request = Request::Read(kind, answer);
        self.shared.requests.send(request).await.map_err(|_| ReadError::Stopped)?;
        answered.await.unwrap_or(Err(ReadError::Stopped))
    }

    /// Waits until the state may be read, and reads it with `look`. Where a lease has ended
    /// meanwhile, what was seen is thrown away, and `look` is called once more when the read is
    /// confirmed by a quorum.
    ///
    /// # Errors
    /// See [`read`](Self::read).
    pub async fn read_with<T>(
        &self,
        consistency: Consistency,
        mut look: impl FnMut() -> T,
    ) -> Result<T, ReadError> {
        let permit = self.read(consistency).await?;
        let seen = look();
        if permit.still_valid() {
            return Ok(seen);
        }
        self.read(Consistency::Linearizable).await?;
        Ok(look())
    }

    async fn read_stale(&self, at_least: Index) -> Result<ReadPermit, ReadError> {
        let mut applied = self.shared.applied.clone();
        let index = applied.wait_for(|applied| *applied >= at_least).await.map(|index| *index);
        match (index, &*self.shared.stopped.borrow()) {
            (Ok(index), None) => Ok(ReadPermit::new(index, None, self.shared.clock)),
            (Ok(_), Some(_)) | (Err(_), _) => Err(ReadError::Stopped),
        }
    }

    /// Changes the members of the group, all at once or not at all, and waits until the change
    /// is made: the index of the configuration without the joint phase. To be asked of the
    /// leader. Who is added to vote is sent the log first, and votes as soon as it has it;
    /// that goes on when this has returned, and under other leaders.
    ///
    /// # Errors
    /// See [`ChangeMembershipError`]; only [`Unknown`](ChangeMembershipError::Unknown) leaves
    /// open whether the members were changed.
    pub async fn change_membership(&self, set: ChangeSet) -> Result<Index, ChangeMembershipError> {
        let (answer, answered) = oneshot::channel();
        let request = Request::Change(set, answer);
        let stopped = |_| ChangeMembershipError::Stopped;
        self.shared.requests.send(request).await.map_err(stopped)?;
        answered.await.unwrap_or(Err(ChangeMembershipError::Unknown))
    }

    /// Hands leadership over to this voter, or to the best there is, and returns who leads
    /// then. To be asked of the leader. Nothing is refused meanwhile: proposals wait.
    ///
    /// # Errors
    /// See [`TransferLeadershipError`].
    pub async fn transfer_leadership(
        &self,
        to: Option<NodeId>,
    ) -> Result<NodeId, TransferLeadershipError> {
        let (answer, answered) = oneshot::channel();
        let request = Request::Transfer(to, answer);
        let stopped = |_| TransferLeadershipError::Stopped;
        self.shared.requests.send(request).await.map_err(stopped)?;
        answered.await.unwrap_or(Err(TransferLeadershipError::Stopped))
    }

    /// The members, as this node knows them.
    pub fn membership(&self) -> MembersWatch {
        MembersWatch(self.shared.members.clone())
    }

    /// Who leads, as this node sees it. A change is shown even when no successor is known.
    pub fn leadership(&self) -> LeadershipWatch {
        LeadershipWatch(self.shared.leadership.clone())
    }

    /// The token of this node's leadership, or `None` when it does not lead.
    pub fn fencing_token(&self) -> Option<FencingToken> {
        let leadership = self.leadership().current();
        leadership.is_leader().then_some(FencingToken(leadership.term.0))
    }

    /// Waits until a leader is known, and returns it; `None` when the node stops first.
    pub async fn leader(&self) -> Option<NodeId> {
        self.leadership().wait_for(|now| now.leader.is_some()).await?.leader
    }

    /// The node's state after the last thing it did. Never waits for the node.
    pub fn status(&self) -> Status {
        self.shared.status.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Stops the node. A leader hands over first, for which it takes no longer than an election
    /// timeout, and what is under way is brought to its end as far as that goes. What is being
    /// written is finished, the log is closed, and whoever still waits is told that the outcome
    /// is unknown. Returns why it stopped, should it have stopped before.
    pub async fn shutdown(&self) -> StopReason {
        // A node that has stopped takes no more requests.
        let _ = self.shared.requests.send(Request::Shutdown).await;
        self.stopped().await
    }

    /// Waits until the node has stopped, and says why. Waiting does not keep it running.
    pub fn stopped(&self) -> impl Future<Output = StopReason> + Send + use<R> {
        let mut stopped = self.shared.stopped.clone();
        async move {
            let reason = stopped.wait_for(Option::is_some).await;
            // A node that went away without a word was torn down with its runtime.
            reason.ok().and_then(|reason| reason.clone()).unwrap_or(StopReason::Shutdown)
        }
    }
}

impl<R> Clone for Node<R> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<R> fmt::Debug for Node<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let status = self.shared.status.lock().unwrap_or_else(PoisonError::into_inner);
        f.debug_tuple("Node").field(&*status).finish()
    }
}
