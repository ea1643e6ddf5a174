//! Locks and elections: keys, order, headers and words. Codes are not compared: etcd says
//! "unknown" of all that its services say to each other.

use std::time::Duration;

use kontiki_kv::proto::etcdserverpb::lease_client::LeaseClient;
use kontiki_kv::proto::etcdserverpb::{
    LeaseGrantRequest, LeaseLeasesRequest, LeaseRevokeRequest, ResponseHeader,
};
use kontiki_kv::proto::v3electionpb::election_client::ElectionClient;
use kontiki_kv::proto::v3electionpb::{
    CampaignRequest, LeaderKey, LeaderRequest, ProclaimRequest, ResignRequest,
};
use kontiki_kv::proto::v3lockpb::lock_client::LockClient;
use kontiki_kv::proto::v3lockpb::{LockRequest, UnlockRequest};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tonic::transport::Channel;
use tonic::{Response, Status};

use crate::pair::Pair;
use crate::requests::{bytes, range};

/// Longer than anything takes that does not wait for others.
const SETTLED: Duration = Duration::from_millis(500);
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// Something to ask of a server.
#[derive(Clone, Debug)]
enum Ask {
    Grant(i64),
    Revoke(i64),
    Lock(&'static str, i64),
    Unlock(&'static str),
    Campaign(&'static str, i64, &'static str),
    Proclaim(Option<LeaderKey>, &'static str),
    Leader(&'static str),
    Resign(Option<LeaderKey>),
}

impl Ask {
    async fn of(self, channel: Channel) -> String {
        let mut lease = LeaseClient::new(channel.clone());
        let mut lock = LockClient::new(channel.clone());
        let mut election = ElectionClient::new(channel);
        match self {
            Self::Grant(id) => {
                show(lease.lease_grant(LeaseGrantRequest { id, ttl: 60 }).await, |it| {
                    (it.header, format!("{} {}", it.id, it.ttl))
                })
            }
            Self::Revoke(id) => show(lease.lease_revoke(LeaseRevokeRequest { id }).await, |it| {
                (it.header, String::new())
            }),
            Self::Lock(name, lease) => {
                let request = LockRequest { name: bytes(name), lease };
                show(lock.lock(request).await, |it| (it.header, format!("{:?}", it.key)))
            }
            Self::Unlock(key) => {
                let request = UnlockRequest { key: bytes(key) };
                show(lock.unlock(request).await, |it| (it.header, String::new()))
            }
            Self::Campaign(name, lease, value) => {
                let request = CampaignRequest { name: bytes(name), lease, value: bytes(value) };
                show(election.campaign(request).await, |it| (it.header, format!("{:?}", it.leader)))
            }
            Self::Proclaim(leader, value) => {
                let request = ProclaimRequest { leader, value: bytes(value) };
                show(election.proclaim(request).await, |it| (it.header, String::new()))
            }
            Self::Leader(name) => {
                let request = LeaderRequest { name: bytes(name) };
                show(election.leader(request).await, |it| (it.header, format!("{:?}", it.kv)))
            }
            Self::Resign(leader) => {
                let request = ResignRequest { leader };
                show(election.resign(request).await, |it| (it.header, String::new()))
            }
        }
    }
}

/// What was answered, with the revision of its header.
fn show<T>(
    answer: Result<Response<T>, Status>,
    shown: impl FnOnce(T) -> (Option<ResponseHeader>, String),
) -> String {
    match answer {
        Ok(answer) => {
            let (header, text) = shown(answer.into_inner());
            format!("at {:?}: {text}", header.map(|header| header.revision))
        }
        Err(status) => format!("refused: {}", status.message()),
    }
}

/// Asked of both, and not answered yet.
struct Waiting(Ask, [JoinHandle<String>; 2]);

impl Waiting {
    async fn start(pair: &Pair, ask: Ask) -> Self {
        let [etcd, ours] = [&pair.etcd, &pair.ours].map(|side| side.server.channel.clone());
        let asked = [tokio::spawn(ask.clone().of(etcd)), tokio::spawn(ask.clone().of(ours))];
        sleep(SETTLED).await;
        assert!(asked.iter().all(|asked| !asked.is_finished()), "{ask:?} is to wait");
        Self(ask, asked)
    }

    async fn compare(self, pair: &mut Pair) {
        let [etcd, ours] = self.1;
        let [etcd, ours] = [timeout(ANSWER_MAX, etcd).await, timeout(ANSWER_MAX, ours).await];
        let text = |it: Result<_, _>| match it {
            Ok(Ok(text)) => text,
            other => format!("no answer: {other:?}"),
        };
        pair.compare(&format!("{:?}", self.0), &text(etcd), &text(ours));
    }

    /// The client goes away.
    async fn abandon(self) {
        self.1.iter().for_each(JoinHandle::abort);
        sleep(SETTLED).await;
    }
}

async fn ask(pair: &mut Pair, ask: Ask) {
    let [etcd, ours] = [&pair.etcd, &pair.ours].map(|side| side.server.channel.clone());
    let (etcd, ours) = tokio::join!(ask.clone().of(etcd), ask.clone().of(ours));
    pair.compare(&format!("{ask:?}"), &etcd, &ours);
}

pub async fn play(pair: &mut Pair) {
    pair.scene("turns");
    for lease in [0x11, 0x22, 0x33, 0x44] {
        ask(pair, Ask::Grant(lease)).await;
    }
    locks(pair).await;
    elections(pair).await;
    // Several programs end their leases so.
    for lease in [0x11, 0x22, 0x44] {
        ask(pair, Ask::Revoke(lease)).await;
    }
    pair.ask(range("turns/", "turns0")).await;
    end_leases(pair).await;
}

/// Who names no lease is given one of a minute, and etcd grants itself another one, to answer who
/// leads. No key goes with them any more.
async fn end_leases(pair: &Pair) {
    for side in [&pair.etcd, &pair.ours] {
        let mut lease = LeaseClient::new(side.server.channel.clone());
        let all = lease.lease_leases(LeaseLeasesRequest {}).await.expect("it lists its leases");
        for left in all.into_inner().leases {
            // One that has just ended by itself is gone too.
            let _ = lease.lease_revoke(LeaseRevokeRequest { id: left.id }).await;
        }
    }
}

async fn locks(pair: &mut Pair) {
    for _ in 0..2 {
        ask(pair, Ask::Lock("turns/lock", 0x11)).await;
    }
    ask(pair, Ask::Lock("turns/lock", 0x99)).await;
    let second = Waiting::start(pair, Ask::Lock("turns/lock", 0x22)).await;
    let third = Waiting::start(pair, Ask::Lock("turns/lock", 0x33)).await;
    let fourth = Waiting::start(pair, Ask::Lock("turns/lock", 0x44)).await;
    pair.ask(range("turns/", "turns0")).await;
    // Who goes away leaves the line; who comes behind it goes on waiting.
    third.abandon().await;
    pair.ask(range("turns/", "turns0")).await;
    ask(pair, Ask::Unlock("turns/lock/11")).await;
    second.compare(pair).await;
    ask(pair, Ask::Unlock("turns/lock/11")).await;
    ask(pair, Ask::Unlock("")).await;
    ask(pair, Ask::Unlock("turns/lock/22")).await;
    fourth.compare(pair).await;
    ask(pair, Ask::Unlock("turns/lock/44")).await;
    ask(pair, Ask::Lock("", 0x11)).await;
    ask(pair, Ask::Unlock("/11")).await;
    // One whose lease ends while it waits: its turn never comes.
    ask(pair, Ask::Lock("turns/lock", 0x11)).await;
    let expired = Waiting::start(pair, Ask::Lock("turns/lock", 0x33)).await;
    ask(pair, Ask::Revoke(0x33)).await;
    ask(pair, Ask::Unlock("turns/lock/11")).await;
    expired.compare(pair).await;
    pair.ask(range("turns/", "turns0")).await;
}

async fn elections(pair: &mut Pair) {
    let name = "turns/election";
    let key = |lease: i64, rev| LeaderKey {
        name: bytes(name),
        key: bytes(format!("{name}/{lease:x}")),
        rev,
        lease,
    };
    ask(pair, Ask::Leader(name)).await;
    ask(pair, Ask::Campaign(name, 0x11, "one")).await;
    pair.ask(range("turns/", "turns0")).await;
    let first = key(0x11, pair.revision);
    ask(pair, Ask::Campaign(name, 0x11, "one")).await;
    ask(pair, Ask::Campaign(name, 0x11, "two")).await;
    ask(pair, Ask::Leader(name)).await;
    ask(pair, Ask::Proclaim(Some(first.clone()), "three")).await;
    ask(pair, Ask::Leader(name)).await;
    for wrong in [None, Some(LeaderKey::default()), Some(key(0x11, 3)), Some(key(0x99, 3))] {
        ask(pair, Ask::Proclaim(wrong.clone(), "x")).await;
        ask(pair, Ask::Resign(wrong)).await;
    }
    let second = Waiting::start(pair, Ask::Campaign(name, 0x22, "second")).await;
    let third = Waiting::start(pair, Ask::Campaign(name, 0x44, "third")).await;
    pair.ask(range("turns/", "turns0")).await;
    ask(pair, Ask::Resign(Some(first.clone()))).await;
    second.compare(pair).await;
    ask(pair, Ask::Resign(Some(first.clone()))).await;
    ask(pair, Ask::Proclaim(Some(first), "x")).await;
    third.abandon().await;
    ask(pair, Ask::Leader(name)).await;
    pair.ask(range("turns/", "turns0")).await;
}
