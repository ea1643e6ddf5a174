//! What `kontiki serve` runs with: settings from flags, environment and file, proven to fit.
//!
//! ```text
//! flags > KONTIKI_… > ETCD_… > --config-file      > defaults
//!   (flags.rs, then clap)       Settings::over   ServeConfig::resolve
//! ```
//! A [`ServeConfig`] can only be made by [`ServeConfig::resolve`], so whoever holds one need not
//! check again. Nothing here opens a socket, touches the data directory or reads a clock.

mod checks;
mod error;
mod flags;
mod foreign;
mod identity;
mod list;
mod period;
mod settings;
mod yaml;

use std::path::PathBuf;
use std::time::Duration;

use kontiki::NodeId;

use checks::{
    Urls, auto_compaction, check_name, check_ports_apart, count, data_dir, find_self, lease_reads,
    listen_urls, log_level, log_outputs, members, notify_interval, size, stall_timeout, timing,
};

pub use error::ConfigError;
pub use flags::{
    ETCD_PREFIX, FlagError, Translated, etcd_variable, is_foreign, is_foreign_variable, translate,
};
pub use identity::{cluster_id, member_id, restored_cluster_id};
pub use kontiki_client::{HttpUrl, UrlError};
pub use list::{MemberList, UrlList, WordList};
pub use period::{Period, PeriodError};
pub use settings::{ClusterState, CompactionMode, LogFormat, MetricsDetail, Settings};

/// The client port of etcd, and ours.
pub const CLIENT_PORT: u16 = 2379;
/// The peer port of etcd, and ours.
pub const PEER_PORT: u16 = 2380;
/// As etcd: an election timeout has room for several heartbeats.
pub const HEARTBEATS_PER_ELECTION_MIN: u64 = 5;
/// As etcd: a longer election timeout helps nobody.
pub const ELECTION_TIMEOUT_MS_MAX: u64 = 50_000;
/// A request travels as one entry of the log, whose size is bounded.
pub const MAX_REQUEST_BYTES_MAX: u64 = 7 << 20;

const QUOTA_BACKEND_BYTES: u64 = 2 << 30;

/// One member of the initial cluster, with the id that every node computes for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The same on every node that was given the same `--initial-cluster` and token.
    pub id: NodeId,
    /// Its `--name`.
    pub name: String,
    /// Where its peers reach it.
    pub peer_urls: Vec<HttpUrl>,
}

/// How long linearizable reads may be served without asking anybody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseReads {
    /// How far from true time a clock may run, in millionths.
    pub clock_error_ppm: u32,
    /// What is taken off beyond that.
    pub margin: Duration,
}

/// What history is given up without anybody asking for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AutoCompaction {
    /// What was replaced so long ago.
    Older(Duration),
    /// All but the newest revisions.
    Revisions(i64),
}

/// Where log lines go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogOutput {
    /// Standard error.
    Stderr,
    /// Standard output.
    Stdout,
    /// To the end of this file.
    File(PathBuf),
}

/// A configuration that fits together. Whether this node is one of `initial_cluster` counts only
/// while it has no log; see [`initial_id`](Self::initial_id).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServeConfig {
    /// This node's name, unique in the cluster.
    pub name: String,
    /// Where everything durable lives.
    pub data_dir: PathBuf,
    /// Where clients are served.
    pub listen_client_urls: Vec<HttpUrl>,
    /// What the member list tells clients to dial.
    pub advertise_client_urls: Vec<HttpUrl>,
    /// Where peers are served.
    pub listen_peer_urls: Vec<HttpUrl>,
    /// What the other nodes dial.
    pub initial_advertise_peer_urls: Vec<HttpUrl>,
    /// All members at the start, this one included, in order of their ids.
    pub initial_cluster: Vec<Member>,
    /// Whether this node helps to found the cluster or joins one that runs.
    pub initial_cluster_state: ClusterState,
    /// Keeps clusters apart that were made from the same URLs.
    pub initial_cluster_token: String,
    /// The id of a cluster that is founded by `initial_cluster`.
    pub initial_cluster_id: u64,
    /// How often a leader shows that it lives.
    pub heartbeat_interval: Duration,
    /// How long a follower waits for a leader at least; at most twice this.
    pub election_timeout: Duration,
    /// How many applied entries lie between two snapshots.
    pub snapshot_count: u64,
    /// How many bytes of log lie between two snapshots.
    pub snapshot_bytes: u64,
    /// How many entries behind a snapshot stay in the log.
    pub snapshot_catchup_entries: u64,
    /// The most bytes of snapshots that are sent in a second.
    pub snapshot_bytes_per_second: Option<u64>,
    /// Of live members that have caught up, the one of the highest leads. `None`: as it is.
    pub priority: Option<u8>,
    /// Whether linearizable reads are served under a lease.
    pub lease_reads: Option<LeaseReads>,
    /// How often is noted what is left of a long lease.
    pub lease_checkpoint_interval: Duration,
    /// After how long a write counts as stalled.
    pub disk_stall_timeout: Duration,
    /// Whether changes of the members are refused that leave no quorum of live voters.
    pub strict_reconfig_check: bool,
    /// From what size of the store on writes are refused. `None`: never.
    pub quota_backend_bytes: Option<u64>,
    /// The largest request that clients may send.
    pub max_request_bytes: usize,
    /// The most operations in one transaction.
    pub max_txn_ops: usize,
    /// After how long a client is told how far an idle watch is, if it asked for that.
    pub watch_progress_notify_interval: Duration,
    /// The most requests that one connection may have open. `None`: no limit.
    pub max_concurrent_streams: Option<u32>,
    /// How long a client's connection may be silent until it is asked for a sign of life, and how
    /// long that may take. `None`: it is not asked.
    pub keepalive: Option<(Duration, Duration)>,
    /// What history is given up by itself.
    pub auto_compaction: Option<AutoCompaction>,
    /// What is logged: a level, or a filter for each module.
    pub log_level: String,
    /// How it is logged.
    pub log_format: LogFormat,
    /// How much is measured.
    pub metrics: MetricsDetail,
    /// Where `/metrics` and `/health` are served beside the client port.
    pub listen_metrics_urls: Vec<HttpUrl>,
    /// Where it is logged.
    pub log_outputs: Vec<LogOutput>,
    /// Where every step of the consensus is recorded.
    pub trace: Option<PathBuf>,
    /// What was said that has no meaning here, or another one than was meant.
    pub notes: Vec<String>,
}

impl ServeConfig {
    /// Fills in defaults and refuses what cannot work.
    ///
    /// # Errors
    /// The first setting found wrong, and what to do about it.
    ///
    /// ```
    /// use kontiki_kv::config::{ServeConfig, Settings};
    ///
    /// let config = ServeConfig::resolve(Settings::default())?;
    /// assert_eq!(config.listen_client_urls[0].to_string(), "http://localhost:2379");
    /// # Ok::<(), kontiki_kv::config::ConfigError>(())
    /// ```
    pub fn resolve(settings: Settings) -> Result<Self, ConfigError> {
        let (heartbeat_interval, election_timeout) =
            timing(settings.heartbeat_interval, settings.election_timeout)?;
        let lease_reads = lease_reads(&settings, election_timeout)?;
        let name = settings.name.unwrap_or_else(|| "default".to_owned());
        check_name(&name)?;
        let client = Urls::resolve(
            ["listen-client-urls", "advertise-client-urls"],
            settings.listen_client_urls,
            settings.advertise_client_urls,
            CLIENT_PORT,
        )?;
        let peer = Urls::resolve(
            ["listen-peer-urls", "initial-advertise-peer-urls"],
            settings.listen_peer_urls,
            settings.initial_advertise_peer_urls,
            PEER_PORT,
        )?;
        check_ports_apart(&client.listen, &peer.listen)?;
        peer.check_dialled("initial-advertise-peer-urls")?;
        let mut notes = settings.notes;
        if let Err(error) = client.check_dialled("advertise-client-urls") {
            notes.push(error.to_string());
        }

        let token = settings.initial_cluster_token.unwrap_or_else(|| "etcd-cluster".to_owned());
        if token.is_empty() {
            return Err(ConfigError::Empty { setting: "initial-cluster-token" });
        }
        let members = match settings.initial_cluster {
            Some(list) => members(list, &token)?,
            None => members(MemberList::alone(&name, &peer.advertise), &token)?,
        };
        Ok(Self {
            data_dir: data_dir(settings.data_dir, &name)?,
            name,
            listen_client_urls: client.listen,
            advertise_client_urls: client.advertise,
            listen_peer_urls: peer.listen,
            initial_advertise_peer_urls: peer.advertise,
            initial_cluster_id: cluster_id(members.iter().map(|member| member.id)),
            initial_cluster: members,
            initial_cluster_state: settings.initial_cluster_state.unwrap_or_default(),
            initial_cluster_token: token,
            lease_reads,
            lease_checkpoint_interval: Duration::from_millis(size(
                "lease-checkpoint-interval",
                settings.lease_checkpoint_interval,
                300_000,
                u64::from(u32::MAX),
            )?),
            disk_stall_timeout: stall_timeout(settings.disk_stall_timeout, heartbeat_interval)?,
            heartbeat_interval,
            election_timeout,
            // As etcd: zero asks for the default.
            snapshot_count: match settings.snapshot_count {
                None | Some(0) => 100_000,
                Some(count) => count,
            },
            snapshot_bytes: size("snapshot-bytes", settings.snapshot_bytes, 64 << 20, u64::MAX)?,
            snapshot_catchup_entries: settings.snapshot_catchup_entries.unwrap_or(5000),
            snapshot_bytes_per_second: settings
                .snapshot_bytes_per_second
                .map(|bytes| size("snapshot-bytes-per-second", Some(bytes), 0, u64::MAX))
                .transpose()?,
            priority: settings.priority,
            strict_reconfig_check: settings.strict_reconfig_check.unwrap_or(true),
            // As etcd: zero asks for the default, and a negative number for no quota.
            quota_backend_bytes: match settings.quota_backend_bytes {
                None | Some(0) => Some(QUOTA_BACKEND_BYTES),
                Some(bytes) => u64::try_from(bytes).ok(),
            },
            max_request_bytes: count(
                "max-request-bytes",
                at_most(settings.max_request_bytes, &mut notes),
                3 << 19,
                MAX_REQUEST_BYTES_MAX,
            )?,
            max_txn_ops: count("max-txn-ops", settings.max_txn_ops, 128, u64::from(u32::MAX))?,
            watch_progress_notify_interval: notify_interval(
                settings.experimental_watch_progress_notify_interval,
            ),
            max_concurrent_streams: settings.max_concurrent_streams,
            keepalive: keepalive(settings.grpc_keepalive_interval, settings.grpc_keepalive_timeout),
            auto_compaction: auto_compaction(
                settings.auto_compaction_mode.unwrap_or_default(),
                settings.auto_compaction_retention,
            )?,
            log_level: log_level(settings.log_level)?,
            log_format: settings.log_format.unwrap_or_default(),
            metrics: settings.metrics.unwrap_or_default(),
            listen_metrics_urls: listen_urls("listen-metrics-urls", settings.listen_metrics_urls)?,
            log_outputs: log_outputs(settings.log_outputs)?,
            trace: settings.trace,
            notes,
        })
    }

    /// This node's id in a cluster that `initial_cluster` founds. To be asked only while it has
    /// no log: from then on it has its id for ever.
    ///
    /// # Errors
    /// This node is not among the members, or with other URLs, or would join nobody but itself.
    pub fn initial_id(&self) -> Result<NodeId, ConfigError> {
        let id = find_self(&self.initial_cluster, &self.name, &self.initial_advertise_peer_urls)?;
        let is_alone = self.initial_cluster.len() == 1;
        if self.initial_cluster_state == ClusterState::Existing && is_alone {
            return Err(ConfigError::NobodyToJoin);
        }
        Ok(id)
    }

    /// The settings that resolve to this configuration, every one of them stated.
    pub fn to_settings(&self) -> Settings {
        let member = |member: &Member| {
            let name = member.name.clone();
            let pair = move |url: &HttpUrl| (name.clone(), url.clone());
            member.peer_urls.iter().map(pair).collect::<Vec<_>>()
        };
        let ms = |time: Duration| Some(time.as_millis() as u64);
        Settings {
            name: Some(self.name.clone()),
            data_dir: Some(self.data_dir.clone()),
            listen_client_urls: Some(UrlList(self.listen_client_urls.clone())),
            advertise_client_urls: Some(UrlList(self.advertise_client_urls.clone())),
            listen_peer_urls: Some(UrlList(self.listen_peer_urls.clone())),
            initial_advertise_peer_urls: Some(UrlList(self.initial_advertise_peer_urls.clone())),
            initial_cluster: Some(MemberList(
                self.initial_cluster.iter().flat_map(member).collect(),
            )),
            initial_cluster_state: Some(self.initial_cluster_state),
            initial_cluster_token: Some(self.initial_cluster_token.clone()),
            heartbeat_interval: ms(self.heartbeat_interval),
            election_timeout: ms(self.election_timeout),
            snapshot_count: Some(self.snapshot_count),
            snapshot_bytes: Some(self.snapshot_bytes),
            snapshot_catchup_entries: Some(self.snapshot_catchup_entries),
            snapshot_bytes_per_second: self.snapshot_bytes_per_second,
            priority: self.priority,
            lease_reads: Some(self.lease_reads.is_some()),
            lease_clock_error: self.lease_reads.map(|lease| lease.clock_error_ppm),
            lease_margin: self.lease_reads.and_then(|lease| ms(lease.margin)),
            lease_checkpoint_interval: ms(self.lease_checkpoint_interval),
            disk_stall_timeout: ms(self.disk_stall_timeout),
            strict_reconfig_check: Some(self.strict_reconfig_check),
            quota_backend_bytes: Some(
                self.quota_backend_bytes
                    .map_or(-1, |bytes| i64::try_from(bytes).unwrap_or(i64::MAX)),
            ),
            max_request_bytes: Some(self.max_request_bytes as u64),
            max_txn_ops: Some(self.max_txn_ops as u64),
            experimental_watch_progress_notify_interval: Some(Period(
                self.watch_progress_notify_interval,
            )),
            max_concurrent_streams: self.max_concurrent_streams,
            grpc_keepalive_interval: Some(Period(
                self.keepalive.map_or(Duration::ZERO, |(interval, _)| interval),
            )),
            grpc_keepalive_timeout: self.keepalive.map(|(_, timeout)| Period(timeout)),
            auto_compaction_mode: Some(match self.auto_compaction {
                Some(AutoCompaction::Revisions(_)) => CompactionMode::Revision,
                Some(AutoCompaction::Older(_)) | None => CompactionMode::Periodic,
            }),
            auto_compaction_retention: Some(match self.auto_compaction {
                Some(AutoCompaction::Revisions(count)) => count.to_string(),
                Some(AutoCompaction::Older(time)) => Period(time).to_string(),
                None => "0".to_owned(),
            }),
            log_level: Some(self.log_level.clone()),
            log_format: Some(self.log_format),
            metrics: Some(self.metrics),
            listen_metrics_urls: Some(self.listen_metrics_urls.clone())
                .filter(|urls| !urls.is_empty())
                .map(UrlList),
            log_outputs: Some(WordList(self.log_outputs.iter().map(LogOutput::word).collect())),
            trace: self.trace.clone(),
            notes: Vec::new(),
        }
    }
}

impl LogOutput {
    fn word(&self) -> String {
        match self {
            Self::Stderr => "stderr".to_owned(),
            Self::Stdout => "stdout".to_owned(),
            Self::File(path) => path.display().to_string(),
        }
    }
}

/// A larger request than the log can take is no reason not to start: etcd would.
fn at_most(bytes: Option<u64>, notes: &mut Vec<String>) -> Option<u64> {
    let max = MAX_REQUEST_BYTES_MAX;
    if bytes.is_some_and(|bytes| bytes > max) {
        notes.push(format!("max-request-bytes is {max}: an entry of the log takes no more"));
    }
    bytes.map(|bytes| bytes.min(max))
}

/// As etcd's defaults; zero for either switches it off.
fn keepalive(interval: Option<Period>, timeout: Option<Period>) -> Option<(Duration, Duration)> {
    let interval = interval.map_or(Duration::from_secs(2 * 3600), |Period(time)| time);
    let timeout = timeout.map_or(Duration::from_secs(20), |Period(time)| time);
    (!interval.is_zero() && !timeout.is_zero()).then_some((interval, timeout))
}

#[cfg(test)]
mod tests;
