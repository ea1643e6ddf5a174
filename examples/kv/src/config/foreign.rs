//! The flags of etcd that mean nothing here, each with the reason. They are taken, so that what
//! starts an etcd starts a node of ours; whoever uses one is told so, once.
//!
//! The list is that of etcd 3.5, with what 3.4 and 3.5 still take of older versions.

/// What a value must be like, as for etcd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    /// Without a value it is true.
    Bool,
    Unsigned,
    Signed,
    Time,
    OneOf(&'static [&'static str]),
    /// Whatever follows a `=`, or nothing: etcd does not look at it either.
    Anything,
}

/// One of the flags.
#[derive(Clone, Copy, Debug)]
pub(super) struct Foreign {
    pub name: &'static str,
    pub kind: Kind,
    /// The value that asks for what is done anyway, so that there is nothing to say.
    pub fine: &'static str,
    /// Why it means nothing, or what to use instead.
    pub reason: &'static str,
}

impl Foreign {
    pub fn named(name: &str) -> Option<&'static Self> {
        FOREIGN.iter().find(|foreign| foreign.name == name)
    }
}

const fn flag(name: &'static str, kind: Kind, fine: &'static str, reason: &'static str) -> Foreign {
    Foreign { name, kind, fine, reason }
}

const BOLT: &str = "there is no bbolt below; the store flushes by itself";
const GONE: &str = "etcd itself does nothing with it any more";
const V2: &str = "the API of etcd 2 is not served";
const PROXY: &str = "there is no proxy mode; run etcd's grpc-proxy in front";
const DISCOVERY: &str = "members are named by --initial-cluster, or added by kontiki member add";
const ROTATION: &str = "rotate the log with the tools of the system";
const TRACING: &str = "no spans are sent; --trace records every step of the consensus in a file";
const TLS: &str = "connections are in clear text: https:// URLs are refused, and with http:// URLs \
                   etcd does not use it either; put a TLS proxy in front";
const PEER_TLS: &str = "members talk in clear text: https:// URLs are refused, and with http:// \
                        URLs etcd does not use it either; use a private network";
const AUTH: &str = "there are no users and roles yet";
const CHECKS: &str = "what is on disk is checked by checksums; compare members with HashKV";
const WEB: &str = "requests of web pages are not told apart";
const FAST_START: &str = "elections at the start need no help";
const LEASES: &str = "leases are always checkpointed; --lease-checkpoint-interval says how often";
const SLOW: &str = "slow requests are not logged";
const SWEEP: &str = "compacted versions are deleted in the background, a bounded step at a time";

/// The table, by name.
pub(super) const FOREIGN: &[Foreign] = &[
    flag("auth-token", Kind::Text, "simple", AUTH),
    flag("auth-token-ttl", Kind::Unsigned, "300", AUTH),
    flag("auto-tls", Kind::Bool, "false", TLS),
    flag("backend-batch-interval", Kind::Time, "0s", BOLT),
    flag("backend-batch-limit", Kind::Signed, "0", BOLT),
    flag("backend-bbolt-freelist-type", Kind::Text, "map", BOLT),
    flag("bcrypt-cost", Kind::Unsigned, "10", AUTH),
    flag("cert-file", Kind::Text, "", TLS),
    flag("cipher-suites", Kind::Text, "", TLS),
    flag("client-cert-allowed-hostname", Kind::Text, "", TLS),
    flag("client-cert-auth", Kind::Bool, "false", TLS),
    flag("client-crl-file", Kind::Text, "", TLS),
    flag("cluster-active-size", Kind::Anything, "", GONE),
    flag("cluster-remove-delay", Kind::Anything, "", GONE),
    flag("cluster-sync-interval", Kind::Anything, "", GONE),
    flag("config", Kind::Anything, "", GONE),
    flag("cors", Kind::Text, "*", WEB),
    flag("debug", Kind::Bool, "false", "use --log-level=debug"),
    flag("discovery", Kind::Text, "", DISCOVERY),
    flag("discovery-fallback", Kind::OneOf(&["exit", "proxy"]), "proxy", DISCOVERY),
    flag("discovery-proxy", Kind::Text, "", DISCOVERY),
    flag("discovery-srv", Kind::Text, "", DISCOVERY),
    flag("discovery-srv-name", Kind::Text, "", DISCOVERY),
    flag("enable-log-rotation", Kind::Bool, "false", ROTATION),
    flag("enable-pprof", Kind::Bool, "false", "there are no profiles of Go; use perf"),
    flag("enable-v2", Kind::Bool, "false", V2),
    flag("experimental-backend-bbolt-freelist-type", Kind::Text, "map", BOLT),
    flag("experimental-bootstrap-defrag-threshold-megabytes", Kind::Unsigned, "0", BOLT),
    flag("experimental-compact-hash-check-enabled", Kind::Bool, "false", CHECKS),
    flag("experimental-compact-hash-check-time", Kind::Time, "1m", CHECKS),
    flag("experimental-compaction-batch-limit", Kind::Signed, "1000", SWEEP),
    flag("experimental-compaction-sleep-interval", Kind::Time, "10ms", SWEEP),
    flag("experimental-corrupt-check-time", Kind::Time, "0s", CHECKS),
    flag("experimental-distributed-tracing-address", Kind::Text, "localhost:4317", TRACING),
    flag("experimental-distributed-tracing-instance-id", Kind::Text, "", TRACING),
    flag("experimental-distributed-tracing-sampling-rate", Kind::Signed, "0", TRACING),
    flag("experimental-distributed-tracing-service-name", Kind::Text, "etcd", TRACING),
    flag(
        "experimental-downgrade-check-time",
        Kind::Time,
        "5s",
        "a cluster is not downgraded to another program",
    ),
    flag("experimental-enable-distributed-tracing", Kind::Bool, "false", TRACING),
    flag("experimental-enable-lease-checkpoint", Kind::Bool, "true", LEASES),
    flag("experimental-enable-lease-checkpoint-persist", Kind::Bool, "true", LEASES),
    flag("experimental-enable-v2v3", Kind::Text, "", V2),
    flag("experimental-initial-corrupt-check", Kind::Bool, "false", CHECKS),
    flag(
        "experimental-max-learners",
        Kind::Signed,
        "1",
        "there may be as many learners as members",
    ),
    flag(
        "experimental-memory-mlock",
        Kind::Bool,
        "false",
        "memory is not locked; switch swapping off",
    ),
    flag("experimental-peer-skip-client-san-verification", Kind::Bool, "false", PEER_TLS),
    flag(
        "experimental-snapshot-catchup-entries",
        Kind::Unsigned,
        "5000",
        "use --snapshot-catchup-entries",
    ),
    flag(
        "experimental-stop-grpc-service-on-defrag",
        Kind::Bool,
        "false",
        "defragmentation blocks nobody",
    ),
    flag("experimental-txn-mode-write-with-shared-buffer", Kind::Bool, "true", BOLT),
    flag(
        "experimental-wait-cluster-ready-timeout",
        Kind::Time,
        "5s",
        "clients are served at once, and wait for a leader as long as a request may take",
    ),
    flag("experimental-warning-apply-duration", Kind::Time, "100ms", SLOW),
    flag("experimental-warning-unary-request-duration", Kind::Time, "300ms", SLOW),
    flag("force", Kind::Anything, "", GONE),
    flag(
        "force-new-cluster",
        Kind::Bool,
        "false",
        "a majority that is lost for good is given up by kontiki recover, on a node that is \
         stopped; this one starts as a member as ever",
    ),
    flag("grpc-keepalive-min-time", Kind::Time, "5s", "clients may ping as often as they like"),
    flag("host-whitelist", Kind::Text, "*", WEB),
    flag("initial-election-tick-advance", Kind::Bool, "true", FAST_START),
    flag("key-file", Kind::Text, "", TLS),
    flag("log-output", Kind::Text, "default", "use --log-outputs"),
    flag("log-package-levels", Kind::Text, "", "use --log-level=info,MODULE=debug"),
    flag("log-rotation-config-json", Kind::Text, "", ROTATION),
    flag(
        "logger",
        Kind::OneOf(&["zap", "capnslog"]),
        "zap",
        "there is one logger; --log-format chooses its form",
    ),
    flag("max-result-buffer", Kind::Anything, "", GONE),
    flag("max-retry-attempts", Kind::Anything, "", GONE),
    flag("max-snapshots", Kind::Unsigned, "", "one snapshot is kept"),
    flag("max-wals", Kind::Unsigned, "", "the log is dropped up to the newest snapshot"),
    flag("peer-auto-tls", Kind::Bool, "false", PEER_TLS),
    flag("peer-cert-allowed-cn", Kind::Text, "", PEER_TLS),
    flag("peer-cert-allowed-hostname", Kind::Text, "", PEER_TLS),
    flag("peer-cert-file", Kind::Text, "", PEER_TLS),
    flag("peer-client-cert-auth", Kind::Bool, "false", PEER_TLS),
    flag("peer-crl-file", Kind::Text, "", PEER_TLS),
    flag("peer-election-timeout", Kind::Anything, "", GONE),
    flag("peer-heartbeat-interval", Kind::Anything, "", GONE),
    flag("peer-key-file", Kind::Text, "", PEER_TLS),
    flag("peer-trusted-ca-file", Kind::Text, "", PEER_TLS),
    flag("pre-vote", Kind::Bool, "true", "there is a pre-vote before every election"),
    flag("proxy", Kind::OneOf(&["off", "readonly", "on"]), "off", PROXY),
    flag("proxy-dial-timeout", Kind::Unsigned, "1000", PROXY),
    flag("proxy-failure-wait", Kind::Unsigned, "5000", PROXY),
    flag("proxy-read-timeout", Kind::Unsigned, "0", PROXY),
    flag("proxy-refresh-interval", Kind::Unsigned, "30000", PROXY),
    flag("proxy-write-timeout", Kind::Unsigned, "5000", PROXY),
    flag("raft-read-timeout", Kind::Time, "5s", "--election-timeout bounds what peers wait for"),
    flag("raft-write-timeout", Kind::Time, "5s", "--election-timeout bounds what peers wait for"),
    flag("retry-interval", Kind::Anything, "", GONE),
    flag("self-signed-cert-validity", Kind::Unsigned, "1", TLS),
    flag("snapshot", Kind::Anything, "", GONE),
    flag("socket-reuse-address", Kind::Bool, "false", "it is set where it is safe"),
    flag("socket-reuse-port", Kind::Bool, "false", "two nodes must not share a port"),
    flag("tls-max-version", Kind::Text, "", TLS),
    flag("tls-min-version", Kind::Text, "", TLS),
    flag("trusted-ca-file", Kind::Text, "", TLS),
    flag("unsafe-no-fsync", Kind::Bool, "false", "what is promised is always synced"),
    flag("v", Kind::Anything, "", GONE),
    flag(
        "v2-deprecation",
        Kind::OneOf(&["not-yet", "write-only", "write-only-drop-data", "gone"]),
        "gone",
        V2,
    ),
    flag("vv", Kind::Anything, "", GONE),
    flag("wal-dir", Kind::Text, "", "the log is in DATA-DIR/raft: mount the other disk there"),
];
