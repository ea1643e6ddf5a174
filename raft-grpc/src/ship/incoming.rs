//! The receiving half: one transfer at a time, of the newest leader.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use raft_core::{NodeId, SnapshotOffer, SnapshotSink, SnapshotStore, Term};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

use super::{Progress, blocking, check, decode_offer};
use crate::event::PeerEvent;
use crate::proto::{self, snapshot_part::Part, snapshot_receipt::State};
use crate::service::Inbound;
use crate::shared::Shared;
use crate::stats::TransferStats;

/// How many receipts wait to be sent.
const RECEIPTS_MAX: usize = 4;
/// The longest reason that is sent.
const REASON_BYTES_MAX: usize = 512;

type Receipts = mpsc::Sender<Result<proto::SnapshotReceipt, Status>>;

/// What is being received, or was last.
#[derive(Debug, Default)]
pub(crate) struct Incoming {
    slot: Mutex<Slot>,
    /// Held by whoever has a sink: the next one waits until the last has let go of it.
    sink: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct Slot {
    current: Option<Current>,
    /// The transfer that was last delivered.
    delivered: Option<Name>,
}

/// Invariant: `name` has the newest term that was offered.
#[derive(Debug)]
struct Current {
    name: Name,
    /// Ends the stream when dropped.
    end: oneshot::Sender<()>,
    progress: Arc<Progress>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Name {
    term: Term,
    from: NodeId,
    transfer: u64,
}

/// What becomes of an offer.
enum Answer {
    /// It may begin. Resolves when it has to end.
    Begin(oneshot::Receiver<()>, Arc<Progress>),
    /// It has been received already; only the receipt was lost.
    Delivered,
    /// A leader of this newer term was here.
    Outdated(Term),
    /// Two leaders of one term.
    Impossible,
}

impl Incoming {
    fn offer(&self, offer: &SnapshotOffer) -> Answer {
        let SnapshotOffer { from, term, transfer, .. } = *offer;
        let name = Name { term, from, transfer };
        let mut slot = self.lock();
        match &slot.current {
            Some(current) if current.name.term > term => {
                return Answer::Outdated(current.name.term);
            }
            Some(current) if current.name.term == term && current.name.from != from => {
                return Answer::Impossible;
            }
            _ => {} // Older, or of the same leader: it gives way.
        }
        if slot.delivered == Some(name) {
            return Answer::Delivered;
        }
        let (end, ended) = oneshot::channel();
        let progress = Progress::new(offer.snapshot.last, offer.len_bytes);
        slot.current = Some(Current { name, end, progress: Arc::clone(&progress) });
        Answer::Begin(ended, progress)
    }

    fn on_delivered(&self, offer: &SnapshotOffer) {
        let SnapshotOffer { from, term, transfer, .. } = *offer;
        self.lock().delivered = Some(Name { term, from, transfer });
    }

    /// Ends what is being received: this node stops.
    pub(crate) fn end(&self) {
        self.lock().current = None;
    }

    pub(crate) fn stats(&self) -> Option<(NodeId, TransferStats)> {
        let slot = self.lock();
        let current = slot.current.as_ref().filter(|it| !it.end.is_closed());
        current.map(|it| (it.name.from, it.progress.stats()))
    }

    fn lock(&self) -> MutexGuard<'_, Slot> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Begins to read `parts`. The answer is the stream of receipts.
pub(crate) fn receive(
    shared: Arc<Shared>,
    inbound: &Inbound,
    from: NodeId,
    parts: Streaming<proto::SnapshotPart>,
) -> Result<ReceiverStream<Result<proto::SnapshotReceipt, Status>>, Status> {
    let Some(store) = inbound.snapshots.clone() else {
        return Err(Status::unimplemented("this node takes no snapshots"));
    };
    let (receipts, stream) = mpsc::channel(RECEIPTS_MAX);
    let receiver = Receiver { shared, store, events: inbound.events.clone(), parts, receipts };
    // A task of its own: what is written is written to the end, whatever the connection does.
    tokio::spawn(receiver.run(from));
    Ok(ReceiverStream::new(stream))
}

struct Receiver {
    shared: Arc<Shared>,
    store: Arc<dyn SnapshotStore>,
    events: mpsc::Sender<PeerEvent>,
    parts: Streaming<proto::SnapshotPart>,
    receipts: Receipts,
}

impl Receiver {
    async fn run(mut self, from: NodeId) {
        if let Err(status) = self.take(from).await {
            tracing::debug!(%from, %status, "a snapshot was not received");
            let _ = self.receipts.send(Err(status)).await; // The sender may have gone.
        }
    }

    async fn take(&mut self, from: NodeId) -> Result<(), Status> {
        let offer = self.read_offer(from).await?;
        let shared = Arc::clone(&self.shared);
        let (mut ended, progress) = match shared.incoming.offer(&offer) {
            Answer::Begin(ended, progress) => (ended, progress),
            Answer::Delivered => return self.say(State::Delivered(proto::Delivered {})).await,
            Answer::Outdated(term) => return self.say(State::Outdated(term.0)).await,
            Answer::Impossible => {
                return Err(Status::failed_precondition("another node leads in this term"));
            }
        };
        let _turn = tokio::select! {
            biased;
            _ = &mut ended => return Err(replaced()),
            turn = shared.incoming.sink.lock() => turn,
        };
        self.take_all(&offer, &progress, &mut ended).await
    }

    async fn read_offer(&mut self, from: NodeId) -> Result<SnapshotOffer, Status> {
        let patience = self.shared.config.handshake_timeout;
        let late = |_| Status::deadline_exceeded("no offer has come");
        match timeout(patience, self.parts.message()).await.map_err(late)??.and_then(|it| it.part) {
            Some(Part::Offer(offer)) => Ok(decode_offer(&offer, from)?),
            Some(Part::Chunk(_)) | None => Err(Status::invalid_argument("no offer comes first")),
        }
    }
}

impl Receiver {
    async fn take_all(
        &mut self,
        offer: &SnapshotOffer,
        progress: &Progress,
        ended: &mut oneshot::Receiver<()>,
    ) -> Result<(), Status> {
        let (store, offered) = (Arc::clone(&self.store), offer.clone());
        let mut sink = blocking(move || store.receive(&offered)).await?.map_err(disk)?;
        let mut have = sink.offset();
        progress.resume(have);
        self.say(State::Received(have)).await?;
        while have < offer.len_bytes {
            // It ends between two writes, never beside one: the next transfer gets the disk
            // only when this one has let go of it.
            let chunk = tokio::select! {
                biased;
                _ = &mut *ended => return Err(replaced()),
                chunk = self.next_chunk() => chunk?,
            };
            let end = chunk.offset.saturating_add(chunk.bytes.len() as u64);
            if end > have {
                check_place(&chunk, have, offer)?;
                sink = write(sink, chunk.bytes).await?;
                have = end;
                progress.bytes.store(have, Relaxed);
            }
            self.say(State::Received(have)).await?;
        }
        match blocking(move || sink.publish()).await? {
            Ok(()) => self.on_published(offer).await,
            Err(error) => {
                let mut reason = error.to_string();
                tracing::warn!(from = %offer.from, reason, "a snapshot was not published");
                reason.truncate(reason.floor_char_boundary(REASON_BYTES_MAX));
                self.say(State::Spoiled(reason)).await
            }
        }
    }

    async fn next_chunk(&mut self) -> Result<proto::SnapshotChunk, Status> {
        let Some(part) = self.parts.message().await? else {
            return Err(Status::cancelled("the sender ended the stream"));
        };
        match part.part {
            Some(Part::Chunk(chunk)) if chunk.bytes.is_empty() => {
                Err(Status::invalid_argument("a chunk without bytes"))
            }
            Some(Part::Chunk(chunk)) if check(&chunk.bytes) != chunk.check => {
                let at = chunk.offset;
                Err(Status::data_loss(format!("the chunk at {at} was damaged on its way")))
            }
            Some(Part::Chunk(chunk)) => Ok(chunk),
            Some(Part::Offer(_)) | None => {
                Err(Status::invalid_argument("a second offer on one stream, or nothing"))
            }
        }
    }

    /// Tells the engine first: whoever knows of the delivery counts on it.
    async fn on_published(&mut self, offer: &SnapshotOffer) -> Result<(), Status> {
        let (from, term, snapshot) = (offer.from, offer.term, offer.snapshot.clone());
        tracing::info!(%from, last = ?snapshot.last, "snapshot received");
        let event = PeerEvent::SnapshotReceived { from, term, snapshot };
        let told = self.events.send(event).await;
        told.map_err(|_| Status::unavailable("the node has stopped"))?;
        self.shared.incoming.on_delivered(offer);
        self.say(State::Delivered(proto::Delivered {})).await
    }

    async fn say(&self, state: State) -> Result<(), Status> {
        let receipt = proto::SnapshotReceipt { state: Some(state) };
        // A sender that reads no receipts does not hold up the next one.
        let patience = self.shared.config.handshake_timeout;
        let said = self.receipts.send_timeout(Ok(receipt), patience).await;
        said.map_err(|_| Status::cancelled("the sender has gone"))
    }
}

/// Whether the chunk begins where the last one ended.
fn check_place(
    chunk: &proto::SnapshotChunk,
    have: u64,
    offer: &SnapshotOffer,
) -> Result<(), Status> {
    let (offset, size) = (chunk.offset, chunk.bytes.len() as u64);
    if offset != have {
        return Err(Status::aborted(format!("a chunk at {offset}, where {have} was to come")));
    }
    if size > offer.len_bytes - have {
        return Err(Status::invalid_argument("more bytes than were offered"));
    }
    Ok(())
}

async fn write(
    mut sink: Box<dyn SnapshotSink>,
    bytes: bytes::Bytes,
) -> Result<Box<dyn SnapshotSink>, Status> {
    let written = blocking(move || sink.write(&bytes).map(|()| sink)).await?;
    written.map_err(disk)
}

fn disk(error: Box<dyn std::error::Error + Send + Sync>) -> Status {
    tracing::error!(%error, "a snapshot cannot be received");
    Status::internal(format!("the receiver's disk has failed: {error}"))
}

fn replaced() -> Status {
    Status::aborted("a newer transfer took over")
}
