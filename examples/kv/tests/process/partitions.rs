//! Wires are cut, and nobody is told: packets vanish.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use crate::kit::namespace::{Network, apart};
use crate::kit::{Cluster, ELECTION_MS, Load, lost_or_doubled, until};
use crate::pauses::{Readers, count};

const WRITERS: usize = 3;

/// A cluster whose nodes are each in a network of their own, and have a leader.
async fn spread(flags: &[&str]) -> Result<(Network, Cluster), String> {
    let network = Network::build(3).await?;
    let mut cluster = Cluster::plan("spread");
    for (at, node) in cluster.nodes.iter_mut().enumerate() {
        node.serve.host = Network::host(at);
        node.serve.inside = Some(network.holder(at));
        node.serve.more = flags.iter().map(|&flag| flag.to_owned()).collect();
    }
    cluster.tell_members();
    cluster.start_all();
    cluster.leader().await;
    Ok((network, cluster))
}

/// ```text
/// old leader  ✂ both followers   its clients still reach it: it steps down, and reads nothing stale
/// followers   elect, write, read
/// healed      it follows
/// ```
/// First it is deaf and mute, then it hears everything and nobody hears it.
// scenario B13, B18
#[test]
fn a_leader_that_is_cut_off_serves_nothing_stale() {
    apart("partitions::a_leader_that_is_cut_off_serves_nothing_stale", cut_off_leaders(&[]));
}

// scenario B22
#[test]
fn a_leader_with_a_lease_that_is_cut_off_serves_nothing_stale() {
    let test = "partitions::a_leader_with_a_lease_that_is_cut_off_serves_nothing_stale";
    apart(test, cut_off_leaders(&["--lease-reads"]));
}

async fn cut_off_leaders(flags: &[&str]) -> Result<(), String> {
    let (network, cluster) = spread(flags).await?;
    let acknowledged = Arc::new(AtomicU64::new(0));
    for is_deaf in [true, false] {
        let old = cluster.leader().await;
        let others = [(old + 1) % 3, (old + 2) % 3];
        let mut client = cluster.client(others[0]);
        count(&mut client, &acknowledged).await;
        let readers = Readers::start(&cluster.endpoint(old), &acknowledged);

        let began = Instant::now();
        for other in others {
            network.cut(old, other);
            if is_deaf {
                network.cut(other, old);
            }
        }
        let elected = cluster.leader_among(&others).await;
        let elected_after = began.elapsed();
        assert!(others.contains(&elected));
        for _ in 0..5 {
            count(&mut client, &acknowledged).await;
        }
        until("the old leader no longer believes that it leads", async || {
            (cluster.client(old).inspect().await.ok()?.role != "leader").then_some(())
        })
        .await;
        let deposed_after = began.elapsed();
        for other in others {
            network.heal(old, other);
            if is_deaf {
                network.heal(other, old);
            }
        }
        let began = Instant::now();
        cluster.leader().await;
        let (answers, healed_after) = (readers.stop().await, began.elapsed());
        println!(
            "another was elected after {elected_after:?}, the old one saw it after \
             {deposed_after:?}, healed after {healed_after:?}; {answers} reads"
        );
    }
    Ok(())
}

/// ```text
/// leader ─── follower ─── other     and nothing between the leader and the other
/// ```
/// The other one cannot hear the leader, and must not depose it again and again.
// scenario B12
#[test]
fn a_member_that_cannot_reach_the_leader_does_not_depose_it() {
    apart("partitions::a_member_that_cannot_reach_the_leader_does_not_depose_it", async {
        let (network, cluster) = spread(&[]).await?;
        let leader = cluster.leader().await;
        let (follower, other) = ((leader + 1) % 3, (leader + 2) % 3);
        let load =
            Load::start("load", &[cluster.endpoint(leader), cluster.endpoint(follower)], WRITERS);
        load.more(20).await;
        network.cut(leader, other);
        network.cut(other, leader);
        until("the other one misses its leader", async || {
            (cluster.client(other).inspect().await.ok()?.leader == 0).then_some(())
        })
        .await;
        let term = cluster.client(leader).inspect().await.expect("it answers").term;
        let began = Instant::now();
        tokio::time::sleep(Duration::from_millis(6 * ELECTION_MS)).await;
        load.more(20).await;
        let gap = load.longest_gap(began);
        let after = cluster.client(leader).inspect().await.expect("it answers");
        println!("the longest time without a write: {gap:?}");
        assert_eq!((after.term, after.role.as_str()), (term, "leader"), "it was deposed");

        network.heal(leader, other);
        network.heal(other, leader);
        assert_eq!(cluster.leader().await, leader);
        let acknowledged = load.stop().await;
        assert_eq!(lost_or_doubled(&acknowledged, &cluster.settled().await), Vec::<String>::new());
        Ok(())
    });
}

/// A machine loses power: it says nothing more, not even that its connections are gone. Started
/// again, it is one of them within seconds.
// scenario B73
#[test]
fn a_machine_that_vanished_and_came_back_takes_part_at_once() {
    apart("partitions::a_machine_that_vanished_and_came_back_takes_part_at_once", async {
        let (network, mut cluster) = spread(&[]).await?;
        let load = Load::start("load", &cluster.endpoints(), WRITERS);
        for round in 0..2 {
            load.more(20).await;
            let leader = cluster.leader().await;
            let gone = (leader + round) % 3;
            network.cut_off(gone);
            let began = Instant::now();
            cluster.nodes[gone].kill();
            load.more(50).await;
            let gap = load.longest_gap(began);
            tokio::time::sleep(Duration::from_secs(3)).await;
            network.bring_back(gone);
            let began = Instant::now();
            cluster.nodes[gone].start();
            cluster.leader().await;
            let back = began.elapsed();
            println!("writes went on after {gap:?}; it was back after {back:?}");
            assert!(back < Duration::from_secs(20), "{back:?}: a dead connection was waited for");
        }
        let acknowledged = load.stop().await;
        assert_eq!(lost_or_doubled(&acknowledged, &cluster.settled().await), Vec::<String>::new());
        Ok(())
    });
}
