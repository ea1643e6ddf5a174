//! Damage on the disks of a cluster, done while a node is down. The others repair it, or the
//! cluster stops with the facts where acknowledged writes may be gone.

use std::time::Duration;

use crate::files::{change, segment};
use crate::kit::{Cluster, ELECTION_MS, Load, Node, lost_or_doubled, until};
use crate::refusals::assert_refused;

const WRITERS: usize = 3;
const SECTOR: usize = 512;

/// Flips a bit in the middle of what the log holds.
pub(crate) fn damage_log(node: &Node) {
    change(&segment(&node.serve.data_dir.join("raft")), |bytes| {
        let end = bytes.iter().rposition(|byte| *byte != 0).expect("something is there");
        // Not in the first sectors, which say what the file is.
        let middle = (end / 2).max(2 * SECTOR) / SECTOR * SECTOR;
        let at = (middle..).find(|at| bytes[*at] != 0).expect("there is an end");
        bytes[at] ^= 1;
    });
}

/// One bit is flipped in the log of a follower, and then of the leader. The node says what it met,
/// is repaired by the others, and is as good as any. Then a follower's store is missing, when its
/// log no longer holds what was in it: the log, which is whole, is left alone.
// scenario B64
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn damage_on_one_node_is_repaired_by_the_others() {
    let flags = ["--snapshot-count=100", "--snapshot-catchup-entries=50"];
    let mut cluster = Cluster::start_with(&flags).await;
    let load = Load::of_size("load", &cluster.endpoints(), WRITERS, 32 << 10);
    for what in [Damage::FollowersLog, Damage::LeadersLog, Damage::Store] {
        load.more(300).await;
        let leader = cluster.leader().await;
        let victim = if what == Damage::LeadersLog { leader } else { (leader + 1) % 3 };
        if what == Damage::Store {
            until("the log begins behind what is in the store", async || {
                (cluster.client(victim).inspect().await.ok()?.base > 0).then_some(())
            })
            .await;
        }
        let node = &mut cluster.nodes[victim];
        node.kill();
        let before = node.log().len();
        if what == Damage::Store {
            let store = node.serve.data_dir.join("store");
            let away = node.serve.data_dir.join("away");
            std::fs::rename(&store, &away).expect("moved away");
            // One that was made for a peer would do in its place.
            for file in std::fs::read_dir(node.serve.data_dir.join("raft")).expect("a log") {
                let path = file.expect("listed").path();
                if path.extension().is_some_and(|ending| ending == "snap") {
                    std::fs::remove_file(path).expect("removed");
                }
            }
            for _ in 0..2 {
                assert_refused(&node.serve, 1, &["was in the state that is missing"]);
                // An empty one was made.
                std::fs::remove_dir_all(&store).expect("removed");
            }
            std::fs::rename(&away, &store).expect("moved back");
        } else {
            damage_log(node);
        }
        node.start();
        cluster.leader().await;
        load.more(20).await;
        until("the node lacks nothing any more", async || {
            cluster.client(victim).inspect().await.ok()?.claim.is_none().then_some(())
        })
        .await;
        let said = cluster.nodes[victim].log().split_off(before);
        let is_damaged = said.contains("is damaged at byte");
        assert_eq!(is_damaged, what != Damage::Store, "{what:?}: {said}");
    }
    let acknowledged = load.stop().await;
    assert_eq!(lost_or_doubled(&acknowledged, &cluster.settled().await), Vec::<String>::new());
    // Each of them holds everything by itself, and again after a start.
    cluster.kill_all();
    cluster.start_all();
    cluster.leader().await;
    assert_eq!(lost_or_doubled(&acknowledged, &cluster.settled().await), Vec::<String>::new());
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Damage {
    FollowersLog,
    LeadersLog,
    Store,
}

/// ```text
/// leader    early late      is away
/// damaged   early la✗e      had acknowledged it: votes for nobody who holds less
/// behind    early
/// ```
/// The last two are a majority, and would lose `late`. They wait for the leader instead.
// scenario B64
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_damaged_node_does_not_help_to_lose_what_it_acknowledged() {
    let mut cluster = Cluster::start().await;
    let leader = cluster.leader().await;
    let (damaged, behind) = ((leader + 1) % 3, (leader + 2) % 3);
    write_without(&mut cluster, leader, behind).await;
    cluster.kill_all();
    damage_log(&cluster.nodes[damaged]);

    cluster.nodes[damaged].start();
    cluster.nodes[behind].start();
    nobody_leads(&cluster, &[damaged, behind]).await;
    let status = cluster.client(damaged).status().await.expect("it answers for itself");
    assert!(status.errors.iter().any(|error| error.contains("the log was damaged")), "{status:?}");

    cluster.nodes[leader].start();
    cluster.leader().await;
    let held = cluster.client(damaged).get_surely("late/9").await;
    assert_eq!(held.as_deref(), Some("value"));
    cluster.settled().await;
    let status = cluster.client(damaged).status().await.expect("it answers");
    assert_eq!(status.errors, Vec::<String>::new());
}

/// Both nodes that held an acknowledged write are damaged, and the third never had it. Nobody
/// leads, each says why, nothing is served as if nothing had happened.
// scenario B64
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn damage_on_a_majority_stops_the_cluster_with_the_facts() {
    let mut cluster = Cluster::start().await;
    let leader = cluster.leader().await;
    let (follower, behind) = ((leader + 1) % 3, (leader + 2) % 3);
    write_without(&mut cluster, leader, behind).await;
    cluster.kill_all();
    for at in [leader, follower] {
        damage_log(&cluster.nodes[at]);
    }
    cluster.start_all();
    nobody_leads(&cluster, &[0, 1, 2]).await;
    for at in [leader, follower] {
        let claim = cluster.client(at).inspect().await.expect("it answers for itself").claim;
        assert!(claim.is_some(), "it does not know what it had acknowledged");
        let log = cluster.nodes[at].log();
        assert!(log.contains("is damaged at byte") && log.contains("does not stand"), "{log}");
        let read = cluster.client(at).get("early").await;
        assert!(read.is_err(), "served as if nothing had happened: {read:?}");
    }
}

/// Writes `early` with all, and `late` without the one that shall be behind.
async fn write_without(cluster: &mut Cluster, leader: usize, behind: usize) {
    let mut client = cluster.client(leader);
    client.put("early", "value").await.expect("a put");
    cluster.settled().await;
    cluster.nodes[behind].kill();
    for number in 0..10 {
        client.put(&format!("late/{number}"), "value").await.expect("two are a majority");
    }
}

/// For long enough that somebody would have been elected, nobody is.
async fn nobody_leads(cluster: &Cluster, among: &[usize]) {
    for at in among {
        until("it answers", async || cluster.client(*at).inspect().await.ok()).await;
    }
    for _ in 0..10 {
        tokio::time::sleep(Duration::from_millis(ELECTION_MS)).await;
        for at in among {
            let inspected = cluster.client(*at).inspect().await.expect("it answers for itself");
            assert_ne!(inspected.role, "leader", "without what was acknowledged");
        }
    }
}
