//! Requests about leases. How much time is left depends on the moment, and ids may be drawn.

use bytes::Bytes;
use http::uri::PathAndQuery;
use kontiki_kv::proto::etcdserverpb::{
    LeaseGrantRequest, LeaseGrantResponse, LeaseKeepAliveRequest, LeaseKeepAliveResponse,
    LeaseLeasesRequest, LeaseLeasesResponse, LeaseRevokeRequest, LeaseRevokeResponse,
    LeaseTimeToLiveRequest, LeaseTimeToLiveResponse,
};
use prost::Message;
use tonic::transport::Channel;
use tonic::{Request, Status};

use crate::call::{Answer, Ids, Whole, encode, show};

/// No test takes so many seconds between a grant and what it asks then.
const SECONDS_MAX: i64 = 60;

#[derive(Clone, Debug)]
pub enum LeaseCall {
    /// Under this id, or a drawn one where it is 0.
    Grant {
        id: i64,
        ttl: i64,
    },
    Revoke(i64),
    TimeToLive {
        id: i64,
        keys: bool,
    },
    Leases,
    /// One after the other, in one stream.
    KeepAlive(Vec<i64>),
}

impl LeaseCall {
    pub fn wire(&self) -> (&'static str, Bytes) {
        match *self {
            Self::Grant { id, ttl } => {
                ("/etcdserverpb.Lease/LeaseGrant", encode(&LeaseGrantRequest { id, ttl }))
            }
            Self::Revoke(id) => {
                ("/etcdserverpb.Lease/LeaseRevoke", encode(&LeaseRevokeRequest { id }))
            }
            Self::TimeToLive { id, keys } => {
                let request = LeaseTimeToLiveRequest { id, keys };
                ("/etcdserverpb.Lease/LeaseTimeToLive", encode(&request))
            }
            Self::Leases => ("/etcdserverpb.Lease/LeaseLeases", encode(&LeaseLeasesRequest {})),
            Self::KeepAlive(_) => ("/etcdserverpb.Lease/LeaseKeepAlive", Bytes::new()),
        }
    }

    pub fn show(&self, answer: Bytes, ids: Ids) -> Answer {
        match self {
            Self::Grant { id, .. } => show(answer, ids, |granted: &mut LeaseGrantResponse| {
                if *id == 0 {
                    granted.id = granted.id.signum();
                }
                &mut granted.header
            }),
            Self::Revoke(_) => {
                show(answer, ids, |revoked: &mut LeaseRevokeResponse| &mut revoked.header)
            }
            Self::TimeToLive { .. } => show(answer, ids, |told: &mut LeaseTimeToLiveResponse| {
                let gone = told.granted_ttl - told.ttl;
                if told.ttl >= 0 && (0..SECONDS_MAX).contains(&gone) {
                    told.ttl = told.granted_ttl;
                }
                // Etcd lists them in no order.
                told.keys.sort();
                &mut told.header
            }),
            Self::Leases => show(answer, ids, |all: &mut LeaseLeasesResponse| {
                // Etcd sorts by what is left, which leases of the same moment do not differ in.
                // Drawn ids are large.
                all.leases.iter_mut().for_each(|lease| lease.id = lease.id.min(1 << 20));
                all.leases.sort_by_key(|lease| lease.id);
                &mut all.header
            }),
            Self::KeepAlive(_) => {
                show(answer, ids, |kept: &mut LeaseKeepAliveResponse| &mut kept.header)
            }
        }
    }
}

/// All answers to a stream of keep-alives that the client ends.
pub async fn keep_alive(channel: &Channel, leases: &[i64], ids: Ids) -> Answer {
    let mut text = String::new();
    let requests = leases.iter().map(|id| LeaseKeepAliveRequest { id: *id }.encode_to_vec().into());
    let requests = tokio_stream::iter(requests.collect::<Vec<Bytes>>());
    let mut client = tonic::client::Grpc::new(channel.clone());
    client.ready().await.expect("it answers");
    let path = PathAndQuery::from_static("/etcdserverpb.Lease/LeaseKeepAlive");
    let refused = |text: String, status: Status| Answer::refused(&status).behind(text);
    let answers = client.streaming(Request::new(requests), path, Whole).await;
    let mut answers = match answers {
        Ok(answers) => answers.into_inner(),
        Err(status) => return refused(text, status),
    };
    loop {
        match answers.message().await {
            Ok(Some(answer)) => {
                text.push_str(&LeaseCall::KeepAlive(vec![]).show(answer, ids).text);
                text.push('\n');
            }
            Ok(None) => return Answer::told(text),
            Err(status) => return refused(text, status),
        }
    }
}
