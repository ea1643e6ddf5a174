//! Why a configuration is refused. Each message says what to do instead.

use std::path::PathBuf;

use super::HttpUrl;
use super::{ELECTION_TIMEOUT_MS_MAX, HEARTBEATS_PER_ELECTION_MIN, UrlList};

/// Why a configuration is refused.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The file of `--config-file` cannot be read.
    #[error("cannot read the configuration file {}: {reason}", path.display())]
    FileUnreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// The file of `--config-file` is not TOML, or holds a key or a value that is unknown.
    #[error("the configuration file {} is not valid: {reason}", path.display())]
    FileInvalid {
        /// The file.
        path: PathBuf,
        /// The place and what is wrong with it.
        reason: String,
    },
    /// A setting that needs a value has none.
    #[error("{setting} is empty; give it a value or leave it out for the default")]
    Empty {
        /// The setting.
        setting: &'static str,
    },
    /// A setting that counts something is zero.
    #[error("{setting} is zero; give it at least one ({default} is the default)")]
    Zero {
        /// The setting.
        setting: &'static str,
        /// Its default.
        default: u64,
    },
    /// A setting is beyond what can work.
    #[error("{setting} is {value}, and {max} is the most; lower it")]
    TooLarge {
        /// The setting.
        setting: &'static str,
        /// Its value.
        value: u64,
        /// The largest value.
        max: u64,
    },
    /// A name would be torn apart by `--initial-cluster`, or makes no file name.
    #[error("the name {name:?} contains {letter:?}; use letters, digits, '-', '_' and '.'")]
    NameLetter {
        /// The name.
        name: String,
        /// What it must not contain.
        letter: char,
    },
    /// A URL stands twice in one list.
    #[error("{setting} has {url} twice; leave one out")]
    UrlTwice {
        /// The setting.
        setting: &'static str,
        /// The URL.
        url: HttpUrl,
    },
    /// A listen URL has a host name, which may mean several addresses, or another machine's.
    #[error("{setting} has {url}: to listen, give an IP address of this machine or localhost")]
    ListenOnName {
        /// The setting.
        setting: &'static str,
        /// The URL.
        url: HttpUrl,
    },
    /// Clients and peers would share a port.
    #[error(
        "listen-client-urls has {client} and listen-peer-urls has {peer}, which is the same port; \
         change one"
    )]
    PortShared {
        /// Of the clients.
        client: HttpUrl,
        /// Of the peers.
        peer: HttpUrl,
    },
    /// The node listens on every address, so that what others shall dial cannot be guessed.
    #[error(
        "{listen_name} has {url}, which is every address of this machine; \
         say in --{setting} which one the others shall dial"
    )]
    AdvertiseMissing {
        /// The setting that says where to listen.
        listen_name: &'static str,
        /// The URL.
        url: HttpUrl,
        /// The setting that is missing.
        setting: &'static str,
    },
    /// Others are told to dial an address that is no address.
    #[error("{setting} has {url}, which nobody can dial; give the address that others shall dial")]
    AdvertiseEverywhere {
        /// The setting.
        setting: &'static str,
        /// The URL.
        url: HttpUrl,
    },
    /// Two members have the same URL.
    #[error("initial-cluster has {url} for both {} and {}; correct one", names[0], names[1])]
    PeerUrlTwice {
        /// The members.
        names: [String; 2],
        /// The URL.
        url: HttpUrl,
    },
    /// This node is not in the cluster that it shall found.
    #[error(
        "the name {name} is not in initial-cluster, which has {}; \
         set --name to one of them or add {name}=URL", names.join(", ")
    )]
    NotAMember {
        /// This node's name.
        name: String,
        /// The names in the cluster.
        names: Vec<String>,
    },
    /// This node says another peer URL of itself than the cluster does.
    #[error(
        "initial-cluster has {cluster} for {name}, but initial-advertise-peer-urls is \
         {advertise}; make them the same"
    )]
    PeerUrlMismatch {
        /// This node's name.
        name: String,
        /// What the cluster says.
        cluster: UrlList,
        /// What the node says.
        advertise: UrlList,
    },
    /// One late heartbeat would depose a healthy leader.
    #[error(
        "election-timeout is {election_ms} ms, less than {HEARTBEATS_PER_ELECTION_MIN} heartbeats \
         of {heartbeat_ms} ms; make it at least {} ms or lower heartbeat-interval",
        (heartbeat_ms * HEARTBEATS_PER_ELECTION_MIN).min(ELECTION_TIMEOUT_MS_MAX)
    )]
    ElectionTooShort {
        /// The interval of heartbeats.
        heartbeat_ms: u64,
        /// The election timeout.
        election_ms: u64,
    },
    /// Any slow write would depose the leader.
    #[error(
        "disk-stall-timeout is {stall_ms} ms, less than two heartbeats of {heartbeat_ms} ms; a \
         few seconds are usual"
    )]
    StallTooShort {
        /// The stall timeout.
        stall_ms: u64,
        /// The interval of heartbeats.
        heartbeat_ms: u64,
    },
    /// Nothing is left of a lease.
    #[error(
        "lease-clock-error and lease-margin take up the whole election-timeout of \
         {election_ms} ms, so that no lease is left; make them smaller"
    )]
    LeaseEmpty {
        /// The election timeout.
        election_ms: u64,
    },
    /// There is nobody to join.
    #[error(
        "initial-cluster-state is existing, and initial-cluster has no member but this one; give \
         the members of the cluster, as kontiki member add has printed them"
    )]
    NobodyToJoin,
    /// How much history is kept cannot be read.
    #[error(
        "auto-compaction-retention {retention:?} is neither a number nor a time such as 5m or 1h30m"
    )]
    Retention {
        /// What was given.
        retention: String,
    },
    /// The log filter cannot be read.
    #[error(
        "log-level {log_level:?} is not a level (error, warn, info, debug, trace) or a filter \
         such as info,raft_grpc=debug: {reason}"
    )]
    LogLevel {
        /// What was given.
        log_level: String,
        /// What is wrong with it.
        reason: String,
    },
}
