//! Each call once, with the answers that etcd gives.

use std::time::Duration;

use kontiki_client::ClientError;
use kontiki_client::proto::etcdserverpb::response_op::Response;
use kontiki_client::proto::etcdserverpb::{
    CompactionRequest, Compare, DeleteRangeRequest, LeaseGrantRequest, LeaseTimeToLiveRequest,
    PutRequest, RangeRequest, TxnRequest,
};
use tonic::Code;

use crate::etcd::Etcd;
use crate::{PATIENCE, client};

#[tokio::test]
async fn keys_and_values_against_etcd() {
    let Some(etcd) = Etcd::start(1).await else { return };
    let client = client(&etcd.ports, PATIENCE);
    for key in ["a/1", "a/2", "b"] {
        client.put(PutRequest::new(key, "old")).await.expect("written");
    }
    assert_eq!(client.range(RangeRequest::prefix("a/")).await.expect("read").count, 2);
    let put = client.put(PutRequest { prev_kv: true, ..PutRequest::new("b", "new") }).await;
    let put = put.expect("written");
    assert_eq!(&put.prev_kv.expect("there was one").value[..], b"old");
    assert_eq!(&client.get("b").await.expect("read").expect("there").value[..], b"new");
    assert_eq!(client.get("c").await.expect("read"), None);
    let deleted = client.delete(DeleteRangeRequest::prefix("a/")).await.expect("deleted");
    assert_eq!(deleted.deleted, 2);

    let revision = deleted.header.expect("a header").revision;
    let request = CompactionRequest { revision, physical: false };
    client.compact(request).await.expect("compacted");
    let error = client.compact(request).await.expect_err("already compacted");
    let ClientError::Refused(refusal) = error else { panic!("{error}") };
    assert_eq!(refusal.code(), Code::OutOfRange);
    assert_eq!(refusal.message(), "etcdserver: mvcc: required revision has been compacted");
}

#[tokio::test]
async fn transactions_against_etcd() {
    let Some(etcd) = Etcd::start(1).await else { return };
    let client = client(&etcd.ports, PATIENCE);
    let create = TxnRequest::when([Compare::create_revision("key", 0)])
        .then(PutRequest::new("key", "first"))
        .otherwise(RangeRequest::key("key"));
    let first = client.txn(create.clone()).await.expect("answered");
    assert!(first.succeeded);
    let second = client.txn(create).await.expect("answered");
    assert!(!second.succeeded);
    let Some(Response::ResponseRange(range)) = &second.responses[0].response else {
        panic!("{second:?}");
    };
    assert_eq!(&range.kvs[0].value[..], b"first");
    let fenced = Compare::mod_revision("key", range.kvs[0].mod_revision);
    for (compare, holds) in [
        (fenced, true),
        (Compare::value("key", "first"), true),
        (Compare::version("key", 1), true),
        (Compare::lease("key", 0), true),
        (Compare::value("key", "second"), false),
    ] {
        let answer = client.txn(TxnRequest::when([compare.clone()])).await.expect("answered");
        assert_eq!(answer.succeeded, holds, "{compare:?}");
    }
}

#[tokio::test]
async fn leases_against_etcd() {
    let Some(etcd) = Etcd::start(1).await else { return };
    let client = client(&etcd.ports, PATIENCE);
    let granted = client.lease_grant(LeaseGrantRequest { ttl: 60, id: 0 }).await.expect("granted");
    client.put(PutRequest::new("held", "").with_lease(granted.id)).await.expect("written");
    let before = tokio::time::Instant::now();
    let kept = client.keep_alive_once(granted.id).await.expect("renewed");
    assert_eq!(kept.ttl_s, 60);
    assert!(before <= kept.sent_at && kept.sent_at <= tokio::time::Instant::now());

    let request = LeaseTimeToLiveRequest { id: granted.id, keys: true };
    let left = client.lease_time_to_live(request).await.expect("answered");
    assert!((1..=60).contains(&left.ttl), "{left:?}");
    assert_eq!((left.granted_ttl, left.keys), (60, vec!["held".into()]));
    let leases = client.leases().await.expect("answered").leases;
    assert_eq!(leases.iter().map(|lease| lease.id).collect::<Vec<_>>(), [granted.id]);

    client.lease_revoke(granted.id).await.expect("revoked");
    assert_eq!(client.get("held").await.expect("read"), None);
    for error in [
        client.lease_revoke(granted.id).await.expect_err("no such lease"),
        client.keep_alive_once(granted.id).await.expect_err("no such lease"),
    ] {
        let ClientError::Refused(refusal) = error else { panic!("{error}") };
        assert_eq!(refusal.code(), Code::NotFound);
        assert_eq!(refusal.message(), "etcdserver: requested lease not found");
    }
    assert_eq!(client.lease_time_to_live(request).await.expect("answered").ttl, -1);
}

#[tokio::test]
async fn the_cluster_of_etcd_and_its_leader() {
    let Some(mut etcd) = Etcd::start(3).await else { return };
    let client = client(&etcd.ports, PATIENCE);
    let members = client.members().await.expect("answered").members;
    assert_eq!(members.len(), 3);
    let status = client.status().await.expect("answered");
    let target = members.iter().find(|member| member.id != status.leader).expect("a follower");

    let mut led_by = 0;
    for (_, one) in client.each() {
        let error = match one.move_leader(target.id).await {
            Ok(_) => {
                led_by = target.id;
                break;
            }
            Err(ClientError::Refused(refusal)) => refusal,
            Err(error) => panic!("{error}"),
        };
        assert_eq!(error.message(), "etcdserver: not leader");
    }
    assert_eq!(led_by, target.id, "one of three leads");

    etcd.kill(0).await;
    let statuses = client.within(Duration::from_secs(10)).statuses().await;
    let answered: Vec<bool> = statuses.iter().map(|(_, status)| status.is_ok()).collect();
    assert_eq!(answered, [false, true, true]);
    etcd.until_written().await; // It may have been the leader that was killed.
    client.put(PutRequest::new("key", "value")).await.expect("the second takes it");
}
