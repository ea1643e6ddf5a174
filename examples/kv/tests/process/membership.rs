//! Members come, go, move and are replaced while clients write.

use std::time::{Duration, Instant};

use kontiki_kv::proto::kontiki::member_change::Change;

use crate::kit::{
    Client, ClientError, Cluster, Load, Node, Serve, add_voter, lost_or_doubled, ports,
    set_address, until,
};
use crate::refusals::assert_refused;

const WRITERS: usize = 3;
/// Ids of those that join.
const FOURTH: u64 = 4444;
const FIFTH: u64 = 5555;

/// ```text
/// 1 2 3   add 4   ▶ 1 2 3 4    4 is started, is sent everything, votes
/// 1 2 3 4 remove the leader    ▶ three are left, one of them leads
/// ```
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_member_is_added_and_the_leader_removed_under_load() {
    let mut cluster = Cluster::start().await;
    let load = Load::start("load", &cluster.endpoints(), WRITERS);
    load.more(100).await;
    let began = Instant::now();
    let [a, b, c] = cluster.ids().await;
    let serve = cluster.plan_joiner("n4");
    cluster.join(0, serve, FOURTH, &[]).await;
    cluster.voters(0, &[a, b, c, FOURTH]).await;
    println!("a fourth votes after {:?}", began.elapsed());
    load.more(50).await;

    let leader = cluster.leader_among(&[0, 1, 2, 3]).await;
    let (id, began) = (cluster.id(leader).await, Instant::now());
    // Asked of another one, which is there when it is done.
    let other = (leader + 1) % 4;
    cluster.client(other).change_surely(&[Change::Remove(id)]).await;
    let code = cluster.nodes[leader].ended();
    assert_eq!(code, Some(3), "{}", cluster.nodes[leader].last_lines(5));
    println!("the leader was removed and ended after {:?}", began.elapsed());
    load.more(50).await;
    println!("the longest time without a write {:?}", load.longest_gap(began));
    let mut expected = vec![a, b, c, FOURTH];
    expected.retain(|member| *member != id);
    cluster.voters(other, &expected).await;

    let acknowledged = load.stop().await;
    let held = cluster.settled().await;
    assert_eq!(lost_or_doubled(&acknowledged, &held), Vec::<String>::new());
    // Of three one may die.
    let leader = (0..4).find(|at| *at != leader && *at != other).expect("there are four");
    cluster.nodes[leader].kill();
    cluster.client(other).put_surely("after", "1").await;
}

/// A node is replaced by a new one in one step, whether it is there or dead for good.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_dead_member_is_replaced_by_a_new_one() {
    let mut cluster = Cluster::start().await;
    let load = Load::start("load", &cluster.endpoints(), WRITERS);
    load.more(100).await;
    let ids = cluster.ids().await;
    let leader = cluster.leader().await;
    let dead = (leader + 1) % 3;
    cluster.nodes[dead].kill();
    std::fs::remove_dir_all(&cluster.nodes[dead].serve.data_dir).expect("removed");

    let began = Instant::now();
    let serve = cluster.plan_joiner("n4");
    cluster.join(leader, serve, FOURTH, &[Change::Remove(ids[dead])]).await;
    let mut expected = vec![FOURTH];
    expected.extend(ids.iter().filter(|id| **id != ids[dead]));
    cluster.voters(leader, &expected).await;
    println!("replaced after {:?}; gap {:?}", began.elapsed(), load.longest_gap(began));
    load.more(50).await;

    let acknowledged = load.stop().await;
    assert_eq!(lost_or_doubled(&acknowledged, &cluster.settled().await), Vec::<String>::new());
    // The new one counts.
    cluster.nodes[leader].kill();
    cluster.client(3).put_surely("after", "1").await;
}

/// kill -9 of the leader, or of the one that joins, at any moment of a change.
// scenario B45, B90
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_change_survives_kills_at_any_moment() {
    let mut cluster = Cluster::start().await;
    let load = Load::start("load", &cluster.endpoints(), WRITERS);
    let [a, b, c] = cluster.ids().await;
    let serve = cluster.plan_joiner("n4");
    let mut id = FOURTH;
    for (round, delay_ms) in [0, 5, 10, 20, 40, 80, 160].into_iter().enumerate() {
        load.more(20).await;
        let leader = cluster.leader_among(&[0, 1, 2]).await;
        let via = (leader + 1) % 3;
        id += 1;
        let delay = Duration::from_millis(delay_ms);
        let new = Serve { data_dir: cluster.dir().join(format!("new{round}")), ..serve.clone() };
        cluster.join(via, new, id, &[]).await;
        tokio::time::sleep(delay).await;
        let victim = if round % 2 == 0 { leader } else { 3 };
        cluster.nodes[victim].kill();
        load.more(10).await;
        cluster.nodes[victim].start();
        cluster.voters(via, &[a, b, c, id]).await;

        cluster.client(via).change_surely(&[Change::Remove(id)]).await;
        tokio::time::sleep(delay).await;
        let leader = cluster.leader_among(&[0, 1, 2]).await;
        cluster.nodes[leader].kill();
        load.more(10).await;
        cluster.nodes[leader].start();
        cluster.voters((leader + 1) % 3, &[a, b, c]).await;
        let code = cluster.nodes[3].ended();
        assert_eq!(code, Some(3), "{}", cluster.nodes[3].last_lines(5));
        cluster.nodes.pop();
    }
    let acknowledged = load.stop().await;
    assert_eq!(lost_or_doubled(&acknowledged, &cluster.settled().await), Vec::<String>::new());
}

/// A member that is down is removed. When it comes back it learns that, says it, and ends; its
/// directory is of no use under any name.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_node_that_was_removed_while_it_was_down_learns_it() {
    let mut cluster = Cluster::start().await;
    let ids = cluster.ids().await;
    let leader = cluster.leader().await;
    let (gone, other) = ((leader + 1) % 3, (leader + 2) % 3);
    cluster.nodes[gone].kill();
    cluster.client(other).change_surely(&[Change::Remove(ids[gone])]).await;
    cluster.voters(leader, &[ids[leader], ids[other]]).await;
    let term = cluster.client(leader).inspect().await.expect("it answers").term;

    for _ in 0..2 {
        cluster.nodes[gone].start();
        assert_eq!(cluster.nodes[gone].ended(), Some(3));
        let said = cluster.nodes[gone].last_lines(1);
        assert!(said.starts_with("error: ") && said.contains("removed"), "{said}");
    }
    let again = add_voter(ids[gone], cluster.nodes[gone].serve.peer_url());
    let fault = cluster.client(leader).change(&[again]).await.expect_err("its id is used up");
    assert!(matches!(&fault, ClientError::Refused(_)), "{fault}");
    let after = cluster.client(leader).inspect().await.expect("it answers").term;
    assert_eq!(after, term, "a node that is no member disturbed the others");
}

/// All nodes move to other ports, one after the other, by their members' addresses alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn members_move_to_other_addresses() {
    let mut cluster = Cluster::start().await;
    let load = Load::start("load", &cluster.endpoints(), WRITERS);
    let ids = cluster.ids().await;
    let fresh = ports(3);
    for at in 0..3 {
        load.more(20).await;
        cluster.leader().await;
        cluster.nodes[at].stop();
        cluster.nodes[at].serve.peer_port = fresh[at];
        let url = cluster.nodes[at].serve.peer_url();
        cluster.client((at + 1) % 3).change_surely(&[set_address(ids[at], url)]).await;
        // `--initial-cluster` says what it always said, and does not count any more.
        cluster.nodes[at].start();
        cluster.leader().await;
    }
    load.more(20).await;
    let acknowledged = load.stop().await;
    assert_eq!(lost_or_doubled(&acknowledged, &cluster.settled().await), Vec::<String>::new());
    let urls: Vec<_> = cluster.nodes.iter().map(|node| node.serve.peer_url()).collect();
    let members = cluster.client(0).inspect().await.expect("it answers").members;
    for member in members {
        assert!(urls.contains(&member.peer_urls[0]), "{member:?}");
    }
    // They find each other from nothing but their directories.
    cluster.kill_all();
    cluster.start_all();
    cluster.leader().await;
}

/// Who was not added, gives other URLs, or finds nobody does not join, and is told what to do.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn joining_wrongly_is_refused() {
    let cluster = Cluster::start().await;
    let leader = cluster.leader().await;
    let stranger = cluster.plan_joiner("n4");
    let url = stranger.peer_url();
    assert_refused(&stranger, 1, &[&url, "member add n4"]);

    let mut added = Serve { peer_port: ports(1)[0], ..stranger.clone() };
    added.members = format!("{},{}", cluster.nodes[0].serve.members, added.as_member());
    let new = add_voter(FOURTH, url);
    cluster.client(leader).change(&[new]).await.expect("added");
    assert_refused(&added, 1, &[&added.peer_url(), "member add"]);

    let nobody = Serve { peer_port: ports(1)[0], ..stranger.clone() };
    let members = format!("{},{}", nobody.as_member(), stranger.as_member());
    let nobody = Serve { members, ..stranger.clone() };
    assert_refused(&nobody, 2, &["initial-cluster"]);
    let dead = ports(1)[0];
    let members = format!("x=http://127.0.0.1:{dead},{}", stranger.as_member());
    let nobody = Serve { members, ..stranger.clone() };
    assert_refused(&nobody, 1, &["cannot be joined", "initial-cluster"]);
    let alone = Serve { members: stranger.as_member(), ..stranger.clone() };
    assert_refused(&alone, 2, &["no member but this one", "member add"]);
    assert!(!stranger.data_dir.join("raft").exists(), "a log was made");

    // As it was added, it joins.
    let mut node = Node::new(stranger);
    node.start();
    let [a, b, c] = cluster.ids().await;
    cluster.voters(leader, &[a, b, c, FOURTH]).await;
    assert_eq!(
        Client::new(node.serve.client_port).inspect().await.expect("a node").member_id,
        FOURTH
    );
}

/// What cannot be is refused, and nothing has changed then.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn changes_that_make_no_sense_are_refused() {
    let cluster = Cluster::start().await;
    let [a, b, c] = cluster.ids().await;
    let urls: Vec<_> = cluster.nodes.iter().map(|node| node.serve.peer_url()).collect();
    let mut client = cluster.client(0);
    let before = client.inspect().await.expect("it answers").membership_index;
    for (changes, expected) in [
        (vec![Change::Remove(FOURTH)], "member not found"),
        (vec![add_voter(FOURTH, urls[1].clone())], "Peer URLs already exists"),
        (vec![add_voter(b, "http://127.0.0.1:1".into())], "already exist"),
        (vec![Change::Remove(a), Change::Remove(b), Change::Remove(c)], "re-configuration failed"),
        (vec![Change::Promote(a)], "can only promote a learner"),
    ] {
        let fault = client.change(&changes).await.expect_err("it makes no sense");
        assert!(
            matches!(&fault, ClientError::Refused(status) if status.message().contains(expected)),
            "{changes:?}: {fault}"
        );
    }
    let fault = client.transfer(Some(FIFTH)).await.expect_err("nobody");
    assert!(
        matches!(&fault, ClientError::Refused(status) if status.message().contains("bad leader")),
        "{fault}"
    );
    let after = client.inspect().await.expect("it answers").membership_index;
    assert_eq!(after, before, "something has changed");
    until("all are well", async || cluster.client(1).put("well", "1").await.ok()).await;
}
