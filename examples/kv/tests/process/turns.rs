//! Locks and elections through all nodes of a cluster: one at a time, in the order of arrival,
//! also when the cluster's leader is killed under those who wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use kontiki_kv::proto::etcdserverpb::LeaseGrantRequest;
use kontiki_kv::proto::etcdserverpb::lease_client::LeaseClient;
use kontiki_kv::proto::v3electionpb::election_client::ElectionClient;
use kontiki_kv::proto::v3electionpb::{CampaignRequest, LeaderRequest, ResignRequest};
use kontiki_kv::proto::v3lockpb::lock_client::LockClient;
use kontiki_kv::proto::v3lockpb::{LockRequest, UnlockRequest};
use tokio::task::JoinSet;
use tokio::time::sleep;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};

use crate::kit::{Cluster, patiently, until};

const PAUSE: Duration = Duration::from_millis(50);
/// Longer than a test may take: leases end here when they are to.
const LEASE_TTL: i64 = 300;

fn channel(endpoint: &str) -> Channel {
    let endpoint = Endpoint::from_shared(format!("http://{endpoint}")).expect("an address");
    endpoint.connect_timeout(Duration::from_secs(2)).connect_lazy()
}

async fn lease(endpoint: &str, id: i64) {
    let mut client = LeaseClient::new(channel(endpoint));
    let request = LeaseGrantRequest { id, ttl: LEASE_TTL };
    client.lease_grant(request).await.expect("a lease");
}

/// Asks again, at the next node, while it is not known what became of it: a lock is the same one
/// for the same lease.
async fn surely<T, F: Future<Output = Result<T, Status>>>(
    endpoints: &[String],
    mut at: usize,
    ask: impl Fn(Channel) -> F,
) -> T {
    loop {
        match ask(channel(&endpoints[at % endpoints.len()])).await {
            Ok(answer) => return answer,
            Err(status) => {
                let may_pass = [Code::Unavailable, Code::Unknown, Code::Cancelled];
                assert!(may_pass.contains(&status.code()), "{status}");
                at += 1;
                sleep(PAUSE).await;
            }
        }
    }
}

/// ```text
/// client 1 has the lock; 2 … 6 come one after the other, through all nodes
/// the cluster's leader ── kill -9 ─────────────── start
/// client 1 ────────────────────── unlocks; then 2, 3, … each in its turn
/// ```
// scenario B83
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_lock_goes_from_one_to_the_next_in_order_of_arrival() {
    const CLIENTS: usize = 6;
    let mut trio = Cluster::start().await;
    let endpoints = trio.endpoints();
    let lock = |channel: Channel, lease: i64| async move {
        let request = LockRequest { name: Bytes::from_static(b"lock"), lease };
        Ok::<_, Status>(LockClient::new(channel).lock(request).await?.into_inner().key)
    };
    let unlock = |channel: Channel, key: Bytes| async move {
        LockClient::new(channel).unlock(UnlockRequest { key }).await
    };
    let (holders, turns) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut clients = JoinSet::new();
    for number in 0..CLIENTS {
        let id = number as i64 + 1;
        lease(&endpoints[number % 3], id).await;
        let (endpoints, holders, taken) = (endpoints.clone(), holders.clone(), turns.clone());
        clients.spawn(async move {
            let key = surely(&endpoints, number, |channel| lock(channel, id)).await;
            assert_eq!(holders.fetch_add(1, Ordering::SeqCst), 0, "two have the lock");
            assert_eq!(taken.fetch_add(1, Ordering::SeqCst), number, "out of order");
            assert_eq!(key, format!("lock/{id:x}"));
            // The first one keeps it while the leader is killed.
            sleep(if number == 0 { Duration::from_secs(3) } else { PAUSE }).await;
            holders.fetch_sub(1, Ordering::SeqCst);
            surely(&endpoints, number, |channel| unlock(channel, key.clone())).await;
        });
        // The next one comes when this one is in the line.
        let key = format!("lock/{id:x}");
        let mut client = trio.client(number % 3);
        until("a key in the line", async || client.get(&key).await.ok()?.map(drop)).await;
    }
    let leader = trio.leader().await;
    trio.nodes[leader].kill();
    let all = async {
        while clients.join_next().await.transpose().expect("no client panics").is_some() {}
    };
    patiently("all had their turn", all).await;
    assert_eq!(turns.load(Ordering::SeqCst), CLIENTS);
    trio.nodes[leader].start();
    let left = trio.settled().await;
    assert!(left.is_empty(), "keys stay in the line: {left:?}");
}

/// Who goes away while waiting is not waited for, and who leads is seen at every node.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn who_goes_away_while_waiting_leaves_the_line() {
    let trio = Cluster::start().await;
    let endpoints = trio.endpoints();
    let name = Bytes::from_static(b"election");
    let campaign = |at: usize, lease: i64| {
        let mut client = ElectionClient::new(channel(&endpoints[at]));
        let value = Bytes::from(format!("candidate {lease}"));
        let request = CampaignRequest { name: name.clone(), lease, value };
        async move { client.campaign(request).await.map(|answer| answer.into_inner().leader) }
    };
    for (at, id) in [(0, 1), (1, 2), (2, 3)] {
        lease(&endpoints[at], id).await;
    }
    let first = campaign(0, 1).await.expect("nobody else is there").expect("a key");
    let second = tokio::spawn(campaign(1, 2));
    let stands = async |key: &str| {
        let mut client = trio.client(0);
        until(key, async || client.get(key).await.ok()?.map(drop)).await;
    };
    stands("election/2").await;
    let third = tokio::spawn(campaign(2, 3));
    stands("election/3").await;

    second.abort();
    let mut client = trio.client(0);
    until("its key goes", async || client.get("election/2").await.ok()?.is_none().then_some(()))
        .await;
    assert!(!third.is_finished(), "the first one leads");
    let resign = ResignRequest { leader: Some(first) };
    ElectionClient::new(channel(&endpoints[2])).resign(resign).await.expect("it led");
    let third = patiently("the third leads", third).await.expect("no panic").expect("it leads");
    for endpoint in &endpoints {
        let request = LeaderRequest { name: name.clone() };
        let leader = ElectionClient::new(channel(endpoint)).leader(request).await;
        let kv = leader.expect("there is one").into_inner().kv.expect("a key");
        assert_eq!((kv.key, kv.value), (Bytes::from_static(b"election/3"), "candidate 3".into()));
        assert_eq!(third.as_ref().map(|third| third.rev), Some(kv.create_revision));
    }
}

/// Its key is no longer bound to its lease: the lease may end, and nobody would know of it.
// scenario B83
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn whose_key_is_taken_from_its_lease_never_has_its_turn() {
    let trio = Cluster::start().await;
    let endpoints = trio.endpoints();
    let lock = |at: usize, lease: i64| {
        let mut client = LockClient::new(channel(&endpoints[at]));
        let request = LockRequest { name: Bytes::from_static(b"lock"), lease };
        async move { client.lock(request).await.map(|answer| answer.into_inner().key) }
    };
    for id in [1, 2] {
        lease(&endpoints[0], id).await;
    }
    let key = lock(0, 1).await.expect("nobody else is there");
    let second = tokio::spawn(lock(1, 2));
    let mut client = trio.client(0);
    until("a key in the line", async || client.get("lock/2").await.ok()?.map(drop)).await;

    client.put_surely("lock/2", "").await;
    LockClient::new(channel(&endpoints[0])).unlock(UnlockRequest { key }).await.expect("unlocked");
    let refused = patiently("an answer", second).await.expect("no panic").expect_err("no turn");
    assert_eq!(refused.message(), "mutex: session is expired");
}
