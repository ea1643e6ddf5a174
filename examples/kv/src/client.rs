//! A small client of the etcd v3 API: what the commands need, and a good citizen in failures.
//!
//! | what happens | a read | a write |
//! |---|---|---|
//! | no connection | next endpoint | next endpoint: nothing was sent |
//! | Unavailable, or no answer in time | next endpoint | [`ClientError::Unknown`], never sent twice |
//! | any other refusal | [`ClientError::Refused`] | [`ClientError::Refused`] |
//!
//! It keeps no connection between calls; [`NodeClient`] does, for programs that send many requests
//! to one node.

mod node;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status, Streaming};

pub use node::{Fault, NodeClient, swap};

use crate::config::{HttpUrl, UrlError};
use crate::proto::etcdserverpb::cluster_client::ClusterClient;
use crate::proto::etcdserverpb::kv_client::KvClient;
use crate::proto::etcdserverpb::maintenance_client::MaintenanceClient;
use crate::proto::etcdserverpb::{
    DeleteRangeRequest, DeleteRangeResponse, MemberAddRequest, MemberAddResponse,
    MemberListRequest, MemberListResponse, PutRequest, PutResponse, RangeRequest, RangeResponse,
    SnapshotRequest, SnapshotResponse, StatusRequest, StatusResponse,
};
use crate::proto::kontiki::admin_client::AdminClient;
use crate::proto::kontiki::{
    ChangeMembersRequest, ChangeMembersResponse, InspectRequest, InspectResponse,
    TransferLeadershipRequest, TransferLeadershipResponse,
};

/// Larger than any answer: a range is not bounded by the limit of requests.
const ANSWER_BYTES_MAX: usize = i32::MAX as usize;

/// Where clients are served, as users write it: the scheme may be left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientUrl(pub HttpUrl);

impl FromStr for ClientUrl {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        if text.contains("://") { text.parse() } else { format!("http://{text}").parse() }.map(Self)
    }
}

/// As it was meant to be dialled, without the scheme.
impl fmt::Display for ClientUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.authority())
    }
}

/// How long to wait, and for what.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// Until a connection stands.
    pub dial: Duration,
    /// Until an answer is there.
    pub command: Duration,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No endpoint answered. Nothing was executed: check that the cluster runs, and where.
    #[error("no endpoint answered:{}", lines(.0))]
    Unreachable(Vec<(ClientUrl, String)>),
    /// The request was sent but its outcome is not known: read before doing it again.
    #[error("{endpoint}: {reason}\nthe request may have been executed: read before doing it again")]
    Unknown {
        /// Whom it was sent to.
        endpoint: ClientUrl,
        /// What became of the call.
        reason: String,
    },
    /// The store refused the request and executed nothing.
    #[error("{0}")]
    Refused(Refusal),
}

/// An answer that is no result.
#[derive(Debug)]
pub struct Refusal(pub Status);

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({:?})", self.0.message(), self.0.code())
    }
}

fn lines(tried: &[(ClientUrl, String)]) -> String {
    tried.iter().map(|(endpoint, reason)| format!("\n  {endpoint}: {reason}")).collect()
}

/// Whether a request may be sent again when nobody knows what became of it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Read,
    Write,
}

/// A client of some endpoints, tried in their order.
#[derive(Clone, Debug)]
pub struct Client {
    endpoints: Vec<ClientUrl>,
    timeouts: Timeouts,
}

impl Client {
    /// A client of `endpoints`; connects when it is first asked.
    pub fn new(endpoints: Vec<ClientUrl>, timeouts: Timeouts) -> Self {
        Self { endpoints, timeouts }
    }

    /// Reads keys.
    ///
    /// # Errors
    /// When no endpoint answers, or the store refuses.
    pub async fn range(&self, request: RangeRequest) -> Result<RangeResponse, ClientError> {
        self.call(Kind::Read, async |channel| kv(channel).range(request.clone()).await).await
    }

    /// Writes a key.
    ///
    /// # Errors
    /// When no endpoint answers, the store refuses, or the outcome is unknown.
    pub async fn put(&self, request: PutRequest) -> Result<PutResponse, ClientError> {
        self.call(Kind::Write, async |channel| kv(channel).put(request.clone()).await).await
    }

    /// Deletes keys.
    ///
    /// # Errors
    /// When no endpoint answers, the store refuses, or the outcome is unknown.
    pub async fn delete(
        &self,
        request: DeleteRangeRequest,
    ) -> Result<DeleteRangeResponse, ClientError> {
        self.call(Kind::Write, async |channel| kv(channel).delete_range(request.clone()).await)
            .await
    }

    /// Who is in the cluster.
    ///
    /// # Errors
    /// When no endpoint answers, or the store refuses.
    pub async fn members(&self) -> Result<MemberListResponse, ClientError> {
        let request = MemberListRequest { linearizable: true };
        self.call(Kind::Read, async |channel| {
            ClusterClient::new(channel).member_list(request).await
        })
        .await
    }

    /// Adds a member.
    ///
    /// # Errors
    /// When no endpoint answers, the cluster refuses, or the outcome is unknown.
    pub async fn add_member(
        &self,
        request: MemberAddRequest,
    ) -> Result<MemberAddResponse, ClientError> {
        let ask = async |channel| ClusterClient::new(channel).member_add(request.clone()).await;
        self.call(Kind::Write, ask).await
    }

    /// Changes the members, all changes together or none.
    ///
    /// # Errors
    /// When no endpoint answers, the cluster refuses, or the outcome is unknown.
    pub async fn change_members(
        &self,
        request: ChangeMembersRequest,
    ) -> Result<ChangeMembersResponse, ClientError> {
        let ask = async |channel| AdminClient::new(channel).change_members(request.clone()).await;
        self.call(Kind::Write, ask).await
    }

    /// Hands leadership over, to a member or, with zero, to the best there is.
    ///
    /// # Errors
    /// When no endpoint answers, the cluster refuses, or the outcome is unknown.
    pub async fn transfer_leadership(
        &self,
        to: u64,
    ) -> Result<TransferLeadershipResponse, ClientError> {
        let request = TransferLeadershipRequest { to };
        let ask = async |channel| AdminClient::new(channel).transfer_leadership(request).await;
        self.call(Kind::Write, ask).await
    }

    /// How the first endpoint that answers is, and what it knows of the others.
    ///
    /// # Errors
    /// When no endpoint answers, or is none of Kontiki's.
    pub async fn inspect(&self) -> Result<InspectResponse, ClientError> {
        let ask = async |channel| AdminClient::new(channel).inspect(InspectRequest {}).await;
        self.call(Kind::Read, ask).await
    }

    /// A backup of what the first endpoint that answers has applied, in pieces.
    ///
    /// # Errors
    /// When no endpoint answers.
    pub async fn snapshot(&self) -> Result<Streaming<SnapshotResponse>, ClientError> {
        let ask =
            async |channel| MaintenanceClient::new(channel).snapshot(SnapshotRequest {}).await;
        self.call(Kind::Read, ask).await
    }

    /// What each endpoint says of itself, all asked at once.
    pub async fn statuses(&self) -> Vec<(ClientUrl, Result<StatusResponse, ClientError>)> {
        let one = |endpoint: ClientUrl| {
            let client = Self::new(vec![endpoint], self.timeouts);
            tokio::spawn(async move {
                client.call(Kind::Read, async |channel| status(channel).await).await
            })
        };
        let calls: Vec<_> = self.endpoints.iter().cloned().map(one).collect();
        let mut statuses = Vec::with_capacity(calls.len());
        for (endpoint, call) in self.endpoints.iter().cloned().zip(calls) {
            let answer = call.await.unwrap_or_else(|panic| {
                Err(ClientError::Unreachable(vec![(endpoint.clone(), panic.to_string())]))
            });
            statuses.push((endpoint, answer));
        }
        statuses
    }

    /// Asks one endpoint after the other, as the table above says.
    async fn call<T>(
        &self,
        kind: Kind,
        ask: impl AsyncFn(Channel) -> Result<tonic::Response<T>, Status>,
    ) -> Result<T, ClientError> {
        let mut tried = Vec::new();
        for endpoint in &self.endpoints {
            let channel = match self.connect(endpoint).await {
                Ok(channel) => channel,
                Err(reason) => {
                    tried.push((endpoint.clone(), reason));
                    continue;
                }
            };
            let answer = tokio::time::timeout(self.timeouts.command, ask(channel)).await;
            let reason = match answer {
                Ok(Ok(answer)) => return Ok(answer.into_inner()),
                Ok(Err(status)) if is_definite(&status) => {
                    return Err(ClientError::Refused(Refusal(status)));
                }
                Ok(Err(status)) => Refusal(status).to_string(),
                Err(_) => format!("no answer within {:?}", self.timeouts.command),
            };
            if kind == Kind::Write {
                return Err(ClientError::Unknown { endpoint: endpoint.clone(), reason });
            }
            tried.push((endpoint.clone(), reason));
        }
        Err(ClientError::Unreachable(tried))
    }

    async fn connect(&self, endpoint: &ClientUrl) -> Result<Channel, String> {
        let channel = channel(endpoint, self.timeouts)?.connect().await;
        channel.map_err(|error| root_cause(&error))
    }
}

/// A channel to `endpoint` that connects when it is first used, and again when it broke.
///
/// # Errors
/// When the URL cannot be dialled.
pub fn connect_lazy(endpoint: &ClientUrl, timeouts: Timeouts) -> Result<Channel, String> {
    Ok(channel(endpoint, timeouts)?.timeout(timeouts.command).connect_lazy())
}

/// What the node behind `channel` says of itself.
///
/// # Errors
/// When it does not answer.
pub async fn status(channel: Channel) -> Result<tonic::Response<StatusResponse>, Status> {
    MaintenanceClient::new(channel).status(StatusRequest {}).await
}

fn channel(endpoint: &ClientUrl, timeouts: Timeouts) -> Result<Endpoint, String> {
    let channel = Endpoint::from_shared(endpoint.0.to_string());
    Ok(channel.map_err(|error| root_cause(&error))?.connect_timeout(timeouts.dial))
}

fn kv(channel: Channel) -> KvClient<Channel> {
    KvClient::new(channel).max_decoding_message_size(ANSWER_BYTES_MAX)
}

/// What a cluster says that refuses a change of its members: no doubt is left by its code.
const UNHEALTHY: &str = "etcdserver: unhealthy cluster";

/// Whether the store itself said no, so that nothing was executed.
fn is_definite(status: &Status) -> bool {
    let is_open = matches!(
        status.code(),
        Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled | Code::Unknown
    );
    !is_open || status.message() == UNHEALTHY
}

/// The innermost error: the outer ones only say that there was one.
fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

/// The first key behind all that start with `prefix`, as `range_end` wants it; for an empty
/// prefix, or one of 0xff only, everything that follows.
pub fn prefix_end(prefix: &[u8]) -> Vec<u8> {
    match prefix.iter().rposition(|&byte| byte < 0xff) {
        None => vec![0],
        Some(last) => {
            let mut end = prefix[..=last].to_vec();
            end[last] += 1;
            end
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scheme_of_an_endpoint_may_be_left_out() {
        let bare: ClientUrl = "127.0.0.1:2379".parse().expect("valid");
        assert_eq!("http://127.0.0.1:2379".parse(), Ok(bare.clone()));
        assert_eq!(bare.to_string(), "127.0.0.1:2379");
        assert!("https://127.0.0.1:2379".parse::<ClientUrl>().is_err());
        assert!("127.0.0.1".parse::<ClientUrl>().is_err());
    }

    #[test]
    fn a_prefix_ends_where_its_last_growable_byte_grows() {
        assert_eq!(prefix_end(b"a"), b"b");
        assert_eq!(prefix_end(b"a\xff"), b"b");
        assert_eq!(prefix_end(b"\xff\xff"), b"\0");
        assert_eq!(prefix_end(b""), b"\0");
    }

    #[test]
    fn an_unhealthy_cluster_has_changed_nothing() {
        assert!(is_definite(&Status::unavailable("etcdserver: unhealthy cluster")));
        assert!(is_definite(&Status::not_found("etcdserver: member not found")));
        assert!(!is_definite(&Status::unavailable("etcdserver: request timed out")));
    }

    #[tokio::test]
    async fn a_write_moves_on_only_while_nothing_was_sent() {
        let (closed, silent) = (closed_port(), silent_server().await);
        let timeouts =
            Timeouts { dial: Duration::from_secs(2), command: Duration::from_millis(100) };
        let client = Client::new(vec![closed.clone(), silent.clone(), closed.clone()], timeouts);

        let error = client.put(PutRequest::default()).await.expect_err("nobody answers");
        assert!(
            matches!(&error, ClientError::Unknown { endpoint, .. } if *endpoint == silent),
            "{error}"
        );
        let error = client.range(RangeRequest::default()).await.expect_err("nobody answers");
        assert!(matches!(&error, ClientError::Unreachable(tried) if tried.len() == 3), "{error}");
    }

    fn closed_port() -> ClientUrl {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        ClientUrl(HttpUrl::new("127.0.0.1", listener.local_addr().expect("bound").port()))
    }

    /// Accepts connections and never says a word.
    async fn silent_server() -> ClientUrl {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("bound").port();
        tokio::spawn(async move {
            let mut connections = Vec::new();
            while let Ok((connection, _)) = listener.accept().await {
                connections.push(connection);
            }
        });
        ClientUrl(HttpUrl::new("127.0.0.1", port))
    }
}
