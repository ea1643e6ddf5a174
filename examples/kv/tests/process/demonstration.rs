//! Everything that happens to a cluster in its life, in one run, while clients work.

use std::time::{Duration, Instant};

use kontiki_kv::proto::kontiki::member_change::Change;

use crate::damage::damage_log;
use crate::kit::{Cluster, Load, lost_or_doubled, seed, until};
use crate::registers::{Clients, assert_registers, report};
use crate::rolling::caught_up;

const WRITERS: usize = 3;
const NEW: u64 = 4444;
/// How long clients work undisturbed between two events.
const CALM: Duration = Duration::from_secs(2);

/// ```text
/// n1 n2 n3      three writers, and six clients that read, write and swap four keys
///    │          a follower is replaced by n4, in one step
///    │          each is restarted in turn
///    │          the leader is killed, and comes back
///    ▼          a follower's log is damaged, and repaired by the others
/// ```
/// In the end no acknowledged write is lost or doubled, what clients saw is what registers would
/// have answered, and all nodes hold the same.
// scenario B90
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_cluster_lives_through_all_of_it() {
    let seed = seed();
    let mut cluster = Cluster::start_with(&["--snapshot-count=500"]).await;
    let ids = cluster.ids().await;
    let new = cluster.plan_joiner("n4");
    let mut endpoints = cluster.endpoints();
    endpoints.push(format!("{}:{}", new.host, new.client_port));
    let (load, clients) =
        (Load::start("load", &endpoints, WRITERS), Clients::start(0, &endpoints, seed));
    let began = Instant::now();
    let term = cluster.client(0).inspect().await.expect("it answers").term;
    let mut run = Run { load, since: began, told: Vec::new() };
    run.calm().await;

    let leader = cluster.leader().await;
    let old = (leader + 1) % 3;
    cluster.join(leader, new, NEW, &[Change::Remove(ids[old])]).await;
    let mut voters: Vec<u64> = ids.into_iter().filter(|id| *id != ids[old]).collect();
    voters.push(NEW);
    cluster.voters(leader, &voters).await;
    assert_eq!(cluster.nodes[old].ended(), Some(3), "{}", cluster.nodes[old].last_lines(3));
    run.tell("a member replaced").await;

    let members: Vec<usize> = (0..4).filter(|at| *at != old).collect();
    for at in &members {
        assert_eq!(cluster.nodes[*at].stop(), Some(0), "{}", cluster.nodes[*at].last_lines(3));
        cluster.nodes[*at].start();
        caught_up(&cluster, *at).await;
    }
    run.tell("all restarted in turn").await;

    let leader = cluster.leader_among(&members).await;
    cluster.nodes[leader].kill();
    run.load.more(20).await;
    cluster.nodes[leader].start();
    caught_up(&cluster, leader).await;
    run.tell("the leader killed").await;

    let leader = cluster.leader_among(&members).await;
    let victim = *members.iter().find(|at| **at != leader).expect("there are followers");
    cluster.nodes[victim].kill();
    damage_log(&cluster.nodes[victim]);
    cluster.nodes[victim].start();
    caught_up(&cluster, victim).await;
    until("the log is whole again", async || {
        cluster.client(victim).inspect().await.ok()?.claim.is_none().then_some(())
    })
    .await;
    assert!(cluster.nodes[victim].log().contains("is damaged at byte"), "nothing was damaged");
    run.tell("a follower's log damaged").await;

    let leader = cluster.leader_among(&members).await;
    let elections = cluster.client(leader).inspect().await.expect("it answers").term - term;
    let (acknowledged, histories) = (run.load.stop().await, clients.stop().await);
    let held = cluster.settled().await;
    println!("{} writes in {:?}, {elections} elections", acknowledged.len(), began.elapsed());
    report(&histories, run.told.len());
    for told in run.told {
        println!("{told}");
    }
    assert_eq!(lost_or_doubled(&acknowledged, &held), Vec::<String>::new());
    assert_registers(histories, &held);
    println!("all have the hash {:08x}", cluster.same_hash().await);
}

/// What happened, and what clients noticed of it.
struct Run {
    load: Load,
    since: Instant,
    told: Vec<String>,
}

impl Run {
    async fn calm(&mut self) {
        tokio::time::sleep(CALM).await;
        self.load.more(20).await;
        self.since = Instant::now();
    }

    /// Notes how long it took, and the longest time in which nothing was acknowledged.
    async fn tell(&mut self, what: &str) {
        let took = self.since.elapsed();
        self.load.more(20).await;
        let gap = self.load.longest_gap(self.since);
        self.told.push(format!("{what}: {took:?}, longest time without a write {gap:?}"));
        self.calm().await;
    }
}
