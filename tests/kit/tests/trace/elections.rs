//! Each rule about elections finds what breaks it.

use raft_testkit::trace::{HardStateMark, MembersMark, Persist, Position, Role, Said, What};

use crate::scene::{Scene, back, empty};

#[test]
fn a_right_story_passes() {
    let figures = Scene::committed().passes();
    assert_eq!((figures.nodes, figures.elections, figures.votes), (3, 1, 1));
    assert_eq!((figures.accepts, figures.committed, figures.term), (1, 1, 1));
}

// scenario B01
#[test]
fn a_vote_is_given_once_in_a_term() {
    let mut scene = Scene::led();
    scene.receive(2, 3, 1, Said::Vote { last: Position(0, 0), transfer: false });
    let mut other = scene.clone();
    scene.send(2, 3, 1, Said::VoteReply { granted: true });
    scene.breaks("one-vote", "N2 votes for N3 in term 1, and has voted for N1");
    other.promise(2, 2, 1, Some(3));
    other.breaks("never-back", "takes back its vote");
}

// scenario B04
#[test]
fn a_vote_is_not_forgotten_in_a_crash() {
    let mut scene = Scene::led();
    scene.put(2, What::Crash);
    let mut voter = scene.clone();
    scene.start(2, back(1, None, &[], 0));
    scene.breaks("never-back", "N2 has forgotten in term 1 whom it gave its vote");
    voter.start(2, empty());
    voter.breaks("never-back", "N2 starts in term 0, and was in term 1 before");
}

#[test]
fn a_vote_given_before_the_trace_begins_counts() {
    let mut scene = Scene::default();
    scene.start(2, back(4, Some(1), &[], 0));
    scene.send(2, 3, 4, Said::VoteReply { granted: true });
    scene.breaks("one-vote", "N2 votes for N3 in term 4, and has voted for N1");
}

/// What was not durable and never left was never promised.
#[test]
fn a_vote_that_never_left_may_be_lost_in_a_crash() {
    let mut scene = Scene::founded();
    scene.put(1, What::Timer);
    scene.role(1, 1, Role::Candidate);
    scene.promise(1, 1, 1, Some(1));
    let mut durable = scene.clone();
    scene.put(1, What::Crash);
    scene.start(1, empty());
    scene.vote(1, 2, 1, Position(0, 0));
    scene.passes();
    durable.persisted(1, 1);
    durable.put(1, What::Crash);
    durable.start(1, raft_testkit::trace::Start { disk: Some(9), ..empty() });
    durable.promise(1, 1, 1, Some(2));
    durable.passes();
    durable.persisted(1, 1);
    durable.breaks("one-vote", "N1 votes for N2 in term 1, and has voted for N1");
}

#[test]
fn another_disk_has_promised_nothing_else() {
    let mut scene = Scene::led();
    scene.put(2, What::Crash);
    let mut same = scene.clone();
    scene.start(2, raft_testkit::trace::Start { disk: Some(9), ..empty() });
    scene.passes();
    same.start(2, empty());
    same.check().expect_err("it is the same disk");
}

#[test]
fn a_term_has_one_leader() {
    let mut scene = Scene::led();
    scene.put(3, What::Timer);
    scene.role(3, 1, Role::Leader);
    scene.breaks("one-leader", "N3 leads term 1, which N1 leads");
}

// scenario B08
#[test]
fn a_vote_goes_to_a_log_that_is_good_enough() {
    let better = |last: Position| {
        let mut scene = Scene::committed();
        scene.receive(2, 3, 2, Said::Vote { last, transfer: false });
        scene.role(2, 2, Role::Follower);
        scene.promise(2, 3, 2, Some(3));
        scene
    };
    better(Position(1, 1)).passes();
    better(Position(2, 1)).passes();
    better(Position(0, 7)).breaks("good-log", "N2 votes for N3");
    better(Position(1, 0)).breaks("good-log", "while its own ends with 1:1");
}

#[test]
fn a_leader_has_the_votes_of_a_majority() {
    let mut scene = Scene::founded();
    scene.stand(1, 1, Position(0, 0));
    let mut wrong_term = scene.clone();
    let mut refused = scene.clone();
    scene.role(1, 1, Role::Leader);
    scene.breaks("elected", "N1 leads term 1 with its own and the votes of {}");
    wrong_term.receive(1, 2, 0, Said::VoteReply { granted: true });
    wrong_term.role(1, 1, Role::Leader);
    wrong_term.breaks("elected", "the votes of {}");
    refused.receive(1, 2, 1, Said::VoteReply { granted: false });
    refused.role(1, 1, Role::Leader);
    refused.breaks("elected", "the votes of {}");
}

#[test]
fn a_leader_does_not_count_its_own_vote_before_it_is_durable() {
    let mut scene = Scene::founded();
    scene.put(1, What::Timer);
    scene.role(1, 1, Role::Candidate);
    scene.promise(1, 1, 1, Some(1));
    scene.receive(1, 2, 1, Said::VoteReply { granted: true });
    let mut patient = scene.clone();
    scene.role(1, 1, Role::Leader);
    scene.breaks("elected", "with not its own, but the votes of {2}");
    patient.persisted(1, 1);
    patient.role(1, 1, Role::Leader);
    patient.passes();
}

/// In a joint phase both majorities are needed.
#[test]
fn a_leader_of_a_joint_phase_needs_both_majorities() {
    let joint = |votes: &[u64]| {
        let mut scene = Scene::founded();
        let (voters, outgoing) = (vec![1, 4, 5], vec![1, 2, 3]);
        let members = MembersMark { index: 1, voters, outgoing, learners: vec![] };
        scene.put(1, What::Members(members));
        scene.stand(1, 1, Position(0, 0));
        for from in votes {
            scene.receive(1, *from, 1, Said::VoteReply { granted: true });
        }
        scene.role(1, 1, Role::Leader);
        scene
    };
    joint(&[2, 4]).passes();
    joint(&[2, 3]).breaks("elected", "N1 leads term 1");
    joint(&[4, 5]).breaks("elected", "N1 leads term 1");
}

/// What N1 and N2 committed in term 1 is missing in the log of N3.
#[test]
fn a_leader_holds_what_was_committed_before() {
    let mut scene = Scene::committed();
    scene.stand(3, 2, Position(0, 0));
    // However it came by that vote.
    scene.receive(3, 2, 2, Said::VoteReply { granted: true });
    scene.role(3, 2, Role::Leader);
    scene.breaks("complete-leader", "N3 leads term 2 with nothing at index 1, where N1");
}

/// The same, but the trace of the new leader comes first: clocks need not agree.
#[test]
fn a_leader_is_found_to_lack_what_turns_out_to_be_committed() {
    let mut scene = Scene::led();
    scene.accept(2, 2, (1, 1), Position(0, 0), 1);
    scene.stand(3, 2, Position(0, 0));
    scene.receive(3, 2, 2, Said::VoteReply { granted: true });
    scene.role(3, 2, Role::Leader);
    scene.receive(1, 2, 1, Said::Accept { matched: 1 });
    scene.put(1, What::Commit { index: 1 });
    scene.breaks("complete-leader", "N3 leads term 2 without it");
}

/// The trace of a follower is ahead of its leader's: it commits what nobody leads yet.
#[test]
fn a_leader_need_not_have_held_what_it_committed_itself() {
    let mut scene = Scene::founded();
    scene.role(2, 1, Role::Follower);
    scene.accept(2, 1, (1, 1), Position(0, 0), 1);
    scene.receive(2, 1, 1, Said::Commit { commit: 1 });
    scene.put(2, What::Commit { index: 1 });
    scene.stand(1, 1, Position(0, 0));
    scene.receive(1, 2, 1, Said::VoteReply { granted: true });
    scene.role(1, 1, Role::Leader);
    scene.passes();
}

#[test]
fn a_term_never_goes_back() {
    let mut scene = Scene::led();
    scene.role(1, 3, Role::Follower);
    let mut written = scene.clone();
    scene.role(1, 2, Role::Follower);
    scene.breaks("never-back", "N1 goes back from term 3 to term 2");
    let hard_state = Some(HardStateMark { term: 0, vote: None, commit: 0 });
    written.persist(1, Persist { ticket: 3, hard_state, ..Persist::default() });
    written.breaks("never-back", "N1 writes down term 0 behind term 1");
}
