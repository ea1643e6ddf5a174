//! What a node promises to its callers.

use std::time::Duration;

use bytes::Bytes;
use kontiki::{Consistency, Index, ProposeError, ReadError, Refused, StopReason};
use tokio::time::timeout;

use crate::kit::{ELECTION, Group, LIMIT, command, id};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_node_takes_commands_and_linearizable_reads() {
    let group = Group::new(3);
    group.leader().await;
    for node in &group.nodes {
        node.leader().await.expect("running");
    }
    for (position, node) in group.nodes.iter().enumerate() {
        let applied = node.propose(command("x")).await.expect("committed");
        assert_eq!(applied.response, position + 1, "the answer of this very command");
        for (reader, list) in group.nodes.iter().zip(&group.lists) {
            let permit = reader.read(Consistency::Linearizable).await.expect("a leader");
            assert!(permit.index >= applied.index, "a read sees what was acknowledged before");
            assert!(list.contents().len() > position, "and so does the state machine");
        }
    }
    group.all_apply(3).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_callers_each_get_their_own_answer() {
    let group = Group::new(3);
    let leader = group.leader().await.clone();
    let calls = (0..2000u32).map(|number| {
        let node = leader.clone();
        tokio::spawn(async move {
            let bytes = Bytes::copy_from_slice(&number.to_be_bytes());
            (bytes.clone(), node.propose(bytes).await.expect("committed"))
        })
    });
    let mut places = std::collections::BTreeMap::new();
    for call in calls.collect::<Vec<_>>() {
        let (bytes, applied) = call.await.expect("no panic");
        assert!(places.insert(applied.response, bytes).is_none(), "one answer each");
    }
    let list = group.lists[leader.status().id.get() as usize - 1].contents();
    for (place, bytes) in places {
        assert_eq!(list[place - 1], bytes, "the answer belongs to the command");
    }
    group.all_apply(2000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_applied_at_once_never_overtakes_what_is_with_the_thread() {
    let group = Group::new(1);
    let node = group.leader().await.clone();
    let callers = (0..8).map(|_| {
        let node = node.clone();
        tokio::spawn(async move {
            for _ in 0..500 {
                node.propose(command("x")).await.expect("its state machine was fed in order");
            }
        })
    });
    for caller in callers.collect::<Vec<_>>() {
        caller.await.expect("no panic");
    }
    group.all_apply(4000).await;
}

// scenario B13, B18
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_is_cut_off_steps_down_and_tells_the_truth() {
    let group = Group::new(3);
    let old = group.leader().await.clone();
    old.propose(command("before")).await.expect("committed");
    let (old_id, old_token) = (old.status().id, old.fencing_token().expect("it leads"));

    group.network.cut(old_id);
    let mut watch = old.leadership();
    let (write, read) = (old.propose(command("lost?")), old.read(Consistency::Linearizable));
    let (write, read) = timeout(LIMIT, async { tokio::join!(write, read) }).await.expect("ends");
    assert_eq!(write, Err(ProposeError::Unknown), "nobody can know");
    assert_eq!(read.err(), Some(ReadError::NoLeader { leader: None }));
    let leads = timeout(LIMIT, watch.wait_for(|now| !now.is_leader())).await;
    assert!(
        leads.expect("in time").is_some(),
        "the watch shows the loss though no successor is known"
    );
    assert_eq!(old.fencing_token(), None);

    let new = group.leader_but(Some(old_id)).await;
    assert!(new.fencing_token().expect("it leads") > old_token, "tokens grow");
    new.propose(command("after")).await.expect("committed by the others");
    group.network.heal();
    group.all_apply(2).await;
    assert_eq!(group.lists[0].contents(), ["before", "after"], "what was unknown is gone");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_handed_on_to_a_leader_out_of_reach() {
    let group = Group::new(3);
    let old = group.leader().await;
    old.propose(command("before")).await.expect("committed");
    let old_id = old.status().id;
    let follower = group.nodes.iter().find(|node| node.status().id != old_id).expect("two more");
    follower.leader().await.expect("running");
    group.network.cut(old_id);
    let outcome = timeout(LIMIT, follower.propose(command("held back"))).await.expect("ends");
    assert_eq!(outcome, Err(ProposeError::NotLeader { leader: None }), "surely not executed");
    group.leader_but(Some(old_id)).await;
    group.network.heal();
    group.all_apply(1).await;
}

// scenario B61
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_disk_stops_the_node_and_the_others_go_on() {
    let group = Group::new(3);
    let old = group.leader().await.clone();
    let old_id = old.status().id;
    old.propose(command("kept")).await.expect("committed");
    group.logs[old_id.get() as usize - 1].break_disk();

    let outcome = timeout(LIMIT, old.propose(command("lost?"))).await.expect("ends");
    assert!(
        matches!(outcome, Err(ProposeError::Unknown | ProposeError::Stopped)),
        "never acknowledged: {outcome:?}"
    );
    let reason = timeout(LIMIT, old.stopped()).await.expect("stops");
    assert_eq!(reason, StopReason::Storage("the disk is broken".into()));
    let stale = Consistency::Stale { at_least: Index::ZERO };
    assert_eq!(old.propose(command("late")).await, Err(ProposeError::Stopped));
    assert_eq!(old.read(stale).await.err(), Some(ReadError::Stopped));
    assert_eq!(old.shutdown().await, reason, "it says why, also when asked to stop");

    let new = group.leader_but(Some(old_id)).await;
    new.propose(command("after")).await.expect("committed by the others");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_state_machine_that_fails_or_panics_stops_its_node() {
    for (text, reason) in [("fail", "no space for it"), ("panic", "it panicked: told to")] {
        let group = Group::new(1);
        let node = group.leader().await;
        let outcome = timeout(LIMIT, node.propose(command(text))).await.expect("ends");
        assert_eq!(outcome, Err(ProposeError::Unknown), "it is in the log");
        let stopped = timeout(LIMIT, node.stopped()).await.expect("stops");
        assert_eq!(stopped, StopReason::StateMachine(reason.into()));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shutdown_ends_everybody_and_so_does_the_last_handle() {
    let group = Group::new(3);
    let node = group.leader().await.clone();
    group.network.cut(node.status().id);
    let waiting = tokio::spawn({
        let node = node.clone();
        async move { node.propose(command("waits")).await }
    });
    while node.status().last < Index(2) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(timeout(LIMIT, node.shutdown()).await, Ok(StopReason::Shutdown));
    let outcome = timeout(LIMIT, waiting).await.expect("ends").expect("no panic");
    assert_eq!(outcome, Err(ProposeError::Unknown));

    let alone = Group::new(1);
    let stopped = alone.leader().await.stopped();
    drop(alone);
    assert_eq!(timeout(LIMIT, stopped).await, Ok(StopReason::Shutdown));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_too_large_is_refused_before_it_enters_the_log() {
    let group = Group::with(3, |config| config.raft.entry_bytes_max = 10);
    let node = group.leader().await;
    node.propose(command("0123456789")).await.expect("just fits");
    let outcome = node.propose(command("0123456789a")).await;
    assert_eq!(outcome, Err(ProposeError::Refused(Refused::TooLarge)));
    group.all_apply(1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_far_behind_is_fed_from_the_log_on_disk() {
    // Next to nothing stays in memory, so both the follower and the apply threads read back.
    let group = Group::with(3, |config| config.raft.recent_bytes_max = 1);
    let leader = group.leader().await;
    let behind = (1..=3).map(id).find(|&id| id != leader.status().id).expect("two others");
    group.network.cut(behind);
    for _ in 0..3000 {
        leader.propose(command("x")).await.expect("committed by two");
    }
    group.network.heal();
    group.all_apply(3000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_that_was_cut_off_changes_nothing_when_it_returns() {
    let group = Group::new(3);
    let leader = group.leader().await;
    leader.propose(command("a")).await.expect("committed");
    let term = leader.status().leadership.term;
    let away = (1..=3).map(id).find(|&id| id != leader.status().id).expect("two others");
    group.network.cut(away);
    tokio::time::sleep(ELECTION * 4).await;
    group.network.heal();
    leader.propose(command("b")).await.expect("committed");
    group.all_apply(2).await;
    assert_eq!(leader.status().leadership.term, term, "no election");
}
