//! Leases end when their time is over, and not before, whoever leads.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::kit::{Client, Cluster, rounds, text, until};

fn seconds(count: i64) -> Duration {
    Duration::from_secs(count.unsigned_abs())
}

/// Sessions: each has a lease with one key, and renews it by whichever node answers.
struct Sessions {
    tasks: JoinSet<()>,
    stop: Arc<AtomicBool>,
    renewed: Arc<AtomicU64>,
    keys: BTreeSet<String>,
}

/// A node that does not answer in this time is left for another.
const ANSWER_MAX: Duration = Duration::from_millis(700);

impl Sessions {
    async fn start(trio: &Cluster, count: i64, ttl: i64) -> Self {
        let (stop, renewed) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let mut sessions = Self { tasks: JoinSet::new(), stop, renewed, keys: BTreeSet::new() };
        for id in 1..=count {
            let mut first = trio.client(0);
            first.grant_surely(id, ttl).await;
            let endpoints = trio.endpoints();
            let (stop, renewed) = (Arc::clone(&sessions.stop), Arc::clone(&sessions.renewed));
            sessions.tasks.spawn(async move {
                let mut at = usize::try_from(id).expect("small");
                let mut client = Client::to(&endpoints[at % 3]).within(ANSWER_MAX);
                while !stop.load(Ordering::SeqCst) {
                    match client.keep_alive(id).await {
                        Ok(answered) => {
                            assert_eq!(answered, ttl, "session {id} is lost");
                            renewed.fetch_add(1, Ordering::SeqCst);
                            sleep(seconds(ttl) / 8).await;
                        }
                        Err(_) => {
                            at += 1;
                            client = Client::to(&endpoints[at % 3]).within(ANSWER_MAX);
                        }
                    }
                }
            });
            let key = format!("session/{id}");
            first.attach_surely(&key, id).await;
            sessions.keys.insert(key);
        }
        sessions
    }

    /// Waits for so many more renewals.
    async fn more(&self, count: u64) {
        let enough = self.renewed.load(Ordering::SeqCst) + count;
        let all = async || (self.renewed.load(Ordering::SeqCst) >= enough).then_some(());
        until("sessions are renewed", all).await;
    }

    /// The keys of the sessions, none of which was lost.
    async fn stop(mut self) -> BTreeSet<String> {
        self.stop.store(true, Ordering::SeqCst);
        while let Some(ended) = self.tasks.join_next().await {
            ended.expect("no session is lost");
        }
        self.keys
    }
}

async fn keys(trio: &Cluster) -> BTreeSet<String> {
    trio.settled().await.iter().map(|kv| text(&kv.key)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_lease_ends_with_its_keys_on_every_node_and_not_too_early() {
    let trio = Cluster::start().await;
    let leader = trio.leader().await;
    let (near, far) = (trio.client(leader), trio.client((leader + 1) % 3));
    let mut clients = [near, far];
    let began = Instant::now();
    clients[0].grant_surely(1, 2).await;
    clients[1].grant_surely(2, 3).await;
    clients[1].grant_surely(3, 600).await;
    for (key, lease) in [("a", 1), ("b", 2), ("c", 1), ("d", 3), ("e", 0)] {
        clients[1].attach_surely(key, lease).await;
    }
    for client in &mut clients {
        let told = client.time_to_live(3).await.expect("an answer");
        assert!((500..=600).contains(&told.ttl), "the leader's time: {told:?}");
        assert_eq!((told.granted_ttl, &told.keys[..]), (600, &["d".into()][..]));
        // Kept alive here and there, or not at all.
        assert_eq!(client.keep_alive(3).await.expect("an answer"), 600);
        assert_eq!(client.keep_alive(77).await.expect("an answer"), 0);
    }
    for (lease, ttl) in [(1, 2), (2, 3)] {
        until("a lease is over", async || {
            let leases = trio.client((leader + 2) % 3).leases().await.ok()?;
            (!leases.contains(&lease)).then_some(())
        })
        .await;
        assert!(began.elapsed() >= seconds(ttl), "lease {lease} was over too early");
    }
    assert_eq!(keys(&trio).await, ["d", "e"].map(str::to_owned).into());
    for client in &mut clients {
        let told = client.time_to_live(1).await.expect("an answer");
        assert_eq!((told.ttl, told.granted_ttl, told.keys.len()), (-1, 0, 0));
        assert_eq!(client.keep_alive(1).await.expect("an answer"), 0);
    }
    trio.same_hash().await;
}

/// ```text
/// leader    ──▶ kill -9 ────────────── start ──▶
/// sessions  ── kept alive by all nodes, the whole time, longer than they last ──
/// ```
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn no_session_is_lost_with_the_leader() {
    let mut trio = Cluster::start().await;
    let sessions = Sessions::start(&trio, 30, 6).await;
    for _ in 0..rounds(2) {
        sessions.more(60).await;
        let leader = trio.leader().await;
        trio.nodes[leader].kill();
        sessions.more(300).await;
        trio.nodes[leader].start();
    }
    // Whatever an earlier leader gave them is over now.
    sleep(seconds(7)).await;
    sessions.more(60).await;
    assert_eq!(sessions.stop().await, keys(&trio).await);
}

/// ```text
/// old leader  ── SIGSTOP ══ longer than leases last ══ SIGCONT ── revokes nothing
/// sessions    ──────────── kept alive by the others ─────────────────────────
/// late        ── keep-alives that wait in the old leader's socket ── no success
/// ```
// scenario B80
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_leader_that_was_paused_revokes_nothing_and_confirms_nothing() {
    let trio = Cluster::start().await;
    let sessions = Sessions::start(&trio, 10, 3).await;
    for round in 0..rounds(2) {
        sessions.more(20).await;
        let old = trio.leader().await;
        let others = [(old + 1) % 3, (old + 2) % 3];
        let mut client = trio.client(others[0]);
        let lease = 1000 + i64::try_from(round).expect("small");
        client.grant_surely(lease, 600).await;

        trio.nodes[old].pause();
        let late: Vec<_> = (0..4)
            .map(|_| {
                let mut client = trio.client(old);
                tokio::spawn(async move { client.keep_alive(lease).await })
            })
            .collect();
        trio.leader_among(&others).await;
        until("the lease is revoked", async || {
            client.revoke(lease).await.ok();
            (client.time_to_live(lease).await.ok()?.ttl == -1).then_some(())
        })
        .await;
        // By the old leader's clock all sessions are over.
        sleep(seconds(5)).await;
        sessions.more(20).await;
        trio.nodes[old].resume();
        sessions.more(40).await;
        trio.leader().await;
        for kept in late {
            let kept = kept.await.expect("no panic");
            assert!(!matches!(kept, Ok(1..)), "a lease that is gone was confirmed: {kept:?}");
        }
    }
    assert_eq!(sessions.stop().await, keys(&trio).await);
    trio.same_hash().await;
}

/// Nobody renews it, and every leader falls before it is over.
// scenario B82
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_long_lease_ends_though_leaders_change_all_the_time() {
    let mut trio = Cluster::start_with(&["--lease-checkpoint-interval=400"]).await;
    let (ttl, began) = (14, Instant::now());
    trio.client(0).grant_surely(1, ttl).await;
    trio.client(0).attach_surely("a", 1).await;
    let mut falls = 0;
    let mut is_over = false;
    while !is_over {
        assert!(falls < 10, "it does not end, after {:?}", began.elapsed());
        // Far less than it lasts, far more than a checkpoint takes.
        sleep(Duration::from_secs(4)).await;
        let leader = trio.leader().await;
        falls += 1;
        if falls == 2 {
            trio.kill_all();
            trio.start_all();
        } else {
            trio.nodes[leader].kill();
            trio.leader_among(&[(leader + 1) % 3, (leader + 2) % 3]).await;
            trio.nodes[leader].start();
        }
        trio.leader().await;
        let told = until("a time to live", async || trio.client(0).time_to_live(1).await.ok());
        let left = told.await.ttl;
        println!("after {falls} leaders and {:?}: {left} s", began.elapsed());
        is_over = left == -1;
    }
    assert!(falls > 2 && began.elapsed() >= seconds(ttl), "{:?}", began.elapsed());
    assert!(keys(&trio).await.is_empty());
}
