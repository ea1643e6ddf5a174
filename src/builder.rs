//! A node on this crate's own adapters: the write-ahead log and the gRPC transport.

mod open;
mod opened;

use std::path::PathBuf;
use std::time::Duration;

use raft_core::Lease;
use raft_driver::StateMachine;
use raft_driver::trace::Sink;

use crate::error::StartError;
use crate::node::Node;
use crate::runtime::Config;

pub use opened::Opened;

/// How long followers may wait to hear of a commit that concerns none of their callers: under
/// load the next append brings it sooner.
const COMMIT_NOTICE_DELAY: Duration = Duration::from_millis(1);

/// Says which node of which group to start, and where. Defaults are safe: PreVote,
/// CheckQuorum, checksums and fsync are on.
///
/// ```no_run
/// # async fn example(machine: impl kontiki::StateMachine) -> Result<(), kontiki::StartError> {
/// let node = kontiki::Builder::new(1)
///     .cluster_id(0x6b6f6e)
///     .member(1, "10.0.0.1:7000")
///     .member(2, "10.0.0.2:7000")
///     .member(3, "10.0.0.3:7000")
///     .data_dir("/var/lib/my-service/raft")
///     .start(machine)
///     .await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Builder {
    id: u64,
    cluster_id: Option<u64>,
    founders: Vec<(u64, String)>,
    priorities: Vec<(u64, u8)>,
    join: Vec<String>,
    data_dir: PathBuf,
    listen: Vec<String>,
    config: Settings,
    segment_bytes: Option<u64>,
    snapshot_bytes_per_second: Option<u64>,
}

/// What is left as it is by default where it is `None`.
#[derive(Clone, Debug, Default)]
struct Settings {
    heartbeat_interval: Option<Duration>,
    election_timeout: Option<Duration>,
    entry_bytes_max: Option<usize>,
    recent_bytes_max: Option<usize>,
    snapshot_entries: Option<u64>,
    snapshot_bytes: Option<u64>,
    snapshot_tail_entries: Option<u64>,
    disk_stall_timeout: Option<Duration>,
    lease: Option<Lease>,
    trace: Option<Sink>,
}

/// Who is in the group, and where.
impl Builder {
    /// The node `id`, not zero. Give each node of a group its own, for ever: not even one that
    /// was removed is given again.
    pub fn new(id: u64) -> Self {
        Self {
            id,
            cluster_id: None,
            founders: Vec::new(),
            priorities: Vec::new(),
            join: Vec::new(),
            data_dir: PathBuf::from("raft"),
            listen: Vec::new(),
            config: Settings::default(),
            segment_bytes: None,
            snapshot_bytes_per_second: None,
        }
    }

    /// The number that tells this group from others: nodes of another refuse to talk. Where it
    /// is not given, that of the directory or of the group that is joined, and zero for
    /// founders.
    #[must_use]
    pub fn cluster_id(mut self, cluster_id: u64) -> Self {
        self.cluster_id = Some(cluster_id);
        self
    }

    /// Adds a founder: a voter of a new group, and the address (`host:port`) at which the others
    /// reach it. To be given alike on all founders, this node among them; alone, it needs no
    /// address. Says nothing once there is a log: who belongs to the group is in there, and
    /// changes with [`Node::change_membership`].
    #[must_use]
    pub fn member(mut self, id: u64, address: impl Into<String>) -> Self {
        self.founders.push((id, address.into()));
        self
    }

    /// Gives a founder a priority, alike on all founders: among live members that have caught
    /// up, the one of the highest is to lead. Zero by default.
    #[must_use]
    pub fn priority(mut self, id: u64, priority: u8) -> Self {
        self.priorities.push((id, priority));
        self
    }

    /// Joins the group whose members are at these addresses, in place of founding one. This
    /// node must have been added to it before, with [`Node::change_membership`] on the leader.
    /// Says nothing once there is a log.
    #[must_use]
    pub fn join<A: Into<String>>(mut self, addresses: impl IntoIterator<Item = A>) -> Self {
        self.join.extend(addresses.into_iter().map(Into::into));
        self
    }

    /// The directory of the log and of the snapshots. Made where there is none; one node's
    /// alone. `raft` by default.
    #[must_use]
    pub fn data_dir(mut self, data_dir: impl Into<PathBuf>) -> Self {
        self.data_dir = data_dir.into();
        self
    }

    /// Adds an address to listen on, where it is not the one that the others are given.
    #[must_use]
    pub fn listen(mut self, address: impl Into<String>) -> Self {
        self.listen.push(address.into());
        self
    }
}

/// Times, sizes and bounds.
impl Builder {
    /// How often a leader shows that it lives. 100 ms by default.
    #[must_use]
    pub fn heartbeat_interval(mut self, interval: Duration) -> Self {
        self.config.heartbeat_interval = Some(interval);
        self
    }

    /// How long a node waits for a leader at least, and a leader for its quorum; up to twice
    /// this is drawn at random. 1 s by default.
    #[must_use]
    pub fn election_timeout(mut self, timeout: Duration) -> Self {
        self.config.election_timeout = Some(timeout);
        self
    }

    /// The largest command, in bytes. 8 MiB by default.
    #[must_use]
    pub fn entry_bytes_max(mut self, bytes: usize) -> Self {
        self.config.entry_bytes_max = Some(bytes);
        self
    }

    /// How many bytes of recent entries are kept in memory. 32 MiB by default.
    #[must_use]
    pub fn recent_bytes_max(mut self, bytes: usize) -> Self {
        self.config.recent_bytes_max = Some(bytes);
        self
    }

    /// How large a file of the log grows, in bytes. 64 MiB by default.
    #[must_use]
    pub fn segment_bytes(mut self, bytes: u64) -> Self {
        self.segment_bytes = Some(bytes);
        self
    }

    /// A snapshot is taken when so many entries were applied after the last one. 100 000 by
    /// default.
    #[must_use]
    pub fn snapshot_entries(mut self, entries: u64) -> Self {
        self.config.snapshot_entries = Some(entries);
        self
    }

    /// A snapshot is taken when so many bytes of log were applied after the last one. 64 MiB by
    /// default.
    #[must_use]
    pub fn snapshot_bytes(mut self, bytes: u64) -> Self {
        self.config.snapshot_bytes = Some(bytes);
        self
    }

    /// How many entries behind a snapshot stay in the log, for followers that are a little slow.
    /// 5000 by default.
    #[must_use]
    pub fn snapshot_tail_entries(mut self, entries: u64) -> Self {
        self.config.snapshot_tail_entries = Some(entries);
        self
    }

    /// The most bytes of snapshots that this node sends in a second, to all others together. No
    /// limit by default.
    #[must_use]
    pub fn snapshot_bytes_per_second(mut self, bytes: u64) -> Self {
        self.snapshot_bytes_per_second = Some(bytes);
        self
    }

    /// How long a write may be under way before a leader takes its disk for stalled, and yields.
    /// 3 s by default.
    #[must_use]
    pub fn disk_stall_timeout(mut self, timeout: Duration) -> Self {
        self.config.disk_stall_timeout = Some(timeout);
        self
    }

    /// Serves reads under a [lease](crate::Consistency::Lease), for as long as no clock of the
    /// group runs faster or slower than true time by more than `clock_error_ppm` parts per
    /// million; `margin` is taken off beyond that. To be given alike on all members. Never by
    /// default.
    #[must_use]
    pub fn lease_reads(mut self, clock_error_ppm: u32, margin: Duration) -> Self {
        self.config.lease = Some(Lease { clock_error_ppm, margin });
        self
    }

    /// Has every step of the core recorded: what happened, and what the node wanted done about
    /// it. `raft-testkit` checks and draws such records. The sink is called on the node's path:
    /// it must be quick.
    #[must_use]
    pub fn trace(mut self, sink: Sink) -> Self {
        self.config.trace = Some(sink);
        self
    }

    /// Starts the node: opens or makes its log, listens, and takes part.
    ///
    /// # Errors
    /// See [`StartError`]. Nothing is changed on disk unless the settings are in order.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub async fn start<S: StateMachine>(self, machine: S) -> Result<Node<S::Response>, StartError> {
        self.open().await?.start(machine)
    }

    /// Binds the node's address and opens or makes its log, but does not take part yet. For
    /// state machines with files of their own: whoever opens those afterwards knows that no
    /// other process has them, and that they are this node's.
    ///
    /// # Errors
    /// See [`StartError`]. Nothing is changed on disk unless the settings are in order.
    pub async fn open(self) -> Result<Opened, StartError> {
        open::open(self).await
    }
}

impl Settings {
    /// The settings of the engine and of the core, proven to work.
    fn config(&self, id: raft_core::NodeId) -> Result<Config, StartError> {
        let mut raft = raft_core::Config::new(id);
        set(&mut raft.heartbeat_interval, self.heartbeat_interval);
        set(&mut raft.election_timeout, self.election_timeout);
        raft.commit_notice_delay = COMMIT_NOTICE_DELAY;
        set(&mut raft.entry_bytes_max, self.entry_bytes_max);
        set(&mut raft.recent_bytes_max, self.recent_bytes_max);
        set(&mut raft.snapshot_tail_entries, self.snapshot_tail_entries);
        set(&mut raft.disk_stall_timeout, self.disk_stall_timeout);
        raft.lease = self.lease;
        raft.validate()?;
        let mut config = Config::new(raft);
        set(&mut config.snapshot_entries, self.snapshot_entries);
        set(&mut config.snapshot_bytes, self.snapshot_bytes);
        config.trace = self.trace.clone();
        config.validate()?;
        Ok(config)
    }
}

fn set<T>(setting: &mut T, given: Option<T>) {
    if let Some(given) = given {
        *setting = given;
    }
}
