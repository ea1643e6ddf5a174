//! What a client of one node does with leases.

use kontiki_kv::proto::etcdserverpb::lease_client::LeaseClient;
use kontiki_kv::proto::etcdserverpb::{
    LeaseGrantRequest, LeaseKeepAliveRequest, LeaseLeasesRequest, LeaseRevokeRequest,
    LeaseTimeToLiveRequest, LeaseTimeToLiveResponse, PutRequest,
};
use tonic::{Response, Status};

use super::{Client, Fault, until};

impl Client {
    /// Grants a lease under this id, or finds that it was granted when nobody knew.
    pub(crate) async fn grant_surely(&mut self, id: i64, ttl: i64) {
        until("a lease is granted", async || {
            let request = LeaseGrantRequest { id, ttl };
            let granted = self
                .0
                .call(async |channel| LeaseClient::new(channel).lease_grant(request).await)
                .await;
            match granted {
                Ok(granted) => assert_eq!((granted.id, granted.ttl), (id, ttl)),
                Err(Fault::Refused(status)) => {
                    assert_eq!(status.message(), "etcdserver: lease already exists");
                }
                Err(_) => return None,
            }
            Some(())
        })
        .await;
    }

    pub(crate) async fn revoke(&mut self, id: i64) -> Result<(), Fault> {
        let request = LeaseRevokeRequest { id };
        let revoked =
            self.0.call(async |channel| LeaseClient::new(channel).lease_revoke(request).await);
        revoked.await.map(drop)
    }

    /// Keeps a lease alive once: its TTL, or 0 where it is gone.
    pub(crate) async fn keep_alive(&mut self, id: i64) -> Result<i64, Fault> {
        let kept = self.0.call(async |channel| {
            let requests = tokio_stream::once(LeaseKeepAliveRequest { id });
            let answers = LeaseClient::new(channel).lease_keep_alive(requests).await;
            let answer = answers?.into_inner().message().await?;
            let answer = answer.ok_or_else(|| Status::unavailable("the stream ended"))?;
            Ok(Response::new(answer))
        });
        kept.await.map(|answer| answer.ttl)
    }

    pub(crate) async fn time_to_live(&mut self, id: i64) -> Result<LeaseTimeToLiveResponse, Fault> {
        let request = LeaseTimeToLiveRequest { id, keys: true };
        self.0
            .call(async |channel| LeaseClient::new(channel).lease_time_to_live(request).await)
            .await
    }

    pub(crate) async fn leases(&mut self) -> Result<Vec<i64>, Fault> {
        let request = LeaseLeasesRequest {};
        let leases = self
            .0
            .call(async |channel| LeaseClient::new(channel).lease_leases(request).await)
            .await?;
        Ok(leases.leases.iter().map(|lease| lease.id).collect())
    }

    /// Puts a key that goes with a lease, until that is acknowledged.
    pub(crate) async fn attach_surely(&mut self, key: &str, lease: i64) {
        until("a key is attached", async || {
            let request = PutRequest { key: key.to_owned().into(), lease, ..PutRequest::default() };
            match self.0.put(request).await {
                Err(Fault::Refused(status)) => panic!("{key}: {status}"),
                answer => answer.ok(),
            }
        })
        .await;
    }
}
