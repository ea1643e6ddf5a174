//! The space quota of three nodes: one that is full stops the writes of all, all say so, and the
//! operator has a way back.

use bytes::Bytes;
use kontiki_kv::proto::etcdserverpb::alarm_request::AlarmAction;
use kontiki_kv::proto::etcdserverpb::{
    AlarmMember, AlarmRequest, AlarmType, CompactionRequest, DeleteRangeRequest, RangeRequest,
};

use crate::kit::{Client, ClientError, Cluster, until};

const QUOTA_BYTES: usize = 4 << 20;
const VALUE_BYTES: usize = 64 << 10;

/// Something that cannot be pressed.
fn noise(seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut byte = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..VALUE_BYTES).map(|_| byte()).collect()
}

impl Client {
    async fn alarms(&mut self, action: AlarmAction, member_id: u64) -> Vec<AlarmMember> {
        let (action, alarm) = (action.into(), AlarmType::Nospace.into());
        let request = AlarmRequest { action, member_id, alarm };
        self.0.alarm(request).await.expect("there is a quorum").alarms
    }

    async fn defragment(&mut self) {
        self.0.defragment().await.expect("it works without the others");
    }

    async fn compact(&mut self, revision: i64) {
        let request = CompactionRequest { revision, physical: false };
        self.0.compact(request).await.expect("compaction is how one gets out of it");
    }

    async fn delete(&mut self, key: &str) -> i64 {
        let request = DeleteRangeRequest::key(key.to_owned());
        self.0.delete(request).await.expect("deletions are how one gets out of it").deleted
    }
}

/// That a node takes no put, with etcd's code and words.
async fn assert_full(cluster: &Cluster, at: usize) {
    match cluster.client(at).put("small", "x").await {
        Err(ClientError::Refused(status)) => {
            assert_eq!(status.code(), tonic::Code::ResourceExhausted, "{status}");
            assert_eq!(status.message(), "etcdserver: mvcc: database space exceeded");
        }
        other => panic!("node {at} takes a put: {other:?}"),
    }
}

/// Every node names the alarm in its status.
async fn assert_all_say_so(cluster: &Cluster) {
    for at in 0..3 {
        until("a node knows of the alarm", async || {
            let errors = cluster.client(at).status().await.ok()?.errors;
            errors.iter().any(|error| error.contains("alarm:NOSPACE")).then_some(())
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_full_node_stops_the_writes_of_all_until_there_is_space_again() {
    let quota = format!("--quota-backend-bytes={QUOTA_BYTES}");
    let mut cluster = Cluster::start_with(&[&quota]).await;
    let mut count = 0;
    let refused = loop {
        let key = format!("key {}", count % 7);
        match cluster.client(count % 3).put(&key, noise(count as u64)).await {
            Ok(_) => count += 1,
            Err(ClientError::Refused(status)) => break status,
            Err(fault) => panic!("nothing was done to the cluster: {fault}"),
        }
        assert!(count < 4 * QUOTA_BYTES / VALUE_BYTES, "the quota is never reached");
    };
    assert_eq!(refused.message(), "etcdserver: mvcc: database space exceeded");
    assert!(count > QUOTA_BYTES / VALUE_BYTES / 2, "full after {count} puts");
    assert_all_say_so(&cluster).await;
    for at in 0..3 {
        assert_full(&cluster, at).await;
        assert!(cluster.client(at).get("key 1").await.expect("reads go on").is_some());
    }
    cluster.same_hash().await;

    // It is state, and so there after a restart; and put down too early, it comes again.
    cluster.kill_all();
    cluster.start_all();
    cluster.leader().await;
    assert_all_say_so(&cluster).await;
    assert_full(&cluster, 2).await;
    disarm(&cluster).await;
    until("it comes again", async || {
        let put = cluster.client(0).put("key 0", noise(1000)).await;
        matches!(put, Err(ClientError::Refused(_))).then_some(())
    })
    .await;
    assert_all_say_so(&cluster).await;

    assert_eq!(cluster.client(1).delete("key 2").await, 1);
    let revision = cluster.client(1).status().await.expect("it runs").header.expect("one").revision;
    let before = cluster.client(0).status().await.expect("it runs").db_size;
    cluster.client(1).compact(revision).await;
    for at in 0..3 {
        until("a node has heard of the compaction", async || {
            let status = cluster.client(at).status().await.ok()?;
            (status.header?.revision >= revision).then_some(())
        })
        .await;
        cluster.client(at).defragment().await;
        let after = cluster.client(at).status().await.expect("it runs").db_size;
        assert!(after < before / 2, "node {at} went from {before} to {after} bytes");
    }
    assert_full(&cluster, 0).await;
    disarm(&cluster).await;
    for at in 0..3 {
        cluster.client(at).put("key 0", noise(at as u64)).await.expect("there is space again");
    }
    assert_eq!(cluster.client(0).get("key 2").await.expect("a leader"), None);
    cluster.same_hash().await;
    cluster.settled().await;
}

/// Puts down every alarm, as `etcdctl alarm disarm` does.
async fn disarm(cluster: &Cluster) {
    let alarms = cluster.client(0).alarms(AlarmAction::Get, 0).await;
    assert!(!alarms.is_empty(), "there is one");
    for alarm in alarms {
        let down = cluster.client(1).alarms(AlarmAction::Deactivate, alarm.member_id).await;
        assert_eq!(down, [alarm]);
    }
    assert_eq!(cluster.client(2).alarms(AlarmAction::Get, 0).await, []);
}

/// Without anybody asking for it, the leader gives up history; the others follow.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn history_is_compacted_by_age() {
    let cluster = Cluster::start_with(&["--auto-compaction-retention=1s"]).await;
    let first = cluster.client(0).put("key", "old").await.expect("there is a leader");
    let newer = cluster.client(0).put("key", "new").await.expect("there is a leader");
    for at in 0..3 {
        until("an old revision is compacted", async || {
            // The window moves with revisions alone.
            cluster.client(at).put("clock", "ticks").await.ok()?;
            let request = RangeRequest {
                key: Bytes::from_static(b"key"),
                revision: first,
                serializable: true,
                ..RangeRequest::default()
            };
            match cluster.client(at).0.range(request).await {
                Err(ClientError::Refused(status)) => {
                    let expected = "etcdserver: mvcc: required revision has been compacted";
                    (status.message() == expected).then_some(())
                }
                _ => None,
            }
        })
        .await;
    }
    assert!(newer > first);
    assert_eq!(cluster.client(1).get("key").await.expect("a leader").as_deref(), Some("new"));
}
