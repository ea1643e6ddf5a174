//! The sending half: one transfer to each peer, until it is delivered or there is no hope.

use std::hash::{BuildHasher as _, RandomState};
use std::pin::Pin;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use raft_core::{LogPosition, NodeId, SnapshotOffer, SnapshotSource, Term};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Uri;
use tonic::{Request, Status, Streaming};

use super::{CHUNKS_IN_FLIGHT, Progress, blocking, check, encode_offer};
use crate::hello::Purpose;
use crate::link::{Backoff, Failure, connect};
use crate::peer::Peer;
use crate::proto::{self, snapshot_part::Part, snapshot_receipt::State};
use crate::refusal::Refused;
use crate::shared::Shared;
use crate::stats::TransferStats;

/// How often a snapshot is sent anew that does not add up at the receiver.
const SPOILED_MAX: u32 = 3;

/// Why a snapshot was not delivered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotSendError {
    /// The node is no peer.
    #[error("node {0} is no peer of this node; name it first")]
    NotAPeer(NodeId),
    /// A newer transfer to the same peer has begun.
    #[error("a newer snapshot is on its way to the same peer")]
    Replaced,
    /// It was cancelled, or the peer or the whole transport has gone.
    #[error("cancelled")]
    Cancelled,
    /// The peer knows a leader of a newer term: this node does not lead any more.
    #[error("the peer is sent snapshots by a leader of the newer term {0}")]
    Outdated(Term),
    /// The peer refuses this node, and will do so the next time.
    #[error("{message}")]
    Refused {
        /// Why, for programs.
        reason: Refused,
        /// Why, for people.
        message: String,
    },
    /// The snapshot here cannot be read; take another one.
    #[error("the snapshot cannot be read: {0}")]
    Source(String),
    /// It arrived and did not add up, several times.
    #[error("the peer cannot make the snapshot durable: {0}")]
    Spoiled(String),
    /// Nothing has arrived for as long as there was patience; it may be tried again.
    #[error("the snapshot gets no further than byte {bytes} ({last_error}); try again later")]
    NoProgress {
        /// How many bytes the peer has.
        bytes: u64,
        /// What went wrong last.
        last_error: String,
    },
}

/// Resolves when the transfer has ended: with the end of the snapshot that the peer has now, or
/// with what was in the way.
#[derive(Debug)]
pub struct SnapshotSending(oneshot::Receiver<Result<LogPosition, SnapshotSendError>>);

impl Future for SnapshotSending {
    type Output = Result<LogPosition, SnapshotSendError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let ended = Pin::new(&mut self.0).poll(context);
        ended.map(|it| it.unwrap_or(Err(SnapshotSendError::Cancelled)))
    }
}

/// The transfer to one peer, if there is one.
#[derive(Debug, Default)]
pub(crate) struct Shipping(Mutex<Option<Current>>);

#[derive(Debug)]
struct Current {
    /// Ends it, for this reason.
    stop: oneshot::Sender<SnapshotSendError>,
    progress: Arc<Progress>,
}

impl Shipping {
    /// Replaces the transfer. What is returned resolves when the new one has to end in turn.
    fn begin(&self, progress: Arc<Progress>) -> oneshot::Receiver<SnapshotSendError> {
        let (stop, stopped) = oneshot::channel();
        self.replace(Some(Current { stop, progress }), SnapshotSendError::Replaced);
        stopped
    }

    pub(crate) fn cancel(&self) {
        self.replace(None, SnapshotSendError::Cancelled);
    }

    fn replace(&self, next: Option<Current>, reason: SnapshotSendError) {
        let mut current = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(before) = std::mem::replace(&mut *current, next) {
            let _ = before.stop.send(reason); // It may have ended already.
        }
    }

    pub(crate) fn stats(&self) -> Option<TransferStats> {
        let current = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let current = current.as_ref().filter(|it| !it.stop.is_closed());
        current.map(|it| it.progress.stats())
    }
}

/// Begins to send `source` to `peer`.
pub(crate) fn send(
    shared: &Arc<Shared>,
    to: NodeId,
    term: Term,
    source: Arc<dyn SnapshotSource>,
) -> SnapshotSending {
    let (done, result) = oneshot::channel();
    let Some(peer) = shared.peer(to) else {
        let _ = done.send(Err(SnapshotSendError::NotAPeer(to))); // The other end is below.
        return SnapshotSending(result);
    };
    let offer = SnapshotOffer {
        from: shared.identity.node,
        term,
        transfer: fresh_transfer(),
        snapshot: source.snapshot().clone(),
        len_bytes: source.len_bytes(),
        check: source.check(),
    };
    let last = offer.snapshot.last;
    let progress = Progress::new(last, offer.len_bytes);
    let mut stopped = peer.shipping.begin(Arc::clone(&progress));
    let (shared, moved_at) = (Arc::clone(shared), Instant::now());
    let runtime = shared.runtime.clone();
    let mut transfer = Transfer { shared, peer, source, offer, progress, moved_at };
    runtime.spawn(async move {
        let ended = tokio::select! {
            biased;
            reason = &mut stopped => Err(reason.unwrap_or(SnapshotSendError::Cancelled)),
            ended = transfer.run() => ended.map(|()| last),
        };
        match &ended {
            Ok(last) => tracing::info!(peer = %to, ?last, "snapshot delivered"),
            Err(error) => tracing::warn!(peer = %to, ?last, %error, "snapshot not delivered"),
        }
        drop(stopped);
        let _ = done.send(ended); // Whether anybody waits for it or not.
    });
    SnapshotSending(result)
}

fn fresh_transfer() -> u64 {
    RandomState::new().hash_one(Instant::now())
}

struct Transfer {
    shared: Arc<Shared>,
    peer: Arc<Peer>,
    source: Arc<dyn SnapshotSource>,
    offer: SnapshotOffer,
    progress: Arc<Progress>,
    /// When the receiver last said that it has more than before.
    moved_at: Instant,
}

/// Why one attempt has ended.
enum Ended {
    /// For good.
    Failed(SnapshotSendError),
    /// The connection is lost, or was not to be had.
    Broken(Failure),
    /// All has arrived, and does not add up.
    Spoiled(String),
}

impl<T: Into<Failure>> From<T> for Ended {
    fn from(failure: T) -> Self {
        Self::Broken(failure.into())
    }
}

impl Transfer {
    async fn run(&mut self) -> Result<(), SnapshotSendError> {
        let mut backoff = Backoff::new(&self.shared.config);
        let mut spoiled = 0;
        loop {
            let (mut last_error, moved_before) = (String::new(), self.moved_at);
            for address in self.peer.addresses() {
                match self.attempt(&address).await {
                    Ok(()) => return Ok(()),
                    Err(Ended::Failed(error)) => return Err(error),
                    Err(Ended::Broken(failure)) => last_error = hopeful(failure)?,
                    Err(Ended::Spoiled(reason)) => {
                        spoiled += 1;
                        if spoiled == SPOILED_MAX {
                            return Err(SnapshotSendError::Spoiled(reason));
                        }
                        // Under the same name, the receiver would go on with what it has.
                        self.offer.transfer = fresh_transfer();
                        last_error = reason;
                    }
                }
            }
            if Instant::now() >= self.deadline() {
                let bytes = self.progress.bytes.load(Relaxed);
                return Err(SnapshotSendError::NoProgress { bytes, last_error });
            }
            tracing::debug!(peer = %self.peer.id, last_error, "the snapshot waits");
            if self.moved_at > moved_before {
                backoff.reset();
            }
            sleep(backoff.pause()).await;
        }
    }

    fn deadline(&self) -> Instant {
        self.moved_at + self.shared.config.snapshot_patience
    }

    /// Connects, and sends what the receiver does not have.
    async fn attempt(&mut self, address: &Uri) -> Result<(), Ended> {
        let mut client = connect(&self.shared, self.peer.id, address).await?;
        let (parts, outgoing) = mpsc::channel(CHUNKS_IN_FLIGHT as usize);
        let mut request = Request::new(ReceiverStream::new(outgoing));
        self.shared.hello(&self.peer, Purpose::Ship).write(request.metadata_mut());
        let greeting = timeout(self.shared.config.handshake_timeout, client.ship(request));
        let response = greeting
            .await
            .map_err(|_| "connected, but the greeting was not answered in time".to_owned())??;
        self.shared.recognise(&self.peer, response.metadata())?;

        let part = Part::Offer(encode_offer(&self.offer));
        let offer = proto::SnapshotPart { part: Some(part) };
        let _ = parts.send(offer).await; // The receipts tell what happened.
        self.send_chunks(&parts, response.into_inner()).await
    }

    async fn send_chunks(
        &mut self,
        parts: &mpsc::Sender<proto::SnapshotPart>,
        mut receipts: Streaming<proto::SnapshotReceipt>,
    ) -> Result<(), Ended> {
        let len = self.offer.len_bytes;
        let chunk_bytes = self.shared.pace.chunk_bytes(self.shared.config.snapshot_chunk_bytes);
        let Some(mut received) = self.receipt(&mut receipts, len).await? else { return Ok(()) };
        self.progress.resume(received);
        let mut sent = received;
        loop {
            while sent < len && sent - received < CHUNKS_IN_FLIGHT * chunk_bytes as u64 {
                let bytes = self.read(sent, chunk_bytes).await?;
                self.shared.pace.take(bytes.len() as u64).await;
                let next = sent + bytes.len() as u64;
                let chunk = proto::SnapshotChunk {
                    offset: sent,
                    check: check(&bytes),
                    bytes: bytes.into(),
                };
                let part = proto::SnapshotPart { part: Some(Part::Chunk(chunk)) };
                match timeout_at(self.deadline(), parts.send(part)).await {
                    Ok(Ok(())) => sent = next,
                    // The receipts tell what happened.
                    Ok(Err(_)) | Err(_) => break,
                }
            }
            let Some(now) = self.receipt(&mut receipts, sent).await? else { return Ok(()) };
            if now > received {
                self.moved_at = Instant::now();
            }
            received = received.max(now);
            self.progress.bytes.store(received, Relaxed);
        }
    }

    /// The next receipt: how many bytes the receiver has, at most `sent`; `None` for all, and
    /// durable.
    async fn receipt(
        &mut self,
        receipts: &mut Streaming<proto::SnapshotReceipt>,
        sent: u64,
    ) -> Result<Option<u64>, Ended> {
        let Ok(receipt) = timeout_at(self.deadline(), receipts.message()).await else {
            return Err("the receiver is silent".to_owned().into());
        };
        match receipt?.map(|receipt| receipt.state) {
            Some(Some(State::Received(bytes))) if bytes <= sent => Ok(Some(bytes)),
            Some(Some(State::Delivered(proto::Delivered {}))) => {
                self.progress.bytes.store(self.offer.len_bytes, Relaxed);
                Ok(None)
            }
            Some(Some(State::Outdated(term))) => {
                Err(Ended::Failed(SnapshotSendError::Outdated(Term(term))))
            }
            Some(Some(State::Spoiled(reason))) => Err(Ended::Spoiled(reason)),
            Some(Some(State::Received(_)) | None) => {
                Err("the receiver's receipt makes no sense".to_owned().into())
            }
            None => Err("the receiver ended the stream".to_owned().into()),
        }
    }

    /// Reads a chunk, of at least one byte.
    async fn read(&self, offset: u64, bytes_max: usize) -> Result<Vec<u8>, Ended> {
        let failed = |reason| Ended::Failed(SnapshotSendError::Source(reason));
        let rest = self.offer.len_bytes - offset;
        let size = usize::try_from(rest).map_or(bytes_max, |rest| rest.min(bytes_max));
        let source = Arc::clone(&self.source);
        let read = move || {
            let mut bytes = vec![0; size];
            let count = source.read_at(offset, &mut bytes).map_err(|error| error.to_string())?;
            bytes.truncate(count);
            Ok(bytes)
        };
        match blocking(read).await.map_err(|status: Status| status.message().to_owned()) {
            Ok(Ok(bytes)) if !bytes.is_empty() => Ok(bytes),
            Ok(Ok(_)) => Err(failed(format!("it ends at byte {offset}, {rest} too early"))),
            Ok(Err(reason)) | Err(reason) => Err(failed(reason)),
        }
    }
}

/// What went wrong, where it may be tried again.
fn hopeful(failure: Failure) -> Result<String, SnapshotSendError> {
    let Failure { message, refused } = failure;
    match refused {
        Some(
            reason @ (Refused::Removed | Refused::Incarnation { .. } | Refused::Cluster { .. }),
        ) => Err(SnapshotSendError::Refused { reason, message }),
        Some(Refused::Twin | Refused::Other) | None => Ok(message),
    }
}
