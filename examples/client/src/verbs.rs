//! What a client can ask for: one method for each call of etcd's services that programs make. It
//! never decides what is repeated beyond naming the call [`Retry::Safe`] or [`Retry::Never`].

use tokio::time::Instant;
use tokio_stream::once;
use tonic::transport::Channel;
use tonic::{Response, Status, Streaming};

use crate::client::{Client, Retry};
use crate::error::ClientError;
use crate::proto::etcdserverpb::cluster_client::ClusterClient;
use crate::proto::etcdserverpb::kv_client::KvClient;
use crate::proto::etcdserverpb::lease_client::LeaseClient;
use crate::proto::etcdserverpb::maintenance_client::MaintenanceClient;
use crate::proto::etcdserverpb::{
    AlarmRequest, AlarmResponse, CompactionRequest, CompactionResponse, DefragmentRequest,
    DefragmentResponse, DeleteRangeRequest, DeleteRangeResponse, HashKvRequest, HashKvResponse,
    LeaseGrantRequest, LeaseGrantResponse, LeaseKeepAliveRequest, LeaseLeasesRequest,
    LeaseLeasesResponse, LeaseRevokeRequest, LeaseRevokeResponse, LeaseTimeToLiveRequest,
    LeaseTimeToLiveResponse, MemberAddRequest, MemberAddResponse, MemberListRequest,
    MemberListResponse, MoveLeaderRequest, MoveLeaderResponse, PutRequest, PutResponse,
    RangeRequest, RangeResponse, SnapshotRequest, SnapshotResponse, StatusRequest, StatusResponse,
    TxnRequest, TxnResponse,
};
use crate::proto::mvccpb::KeyValue;
use crate::url::ClientUrl;

/// Larger than any answer: a range is not bounded by the limit of requests.
const ANSWER_BYTES_MAX: usize = i32::MAX as usize;

/// A lease that was renewed.
#[derive(Clone, Copy, Debug)]
pub struct KeptAlive {
    /// When the renewal was sent. The lease lives for its TTL from then on at least: counted from
    /// the answer, which may be late, a holder would believe in it for too long.
    pub sent_at: Instant,
    /// The whole time to live, in seconds; above zero.
    pub ttl_s: i64,
}

/// The KV service behind a connection, for answers of any size.
pub fn kv(channel: Channel) -> KvClient<Channel> {
    KvClient::new(channel).max_decoding_message_size(ANSWER_BYTES_MAX)
}

/// Keys and values.
impl Client {
    /// One key as it is now, if it is there.
    ///
    /// # Errors
    /// As those of [`range`](Self::range).
    pub async fn get(&self, key: impl Into<bytes::Bytes>) -> Result<Option<KeyValue>, ClientError> {
        Ok(self.range(RangeRequest::key(key)).await?.kvs.pop())
    }

    /// Reads keys. Unless the request is `serializable`, what is read was true at some moment
    /// between call and answer, whichever member answers.
    ///
    /// # Errors
    /// When no endpoint answers, or the store refuses.
    pub async fn range(&self, request: RangeRequest) -> Result<RangeResponse, ClientError> {
        self.call(Retry::Safe, request, |channel, request| async move {
            kv(channel).range(request).await
        })
        .await
    }

    /// Writes a key.
    ///
    /// # Errors
    /// When no endpoint answers, the store refuses, or the outcome is unknown.
    pub async fn put(&self, request: PutRequest) -> Result<PutResponse, ClientError> {
        self.call(Retry::Never, request, |channel, request| async move {
            kv(channel).put(request).await
        })
        .await
    }

    /// Deletes keys.
    ///
    /// # Errors
    /// When no endpoint answers, the store refuses, or the outcome is unknown.
    pub async fn delete(
        &self,
        request: DeleteRangeRequest,
    ) -> Result<DeleteRangeResponse, ClientError> {
        let ask = |channel, request| async move { kv(channel).delete_range(request).await };
        self.call(Retry::Never, request, ask).await
    }

    /// Does what a transaction says, as one step.
    ///
    /// # Errors
    /// When no endpoint answers, the store refuses, or the outcome is unknown. That a compare
    /// does not hold is an answer and no error.
    pub async fn txn(&self, request: TxnRequest) -> Result<TxnResponse, ClientError> {
        self.call(Retry::Never, request, |channel, request| async move {
            kv(channel).txn(request).await
        })
        .await
    }

    /// Gives up what was overwritten before a revision.
    ///
    /// # Errors
    /// When no endpoint answers, the store refuses, or the outcome is unknown.
    pub async fn compact(
        &self,
        request: CompactionRequest,
    ) -> Result<CompactionResponse, ClientError> {
        self.call(Retry::Never, request, |channel, request| async move {
            kv(channel).compact(request).await
        })
        .await
    }
}

/// Leases.
impl Client {
    /// A new lease. Its TTL may be longer than asked for: the answer has it.
    ///
    /// # Errors
    /// When no endpoint answers, the store refuses, or the outcome is unknown: a lease without a
    /// holder ends by itself.
    pub async fn lease_grant(
        &self,
        request: LeaseGrantRequest,
    ) -> Result<LeaseGrantResponse, ClientError> {
        let ask =
            |channel, request| async move { LeaseClient::new(channel).lease_grant(request).await };
        self.call(Retry::Never, request, ask).await
    }

    /// Ends a lease, and deletes its keys at one revision.
    ///
    /// # Errors
    /// When no endpoint answers, there is no such lease, or the outcome is unknown.
    pub async fn lease_revoke(&self, id: i64) -> Result<LeaseRevokeResponse, ClientError> {
        let request = LeaseRevokeRequest { id };
        let ask =
            |channel, request| async move { LeaseClient::new(channel).lease_revoke(request).await };
        self.call(Retry::Never, request, ask).await
    }

    /// How long a lease has left: −1 where there is none.
    ///
    /// # Errors
    /// When no endpoint answers, or the store refuses.
    pub async fn lease_time_to_live(
        &self,
        request: LeaseTimeToLiveRequest,
    ) -> Result<LeaseTimeToLiveResponse, ClientError> {
        let ask = |channel, request| async move {
            LeaseClient::new(channel).lease_time_to_live(request).await
        };
        self.call(Retry::Safe, request, ask).await
    }

    /// All leases.
    ///
    /// # Errors
    /// When no endpoint answers, or the store refuses.
    pub async fn leases(&self) -> Result<LeaseLeasesResponse, ClientError> {
        let ask =
            |channel, request| async move { LeaseClient::new(channel).lease_leases(request).await };
        self.call(Retry::Safe, LeaseLeasesRequest {}, ask).await
    }

    /// Renews a lease once. Renewing it twice does no harm, so that a renewal moves on to the next
    /// endpoint like a read, within the time of this client.
    ///
    /// # Errors
    /// When no endpoint answers. A lease that is not there, or no more, is refused with NotFound.
    pub async fn keep_alive_once(&self, id: i64) -> Result<KeptAlive, ClientError> {
        let ask = |channel, id| async move {
            let sent_at = Instant::now();
            let request = once(LeaseKeepAliveRequest { id });
            let answers = LeaseClient::new(channel).lease_keep_alive(request).await?;
            let answer = answers.into_inner().message().await?;
            match answer.ok_or_else(|| Status::unavailable("no renewal before the stream's end"))? {
                answer if answer.ttl > 0 => {
                    Ok(Response::new(KeptAlive { sent_at, ttl_s: answer.ttl }))
                }
                _ => Err(Status::not_found("etcdserver: requested lease not found")),
            }
        };
        self.call(Retry::Safe, id, ask).await
    }
}

/// The cluster and its members.
impl Client {
    /// Who is in the cluster.
    ///
    /// # Errors
    /// When no endpoint answers, or the store refuses.
    pub async fn members(&self) -> Result<MemberListResponse, ClientError> {
        let request = MemberListRequest { linearizable: true };
        let ask = |channel, request| async move {
            ClusterClient::new(channel).member_list(request).await
        };
        self.call(Retry::Safe, request, ask).await
    }

    /// Adds a member.
    ///
    /// # Errors
    /// When no endpoint answers, the cluster refuses, or the outcome is unknown.
    pub async fn add_member(
        &self,
        request: MemberAddRequest,
    ) -> Result<MemberAddResponse, ClientError> {
        let ask =
            |channel, request| async move { ClusterClient::new(channel).member_add(request).await };
        self.call(Retry::Never, request, ask).await
    }

    /// What the first endpoint that answers says of itself.
    ///
    /// # Errors
    /// When no endpoint answers, or it refuses.
    pub async fn status(&self) -> Result<StatusResponse, ClientError> {
        let ask =
            |channel, request| async move { MaintenanceClient::new(channel).status(request).await };
        self.call(Retry::Safe, StatusRequest {}, ask).await
    }

    /// What each endpoint says of itself, all asked at once.
    pub async fn statuses(&self) -> Vec<(ClientUrl, Result<StatusResponse, ClientError>)> {
        let ask = |(endpoint, client): (ClientUrl, Self)| {
            (endpoint, tokio::spawn(async move { client.status().await }))
        };
        let calls: Vec<_> = self.each().map(ask).collect();
        let mut statuses = Vec::with_capacity(calls.len());
        for (endpoint, call) in calls {
            let answer = call.await.unwrap_or_else(|panic| {
                Err(ClientError::Unreachable(vec![(endpoint.clone(), panic.to_string())]))
            });
            statuses.push((endpoint, answer));
        }
        statuses
    }

    /// The hash of all keys up to a revision, zero for the newest, as the first endpoint that
    /// answers holds them.
    ///
    /// # Errors
    /// When no endpoint answers, or it refuses.
    pub async fn hash_kv(&self, revision: i64) -> Result<HashKvResponse, ClientError> {
        let ask = |channel, request| async move {
            MaintenanceClient::new(channel).hash_kv(request).await
        };
        self.call(Retry::Safe, HashKvRequest { revision }, ask).await
    }

    /// Asks for alarms, raises one or puts one down, as the request says.
    ///
    /// # Errors
    /// When no endpoint answers, the store refuses, or the outcome is unknown.
    pub async fn alarm(&self, request: AlarmRequest) -> Result<AlarmResponse, ClientError> {
        let ask =
            |channel, request| async move { MaintenanceClient::new(channel).alarm(request).await };
        self.call(Retry::Never, request, ask).await
    }

    /// Gives the space back that the first endpoint that can be reached no longer needs.
    ///
    /// # Errors
    /// When no endpoint answers, it refuses, or the outcome is unknown.
    pub async fn defragment(&self) -> Result<DefragmentResponse, ClientError> {
        let ask = |channel, request| async move {
            MaintenanceClient::new(channel).defragment(request).await
        };
        self.call(Retry::Never, DefragmentRequest {}, ask).await
    }

    /// Makes another member lead. Only the leader does that: the first endpoint that can be
    /// reached has to be it.
    ///
    /// # Errors
    /// When no endpoint answers, it is not the leader's, or the outcome is unknown.
    pub async fn move_leader(&self, target_id: u64) -> Result<MoveLeaderResponse, ClientError> {
        let request = MoveLeaderRequest { target_id };
        let ask = |channel, request| async move {
            MaintenanceClient::new(channel).move_leader(request).await
        };
        self.call(Retry::Never, request, ask).await
    }

    /// A backup of what the first endpoint that answers has applied, in pieces.
    ///
    /// # Errors
    /// When no endpoint answers.
    pub async fn snapshot(&self) -> Result<Streaming<SnapshotResponse>, ClientError> {
        let ask = |channel, request| async move {
            MaintenanceClient::new(channel).snapshot(request).await
        };
        self.call(Retry::Safe, SnapshotRequest {}, ask).await
    }
}
