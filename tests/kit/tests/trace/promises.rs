//! Each rule about promises finds what breaks it.

use raft_testkit::trace::{EntryMark, Position, Role, Said, SnapshotNote, What};

use crate::scene::{Scene, back, checksum, entries};

#[test]
fn a_vote_leaves_when_it_is_durable() {
    let mut scene = Scene::founded();
    scene.receive(2, 1, 1, Said::Vote { last: Position(0, 0), transfer: false });
    scene.role(2, 1, Role::Follower);
    scene.promise(2, 1, 1, Some(1));
    let mut patient = scene.clone();
    scene.send(2, 1, 1, Said::VoteReply { granted: true });
    scene.breaks("durable-promise", "N2 gives N1 its vote in term 1 before that is durable");
    patient.persisted(2, 1);
    patient.send(2, 1, 1, Said::VoteReply { granted: true });
    patient.passes();
    patient.send(2, 3, 1, Said::VoteReply { granted: false });
    patient.passes();
}

#[test]
fn a_candidate_asks_when_its_own_vote_and_its_log_are_durable() {
    let mut scene = Scene::founded();
    scene.put(1, What::Timer);
    scene.role(1, 1, Role::Candidate);
    scene.promise(1, 1, 1, Some(1));
    scene.send(1, 2, 1, Said::Vote { last: Position(0, 0), transfer: false });
    scene.breaks("durable-promise", "N1 asks for votes in term 1 before its own is durable");

    let mut scene = Scene::led();
    scene.append(1, 3, 1);
    scene.put(1, What::Timer);
    scene.role(1, 2, Role::Candidate);
    scene.promise(1, 2, 2, Some(1));
    scene.persisted(1, 2);
    scene.send(1, 2, 2, Said::Vote { last: Position(1, 2), transfer: false });
    scene.breaks("durable-promise", "with a log up to 2 that is not durable");
}

// scenario B33
#[test]
fn entries_are_acknowledged_when_they_are_durable() {
    let mut scene = Scene::led();
    let previous = Position(0, 0);
    scene.receive(2, 1, 1, Said::Append { previous, count: 1, commit: 0 });
    scene.persist(2, entries(2, &[EntryMark(1, 1, checksum(1))]));
    scene.send(2, 1, 1, Said::Accept { matched: 1 });
    scene.breaks("durable-promise", "N2 acknowledges up to 1 before that is durable");
}

#[test]
fn only_what_is_here_is_acknowledged() {
    let mut scene = Scene::committed();
    scene.send(2, 1, 1, Said::Accept { matched: 2 });
    scene.breaks("held", "N2 acknowledges up to 2, and its log ends with 1");
}

/// A snapshot that takes the place of the log vouches for it when it is noted durably.
#[test]
fn a_snapshot_is_acknowledged_when_it_is_noted() {
    let mut scene = Scene::led();
    let last = Position(1, 7);
    scene.put(3, What::SnapshotReceived { from: 1, term: 1, last });
    let mut write = entries(1, &[]);
    write.snapshot = Some(SnapshotNote { last, base: last });
    scene.persist(3, write);
    let mut patient = scene.clone();
    scene.send(3, 1, 1, Said::Accept { matched: 7 });
    scene.breaks("durable-promise", "N3 acknowledges up to 7 before that is durable");
    patient.persisted(3, 1);
    patient.send(3, 1, 1, Said::Accept { matched: 7 });
    patient.passes();
}

/// What was written before such a snapshot becomes durable before it.
#[test]
fn a_log_that_is_replaced_may_still_be_acknowledged() {
    let mut scene = Scene::led();
    scene.role(3, 1, Role::Follower);
    scene.receive(3, 1, 1, Said::Append { previous: Position(0, 0), count: 1, commit: 0 });
    scene.persist(3, entries(1, &[EntryMark(1, 1, checksum(1))]));
    let last = Position(1, 7);
    scene.put(3, What::SnapshotReceived { from: 1, term: 1, last });
    let mut write = entries(2, &[]);
    write.snapshot = Some(SnapshotNote { last, base: last });
    scene.persist(3, write);
    let mut early = scene.clone();
    early.send(3, 1, 1, Said::Accept { matched: 1 });
    early.breaks("durable-promise", "N3 acknowledges up to 1 before that is durable");
    scene.persisted(3, 1);
    scene.send(3, 1, 1, Said::Accept { matched: 1 });
    scene.passes();
    scene.send(3, 1, 1, Said::Accept { matched: 2 });
    scene.breaks("durable-promise", "N3 acknowledges up to 2 before that is durable");
}

#[test]
fn what_was_acknowledged_is_there_after_a_crash() {
    let mut scene = Scene::committed();
    scene.put(2, What::Crash);
    let (mut damaged, mut whole) = (scene.clone(), scene.clone());
    let mut newer = scene.clone();
    scene.start(2, back(1, Some(1), &[], 0));
    scene.breaks("never-lost", "N2 starts with a log up to 0, and had committed up to 1");

    let mut start = back(1, Some(1), &[], 0);
    start.claim = Some(Position(1, 1));
    damaged.start(2, start);
    damaged.passes();
    whole.start(2, back(1, Some(1), &[Position(1, 1)], 1));
    whole.passes();

    // What was acknowledged in one term may be replaced in a later one, but not in its own.
    let acknowledged = |scene: &mut Scene, term| {
        scene.accept(2, 3, (2, 1), Position(1, 1), 1);
        scene.put(2, What::Crash);
        scene.start(2, back(term, Some(1), &[Position(1, 1)], 1));
    };
    newer.start(2, back(1, Some(1), &[Position(1, 1)], 1));
    let mut same = newer.clone();
    acknowledged(&mut newer, 2);
    newer.passes();
    acknowledged(&mut same, 1);
    same.breaks("never-lost", "N2 starts with a log up to 1, and had acknowledged up to 2");
}

/// Nobody knows what was done in a hole of the trace.
#[test]
fn nothing_is_concluded_from_a_hole() {
    let mut scene = Scene::led();
    scene.put(2, What::Gap { records: 5 });
    scene.send(2, 1, 1, Said::Accept { matched: 9 });
    scene.put(2, What::Commit { index: 9 });
    scene.put(2, What::Apply { first: 5, last: 9 });
    let figures = scene.passes();
    assert_eq!(figures.missing, 5);
    // But a vote is a vote.
    scene.send(2, 3, 1, Said::VoteReply { granted: true });
    scene.breaks("one-vote", "N2 votes for N3 in term 1");
}
