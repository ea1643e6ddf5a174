//! Snapshots in a running node: taken by themselves, sent to who needs them, restored.

use std::sync::atomic::Ordering;

use bytes::Bytes;
use kontiki::{Config, Index, StartError, StopReason};
use tokio::time::timeout;

use crate::kit::{Group, LIMIT, List, command, eventually};

/// A snapshot every fifty entries, and ten entries kept.
fn often(config: &mut Config) {
    config.snapshot_entries = 50;
    config.raft.snapshot_tail_entries = 10;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_state_in_memory_comes_back_from_its_snapshot_and_the_log_behind_it() {
    let mut group = Group::with(3, often);
    let leader = group.leader().await;
    let last = group.propose_many(leader, 500).await;
    group.all_apply(500).await;
    for (node, files) in group.nodes.iter().zip(&group.snapshots) {
        eventually("the log is cut, and old files go", || {
            let status = node.status();
            status.base > Index(400) && files.ends() == [status.snapshot]
        })
        .await;
        let status = node.status();
        assert!(status.snapshot.0 - status.base.0 <= 10, "{status:?}");
    }
    let one = group.followers().await[0];
    group.restart(one, List::default()).await.expect("starts again");
    group.all_apply(500).await;
    assert!(group.node(one).status().applied >= last);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_state_passes_through_in_small_pieces() {
    let group = Group::with(1, |config| config.snapshot_bytes = 1 << 20);
    let node = group.leader().await;
    for _ in 0..12 {
        node.propose(Bytes::from(vec![7; 512 << 10])).await.expect("committed");
    }
    eventually("a snapshot", || !group.snapshots[0].ends().is_empty()).await;
    let largest = group.snapshots[0].largest_write.load(Ordering::SeqCst);
    assert!((1..=256 << 10).contains(&largest), "{largest} bytes at once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_far_behind_is_sent_a_snapshot() {
    for survives in [false, true] {
        let group = Group::with(3, often);
        for list in &group.lists {
            list.survives.store(survives, Ordering::SeqCst);
        }
        let leader = group.leader().await;
        let behind = group.followers().await[0];
        group.network.cut(behind);
        group.propose_many(leader, 300).await;
        eventually("the log is cut", || leader.status().base > Index(200)).await;
        let files = &group.snapshots[leader.status().id.get() as usize - 1];
        assert_eq!(files.ends().is_empty(), survives, "only what lives in memory needs files");

        group.network.heal();
        group.all_apply(300).await;
        assert!(group.network.shipped.load(Ordering::SeqCst) >= 1);
        assert!(!files.ends().is_empty(), "one was built for the peer");
        assert!(group.node(behind).status().base > Index(200), "the log goes on behind it");
    }
}

// scenario B52, B54
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restore_that_fails_in_the_middle_is_done_again_at_the_next_start() {
    let mut group = Group::with(3, often);
    let leader = group.leader().await.clone();
    let behind = group.followers().await[0];
    group.list(behind).failing_restores.store(1, Ordering::SeqCst);
    group.network.cut(behind);
    group.propose_many(&leader, 300).await;
    eventually("the log is cut", || leader.status().base > Index(200)).await;
    group.network.heal();
    let reason = timeout(LIMIT, group.node(behind).stopped()).await.expect("it says so");
    assert_eq!(reason, StopReason::StateMachine("no space for the second half".into()));

    let list = group.list(behind).reopened();
    assert!(list.contents().is_empty(), "half a state is none");
    group.restart(behind, list).await.expect("starts again");
    group.all_apply(300).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snapshot_that_cannot_be_read_is_not_taken_for_a_fault_of_the_state_machine() {
    let mut group = Group::with(3, often);
    let leader = group.leader().await.clone();
    group.propose_many(&leader, 200).await;
    let one = group.followers().await[0];
    eventually("the log is cut", || group.node(one).status().base > Index(100)).await;
    let files = group.snapshots[one.get() as usize - 1].clone();
    files.failing_reads.store(u32::MAX, Ordering::SeqCst);
    group.restart(one, List::default()).await.expect("starts, and then reads it");
    let reason = timeout(LIMIT, group.node(one).stopped()).await.expect("it says so");
    let StopReason::Storage(reason) = reason else { panic!("{reason}") };
    assert!(reason.contains("cannot be read (the disk is broken)"), "{reason}");
    assert!(
        reason.ends_with("replace the node by a new member, which gets its state from the others")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_whose_snapshot_is_missing_says_what_to_do() {
    let mut group = Group::with(3, often);
    let leader = group.leader().await.clone();
    group.propose_many(&leader, 200).await;
    let one = group.followers().await[0];
    eventually("the log is cut", || group.node(one).status().base > Index(100)).await;
    group.node(one).shutdown().await;
    group.snapshots[one.get() as usize - 1].lose_all();
    let refused = group.restart(one, List::default()).await.expect_err("nothing to begin with");
    assert!(matches!(refused, StartError::Snapshot { applied: Index::ZERO, .. }), "{refused}");
    assert!(refused.to_string().contains("put the file back, or replace this node"), "{refused}");
    // One whose state survives by itself needs no file.
    let list = group.list(leader.status().id).reopened();
    group.restart(one, list).await.expect("starts");
    leader.propose(command("y")).await.expect("committed");
    group.all_apply(201).await;
}
