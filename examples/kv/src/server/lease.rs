//! The Lease service: grants and revokes through the log, keeps alive through the lessor.

use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use super::backend::Backend;
use super::kv::mismatch;
use crate::proto::etcdserverpb::lease_server::Lease;
use crate::proto::etcdserverpb::{
    LeaseGrantRequest, LeaseGrantResponse, LeaseKeepAliveRequest, LeaseKeepAliveResponse,
    LeaseLeasesRequest, LeaseLeasesResponse, LeaseRevokeRequest, LeaseRevokeResponse, LeaseStatus,
    LeaseTimeToLiveRequest, LeaseTimeToLiveResponse,
};
use crate::proto::kontiki::LeaseRevoke;
use crate::proto::kontiki::command::Action;
use crate::store::Answer;

/// How many keep-alives of one stream are under way.
const RENEWALS_MAX: usize = 1024;
/// How many answers of one stream wait for its client.
const ANSWERS_MAX: usize = 64;

#[tonic::async_trait]
impl Lease for Backend {
    async fn lease_grant(
        &self,
        request: Request<LeaseGrantRequest>,
    ) -> Result<Response<LeaseGrantResponse>, Status> {
        self.require_leader(request.metadata())?;
        let LeaseGrantRequest { ttl, id } = request.into_inner();
        // Decided here, because settings may differ from node to node, and the log's effect not.
        let ttl = ttl.max(self.lease_ttl_min());
        let id = if id == 0 { rand::random_range(1..=i64::MAX) } else { id };
        match self.propose(Action::LeaseGrant(LeaseGrantRequest { ttl, id })).await? {
            Answer::LeaseGrant(mut response) => {
                self.complete(&mut response.header);
                Ok(Response::new(response))
            }
            other => Err(mismatch(&other)),
        }
    }

    async fn lease_revoke(
        &self,
        request: Request<LeaseRevokeRequest>,
    ) -> Result<Response<LeaseRevokeResponse>, Status> {
        self.require_leader(request.metadata())?;
        let revoke = LeaseRevoke { id: request.into_inner().id, expired: None };
        match self.propose(Action::LeaseRevoke(revoke)).await? {
            Answer::LeaseRevoke(_, mut response) => {
                self.complete(&mut response.header);
                Ok(Response::new(response))
            }
            other => Err(mismatch(&other)),
        }
    }

    type LeaseKeepAliveStream = ReceiverStream<Result<LeaseKeepAliveResponse, Status>>;

    /// Renews as the requests come, and answers in their order.
    async fn lease_keep_alive(
        &self,
        request: Request<Streaming<LeaseKeepAliveRequest>>,
    ) -> Result<Response<Self::LeaseKeepAliveStream>, Status> {
        self.require_leader(request.metadata())?;
        let (metadata, _, mut requests) = request.into_parts();
        let (begun, mut renewals) = mpsc::channel(RENEWALS_MAX);
        let (answers, answered) = mpsc::channel(ANSWERS_MAX);
        let backend = self.clone();
        tokio::spawn(async move {
            // Until the client has no more, or there is nobody to answer.
            while let Some(Ok(LeaseKeepAliveRequest { id })) = requests.next().await {
                let Ok(renewal) = backend.renew(id).await else { return };
                if begun.send((id, renewal)).await.is_err() {
                    return;
                }
            }
        });
        let backend = self.clone();
        tokio::spawn(async move {
            let ends = backend.stream_ends(&metadata);
            tokio::pin!(ends);
            loop {
                let answer = tokio::select! {
                    status = &mut ends => Err(status),
                    renewal = renewals.recv() => match renewal {
                        Some((id, renewal)) => backend.kept_alive(id, renewal).await,
                        None => return,
                    },
                };
                let is_last = answer.is_err();
                if answers.send(answer).await.is_err() || is_last {
                    return;
                }
            }
        });
        Ok(Response::new(ReceiverStream::new(answered)))
    }

    async fn lease_time_to_live(
        &self,
        request: Request<LeaseTimeToLiveRequest>,
    ) -> Result<Response<LeaseTimeToLiveResponse>, Status> {
        self.require_leader(request.metadata())?;
        let LeaseTimeToLiveRequest { id, keys } = request.into_inner();
        let left = self.lease_time(id).await?;
        let lease = self.reader.lease(id);
        let mut response = LeaseTimeToLiveResponse { id, ttl: -1, ..Default::default() };
        if let (Some(left), Some(lease)) = (left, lease) {
            (response.ttl, response.granted_ttl) = (left, lease.ttl);
            if keys {
                response.keys = self.reader.lease_keys(id);
            }
        }
        response.header = self.header(self.reader.revision());
        Ok(Response::new(response))
    }

    async fn lease_leases(
        &self,
        request: Request<LeaseLeasesRequest>,
    ) -> Result<Response<LeaseLeasesResponse>, Status> {
        self.require_leader(request.metadata())?;
        self.linearizable().await?;
        let leases = self.reader.leases();
        let leases = leases.keys().map(|id| LeaseStatus { id: *id }).collect();
        Ok(Response::new(LeaseLeasesResponse {
            header: self.header(self.reader.revision()),
            leases,
        }))
    }
}

impl Backend {
    /// In seconds, as etcd's: a lease must outlast the loss of a leader.
    fn lease_ttl_min(&self) -> i64 {
        let least = self.config.election_timeout * 3 / 2;
        let seconds = least.as_secs() + u64::from(least.subsec_nanos() > 0);
        i64::try_from(seconds).unwrap_or(i64::MAX)
    }

    async fn kept_alive(
        &self,
        id: i64,
        renewal: tokio::sync::oneshot::Receiver<i64>,
    ) -> Result<LeaseKeepAliveResponse, Status> {
        let ttl = self.renewed(renewal).await?;
        let header = self.header(self.reader.revision());
        Ok(LeaseKeepAliveResponse { header, id, ttl })
    }
}
