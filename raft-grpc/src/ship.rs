//! Snapshots, each on a stream and a connection of its own, so that they delay nothing else.
//!
//! ```text
//!  sender                                         receiver
//!    ── offer: term, transfer, what it covers, length, check ──►  store.receive
//!    ◄────────── received 0, or as far as it came before ───────  sink.offset
//!    ── chunk at that offset, with its check ──────────────────►  sink.write
//!    ◄────────── received so far ───────────────────────────────
//!      … two chunks at most are under way …
//!    ◄────────── delivered ─────────────────────────────────────  sink.publish: checked, durable
//! ```
//! When the connection breaks, the sender comes with the same offer, and is told where to go on:
//! by what the receiver has, not by what the sender has sent. When the whole does not add up, it
//! is sent anew as another transfer. The receiver takes one at a time, and none of a term older
//! than it has seen: after an election the snapshots of the old leader and of the new one never
//! mix. Whatever touches a disk runs on threads for blocking work.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use raft_core::{LogPosition, Membership, NodeId, Snapshot, SnapshotOffer};
use tokio::task::spawn_blocking;
use tonic::Status;

use crate::decode::{DecodeError, index, position, term};
use crate::proto;
use crate::stats::TransferStats;

mod incoming;
mod outgoing;
mod pace;
#[cfg(test)]
mod tests;

pub(crate) use incoming::{Incoming, receive};
pub(crate) use outgoing::{Shipping, send};
pub use outgoing::{SnapshotSendError, SnapshotSending};
pub(crate) use pace::Pace;

/// How many chunks are under way, or being written by the receiver.
const CHUNKS_IN_FLIGHT: u64 = 2;

/// How far a transfer is.
#[derive(Debug)]
struct Progress {
    last: LogPosition,
    bytes: AtomicU64,
    bytes_total: u64,
    /// When it began or was resumed, and with how many bytes.
    since: Instant,
    resumed_at: AtomicU64,
}

impl Progress {
    fn new(last: LogPosition, bytes_total: u64) -> Arc<Self> {
        let (bytes, resumed_at) = (AtomicU64::new(0), AtomicU64::new(0));
        Arc::new(Self { last, bytes, bytes_total, since: Instant::now(), resumed_at })
    }

    /// It goes on from there.
    fn resume(&self, bytes: u64) {
        self.resumed_at.store(bytes, Relaxed);
        self.bytes.store(bytes, Relaxed);
    }

    fn stats(&self) -> TransferStats {
        let bytes = self.bytes.load(Relaxed);
        let here = bytes.saturating_sub(self.resumed_at.load(Relaxed));
        let seconds = self.since.elapsed().as_secs_f64().max(1e-3);
        TransferStats {
            last: self.last,
            bytes,
            bytes_total: self.bytes_total,
            bytes_per_second: (here as f64 / seconds) as u64,
        }
    }
}

fn check(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

/// Runs what touches a disk where it holds up nothing else.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Status> {
    let ended = spawn_blocking(work).await;
    ended.map_err(|error| Status::internal(format!("the snapshot store has failed: {error}")))
}

pub(crate) fn encode_offer(offer: &SnapshotOffer) -> proto::SnapshotOffer {
    let Snapshot { last, membership, membership_index } = &offer.snapshot;
    proto::SnapshotOffer {
        term: offer.term.0,
        transfer: offer.transfer,
        last_term: last.term.0,
        last_index: last.index.0,
        membership: membership.encode().into(),
        membership_index: membership_index.0,
        len_bytes: offer.len_bytes,
        check: offer.check,
    }
}

pub(crate) fn decode_offer(
    wire: &proto::SnapshotOffer,
    from: NodeId,
) -> Result<SnapshotOffer, DecodeError> {
    let snapshot = Snapshot {
        last: position("offer.last", wire.last_term, wire.last_index)?,
        membership: Arc::new(Membership::decode(&wire.membership)?),
        membership_index: index("offer.membership_index", wire.membership_index)?,
    };
    Ok(SnapshotOffer {
        from,
        term: term("offer.term", wire.term)?,
        transfer: wire.transfer,
        snapshot,
        len_bytes: wire.len_bytes,
        check: wire.check,
    })
}
