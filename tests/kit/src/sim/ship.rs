//! Snapshots on their way, in chunks, each on its own through a network that may lose it.
//!
//! ```text
//!   sender                     receiver
//!     │ offer ──────────────────▶ │  begins, or goes on behind what it has
//!     │ ◀──────────── received: n │
//!     │ chunk at n ─────────────▶ │  written; the last one publishes it
//!     │ ◀──────────── received: m │
//!     │ ◀─────────────── delivered│  or spoiled, or outdated
//! ```
//!
//! Whatever is lost is asked for again by the sender, with a new offer of the same transfer.

use std::sync::Arc;

use bytes::Bytes;
use raft_core::{
    LogPosition, NodeId, Snapshot, SnapshotOffer, SnapshotSink, SnapshotSource, SnapshotStore, Term,
};

use super::marks::Mark;

/// How many bytes one chunk has.
const CHUNK_BYTES: usize = 40_000;
/// How often a sender that hears nothing tries again.
const TRIES_MAX: u32 = 8;
/// How often a snapshot that does not add up is sent anew.
const SPOILED_MAX: u32 = 3;

/// A piece of a transfer, from one node to another.
#[derive(Clone, Debug)]
pub(super) struct Parcel {
    pub(super) from: NodeId,
    pub(super) to: NodeId,
    /// The disk of the sender.
    pub(super) incarnation: u64,
    pub(super) piece: Piece,
}

#[derive(Clone, Debug)]
pub(super) enum Piece {
    Offer(Arc<SnapshotOffer>),
    Chunk { transfer: u64, offset: u64, bytes: Bytes },
    Receipt { transfer: u64, state: State },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Received(u64),
    Delivered,
    Spoiled,
    Outdated,
}

/// What is being sent to one peer.
pub(super) struct Outgoing {
    pub(super) offer: Arc<SnapshotOffer>,
    source: Arc<dyn SnapshotSource>,
    tries: u32,
    spoiled: u32,
    /// Counts what was heard: a timer that was set before is out of date.
    pub(super) heard: u64,
}

/// What follows for a sender.
pub(super) enum Next {
    Send(Piece),
    /// It has ended; with the end of the snapshot that the peer has then.
    Ended(Option<LogPosition>),
    Nothing,
}

impl Outgoing {
    pub(super) fn new(
        from: NodeId,
        term: Term,
        transfer: u64,
        source: Arc<dyn SnapshotSource>,
    ) -> Self {
        let snapshot = source.snapshot().clone();
        let (len_bytes, check) = (source.len_bytes(), source.check());
        let offer = SnapshotOffer { from, term, transfer, snapshot, len_bytes, check };
        Self { offer: Arc::new(offer), source, tries: 0, spoiled: 0, heard: 0 }
    }

    pub(super) fn offer(&self) -> Piece {
        Piece::Offer(Arc::clone(&self.offer))
    }

    pub(super) fn on_receipt(&mut self, transfer: u64, state: State) -> Next {
        if transfer != self.offer.transfer {
            return Next::Nothing;
        }
        self.heard += 1;
        self.tries = 0;
        match state {
            State::Received(offset) if offset >= self.offer.len_bytes => Next::Nothing,
            State::Received(offset) => {
                let mut bytes = vec![0; CHUNK_BYTES];
                match self.source.read_at(offset, &mut bytes) {
                    Ok(count) if count > 0 => {
                        bytes.truncate(count);
                        Next::Send(Piece::Chunk { transfer, offset, bytes: bytes.into() })
                    }
                    Ok(_) | Err(_) => Next::Ended(None),
                }
            }
            State::Delivered => Next::Ended(Some(self.offer.snapshot.last)),
            State::Spoiled if self.spoiled < SPOILED_MAX => {
                self.spoiled += 1;
                Next::Send(self.offer())
            }
            State::Spoiled | State::Outdated => Next::Ended(None),
        }
    }

    /// Nothing was heard for a while.
    pub(super) fn on_silence(&mut self) -> Next {
        self.tries += 1;
        if self.tries > TRIES_MAX { Next::Ended(None) } else { Next::Send(self.offer()) }
    }
}

/// What a node receives, or received last.
#[derive(Default)]
pub(super) struct Incoming {
    current: Option<Current>,
    delivered: Option<Name>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Name {
    term: Term,
    from: NodeId,
    transfer: u64,
}

struct Current {
    name: Name,
    offer: Arc<SnapshotOffer>,
    /// Gone once it is published, or could not be written.
    sink: Option<Box<dyn SnapshotSink>>,
    have: u64,
}

/// What came of a piece.
#[derive(Default)]
pub(super) struct Received {
    pub(super) answer: Option<State>,
    pub(super) snapshot: Option<(Term, Snapshot)>,
    pub(super) mark: Option<Mark>,
}

impl Received {
    fn answer(state: State) -> Self {
        Self { answer: Some(state), ..Self::default() }
    }

    fn marked(mark: Mark) -> Self {
        Self { mark: Some(mark), ..Self::default() }
    }
}

impl Parcel {
    pub(super) fn transfer(&self) -> u64 {
        match &self.piece {
            Piece::Offer(offer) => offer.transfer,
            Piece::Chunk { transfer, .. } | Piece::Receipt { transfer, .. } => *transfer,
        }
    }
}

impl Incoming {
    /// Takes in a piece.
    pub(super) fn take(&mut self, parcel: &Parcel, store: &impl SnapshotStore) -> Received {
        match &parcel.piece {
            Piece::Offer(offer) => self.on_offer(offer, store),
            Piece::Chunk { transfer, offset, bytes } => {
                self.on_chunk(parcel.from, *transfer, *offset, bytes)
            }
            Piece::Receipt { .. } => Received::default(),
        }
    }

    fn on_offer(&mut self, offer: &Arc<SnapshotOffer>, store: &impl SnapshotStore) -> Received {
        let name = Name { term: offer.term, from: offer.from, transfer: offer.transfer };
        match &self.current {
            Some(current) if current.name.term > name.term => {
                return Received::answer(State::Outdated);
            }
            Some(current) if current.name.term == name.term && current.name.from != name.from => {
                return Received::default(); // Two leaders of one term: an oracle knows better.
            }
            Some(_) | None => {}
        }
        if self.delivered == Some(name) {
            return Received::answer(State::Delivered);
        }
        self.current = None; // It lets go of its file first.
        let Ok(sink) = store.receive(offer) else { return Received::default() };
        let have = sink.offset();
        self.current = Some(Current { name, offer: Arc::clone(offer), sink: Some(sink), have });
        let mut received = self.go_on();
        received.mark = (have > 0).then_some(Mark::SnapshotResumed);
        received
    }

    fn on_chunk(&mut self, from: NodeId, transfer: u64, offset: u64, bytes: &Bytes) -> Received {
        let current = self.current.as_mut();
        let current = current.filter(|it| it.name.from == from && it.name.transfer == transfer);
        let Some(current) = current else { return Received::marked(Mark::SnapshotStaleChunk) };
        let Some(sink) = &mut current.sink else { return Received::default() };
        if offset < current.have {
            return Received::marked(Mark::SnapshotDuplicateChunk);
        }
        if offset > current.have || offset + bytes.len() as u64 > current.offer.len_bytes {
            return Received::default();
        }
        if sink.write(bytes).is_err() {
            current.sink = None;
            return Received::default();
        }
        current.have += bytes.len() as u64;
        self.go_on()
    }

    /// Publishes what is whole.
    fn go_on(&mut self) -> Received {
        let Some(current) = &mut self.current else { return Received::default() };
        if current.have < current.offer.len_bytes {
            return Received::answer(State::Received(current.have));
        }
        let Some(sink) = current.sink.take() else { return Received::default() };
        if sink.publish().is_err() {
            return Received::answer(State::Spoiled);
        }
        self.delivered = Some(current.name);
        let snapshot = Some((current.offer.term, current.offer.snapshot.clone()));
        Received { answer: Some(State::Delivered), snapshot, mark: None }
    }
}
