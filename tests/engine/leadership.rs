//! Leadership that is handed over, and reads that rest on it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use kontiki::raft_core::Lease;
use kontiki::{Change, ChangeSet, Consistency, Index, ProposeError, StopReason};
use kontiki::{NewMember, Node, TransferLeadershipError};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::kit::{ELECTION, Group, LIMIT, command, eventually, id};

/// Callers that propose one command after the other until they are told to stop. The first error
/// ends each.
fn propose_all_the_time(
    node: &Node<usize>,
    ends: &Arc<AtomicBool>,
) -> Vec<JoinHandle<Result<usize, ProposeError>>> {
    let caller = |_| {
        let (node, ends) = (node.clone(), Arc::clone(ends));
        tokio::spawn(async move {
            let mut count = 0;
            while !ends.load(Ordering::SeqCst) {
                node.propose(command("x")).await?;
                count += 1;
            }
            Ok(count)
        })
    };
    (0..8).map(caller).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_at_the_old_leader_notices_that_another_one_takes_over() {
    let group = Group::new(3);
    let old = group.leader().await.clone();
    old.propose(command("x")).await.expect("committed");
    let ends = Arc::new(AtomicBool::new(false));
    let callers = propose_all_the_time(&old, &ends);
    tokio::time::sleep(ELECTION / 4).await;
    let to = group.followers().await[1];
    let changes = old.status().leader_changes;
    assert!(changes >= 1, "it has seen itself take over");
    assert_eq!(old.transfer_leadership(Some(to)).await, Ok(to));
    eventually("the other leads", || group.node(to).status().leadership.is_leader()).await;
    tokio::time::sleep(ELECTION / 4).await;
    assert!(old.status().leader_changes > changes, "and another one now");
    ends.store(true, Ordering::SeqCst);
    let mut applied = 1;
    for caller in callers {
        applied += caller.await.expect("no panic").expect("never refused, never unknown");
    }
    group.all_apply(applied).await;
}

// scenario B50
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transfer_that_cannot_be_is_refused_and_proposals_flow_again() {
    let mut group = Group::new(3);
    let leader = group.leader().await.clone();
    leader.propose(command("a")).await.expect("committed");
    let learner = group.join();
    let add = Change::AddLearner(NewMember { id: learner, address: String::new() });
    let set = ChangeSet { changes: vec![add], ..ChangeSet::default() };
    leader.change_membership(set).await.expect("added");
    let refused = |to| leader.transfer_leadership(Some(to));
    assert_eq!(refused(id(9)).await, Err(TransferLeadershipError::UnknownMember(id(9))));
    assert_eq!(refused(learner).await, Err(TransferLeadershipError::NotVoter(learner)));

    // One that does not answer: it takes an election timeout to find out.
    let deaf = group.followers().await[0];
    group.network.cut(deaf);
    let (moved, proposed) = tokio::join!(refused(deaf), leader.propose(command("b")));
    assert_eq!(moved, Err(TransferLeadershipError::Failed(deaf)));
    proposed.expect("it waited, and was committed then");
    assert!(leader.status().leadership.is_leader());
    assert_eq!(leader.status().transferring_to, None);
    let follower = group.node(id((1..=3)
        .find(|n| id(*n) != deaf && id(*n) != leader.status().id)
        .expect("a third")));
    let refused = follower.transfer_leadership(None).await;
    let leader = Some(leader.status().id);
    assert_eq!(refused, Err(TransferLeadershipError::NotLeader { leader }));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shutdown_hands_over_first_and_closes_the_log() {
    let group = Group::new(3);
    let old = group.leader().await.clone();
    let (old_id, term) = (old.status().id, old.status().leadership.term);
    old.propose(command("x")).await.expect("committed");
    let ends = Arc::new(AtomicBool::new(false));
    let callers = propose_all_the_time(&old, &ends);
    assert_eq!(timeout(LIMIT, old.shutdown()).await, Ok(StopReason::Shutdown));
    let leads = group
        .nodes
        .iter()
        .map(Node::status)
        .find(|status| status.id != old_id && status.leadership.is_leader());
    assert_eq!(leads.expect("somebody leads already").leadership.term, term.next());
    assert!(group.logs[old_id.get() as usize - 1].is_closed());
    for caller in callers {
        let ended = caller.await.expect("no panic");
        assert_eq!(ended, Err(ProposeError::Stopped), "surely not executed, so it may go on");
    }
}

// scenario B61, B67
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_whose_disk_fails_has_another_one_elected_before_it_stops() {
    let patience = Duration::from_secs(2);
    let group = Group::with(3, move |config| config.raft.election_timeout = patience);
    let old = group.leader().await.clone();
    old.propose(command("a")).await.expect("committed");
    let (old_id, failed_at) = (old.status().id, Instant::now());
    group.logs[old_id.get() as usize - 1].break_disk();
    let lost = timeout(LIMIT, old.propose(command("b"))).await.expect("ends");
    assert!(lost.is_err(), "{lost:?}");
    group.leader_but(Some(old_id)).await;
    assert!(failed_at.elapsed() < patience, "nobody had to lose patience first");
    let reason = timeout(LIMIT, old.stopped()).await.expect("stops");
    assert_eq!(reason, StopReason::Storage("the disk is broken".into()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stale_read_waits_until_it_has_what_the_caller_has_seen() {
    let group = Group::new(3);
    let leader = group.leader().await;
    let written = leader.propose(command("a")).await.expect("committed").index;
    group.all_apply(1).await;
    let behind = group.followers().await[0];
    group.network.cut(behind);
    let newer = leader.propose(command("b")).await.expect("committed").index;
    let (reader, list) = (group.node(behind), group.list(behind));
    let stale = |at_least| reader.read(Consistency::Stale { at_least });
    assert!(timeout(LIMIT, stale(written)).await.expect("in time").expect("running").index < newer);
    assert!(timeout(ELECTION, stale(newer)).await.is_err(), "it waits");
    group.network.heal();
    let permit = timeout(LIMIT, stale(newer)).await.expect("in time").expect("running");
    assert!(permit.index >= newer && permit.still_valid());
    assert_eq!(list.contents(), ["a", "b"]);
}

fn lease(config: &mut kontiki::Config) {
    config.raft.lease = Some(Lease { clock_error_ppm: 500, margin: Duration::from_millis(10) });
}

// scenario B23
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_that_outlives_its_lease_is_thrown_away() {
    let group = Group::with(3, lease);
    let leader = group.leader().await;
    leader.propose(command("a")).await.expect("committed");
    let permit = async {
        loop {
            let permit = leader.read(Consistency::Lease).await.expect("it leads");
            tokio::time::sleep(ELECTION * 2).await;
            if !permit.still_valid() {
                return; // It was a lease, and it has ended.
            }
        }
    };
    timeout(LIMIT, permit).await.expect("a lease in time");

    let mut looks = 0;
    let seen = leader.read_with(Consistency::Lease, || {
        looks += 1;
        if looks == 1 {
            // The process stands still between the permit and the answer.
            std::thread::sleep(ELECTION * 2);
        }
        looks
    });
    assert_eq!(seen.await, Ok(2), "what was seen first does not count");
    let mut looks = 0;
    let linearizable = leader.read_with(Consistency::Linearizable, || looks += 1);
    linearizable.await.expect("it leads");
    assert_eq!(looks, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_whose_disk_stands_still_yields_and_comes_back() {
    let group = Group::with(3, |config| config.raft.disk_stall_timeout = ELECTION);
    let old = group.leader().await.clone();
    old.propose(command("a")).await.expect("committed");
    let old_id = old.status().id;
    let log = group.logs[old_id.get() as usize - 1].clone();
    let (stalled, release) = (log.stall.clone(), Arc::new(AtomicBool::new(false)));
    let holder = std::thread::spawn({
        let release = Arc::clone(&release);
        move || {
            let held = stalled.lock();
            while !release.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(5));
            }
            drop(held);
        }
    });
    tokio::time::sleep(Duration::from_millis(20)).await;
    let waiting = tokio::spawn({
        let old = old.clone();
        async move { old.propose(command("b")).await }
    });
    let new = group.leader_but(Some(old_id)).await;
    eventually("it shows", || old.status().is_storage_stalled).await;
    new.propose(command("c")).await.expect("committed by the two others");
    release.store(true, Ordering::SeqCst);
    holder.join().expect("no panic");
    timeout(LIMIT, waiting).await.expect("ends").expect("no panic").ok();
    let length = group.list(new.status().id).contents().len();
    group.all_apply(length).await;
    assert!(!old.status().is_storage_stalled);
    assert!(new.status().applied > Index(2));
}
