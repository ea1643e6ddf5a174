//! The handle of a running node.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use raft_core::{Index, NodeId};
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};

use crate::codec::{Codec, CodecError};
use crate::error::{ProposeError, ReadError, Refused, StopReason};
use crate::machine::Applied;
use crate::status::{FencingToken, Leadership, LeadershipWatch, Status};

/// How fresh a read must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consistency {
    /// It sees every write that was acknowledged anywhere before the read began (Raft §8): a
    /// leader has confirmed since then that it still leads. Any node can serve it.
    Linearizable,
    /// It sees what this node has applied, however old.
    Stale,
}

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
    pub(crate) stopped: watch::Receiver<Option<StopReason>>,
    pub(crate) status: Arc<Mutex<Status>>,
}

/// What a handle asks of the driver.
pub(crate) enum Request<R> {
    Propose(Bytes, Proposer<R>),
    Read(Reader),
    Shutdown,
}

/// Who waits for a response, and the room that the command takes.
pub(crate) struct Proposer<R> {
    pub(crate) answer: oneshot::Sender<Result<Applied<R>, ProposeError>>,
    pub(crate) _room: OwnedSemaphorePermit,
}

/// Who waits for a read index.
pub(crate) type Reader = oneshot::Sender<Result<Index, ReadError>>;

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

    /// Waits until the state machine of this node may be read, and returns an index that it
    /// has applied.
    ///
    /// # Errors
    /// See [`ReadError`]. A [`Stale`](Consistency::Stale) read fails only when the node has
    /// stopped.
    pub async fn read(&self, consistency: Consistency) -> Result<Index, ReadError> {
        if consistency == Consistency::Stale {
            return match *self.shared.stopped.borrow() {
                Some(_) => Err(ReadError::Stopped),
                None => Ok(self.status().applied),
            };
        }
        let (answer, answered) = oneshot::channel();
        let request = Request::Read(answer);
        self.shared.requests.send(request).await.map_err(|_| ReadError::Stopped)?;
        answered.await.unwrap_or(Err(ReadError::Stopped))
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

    /// Stops the node: what is being written is finished, the log is closed, and whoever
    /// still waits is told that the outcome is unknown. Returns why it stopped, should it have
    /// stopped before.
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
