//! Members that come and go.

use kontiki::{
    Change, ChangeError, ChangeMembershipError, ChangeSet, NewMember, NodeId, Standing, StopReason,
};
use tokio::time::timeout;

use crate::kit::{Group, LIMIT, command, eventually, id};

fn set(change: Change) -> ChangeSet {
    ChangeSet { changes: vec![change], ..ChangeSet::default() }
}

fn new_member(id: NodeId) -> NewMember {
    NewMember { id, address: String::new() }
}

fn votes(group: &Group, id: NodeId) -> bool {
    let votes = |node: &kontiki::Node<usize>| {
        let members = node.status().members.membership;
        members.member(id).is_some_and(|member| member.standing == Standing::VOTER)
    };
    group.nodes.iter().all(votes)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_voter_catches_up_and_then_votes() {
    let mut group = Group::with(3, |config| {
        config.snapshot_entries = 50;
        config.raft.snapshot_tail_entries = 10;
    });
    let leader = group.leader().await.clone();
    group.propose_many(&leader, 200).await;
    eventually("the log is cut", || leader.status().base.0 > 100).await;
    let new = group.join();
    let mut watch = leader.membership();
    let index = leader.change_membership(set(Change::AddVoter(new_member(new)))).await;
    let index = index.expect("added, as a learner at first");
    assert!(timeout(LIMIT, watch.changed()).await.expect("in time").is_some());
    eventually("it votes", || votes(&group, new)).await;
    assert!(watch.current().index > index, "its promotion is another entry");
    group.all_apply(200).await;

    eventually("that is committed", || {
        let status = leader.status();
        status.committed >= status.members.index
    })
    .await;
    let four = leader.status().members;
    let stale = ChangeSet { expected: Some(index), ..set(Change::Remove(new)) };
    let refused = leader.change_membership(stale).await.expect_err("somebody was faster");
    let in_force = four.index;
    let expected = ChangeMembershipError::Refused(ChangeError::NotExpected { in_force });
    assert_eq!(refused, expected);
    assert_eq!(leader.status().members, four, "nothing changed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_changed_is_refused_with_the_reason() {
    let group = Group::new(3);
    let leader = group.leader().await;
    leader.propose(command("x")).await.expect("an entry of its own term is committed");
    for (change, reason) in [
        (Change::Remove(id(9)), ChangeError::UnknownMember(id(9))),
        (Change::AddVoter(new_member(id(1))), ChangeError::DuplicateMember(id(1))),
        (Change::Promote(id(2)), ChangeError::NotLearner(id(2))),
    ] {
        let refused = leader.change_membership(set(change)).await;
        assert_eq!(refused, Err(ChangeMembershipError::Refused(reason)));
    }
    let follower = group.node(group.followers().await[0]);
    follower.leader().await.expect("running");
    let refused = follower.change_membership(set(Change::Remove(id(1)))).await;
    let leader = Some(leader.status().id);
    assert_eq!(refused, Err(ChangeMembershipError::NotLeader { leader }));
}

// scenario B47
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_removed_stops_and_the_others_go_on() {
    let group = Group::new(4);
    let leader = group.leader().await.clone();
    leader.propose(command("a")).await.expect("committed");
    let gone = group.followers().await[0];
    leader.change_membership(set(Change::Remove(gone))).await.expect("removed");
    let reason = timeout(LIMIT, group.node(gone).stopped()).await.expect("it learns of it");
    assert_eq!(reason, StopReason::Removed);
    leader.propose(command("b")).await.expect("committed");

    // The leader itself: it hands over.
    let own = leader.status().id;
    let removed = timeout(LIMIT, leader.change_membership(set(Change::Remove(own)))).await;
    removed.expect("ends").expect("removed");
    let reason = timeout(LIMIT, leader.stopped()).await.expect("it goes");
    assert_eq!(reason, StopReason::Removed);
    let next = group.leader_but(Some(own)).await;
    next.propose(command("c")).await.expect("committed by the two that are left");
    assert_eq!(next.status().members.membership.voters().len(), 2);
}
