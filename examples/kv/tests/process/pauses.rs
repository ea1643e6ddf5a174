//! A process that stands still does not know it. When it goes on, the world is another.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;

use crate::kit::{Client, Cluster, ELECTION_MS, rounds, text};

const READERS: usize = 4;

/// Readers of a counter that only grows. Whatever a read answers, it was acknowledged when the
/// read began at the latest.
pub(crate) struct Readers {
    tasks: JoinSet<usize>,
    stop: Arc<AtomicBool>,
}

impl Readers {
    pub(crate) fn start(endpoint: &str, acknowledged: &Arc<AtomicU64>) -> Self {
        let mut readers = Self { tasks: JoinSet::new(), stop: Arc::default() };
        for _ in 0..READERS {
            let (stop, acknowledged) = (Arc::clone(&readers.stop), Arc::clone(acknowledged));
            let endpoint = endpoint.to_owned();
            readers.tasks.spawn(async move {
                let (mut client, mut answers) = (Client::to(&endpoint), 0);
                while !stop.load(Ordering::SeqCst) {
                    let least = acknowledged.load(Ordering::SeqCst);
                    // No answer is no lie.
                    if let Ok(value) = client.get("counter").await {
                        let value = value.map_or(0, |value| value.parse().expect("a number"));
                        assert!(least <= value, "a stale read: {value}, after {least}");
                        answers += 1;
                    }
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                answers
            });
        }
        readers
    }

    /// How many reads were answered.
    pub(crate) async fn stop(self) -> usize {
        self.stop.store(true, Ordering::SeqCst);
        self.tasks.join_all().await.into_iter().sum()
    }
}

/// ```text
/// old leader  ── SIGSTOP ═══════ (requests wait in its socket) ═══════ SIGCONT ── follows
/// others      ───────────── elect ── counter = n+1 … ──────────────────────────
/// readers     ── of the old leader, the whole time ────────────────────────────
/// ```
// scenario B18, B23
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_leader_that_was_paused_serves_nothing_stale() {
    paused_leader(&[]).await;
}

/// The same where reads are served under a lease: it runs out while the leader stands still.
// scenario B23
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_leader_with_a_lease_that_was_paused_serves_nothing_stale() {
    paused_leader(&["--lease-reads"]).await;
}

async fn paused_leader(flags: &[&str]) {
    let trio = Cluster::start_with(flags).await;
    let acknowledged = Arc::new(AtomicU64::new(0));
    let mut answered = 0;
    for round in 0..rounds(3) {
        let old = trio.leader().await;
        let others = [(old + 1) % 3, (old + 2) % 3];
        let readers = Readers::start(&trio.endpoint(old), &acknowledged);
        let mut client = trio.client(others[0]);
        count(&mut client, &acknowledged).await;

        trio.nodes[old].pause();
        // Writes that reach the old leader's socket while it sleeps.
        let late: Vec<_> = (0..4).map(|at| spawn_late(trio.client(old), round, at)).collect();
        let elected = trio.leader_among(&others).await;
        assert!(others.contains(&elected), "round {round}");
        for _ in 0..5 {
            count(&mut client, &acknowledged).await;
        }
        trio.nodes[old].resume();
        for _ in 0..5 {
            count(&mut client, &acknowledged).await;
        }
        trio.leader().await;

        let mut confirmed = Vec::new();
        for write in late {
            confirmed.extend(write.await.expect("no panic"));
        }
        answered += readers.stop().await;
        let held: Vec<_> = trio.settled().await.iter().map(|kv| text(&kv.key)).collect();
        for key in confirmed {
            assert!(held.contains(&key), "{key} was acknowledged and is gone, round {round}");
        }
    }
    println!("{answered} reads were answered");
}

/// Adds one to the counter, surely and once, and says that it is acknowledged.
pub(crate) async fn count(client: &mut Client, acknowledged: &AtomicU64) {
    let next = acknowledged.load(Ordering::SeqCst) + 1;
    client.put_surely("counter", next.to_string()).await;
    acknowledged.store(next, Ordering::SeqCst);
}

/// A write to a node that is paused: its key, if it was acknowledged.
fn spawn_late(
    mut client: Client,
    round: usize,
    number: usize,
) -> tokio::task::JoinHandle<Option<String>> {
    tokio::spawn(async move {
        let key = format!("late/{round}/{number}");
        client.put(&key, "late").await.ok().map(|_| key)
    })
}

/// A leader whose followers stand still steps down: it confirms no read, and promises no write.
// scenario B13
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_leader_without_followers_steps_down_and_recovers() {
    let trio = Cluster::start().await;
    let leader = trio.leader().await;
    let (first, second) = ((leader + 1) % 3, (leader + 2) % 3);
    trio.client(leader).put("key", "before").await.expect("a put");
    trio.nodes[first].pause();
    trio.nodes[second].pause();

    let (mut writer, mut reader) = (trio.client(leader), trio.client(leader));
    let (write, read) = tokio::join!(writer.put("key", "alone"), reader.get("key"));
    assert!(write.is_err(), "acknowledged by a minority: {write:?}");
    assert!(read.is_err(), "confirmed by a minority: {read:?}");
    let status = trio.client(leader).status().await.expect("it answers for itself");
    assert_eq!(status.leader, 0, "it still believes that somebody leads");
    assert_eq!(status.errors, ["etcdserver: no leader"]);

    trio.nodes[first].resume();
    trio.nodes[second].resume();
    trio.leader().await;
    let read = trio.client(first).get_surely("key").await.unwrap_or_default();
    // The write without an answer may have happened; nothing else may.
    assert!(read == "before" || read == "alone", "{read}");
    trio.settled().await;
}

/// A follower that was paused for long comes back without disturbing anybody: the term stays.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_follower_that_was_paused_does_not_disturb() {
    let trio = Cluster::start().await;
    let leader = trio.leader().await;
    let follower = (leader + 1) % 3;
    let mut client = trio.client(leader);
    client.put("before", "1").await.expect("a put");
    let term = client.status().await.expect("a status").raft_term;

    trio.nodes[follower].pause();
    for number in 0..100 {
        client.put(&format!("meanwhile{number}"), "1").await.expect("a put");
    }
    tokio::time::sleep(Duration::from_millis(4 * ELECTION_MS)).await;
    trio.nodes[follower].resume();
    assert_eq!(trio.settled().await.len(), 101);
    let after = client.status().await.expect("a status").raft_term;
    // A busy machine may hold elections of its own; they are no matter of this test.
    if after != term {
        println!("note: the term went from {term} to {after}");
    }
}
