//! Nodes that are sent a snapshot, because the log no longer holds what they lack.

use std::path::Path;
use std::time::Instant;

use kontiki_kv::proto::kontiki::InspectResponse;

use crate::kit::{Cluster, Load, lost_or_doubled, rounds, until};

const WRITERS: usize = 3;
const FOURTH: u64 = 4444;
const VALUE_BYTES: usize = 64 << 10;
/// Snapshots are frequent, and the log keeps little.
const FREQUENT: [&str; 2] = ["--snapshot-count=100", "--snapshot-catchup-entries=50"];

/// Writes until the log of this node begins behind `index`.
async fn compact(cluster: &Cluster, load: &Load, at: usize, index: u64) {
    loop {
        load.more(50).await;
        let base = until("a node says where its log begins", async || {
            Some(cluster.client(at).inspect().await.ok()?.base)
        })
        .await;
        if base > index {
            return;
        }
    }
}

async fn inspect(cluster: &Cluster, at: usize) -> InspectResponse {
    until("a node answers", async || cluster.client(at).inspect().await.ok()).await
}

/// ```text
/// leader    base ▒▒▒▒▒▒▒▒▒▒|──log──▶
/// was away  ───|                       what comes next is not in any log
/// new       |
/// ```
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn who_is_behind_the_log_or_new_is_sent_a_snapshot() {
    let mut cluster = Cluster::start_with(&FREQUENT).await;
    let load = Load::of_size("load", &cluster.endpoints(), WRITERS, VALUE_BYTES);
    load.more(20).await;
    let leader = cluster.leader().await;
    let away = (leader + 1) % 3;
    let left_at = inspect(&cluster, away).await.last;
    cluster.nodes[away].kill();
    compact(&cluster, &load, leader, left_at).await;

    let began = Instant::now();
    cluster.nodes[away].start();
    let goal = inspect(&cluster, leader).await.committed;
    until("who was away holds everything", async || {
        (cluster.client(away).inspect().await.ok()?.applied >= goal).then_some(())
    })
    .await;
    println!("who was away is back after {:?}", began.elapsed());
    let base = inspect(&cluster, away).await.base;
    assert!(base > left_at, "its log goes back to before it left: {base}, {left_at}");

    let began = Instant::now();
    let [a, b, c] = cluster.ids().await;
    let serve = cluster.plan_joiner("n4");
    cluster.join(leader, serve, FOURTH, &[]).await;
    cluster.voters(leader, &[a, b, c, FOURTH]).await;
    println!("a new one votes after {:?}", began.elapsed());
    assert!(inspect(&cluster, 3).await.base > 0, "it was sent the whole log");
    load.more(20).await;

    let acknowledged = load.stop().await;
    assert_eq!(lost_or_doubled(&acknowledged, &cluster.settled().await), Vec::<String>::new());
    cluster.same_hash().await;
}

/// ```text
/// sender    ───▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒ kill -9
/// receiver  ───▒▒▒ kill -9 ─▒▒▒  (goes on) ▒▒▒  of another sender ▒▒▒▒▒▒▒▒
/// ```
/// A transfer is slow enough to be cut in the middle, at both ends. It ends well all the same.
// scenario B56
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_transfer_survives_the_death_of_both_ends() {
    let slow = ["--snapshot-bytes-per-second=8000000"];
    let mut cluster = Cluster::start_with(&[&FREQUENT[..], &slow].concat()).await;
    let load = Load::of_size("load", &cluster.endpoints(), WRITERS, VALUE_BYTES);
    load.more(20).await;
    let leader = cluster.leader().await;
    let (away, other) = ((leader + 1) % 3, (leader + 2) % 3);
    let (left_at, id) = (inspect(&cluster, away).await.last, cluster.id(away).await);
    cluster.nodes[away].kill();
    for sender in [leader, other] {
        compact(&cluster, &load, sender, left_at).await;
    }
    let acknowledged = load.stop().await;

    cluster.nodes[away].start();
    let sent = sent(&cluster, leader, id, 1, 4).await;
    cluster.nodes[away].kill();
    cluster.nodes[away].start();
    let resumed = self::sent(&cluster, leader, id, 1, 2).await;
    println!("the receiver died after {sent} bytes, the sender after {resumed}");
    cluster.nodes[leader].kill();
    cluster.leader_among(&[away, other]).await;
    let held = cluster.settled().await;
    assert_eq!(lost_or_doubled(&acknowledged, &held), Vec::<String>::new());
    assert!(inspect(&cluster, away).await.base > left_at, "it was sent no snapshot");
    cluster.nodes[leader].start();
    cluster.leader().await;
    cluster.same_hash().await;
}

/// Waits until the leader has sent this part of a snapshot to a member; how many bytes that is.
async fn sent(cluster: &Cluster, leader: usize, to: u64, part: u64, of: u64) -> u64 {
    until("a part of the snapshot is sent", async || {
        let members = cluster.client(leader).inspect().await.ok()?.members;
        let progress = members.into_iter().find(|member| member.id == to)?.progress?;
        let (sent, len) = (progress.snapshot_sent_bytes, progress.snapshot_len_bytes);
        (len > 0 && sent * of >= len * part).then_some(sent)
    })
    .await
}

/// A large state is captured and shipped while clients write: nobody is elected, and neither end
/// holds it in memory. `KONTIKI_TEST_ROUNDS=6` makes it 300 MB.
// scenario B57
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_large_snapshot_disturbs_nobody() {
    const STATE_BYTES: usize = 48 << 20;
    const PEAK_KIB: u64 = 128 << 10;
    // It takes several election timeouts, which are long enough for a busy machine.
    let slow = ["--snapshot-bytes-per-second=8000000", "--election-timeout=2000"];
    let mut cluster = Cluster::start_with(&[&FREQUENT[..], &slow].concat()).await;
    let load = Load::of_size("load", &cluster.endpoints(), 2 * WRITERS, VALUE_BYTES);
    load.more((rounds(1) * STATE_BYTES / VALUE_BYTES) as u64).await;
    let state = load.stop().await;
    let leader = cluster.leader().await;
    let term = inspect(&cluster, leader).await.term;

    let load = Load::start("meanwhile", &cluster.endpoints(), WRITERS);
    load.more(20).await;
    let began = Instant::now();
    let [a, b, c] = cluster.ids().await;
    let serve = cluster.plan_joiner("n4");
    cluster.join(leader, serve, FOURTH, &[]).await;
    cluster.voters(leader, &[a, b, c, FOURTH]).await;
    let (took, gap) = (began.elapsed(), load.longest_gap(began));
    let after = inspect(&cluster, leader).await.term;
    let peaks: Vec<_> = cluster.nodes.iter().map(|node| node.peak_kib()).collect();
    let mut acknowledged = load.stop().await;
    acknowledged.extend(state);
    assert_eq!(lost_or_doubled(&acknowledged, &cluster.settled().await), Vec::<String>::new());
    assert_eq!(after, term, "somebody was elected");
    println!("shipped after {took:?}; longest time without a write {gap:?}; peaks {peaks:?} KiB");
    for peak in peaks.into_iter().flatten() {
        assert!(peak < PEAK_KIB, "{peak} KiB in memory");
    }
}

/// The log is cut while clients write on and on: it does not grow with what was written.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn the_log_takes_bounded_space() {
    const SEGMENT_BYTES: u64 = 64 << 20;
    const WRITTEN_BYTES: usize = 240 << 20;
    const LARGE_BYTES: usize = 128 << 10;
    let cluster = Cluster::start_with(&FREQUENT).await;
    let load = Load::of_size("load", &cluster.endpoints(), 2 * WRITERS, LARGE_BYTES);
    let began = Instant::now();
    load.more((rounds(1) * WRITTEN_BYTES / LARGE_BYTES) as u64).await;
    let took = began.elapsed();
    load.stop().await;
    let bytes = |at: usize| bytes_in(&cluster.nodes[at].serve.data_dir.join("raft"));
    // The one in use, the one that comes next, and one in which the log begins; and what is small
    // beside them.
    let most = 3 * SEGMENT_BYTES + (1 << 20);
    until("old segments go", async || {
        [0, 1, 2].map(bytes).iter().all(|bytes| *bytes <= most).then_some(())
    })
    .await;
    println!("{WRITTEN_BYTES} bytes in {took:?}; the logs take {:?}", [0, 1, 2].map(bytes));
}

fn bytes_in(dir: &Path) -> u64 {
    let entries = std::fs::read_dir(dir).expect("a directory").flatten();
    entries.filter_map(|entry| Some(entry.metadata().ok()?.len())).sum()
}
