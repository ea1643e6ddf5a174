//! Leases that are renewed late: whatever is asked for, after a while.

use std::sync::atomic::Ordering;
use std::time::Duration;

use kontiki_client::proto::etcdserverpb::lease_server::Lease;
use kontiki_client::proto::etcdserverpb::{
    LeaseGrantRequest, LeaseGrantResponse, LeaseKeepAliveRequest, LeaseKeepAliveResponse,
    LeaseLeasesRequest, LeaseLeasesResponse, LeaseRevokeRequest, LeaseRevokeResponse,
    LeaseTimeToLiveRequest, LeaseTimeToLiveResponse,
};
use tokio_stream::{Once, once};
use tonic::{Request, Response, Status, Streaming};

use super::Fake;

/// How late a renewal is answered.
pub(crate) const LATE: Duration = Duration::from_millis(400);

#[tonic::async_trait]
impl Lease for Fake {
    type LeaseKeepAliveStream = Once<Result<LeaseKeepAliveResponse, Status>>;

    async fn lease_keep_alive(
        &self,
        request: Request<Streaming<LeaseKeepAliveRequest>>,
    ) -> Result<Response<Self::LeaseKeepAliveStream>, Status> {
        let asked = request.into_inner().message().await?;
        let id = asked.map_or(0, |asked| asked.id);
        self.writes.fetch_add(1, Ordering::SeqCst);
        tokio::time::sleep(LATE).await;
        let answer = LeaseKeepAliveResponse { header: None, id, ttl: 9 };
        Ok(Response::new(once(Ok(answer))))
    }

    async fn lease_grant(
        &self,
        _: Request<LeaseGrantRequest>,
    ) -> Result<Response<LeaseGrantResponse>, Status> {
        self.respond(&self.writes).await
    }

    async fn lease_revoke(
        &self,
        _: Request<LeaseRevokeRequest>,
    ) -> Result<Response<LeaseRevokeResponse>, Status> {
        self.respond(&self.writes).await
    }

    async fn lease_time_to_live(
        &self,
        _: Request<LeaseTimeToLiveRequest>,
    ) -> Result<Response<LeaseTimeToLiveResponse>, Status> {
        self.respond(&self.reads).await
    }

    async fn lease_leases(
        &self,
        _: Request<LeaseLeasesRequest>,
    ) -> Result<Response<LeaseLeasesResponse>, Status> {
        self.respond(&self.reads).await
    }
}
