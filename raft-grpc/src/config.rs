//! Who a node is, and the settings of its transport.

use std::fmt;
use std::time::Duration;

use raft_core::{Incarnation, NodeId};

/// Names a cluster. Made once, when the cluster is founded, and kept on disk.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ClusterId(pub u64);

impl fmt::Display for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClusterId({self})")
    }
}

/// Who this node is. Every stream opens with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The cluster.
    pub cluster: ClusterId,
    /// The node.
    pub node: NodeId,
    /// Its disk.
    pub incarnation: Incarnation,
}

/// Settings of the transport. The defaults suit a heartbeat of 100 ms and an election timeout
/// of a second; [`for_timing`](Self::for_timing) derives them from other timings.
///
/// ```
/// use std::time::Duration;
/// let config = raft_grpc::Config::for_timing(Duration::from_millis(50), Duration::from_millis(500));
/// assert!(config.validate().is_ok());
/// ```
#[derive(Clone, Debug)]
pub struct Config {
    /// The longest that setting up a connection may take. 500 ms.
    pub connect_timeout: Duration,
    /// The longest that the greeting on a new stream may take. 500 ms.
    pub handshake_timeout: Duration,
    /// The pause after the first failed attempt to connect; doubles each time, and is
    /// jittered. 20 ms.
    pub backoff_min: Duration,
    /// The longest pause between attempts. 200 ms, well below an election timeout.
    pub backoff_max: Duration,
    /// A connection that has been quiet for so long is probed. 300 ms.
    pub keepalive_interval: Duration,
    /// A probe that is not answered for so long ends the connection. 700 ms.
    pub keepalive_timeout: Duration,
    /// While there is no connection, what waits longer than this is dropped: nobody has a use
    /// for heartbeats of long ago. 200 ms.
    pub stale_after: Duration,
    /// The most bytes that wait for one peer on the bulk lane. 32 MiB.
    pub bulk_bytes_max: usize,
    /// The most bytes that wait for one peer on the control lane. 1 MiB.
    pub control_bytes_max: usize,
    /// The most messages that wait for one peer, on each lane. 16384.
    pub queue_messages_max: usize,
    /// Where a gRPC message is full: larger appends are split, and only a single entry may
    /// exceed it. 256 KiB.
    pub batch_bytes_max: usize,
    /// The largest gRPC message that is sent or accepted. Must hold the largest entry.
    /// 16 MiB.
    pub message_bytes_max: usize,
    /// How many bytes may be under way on one connection, unread by the receiver. 4 MiB.
    pub window_bytes: u32,
    /// Where other nodes can call this one, as `host:port`, several separated by commas. It
    /// goes with every greeting, so that a node that does not know this one yet can answer.
    /// Empty.
    pub advertised: String,
    /// The most nodes that are no peers, and are listened to and answered all the same: a
    /// leader or a candidate of a newer configuration than the one known here. 16.
    pub guests_max: usize,
    /// The most bytes of a snapshot in one message. 256 KiB.
    pub snapshot_chunk_bytes: usize,
    /// The most bytes of snapshots that leave in a second, to all peers together. No limit.
    pub snapshot_bytes_per_second: Option<u64>,
    /// A transfer of a snapshot that gets no further for so long is given up. 60 s.
    pub snapshot_patience: Duration,
    /// Certificates, for connections that are encrypted and authenticated on both sides.
    #[cfg(feature = "tls")]
    pub tls: Option<crate::TlsConfig>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_millis(500),
            handshake_timeout: Duration::from_millis(500),
            backoff_min: Duration::from_millis(20),
            backoff_max: Duration::from_millis(200),
            keepalive_interval: Duration::from_millis(300),
            keepalive_timeout: Duration::from_millis(700),
            stale_after: Duration::from_millis(200),
            bulk_bytes_max: 32 << 20,
            control_bytes_max: 1 << 20,
            queue_messages_max: 16384,
            batch_bytes_max: 256 << 10,
            message_bytes_max: 16 << 20,
            window_bytes: 4 << 20,
            advertised: String::new(),
            guests_max: 16,
            snapshot_chunk_bytes: 256 << 10,
            snapshot_bytes_per_second: None,
            snapshot_patience: Duration::from_secs(60),
            #[cfg(feature = "tls")]
            tls: None,
        }
    }
}

/// Why a configuration is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// This setting is zero.
    #[error("{0} is zero; give it at least one")]
    Zero(&'static str),
    /// The largest message must hold a full batch.
    #[error(
        "message_bytes_max ({message_bytes_max}) is less than twice batch_bytes_max \
         ({batch_bytes_max}); make it at least twice, and larger than the largest entry"
    )]
    MessageTooSmall {
        /// The largest message.
        message_bytes_max: usize,
        /// A full batch.
        batch_bytes_max: usize,
    },
    /// The largest message must hold a chunk of a snapshot.
    #[error(
        "message_bytes_max ({message_bytes_max}) is less than twice snapshot_chunk_bytes \
         ({chunk_bytes}); make the chunks smaller"
    )]
    ChunkTooLarge {
        /// The largest message.
        message_bytes_max: usize,
        /// A chunk.
        chunk_bytes: usize,
    },
    /// HTTP/2 allows no more than 2 GiB.
    #[error("{0} is over 2 GiB, which HTTP/2 does not allow")]
    TooLarge(&'static str),
    /// The backoff must not shrink.
    #[error("backoff_max is less than backoff_min; make it the larger one")]
    BackoffShrinks,
    /// The address of a peer cannot be used.
    #[error("peer {node} has the address {address:?}, {reason}; write it as host:port")]
    Address {
        /// The peer.
        node: NodeId,
        /// Its address.
        address: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The own address cannot be used by the others.
    #[error("this node's own address is {address:?}, {reason}; write it as host:port")]
    Advertised {
        /// The address.
        address: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The certificates cannot be used.
    #[error("the TLS settings cannot be used: {0}")]
    Tls(String),
}

impl Config {
    /// The defaults, with the waiting times in proportion: a peer that vanished is noticed
    /// within about one election timeout, and reconnected well within one.
    pub fn for_timing(heartbeat_interval: Duration, election_timeout: Duration) -> Self {
        let least = Duration::from_millis(1);
        Self {
            connect_timeout: (election_timeout / 2).max(least),
            handshake_timeout: (election_timeout / 2).max(least),
            backoff_min: (heartbeat_interval / 5).max(least),
            backoff_max: (election_timeout / 5).max(least),
            keepalive_interval: (election_timeout * 3 / 10).max(least),
            keepalive_timeout: (election_timeout * 7 / 10).max(least),
            stale_after: (heartbeat_interval * 2).max(least),
            ..Self::default()
        }
    }

    /// Refuses settings that cannot work.
    ///
    /// # Errors
    /// The first setting found wrong, with the reason.
    pub fn validate(&self) -> Result<(), ConfigError> {
        for (name, value) in [
            ("connect_timeout", self.connect_timeout),
            ("handshake_timeout", self.handshake_timeout),
            ("backoff_min", self.backoff_min),
            ("keepalive_interval", self.keepalive_interval),
            ("keepalive_timeout", self.keepalive_timeout),
            ("stale_after", self.stale_after),
            ("snapshot_patience", self.snapshot_patience),
        ] {
            if value.is_zero() {
                return Err(ConfigError::Zero(name));
            }
        }
        for (name, value) in [
            ("bulk_bytes_max", self.bulk_bytes_max),
            ("control_bytes_max", self.control_bytes_max),
            ("queue_messages_max", self.queue_messages_max),
            ("batch_bytes_max", self.batch_bytes_max),
            ("window_bytes", self.window_bytes as usize),
            ("snapshot_chunk_bytes", self.snapshot_chunk_bytes),
            (
                "snapshot_bytes_per_second",
                self.snapshot_bytes_per_second.map_or(1, |it| it as usize),
            ),
        ] {
            if value == 0 {
                return Err(ConfigError::Zero(name));
            }
        }
        self.validate_sizes()
    }

    fn validate_sizes(&self) -> Result<(), ConfigError> {
        let &Self { message_bytes_max, batch_bytes_max, .. } = self;
        if message_bytes_max / 2 < batch_bytes_max {
            return Err(ConfigError::MessageTooSmall { message_bytes_max, batch_bytes_max });
        }
        if self.snapshot_chunk_bytes > message_bytes_max / 2 {
            let chunk_bytes = self.snapshot_chunk_bytes;
            return Err(ConfigError::ChunkTooLarge { message_bytes_max, chunk_bytes });
        }
        if message_bytes_max > i32::MAX as usize {
            return Err(ConfigError::TooLarge("message_bytes_max"));
        }
        if self.window_bytes > i32::MAX as u32 {
            return Err(ConfigError::TooLarge("window_bytes"));
        }
        if self.backoff_max < self.backoff_min {
            return Err(ConfigError::BackoffShrinks);
        }
        Ok(())
    }
}
