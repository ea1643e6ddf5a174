//! Short ways to say what is written to a log.

use std::sync::Arc;

use bytes::Bytes;
use raft_core::{
    Entry, HardState, Index, LogPosition, Membership, NodeId, Payload, Snapshot, SnapshotMark,
    Term, Ticket, Write,
};

/// The node of this number.
///
/// # Panics
/// When it is zero.
pub fn node(id: u64) -> NodeId {
    NodeId::new(id).expect("zero is no node")
}

/// The group that a new store is made with.
pub fn founders() -> Membership {
    Membership::new([1, 2, 3].map(node)).expect("it has voters")
}

/// A place in a log.
pub fn at(index: u64, term: u64) -> LogPosition {
    LogPosition { term: Term(term), index: Index(index) }
}

/// An entry that holds these bytes.
pub fn command(index: u64, term: u64, payload: &[u8]) -> Entry {
    let payload = Payload::Command(Bytes::copy_from_slice(payload));
    Entry { index: Index(index), term: Term(term), payload }
}

/// Appends these.
pub fn entries(entries: impl IntoIterator<Item = Entry>) -> Write {
    Write {
        ticket: Ticket(0),
        truncate: None,
        entries: entries.into_iter().collect(),
        hard_state: None,
        snapshot: None,
    }
}

/// Cuts the log behind `last`, then appends these.
pub fn cut(last: u64, more: impl IntoIterator<Item = Entry>) -> Write {
    Write { truncate: Some(Index(last)), ..entries(more) }
}

/// A new hard state.
pub fn hard(term: u64, vote: Option<u64>, commit: u64) -> Write {
    let hard_state = HardState { term: Term(term), vote: vote.map(node), commit: Index(commit) };
    Write { hard_state: Some(hard_state), ..entries([]) }
}

/// Marks a snapshot that ends at `last`, with these members; the log begins behind `base`.
pub fn mark(last: LogPosition, base: LogPosition, members: (Index, Arc<Membership>)) -> Write {
    let (membership_index, membership) = members;
    let snapshot = Snapshot { last, membership, membership_index };
    Write { snapshot: Some(Box::new(SnapshotMark { snapshot, base })), ..entries([]) }
}
