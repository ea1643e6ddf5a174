//! The settings of `kontiki serve` as they are given: each may be left out.

use std::path::{Path, PathBuf};

use clap::{Args, Command, FromArgMatches, ValueEnum};
use serde::{Deserialize, Serialize};

use super::flags::translate_pairs;
use super::{ConfigError, MemberList, Period, UrlList, WordList, yaml};

/// What flags, environment or file say. Names are etcd's where they mean the same.
#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Settings {
    /// The name of this node, unique in the cluster [default: default]
    #[arg(long, env = "KONTIKI_NAME", value_name = "NAME")]
    pub name: Option<String>,

    /// Where the log and the data are kept [default: ${name}.kontiki]
    #[arg(long, env = "KONTIKI_DATA_DIR", value_name = "DIR")]
    pub data_dir: Option<PathBuf>,

    /// Where to serve clients, separated by commas [default: http://localhost:2379]
    #[arg(long, env = "KONTIKI_LISTEN_CLIENT_URLS", value_name = "URLS")]
    pub listen_client_urls: Option<UrlList>,

    /// What clients are told to dial [default: the client URLs listened on]
    #[arg(long, env = "KONTIKI_ADVERTISE_CLIENT_URLS", value_name = "URLS")]
    pub advertise_client_urls: Option<UrlList>,

    /// Where to serve the other nodes [default: http://localhost:2380]
    #[arg(long, env = "KONTIKI_LISTEN_PEER_URLS", value_name = "URLS")]
    pub listen_peer_urls: Option<UrlList>,

    /// What the other nodes dial [default: the peer URL listened on]
    #[arg(long, env = "KONTIKI_INITIAL_ADVERTISE_PEER_URLS", value_name = "URLS")]
    pub initial_advertise_peer_urls: Option<UrlList>,

    /// All nodes, the same text on each: NAME=URL,NAME=URL [default: this node alone]
    #[arg(long, env = "KONTIKI_INITIAL_CLUSTER", value_name = "MEMBERS")]
    pub initial_cluster: Option<MemberList>,

    /// Whether the cluster is founded now, or exists and has this node added [default: new]
    #[arg(long, env = "KONTIKI_INITIAL_CLUSTER_STATE", value_name = "STATE")]
    pub initial_cluster_state: Option<ClusterState>,

    /// Keeps clusters apart that were made from the same URLs [default: etcd-cluster]
    #[arg(long, env = "KONTIKI_INITIAL_CLUSTER_TOKEN", value_name = "TEXT")]
    pub initial_cluster_token: Option<String>,

    /// Milliseconds between two heartbeats of a leader [default: 100]
    #[arg(long, env = "KONTIKI_HEARTBEAT_INTERVAL", value_name = "MS")]
    pub heartbeat_interval: Option<u64>,

    /// Milliseconds without a leader until a node stands for election [default: 1000]
    #[arg(long, env = "KONTIKI_ELECTION_TIMEOUT", value_name = "MS")]
    pub election_timeout: Option<u64>,

    /// Applied entries between two snapshots [default: 100000]
    #[arg(long, env = "KONTIKI_SNAPSHOT_COUNT", value_name = "N")]
    pub snapshot_count: Option<u64>,

    /// Bytes of log between two snapshots [default: 67108864]
    #[arg(long, env = "KONTIKI_SNAPSHOT_BYTES", value_name = "BYTES")]
    pub snapshot_bytes: Option<u64>,

    /// Entries behind a snapshot that stay in the log for slow followers [default: 5000]
    #[arg(long, env = "KONTIKI_SNAPSHOT_CATCHUP_ENTRIES", value_name = "N")]
    pub snapshot_catchup_entries: Option<u64>,

    /// The most bytes of snapshots that are sent in a second [default: no limit]
    #[arg(long, env = "KONTIKI_SNAPSHOT_BYTES_PER_SECOND", value_name = "BYTES")]
    pub snapshot_bytes_per_second: Option<u64>,

    /// Of live members that have caught up, the one of the highest priority leads [default: as it
    /// is, 0 at first]
    #[arg(long, env = "KONTIKI_PRIORITY", value_name = "0-255")]
    pub priority: Option<u8>,

    /// Serve linearizable reads without a round of messages where clocks can be trusted; to be
    /// set alike on all nodes [default: false]
    #[arg(long, env = "KONTIKI_LEASE_READS", value_name = "BOOL", num_args = 0..=1,
        require_equals = true, default_missing_value = "true")]
    pub lease_reads: Option<bool>,

    /// How far from true time a clock may run, in millionths [default: 1000]
    #[arg(long, env = "KONTIKI_LEASE_CLOCK_ERROR", value_name = "PPM")]
    pub lease_clock_error: Option<u32>,

    /// Milliseconds that are taken off a lease beyond that [default: a twentieth of
    /// --election-timeout]
    #[arg(long, env = "KONTIKI_LEASE_MARGIN", value_name = "MS")]
    pub lease_margin: Option<u64>,

    /// Milliseconds after which is noted what is left of a lease that lasts longer, so that a
    /// change of the leader does not give it all of its time again [default: 300000]
    #[arg(long, env = "KONTIKI_LEASE_CHECKPOINT_INTERVAL", value_name = "MS")]
    pub lease_checkpoint_interval: Option<u64>,

    /// Milliseconds of one write after which a leader takes its disk for stalled and yields
    /// [default: 3000]
    #[arg(long, env = "KONTIKI_DISK_STALL_TIMEOUT", value_name = "MS")]
    pub disk_stall_timeout: Option<u64>,

    /// Refuse changes of the members that leave no quorum of live voters [default: true]
    #[arg(long, env = "KONTIKI_STRICT_RECONFIG_CHECK", value_name = "BOOL", num_args = 0..=1,
        require_equals = true, default_missing_value = "true")]
    pub strict_reconfig_check: Option<bool>,

    /// The size of the data from which on writes are refused; 0 is the default, and below it there
    /// is no limit [default: 2 GiB]
    #[arg(
        long,
        env = "KONTIKI_QUOTA_BACKEND_BYTES",
        value_name = "BYTES",
        allow_negative_numbers = true
    )]
    pub quota_backend_bytes: Option<i64>,

    /// The largest request of a client [default: 1572864]
    #[arg(long, env = "KONTIKI_MAX_REQUEST_BYTES", value_name = "BYTES")]
    pub max_request_bytes: Option<u64>,

    /// The most operations in one transaction [default: 128]
    #[arg(long, env = "KONTIKI_MAX_TXN_OPS", value_name = "N")]
    pub max_txn_ops: Option<u64>,

    /// How long a watch is idle until a client that asked for it is told how far it is, as in
    /// 10m, 5s or 500ms [default: 10m]
    #[arg(long, env = "KONTIKI_EXPERIMENTAL_WATCH_PROGRESS_NOTIFY_INTERVAL", value_name = "TIME")]
    pub experimental_watch_progress_notify_interval: Option<Period>,

    /// The most requests that one connection may have open [default: no limit]
    #[arg(long, env = "KONTIKI_MAX_CONCURRENT_STREAMS", value_name = "N")]
    pub max_concurrent_streams: Option<u32>,

    /// How long a client's connection may be silent until it is asked for a sign of life; 0 is
    /// never [default: 2h]
    #[arg(long, env = "KONTIKI_GRPC_KEEPALIVE_INTERVAL", value_name = "TIME")]
    pub grpc_keepalive_interval: Option<Period>,

    /// How long the sign of life may take until the connection is closed [default: 20s]
    #[arg(long, env = "KONTIKI_GRPC_KEEPALIVE_TIMEOUT", value_name = "TIME")]
    pub grpc_keepalive_timeout: Option<Period>,

    /// What of the history is kept: that of a time, or a number of revisions [default: periodic]
    #[arg(long, env = "KONTIKI_AUTO_COMPACTION_MODE", value_name = "MODE")]
    pub auto_compaction_mode: Option<CompactionMode>,

    /// How much of it: hours, or a time such as 5m; or that many revisions; 0 keeps all
    /// [default: 0]
    #[arg(long, env = "KONTIKI_AUTO_COMPACTION_RETENTION", value_name = "TIME|N")]
    pub auto_compaction_retention: Option<String>,

    /// error, warn, info, debug or trace; or by module: info,raft_grpc=debug [default: info]
    #[arg(long, env = "KONTIKI_LOG_LEVEL", value_name = "FILTER")]
    pub log_level: Option<String>,

    /// The form of the log [default: human]
    #[arg(long, env = "KONTIKI_LOG_FORMAT", value_name = "FORMAT")]
    pub log_format: Option<LogFormat>,

    /// How much is measured: extensive has the latency of every method too [default: basic]
    #[arg(long, env = "KONTIKI_METRICS", value_name = "DETAIL")]
    pub metrics: Option<MetricsDetail>,

    /// Where to serve /metrics and /health beside the client URLs [default: nowhere]
    #[arg(long, env = "KONTIKI_LISTEN_METRICS_URLS", value_name = "URLS")]
    pub listen_metrics_urls: Option<UrlList>,

    /// Where log lines go: stderr, stdout or files, separated by commas [default: stderr]
    #[arg(long, env = "KONTIKI_LOG_OUTPUTS", value_name = "OUTPUTS")]
    pub log_outputs: Option<WordList>,

    /// Append every step of the consensus to this file, a line of JSON each [default: none]
    #[arg(long, env = "KONTIKI_TRACE", value_name = "FILE")]
    pub trace: Option<PathBuf>,

    /// What was said that has no meaning here, a line each: to be logged
    #[arg(skip)]
    #[serde(skip)]
    pub notes: Vec<String>,
}

/// What automatic compaction goes by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CompactionMode {
    /// The age of a revision.
    #[default]
    Periodic,
    /// How many revisions came after it.
    Revision,
}

/// Whether a node helps to found its cluster or joins one that runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClusterState {
    /// All initial members start together.
    #[default]
    New,
    /// The cluster runs, and this node was added to it.
    Existing,
}

/// The form of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LogFormat {
    /// One line of text for each event.
    #[default]
    #[value(alias = "console")]
    #[serde(alias = "console")]
    Human,
    /// One object for each event.
    Json,
}

/// How much is measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MetricsDetail {
    /// What costs next to nothing.
    #[default]
    Basic,
    /// The latency of every method too.
    Extensive,
}

impl Settings {
    /// Reads the file at `path`: TOML, or YAML as etcd has it. Its extension says which it is, or
    /// else what is in it.
    ///
    /// # Errors
    /// When it cannot be read, and when it has a value that is not known, or TOML with a key that
    /// is not.
    pub fn from_file(path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path).map_err(|error| ConfigError::FileUnreadable {
            path: path.to_owned(),
            reason: error.to_string(),
        })?;
        let extension = path.extension().and_then(|extension| extension.to_str());
        let read = match extension {
            Some("yaml" | "yml") => Self::from_yaml(&text),
            Some("toml") => Self::from_toml(&text).map_err(|error| error.to_string()),
            _ if matches!(yaml::pairs(&text), Ok(Some(_))) => Self::from_yaml(&text),
            _ => Self::from_toml(&text).map_err(|error| error.to_string()),
        };
        read.map_err(|reason| ConfigError::FileInvalid {
            path: path.to_owned(),
            reason: reason.trim_end().to_owned(),
        })
    }

    /// Reads YAML as etcd's configuration file has it. What etcd knows and has no meaning here is
    /// noted, and so is a name that nobody knows.
    ///
    /// # Errors
    /// When `text` is not YAML, or has a value that is not known: what is wrong with it.
    pub fn from_yaml(text: &str) -> Result<Self, String> {
        let Some(pairs) = yaml::pairs(text)? else { return Err("it holds no settings".to_owned()) };
        let command = Self::augment_args(Command::new("file"))
            .no_binary_name(true)
            .args_override_self(true)
            .disable_help_flag(true);
        let translated = translate_pairs(&command, pairs).map_err(|error| error.to_string())?;
        let read = command
            .try_get_matches_from(translated.args)
            .and_then(|matches| Self::from_arg_matches(&matches));
        let mut settings = read.map_err(|error| first_line(&error))?;
        settings.notes = translated.notes;
        Ok(settings)
    }

    /// Reads TOML: the names of the flags, without their dashes in front.
    ///
    /// # Errors
    /// When `text` is not TOML, or has a key or a value that is not known.
    pub fn from_toml(text: &str) -> Result<Self, toml::de::Error> {
        toml::from_str(text)
    }

    /// These settings, and those of `below` wherever these say nothing.
    #[must_use]
    pub fn over(self, below: Self) -> Self {
        macro_rules! each {
            ($($field:ident),* $(,)?) => {
                Self {
                    $($field: self.$field.or(below.$field),)*
                    notes: [self.notes, below.notes].concat(),
                }
            };
        }
        each!(
            name,
            data_dir,
            listen_client_urls,
            advertise_client_urls,
            listen_peer_urls,
            initial_advertise_peer_urls,
            initial_cluster,
            initial_cluster_state,
            initial_cluster_token,
            heartbeat_interval,
            election_timeout,
            snapshot_count,
            snapshot_bytes,
            snapshot_catchup_entries,
            snapshot_bytes_per_second,
            priority,
            lease_reads,
            lease_clock_error,
            lease_margin,
            lease_checkpoint_interval,
            disk_stall_timeout,
            strict_reconfig_check,
            quota_backend_bytes,
            max_request_bytes,
            max_txn_ops,
            experimental_watch_progress_notify_interval,
            max_concurrent_streams,
            grpc_keepalive_interval,
            grpc_keepalive_timeout,
            auto_compaction_mode,
            auto_compaction_retention,
            log_level,
            log_format,
            metrics,
            listen_metrics_urls,
            log_outputs,
            trace,
        )
    }
}

/// What clap says, without its advice for a command line.
fn first_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let line = text.lines().next().unwrap_or_default();
    line.strip_prefix("error: ").unwrap_or(line).to_owned()
}
