//! One node as clients meet it: the engine, the store, and the etcd v3 services in front.
//!
//! ```text
//!   HTTP ─▶ front ─▶ unknown, limits ─▶ services ─▶ Backend ─▶ Node::propose ─▶ log ─▶ Machine
//!             └▶ gateway ─┘                             └────▶ Node::read ─▶ StoreReader ─▶ Store
//! ```
//! The lessor learns from the machine which leases there are, and ends them through the log.

mod admin;
mod authority;
mod backend;
mod cluster;
mod compactor;
mod counted;
mod election;
mod front;
mod gateway;
mod health;
mod kv;
mod lease;
mod lessor;
mod limits;
mod line;
mod lock;
mod machine;
mod maintenance;
mod members;
mod metrics;
mod origin;
mod page;
mod publish;
mod refusal;
mod trace;
mod unknown;
mod watch;
mod wire;

use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use kontiki::raft_grpc::Connections;
use kontiki::raft_storage::{self, Wal};
use kontiki::{Builder, NodeId, StartError, StopReason};
use tokio::net::TcpListener;
use tokio::sync::watch as channel;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_stream::{Stream, StreamExt, StreamMap};
use tonic::transport::Server;

use crate::config::{ConfigError, HttpUrl, ServeConfig};
use crate::proto::etcdserverpb::cluster_server::{self, ClusterServer};
use crate::proto::etcdserverpb::kv_server::{self, KvServer};
use crate::proto::etcdserverpb::lease_server::{self, LeaseServer};
use crate::proto::etcdserverpb::maintenance_server::{self, MaintenanceServer};
use crate::proto::etcdserverpb::watch_server::{self, WatchServer};
use crate::proto::kontiki::admin_server::{self, AdminServer};
use crate::proto::v3electionpb::election_server::{self, ElectionServer};
use crate::proto::v3lockpb::lock_server::{self, LockServer};
use crate::store::{self, Store, StoreError, StoreReader};
use authority::Named;
use backend::Backend;
use counted::Counting;
use front::Front;
use lessor::Lessor;
use limits::Limits;
use machine::Machine;
use metrics::Metrics;
use origin::Origin;
use trace::TraceFile;
use unknown::Unknown;
use watch::Hub;

/// How many bytes of a segment of the log: many small ones are dropped sooner than a large one.
const SEGMENT_BYTES: u64 = 64 << 20;
/// How many bytes of recent entries a node keeps for its followers.
const RECENT_BYTES_MAX: usize = 8 << 20;

/// How long clients have to go elsewhere before a node hands over, and how long those have who
/// wait for an answer when it has stopped.
const CLIENTS_LEAVE_MAX: Duration = Duration::from_millis(250);
const CLIENTS_END_MAX: Duration = Duration::from_secs(1);

/// The services that are offered to clients.
const SERVICES: &[&str] = &[
    kv_server::SERVICE_NAME,
    lease_server::SERVICE_NAME,
    cluster_server::SERVICE_NAME,
    maintenance_server::SERVICE_NAME,
    watch_server::SERVICE_NAME,
    lock_server::SERVICE_NAME,
    election_server::SERVICE_NAME,
    admin_server::SERVICE_NAME,
    "grpc.health.v1.Health",
];

/// Why a node cannot run, or has stopped.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The data directory cannot be made.
    #[error("cannot make the data directory {path}: {error}; give another with --data-dir")]
    DataDir {
        /// The directory.
        path: String,
        /// Why.
        error: io::Error,
    },
    /// An address for clients, or for metrics, cannot be used.
    #[error(
        "cannot listen on {url} for {whom}: {error}; is another process using the port? Give \
         another with --{setting}"
    )]
    Listen {
        /// Who is to be served there.
        whom: &'static str,
        /// The setting that names it.
        setting: &'static str,
        /// The address.
        url: HttpUrl,
        /// Why.
        error: io::Error,
    },
    /// There is a store but no log: whatever this node has promised is forgotten.
    #[error(
        "there is a store in {store}, but no log in {log}, so nobody knows what this node has \
         promised to others, and it must not take part: put its log back, or replace the node by \
         a new member with an empty directory (kontiki member replace)"
    )]
    LogLost {
        /// The directory of the store.
        store: String,
        /// Where its log should be.
        log: String,
    },
    /// The settings do not say who this node is.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The cluster that is to be joined does not answer, or does not know this node.
    #[error("{0}")]
    Join(String),
    /// The directory is another node's.
    #[error(
        "{dir} belongs to the node {found}, and this node is named {name}: give it its own \
         --data-dir, or start it with --name={found}"
    )]
    OtherName {
        /// The directory.
        dir: String,
        /// The name of the node that it belongs to.
        found: String,
        /// The name of this node.
        name: String,
    },
    /// The store cannot be opened.
    #[error(
        "cannot open the store in {path}: {error}; if it is damaged, replace this node by a \
         new member (kontiki member replace); a log that was never cut builds the store again \
         when it is moved away"
    )]
    Store {
        /// Its directory.
        path: String,
        /// Why.
        error: StoreError,
    },
    /// The trace cannot be written.
    #[error("cannot write the trace {path}: {error}; give another file with --trace")]
    Trace {
        /// The file.
        path: String,
        /// Why.
        error: io::Error,
    },
    /// The engine cannot start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The engine stopped by itself.
    #[error("the node has stopped: {0}")]
    Stopped(StopReason),
    /// Clients are no longer served.
    #[error("clients can no longer be served: {0}")]
    Serve(String),
}

/// Runs a node until `stop`, or until it fails.
///
/// # Errors
/// See [`ServeError`]: what to do is in the message.
pub async fn run(config: ServeConfig, stop: impl Future<Output = ()>) -> Result<(), ServeError> {
    let listeners = listen("clients", "listen-client-urls", &config.listen_client_urls).await?;
    let metrics_urls = &config.listen_metrics_urls;
    let pages = listen("metrics", "listen-metrics-urls", metrics_urls).await?;
    let data_dir = config.data_dir.display().to_string();
    std::fs::create_dir_all(&config.data_dir)
        .map_err(|error| ServeError::DataDir { path: data_dir.clone(), error })?;
    // The log comes first: it says whose directory this is, and keeps other processes out.
    let path = config.data_dir.join("store");
    check_log(&config, &path)?;
    let origin = Origin::find(&config).await?;
    let trace = TraceFile::open(config.trace.as_deref())?;
    let mut builder = engine(&config, &origin);
    if let Some(trace) = &trace {
        builder = builder.trace(trace.sink());
    }
    let opened = builder.open().await?;
    let (store, reader) = Store::open(&path, &store::Options::default())
        .map_err(|error| ServeError::Store { path: path.display().to_string(), error })?;
    let (id, cluster_id) = (origin.id(), opened.cluster_id());
    check_name(&config, id, &reader)?;
    for repair in &opened.recovered().repairs {
        tracing::warn!("{repair}");
    }
    let (lessor, asked) = Lessor::new(reader.clone(), config.lease_checkpoint_interval);
    let (node, meters) = opened.start_metered(Machine { store, lessor: lessor.clone() })?;
    let metrics = Arc::new(Metrics::new(SERVICES, config.metrics, meters, &reader));
    let config = Arc::new(config);
    let hub = Hub::new(reader.clone());
    let watching = tokio::spawn(Arc::clone(&hub).run());
    let backend = Backend {
        id,
        cluster_id,
        node: node.clone(),
        reader,
        hub: Arc::clone(&hub),
        config: Arc::clone(&config),
        lessor,
        metrics,
    };

    let (ending, mut ended) = channel::channel(());
    tokio::spawn(front::serve_pages(backend.clone(), pages, ended.clone()));
    let ended = async move { drop(ended.changed().await) };
    let mut served = tokio::spawn(serve(backend.clone(), listeners, ended));
    let published = tokio::spawn(publish::publish(backend.clone()));
    let leasing = tokio::spawn(Lessor::run(backend.clone(), asked));
    let compacting = tokio::spawn(compactor::run(backend));
    tracing::info!(name = config.name, %id, cluster = format!("{cluster_id:x}"),
        clients = %list(&config.listen_client_urls), peers = %list(&config.listen_peer_urls),
        data_dir, "serving");

    let stopped = node.stopped();
    tokio::pin!(stopped);
    let outcome = tokio::select! {
        () = stop => Ok(()),
        reason = &mut stopped => Err(ServeError::Stopped(reason)),
        served = &mut served => Err(ServeError::Serve(match served {
            Ok(Err(error)) => error.to_string(),
            Ok(Ok(())) => "the server has ended".to_owned(),
            Err(panic) => panic.to_string(),
        })),
    };
    published.abort();
    compacting.abort();
    // Clients are sent away first, and what they have sent already is served as ever: so they are
    // with others before this node takes no more.
    ending.send_replace(());
    hub.end();
    drain(&mut served, CLIENTS_LEAVE_MAX).await;
    let reason = node.shutdown().await;
    // Requests that are under way end with the node; their clients may take their time.
    drain(&mut served, CLIENTS_END_MAX).await;
    served.abort();
    watching.abort();
    leasing.abort();
    drop(trace); // Only now it is whole.
    match (outcome, reason) {
        (Ok(()), StopReason::Shutdown) => Ok(()),
        (Ok(()), reason) => Err(ServeError::Stopped(reason)),
        (failed, _) => failed,
    }
}

/// Waits until no client is connected any more, for so long at most.
async fn drain<T>(served: &mut JoinHandle<T>, patience: Duration) {
    if !served.is_finished() {
        // Whether it went well concerns nobody any more.
        drop(timeout(patience, served).await);
    }
}

/// Refuses settings by which a node without a log can neither found a cluster nor join one.
///
/// # Errors
/// What is wrong with them, or with the directory.
pub fn check_initial(config: &ServeConfig) -> Result<(), ServeError> {
    if !has_log(config)? {
        config.initial_id()?;
    }
    Ok(())
}

fn has_log(config: &ServeConfig) -> Result<bool, ServeError> {
    Wal::exists(&log_dir(config), &raft_storage::Options::default())
        .map_err(|error| StartError::Storage(error.to_string()).into())
}

/// A store is made after its log, so one without a log has lost it.
fn check_log(config: &ServeConfig, store: &Path) -> Result<(), ServeError> {
    if !has_log(config)? && store.exists() {
        let (store, log) = (store.display().to_string(), log_dir(config).display().to_string());
        return Err(ServeError::LogLost { store, log });
    }
    Ok(())
}

/// A node has its id from its log, so a mistaken directory would make it another member.
fn check_name(config: &ServeConfig, id: NodeId, reader: &StoreReader) -> Result<(), ServeError> {
    let members = reader.members();
    match members.get(&id.get()).filter(|member| member.name != config.name) {
        None => Ok(()),
        Some(other) => Err(ServeError::OtherName {
            dir: config.data_dir.display().to_string(),
            found: other.name.clone(),
            name: config.name.clone(),
        }),
    }
}

fn log_dir(config: &ServeConfig) -> PathBuf {
    config.data_dir.join("raft")
}

async fn listen(
    whom: &'static str,
    setting: &'static str,
    urls: &[HttpUrl],
) -> Result<Vec<TcpListener>, ServeError> {
    let mut listeners = Vec::new();
    for url in urls {
        let bound = match url.bind_address() {
            Some(address) => TcpListener::bind(address).await,
            None => TcpListener::bind(url.authority()).await,
        };
        let failed = |error| ServeError::Listen { whom, setting, url: url.clone(), error };
        listeners.push(bound.map_err(failed)?);
    }
    Ok(listeners)
}

fn engine(config: &ServeConfig, origin: &Origin) -> Builder {
    let mut builder = origin
        .builder(config)
        .data_dir(log_dir(config))
        .heartbeat_interval(config.heartbeat_interval)
        .election_timeout(config.election_timeout)
        .entry_bytes_max(config.max_request_bytes)
        .recent_bytes_max(RECENT_BYTES_MAX)
        .segment_bytes(SEGMENT_BYTES)
        .snapshot_entries(config.snapshot_count)
        .snapshot_bytes(config.snapshot_bytes)
        .snapshot_tail_entries(config.snapshot_catchup_entries)
        .disk_stall_timeout(config.disk_stall_timeout);
    if let Some(bytes) = config.snapshot_bytes_per_second {
        builder = builder.snapshot_bytes_per_second(bytes);
    }
    if let Some(lease) = config.lease_reads {
        builder = builder.lease_reads(lease.clock_error_ppm, lease.margin);
    }
    for url in &config.listen_peer_urls {
        let address = url.bind_address().map_or_else(|| url.authority(), |at| at.to_string());
        builder = builder.listen(address);
    }
    builder
}

async fn serve(
    backend: Backend,
    listeners: Vec<TcpListener>,
    stop: impl Future<Output = ()>,
) -> Result<(), tonic::transport::Error> {
    let (health, health_service) = tonic_health::server::health_reporter();
    health.set_service_status("", tonic_health::ServingStatus::Serving).await;
    let message_bytes_max = backend.message_bytes_max();
    let incoming = connections(listeners).map(|connection| connection.map(Named::new));
    let keepalive = backend.config.keepalive;
    Server::builder()
        .max_concurrent_streams(backend.config.max_concurrent_streams)
        .http2_keepalive_interval(keepalive.map(|(interval, _)| interval))
        .http2_keepalive_timeout(keepalive.map(|(_, timeout)| timeout))
        .accept_http1(true)
        .layer(Front::new(backend.clone()))
        .layer(Counting(Arc::clone(&backend.metrics.calls)))
        .layer(Unknown { services: SERVICES })
        .layer(Limits { message_bytes_max })
        .add_service(
            KvServer::new(backend.clone())
                .max_decoding_message_size(message_bytes_max)
                .max_encoding_message_size(usize::MAX),
        )
        .add_service(LeaseServer::new(backend.clone()))
        .add_service(ClusterServer::new(backend.clone()))
        .add_service(MaintenanceServer::new(backend.clone()))
        .add_service(
            WatchServer::new(backend.clone())
                .max_decoding_message_size(message_bytes_max)
                .max_encoding_message_size(usize::MAX),
        )
        .add_service(LockServer::new(backend.clone()))
        .add_service(ElectionServer::new(backend.clone()))
        .add_service(AdminServer::new(backend))
        .add_service(health_service)
        .serve_with_incoming_shutdown(incoming, stop)
        .await
}

/// What all of them accept.
fn connections(listeners: Vec<TcpListener>) -> impl Stream<Item = <Connections as Stream>::Item> {
    let connections = listeners.into_iter().map(Connections::from).enumerate();
    connections.collect::<StreamMap<usize, Connections>>().map(|(_, connection)| connection)
}

fn list(urls: &[HttpUrl]) -> String {
    urls.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}
