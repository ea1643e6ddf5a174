//! A rolling restart, as every upgrade is one: no client loses a write, and hardly one waits.

use std::time::{Duration, Instant};

use crate::kit::{Cluster, Load, lost_or_doubled, seed, until};
use crate::registers::{Clients, assert_registers, report};

const WRITERS: usize = 4;
/// Long enough that an election by timeout cannot be mistaken for anything else.
const ELECTION: Duration = Duration::from_secs(3);

/// ```text
/// n1      ── SIGTERM ─ hands over ─ ends ─ starts ─ catches up
/// n2                                                            ── SIGTERM …
/// writers ────────────────── the whole time ──────────────────────────────────────
/// ```
/// Beside it, what a kill -9 of the leader costs: about an election timeout.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_rolling_restart_loses_no_write_and_waits_for_no_timeout() {
    let timing = format!("--election-timeout={}", ELECTION.as_millis());
    let mut cluster = Cluster::start_with(&[&timing]).await;
    let load = Load::start("load", &cluster.endpoints(), WRITERS);
    load.more(50).await;

    let mut gaps = Vec::new();
    // The leader is the first one, so that it hands over at least once.
    let first = cluster.leader().await;
    for at in [first, (first + 1) % 3, (first + 2) % 3] {
        let was_leader = cluster.leader().await == at;
        let began = Instant::now();
        let code = cluster.nodes[at].stop();
        assert_eq!(code, Some(0), "{}", cluster.nodes[at].last_lines(10));
        load.more(20).await;
        cluster.nodes[at].start();
        caught_up(&cluster, at).await;
        load.more(20).await;
        gaps.push((was_leader, load.longest_gap(began)));
    }

    let leader = cluster.leader().await;
    let began = Instant::now();
    cluster.nodes[leader].kill();
    load.more(20).await;
    let killed = load.longest_gap(began);
    cluster.nodes[leader].start();

    let acknowledged = load.stop().await;
    let count = acknowledged.len();
    let held = cluster.settled().await;
    assert_eq!(lost_or_doubled(&acknowledged, &held), Vec::<String>::new());
    println!("{count} writes; gaps (leader?) {gaps:?}; after kill -9 {killed:?}");
    for (_, gap) in gaps {
        assert!(gap < ELECTION / 2, "{gap:?}: somebody waited for an election timeout");
    }
}

/// A node that was started again holds what the others hold.
pub(crate) async fn caught_up(cluster: &Cluster, at: usize) {
    let running: Vec<_> =
        (0..cluster.nodes.len()).filter(|at| cluster.nodes[*at].is_running()).collect();
    let leader = cluster.leader_among(&running).await;
    let goal = cluster.client(leader).inspect().await.map(|leader| leader.committed);
    let goal = goal.expect("the leader answers");
    until("a node that was started again catches up", async || {
        (cluster.client(at).inspect().await.ok()?.applied >= goal).then_some(())
    })
    .await;
}

/// Leadership goes round on request, under load, and each time to the one that was named.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn leadership_is_handed_over_under_load() {
    let cluster = Cluster::start().await;
    let load = Load::start("load", &cluster.endpoints(), WRITERS);
    let ids = cluster.ids().await;
    let mut gaps = Vec::new();
    for _ in 0..2 {
        for (at, id) in ids.iter().enumerate() {
            load.more(20).await;
            let began = Instant::now();
            // Asked of any node.
            let answer = cluster.client((at + 1) % 3).transfer(Some(*id)).await;
            let leader = answer.unwrap_or_else(|fault| panic!("not handed over: {fault}"));
            assert_eq!(leader, *id);
            load.more(20).await;
            gaps.push(load.longest_gap(began));
        }
    }
    let acknowledged = load.stop().await;
    println!("{} writes; gaps of hand-overs {gaps:?}", acknowledged.len());
    assert_eq!(lost_or_doubled(&acknowledged, &cluster.settled().await), Vec::<String>::new());
}

/// The same where reads are served under a lease: whoever hands over has none any more.
// scenario B21
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn nobody_reads_under_a_lease_that_was_handed_over() {
    const HAND_OVERS: usize = 30;
    let seed = seed();
    let cluster = Cluster::start_with(&["--lease-reads"]).await;
    let clients = Clients::start(0, &cluster.endpoints(), seed);
    let ids = cluster.ids().await;
    for number in 0..HAND_OVERS {
        let to = ids[number % 3];
        until("leadership is handed over", async || {
            cluster.client(number % 3).transfer(Some(to)).await.ok()
        })
        .await;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let histories = clients.stop().await;
    report(&histories, HAND_OVERS);
    assert_registers(histories, &cluster.settled().await);
}
