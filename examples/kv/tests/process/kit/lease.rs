//! What a client of one node does with leases.

use kontiki_kv::proto::etcdserverpb::{
    LeaseGrantRequest, LeaseTimeToLiveRequest, LeaseTimeToLiveResponse, PutRequest,
};
use tonic::Code;

use super::{Client, ClientError, until};

impl Client {
    /// Grants a lease under this id, or finds that it was granted when nobody knew.
    pub(crate) async fn grant_surely(&mut self, id: i64, ttl: i64) {
        until("a lease is granted", async || {
            match self.0.lease_grant(LeaseGrantRequest { id, ttl }).await {
                Ok(granted) => assert_eq!((granted.id, granted.ttl), (id, ttl)),
                Err(ClientError::Refused(status)) => {
                    assert_eq!(status.message(), "etcdserver: lease already exists");
                }
                Err(_) => return None,
            }
            Some(())
        })
        .await;
    }

    pub(crate) async fn revoke(&mut self, id: i64) -> Result<(), ClientError> {
        self.0.lease_revoke(id).await.map(drop)
    }

    /// Keeps a lease alive once: its TTL, or 0 where it is gone.
    pub(crate) async fn keep_alive(&mut self, id: i64) -> Result<i64, ClientError> {
        match self.0.keep_alive_once(id).await {
            Ok(kept) => Ok(kept.ttl_s),
            Err(ClientError::Refused(status)) if status.code() == Code::NotFound => Ok(0),
            Err(error) => Err(error),
        }
    }

    pub(crate) async fn time_to_live(
        &mut self,
        id: i64,
    ) -> Result<LeaseTimeToLiveResponse, ClientError> {
        self.0.lease_time_to_live(LeaseTimeToLiveRequest { id, keys: true }).await
    }

    pub(crate) async fn leases(&mut self) -> Result<Vec<i64>, ClientError> {
        Ok(self.0.leases().await?.leases.iter().map(|lease| lease.id).collect())
    }

    /// Puts a key that goes with a lease, until that is acknowledged.
    pub(crate) async fn attach_surely(&mut self, key: &str, lease: i64) {
        until("a key is attached", async || {
            let request = PutRequest { key: key.to_owned().into(), lease, ..PutRequest::default() };
            match self.0.put(request).await {
                Err(ClientError::Refused(status)) => panic!("{key}: {status}"),
                answer => answer.ok(),
            }
        })
        .await;
    }
}
