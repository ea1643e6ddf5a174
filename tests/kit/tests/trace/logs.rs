//! Each rule about logs, commits and applying finds what breaks it.

use raft_testkit::trace::{EntryMark, HardStateMark, Persist, Position, Role, Said, What};

use crate::scene::{Scene, back, checksum, entries};

#[test]
fn a_term_and_an_index_name_one_entry() {
    let mut scene = Scene::led();
    scene.persist(3, entries(1, &[EntryMark(1, 1, checksum(1) + 1)]));
    scene.breaks("one-entry", "N3 writes another entry at index 1 of term 1 than N1 has written");
}

#[test]
fn entries_follow_one_another() {
    let gap = |marks: &[EntryMark]| {
        let mut scene = Scene::led();
        scene.persist(1, entries(3, marks));
        scene
    };
    gap(&[EntryMark(2, 1, 5), EntryMark(3, 1, 6)]).passes();
    gap(&[EntryMark(3, 1, 5)]).breaks("log-order", "at index 3 behind index 1");
    gap(&[EntryMark(1, 1, checksum(1))]).breaks("log-order", "at index 1 behind index 1");
    gap(&[EntryMark(2, 0, 5)]).breaks("log-order", "of term 0 behind one of term 1");
    gap(&[EntryMark(2, 2, 5)]).breaks("log-order", "in its own term 1");
}

// scenario B27
#[test]
fn what_is_committed_is_not_cut_off() {
    let mut scene = Scene::committed();
    scene.receive(2, 3, 2, Said::Append { previous: Position(0, 0), count: 0, commit: 0 });
    scene.role(2, 2, Role::Follower);
    scene.persist(2, Persist { ticket: 3, truncate: Some(0), ..Persist::default() });
    scene.breaks("committed-kept", "N2 cuts its log behind 0, and has committed up to 1");
}

// scenario B37
#[test]
fn a_leader_commits_what_a_majority_holds() {
    let mut scene = Scene::led();
    let mut told = scene.clone();
    scene.put(1, What::Commit { index: 1 });
    scene.breaks("quorum-commit", "N1 commits up to 1 without a majority");
    // An acknowledgement of another term does not count.
    told.receive(1, 2, 0, Said::Accept { matched: 1 });
    told.put(1, What::Commit { index: 1 });
    told.breaks("quorum-commit", "without a majority");
}

#[test]
fn a_leader_counts_itself_when_it_is_durable() {
    let mut scene = Scene::led();
    scene.append(1, 3, 1);
    scene.receive(1, 2, 1, Said::Accept { matched: 2 });
    let mut patient = scene.clone();
    scene.put(1, What::Commit { index: 2 });
    scene.breaks("quorum-commit", "it is not durable here");
    patient.persisted(1, 3);
    patient.put(1, What::Commit { index: 2 });
    patient.passes();
    // Both others will do as well.
    let mut others = Scene::led();
    others.append(1, 3, 1);
    others.receive(1, 2, 1, Said::Accept { matched: 2 });
    others.receive(1, 3, 1, Said::Accept { matched: 2 });
    others.put(1, What::Commit { index: 2 });
    others.passes();
}

// scenario B25
#[test]
fn a_leader_commits_entries_of_its_own_term() {
    let mut scene = Scene::default();
    scene.start(1, back(1, Some(1), &[Position(1, 1)], 1));
    scene.stand(1, 2, Position(1, 1));
    scene.receive(1, 2, 2, Said::VoteReply { granted: true });
    scene.role(1, 2, Role::Leader);
    scene.receive(1, 2, 2, Said::Accept { matched: 1 });
    scene.put(1, What::Commit { index: 1 });
    scene.breaks("quorum-commit", "where an entry of term Some(1) is");
}

#[test]
fn a_follower_commits_what_it_is_told_and_holds() {
    let mut scene = Scene::led();
    scene.accept(2, 2, (1, 1), Position(0, 0), 1);
    scene.put(2, What::Commit { index: 1 });
    scene.breaks("told-commit", "N2 commits up to 1, and no leader said more than 0");

    let mut scene = Scene::committed();
    scene.receive(2, 1, 1, Said::Heartbeat { commit: 2, round: 1, sent_at: 0 });
    scene.put(2, What::Commit { index: 2 });
    scene.breaks("told-commit", "N2 commits up to 2, and its log ends with 1");
}

// scenario B26
#[test]
fn one_entry_is_committed_at_an_index() {
    let mut scene = Scene::committed();
    scene.role(3, 2, Role::Follower);
    scene.persist(3, entries(1, &[EntryMark(1, 2, checksum(2))]));
    scene.receive(3, 1, 2, Said::Commit { commit: 1 });
    scene.put(3, What::Commit { index: 1 });
    scene.breaks("committed-once", "N3 has another entry committed at index 1 than N1");
}

/// What was acknowledged to a leader in one term says nothing in the next.
#[test]
fn acknowledgements_are_of_one_term() {
    let mut scene = Scene::led();
    scene.receive(1, 2, 1, Said::Accept { matched: 9 });
    scene.stand(1, 2, Position(1, 1));
    scene.receive(1, 3, 2, Said::VoteReply { granted: true });
    scene.role(1, 2, Role::Leader);
    scene.append(1, 3, 2);
    scene.persisted(1, 3);
    scene.put(1, What::Commit { index: 2 });
    scene.breaks("quorum-commit", "N1 commits up to 2 without a majority");
}

#[test]
fn a_commit_index_never_goes_back() {
    let hard_state = |commit| Some(HardStateMark { term: 1, vote: Some(1), commit });
    let mut written = Scene::committed();
    let write =
        |ticket, commit| Persist { ticket, hard_state: hard_state(commit), ..Persist::default() };
    written.persist(2, write(3, 1));
    written.persist(2, write(4, 0));
    written.breaks("never-back", "N2 writes down commit index 0 behind 1");

    let mut scene = Scene::committed();
    scene.put(2, What::Commit { index: 0 });
    scene.breaks("never-back", "the commit index of N2 goes back from 1 to 0");
}

#[test]
fn entries_are_applied_in_order_when_they_are_committed_and_durable() {
    let apply = |first, last| {
        let mut scene = Scene::committed();
        scene.put(2, What::Apply { first, last });
        scene
    };
    apply(1, 1).passes();
    apply(2, 2).breaks("applied-in-order", "N2 applies 2 to 2 behind 0");
    apply(1, 2).breaks("applied-in-order", "and has committed up to 1");
    let mut twice = apply(1, 1);
    twice.put(2, What::Applied { index: 1 });
    twice.passes();
    twice.put(2, What::Apply { first: 1, last: 1 });
    twice.breaks("applied-in-order", "N2 applies 1 to 1 behind 1");
    let mut early = Scene::committed();
    early.put(2, What::Applied { index: 1 });
    early.breaks("applied-in-order", "N2 has applied 1, and was given 0");

    let mut soon = Scene::led();
    soon.receive(2, 1, 1, Said::Append { previous: Position(0, 0), count: 1, commit: 1 });
    soon.persist(2, entries(2, &[EntryMark(1, 1, checksum(1))]));
    soon.put(2, What::Commit { index: 1 });
    soon.put(2, What::Apply { first: 1, last: 1 });
    soon.breaks("applied-in-order", "N2 applies up to 1 before that is durable here");
}

// scenario B52
#[test]
fn a_snapshot_brings_the_state_forward() {
    let install = |last| {
        let mut scene = Scene::committed();
        scene.put(2, What::Apply { first: 1, last: 1 });
        scene.put(2, What::Install { last });
        scene
    };
    install(Position(1, 2)).passes();
    install(Position(1, 1)).breaks("snapshot-forward", "N2 takes a snapshot up to 1");
    let mut other = Scene::committed();
    other.put(3, What::Install { last: Position(9, 1) });
    other.breaks("committed-once", "N3 takes a snapshot that ends with another entry at 1");
}
