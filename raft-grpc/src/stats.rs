//! How the connections fare, for status pages and metrics.

use raft_core::{Incarnation, LogPosition};

/// One peer, as of now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerStats {
    /// Where it is looked for, in this order, separated by commas.
    pub address: String,
    /// Whether it is no peer: it has called, and is answered for as long as it calls.
    pub guest: bool,
    /// Whether both streams to it are open.
    pub connected: bool,
    /// The disk that it came with first since this node started; the only one accepted.
    pub incarnation: Option<Incarnation>,
    /// The disk that was last refused. Whoever sees one here has a node whose data was lost, or
    /// two nodes of one id.
    pub refused_incarnation: Option<Incarnation>,
    /// Elections, heartbeats and read rounds.
    pub control: LaneStats,
    /// Entries, and what must stay in order with them.
    pub bulk: LaneStats,
    /// The snapshot that is being sent to it.
    pub sending: Option<TransferStats>,
}

/// A snapshot under way, as of now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransferStats {
    /// The last entry that it covers.
    pub last: LogPosition,
    /// How many of its bytes have arrived.
    pub bytes: u64,
    /// How many there are.
    pub bytes_total: u64,
    /// How many arrive in a second, on average since it began or was resumed here.
    pub bytes_per_second: u64,
}

/// One lane of a peer, as of now. Counters start with the node and never go back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LaneStats {
    /// Whether the stream to the peer is open.
    pub connected: bool,
    /// Whether a stream from the peer is open.
    pub reading: bool,
    /// How often the stream to the peer was opened.
    pub connects: u64,
    /// Why the stream to the peer ended last, or could not be opened. `None` while it is open.
    pub last_error: Option<String>,
    /// Messages that wait.
    pub queued_messages: usize,
    /// Their bytes, as every bound counts them: a little more than they take on the wire.
    pub queued_bytes: usize,
    /// Messages handed to the connection. Split ones count by their parts.
    pub sent_messages: u64,
    /// Their bytes, counted likewise.
    pub sent_bytes: u64,
    /// Messages dropped because the queue was full, or because they were stale when a
    /// connection was lost or opened.
    pub dropped_messages: u64,
    /// Messages never sent, because a single entry exceeds `message_bytes_max`.
    pub too_large_messages: u64,
    /// Messages from the peer.
    pub received_messages: u64,
    /// Their bytes, counted likewise.
    pub received_bytes: u64,
}
