use std::sync::Arc;

use raft_core::{Entries, Membership, SnapshotMark};

use super::*;

const POLICY: Policy = Policy { entries: 100, bytes: 1000 };

fn id(number: u64) -> NodeId {
    NodeId::new(number).expect("not zero")
}

fn at(index: u64) -> LogPosition {
    LogPosition { term: Term(1), index: Index(index) }
}

fn snapshot(index: u64) -> Snapshot {
    let membership = Arc::new(Membership::new([id(1)]).expect("not empty"));
    Snapshot { last: at(index), membership, membership_index: Index::ZERO }
}

fn applied(index: u64, bytes: u64, durable: Option<u64>) -> Progress {
    let (applied, durable) = (Index(index), durable.map(Index));
    Progress { applied, last: applied, bytes, durable }
}

fn wanted(peer: u64, at_least: u64) -> Wanted {
    Wanted { peer: id(peer), term: Term(1), at_least: at(at_least) }
}

fn mark(ticket: u64, base: u64, last: u64) -> Write {
    Write {
        ticket: Ticket(ticket),
        truncate: None,
        entries: Entries::EMPTY,
        hard_state: None,
        snapshot: Some(Box::new(SnapshotMark { snapshot: snapshot(last), base: at(base) })),
    }
}

/// In memory, nothing taken yet.
fn in_memory() -> Snapshots {
    Snapshots::new(POLICY, Found::default(), Index::ZERO)
}

/// Survives by itself.
fn surviving() -> Snapshots {
    let found = Found { durable: Some(Index::ZERO), ..Found::default() };
    Snapshots::new(POLICY, found, Index::ZERO)
}

const NOW: Instant = Instant(0);

#[test]
fn one_is_due_after_so_many_entries_or_bytes_and_only_one() {
    for (last, bytes, is_due) in
        [(99, 999, false), (100, 0, true), (1, 1000, true), (0, 1000, false)]
    {
        let mut snapshots = in_memory();
        snapshots.on_applied(applied(last, bytes, None));
        let due = snapshots.due(NOW, Index(last));
        assert_eq!(due, is_due.then_some(Due::Capture), "{last} entries, {bytes} bytes");
        if is_due {
            assert_eq!(snapshots.due(NOW, Index(last + 1000)), None, "it is under way");
        }
    }
}

#[test]
fn what_survives_by_itself_needs_no_file_until_a_peer_does() {
    let (mut snapshots, mut jobs) = (surviving(), Jobs::new());
    snapshots.on_applied(applied(150, 0, Some(99)));
    assert_eq!(snapshots.due(NOW, Index(150)), None, "it is not durable yet");
    snapshots.on_applied(applied(151, 0, Some(120)));
    assert_eq!(snapshots.due(NOW, Index(151)), Some(Due::Take(Index(120))));
    assert_eq!(snapshots.due(NOW, Index(151)), None, "once");

    snapshots.on_wanted(wanted(2, 110), at(110), &mut jobs);
    assert_eq!(snapshots.due(NOW, Index(151)), Some(Due::Capture));
    snapshots.on_captured();
    snapshots.on_wanted(wanted(3, 110), at(110), &mut jobs);
    assert_eq!((snapshots.due(NOW, Index(151)), &jobs[..]), (None, &[][..]), "one at a time");
    snapshots.on_built(NOW, &snapshot(151), &mut jobs);
    let send = |peer| SnapshotJob::Send { peer: id(peer), term: Term(1) };
    assert_eq!(jobs, [send(2), send(3)], "one file for both");

    // Another peer is sent the same file, as long as the log goes on from it.
    jobs.clear();
    snapshots.on_wanted(wanted(4, 110), at(151), &mut jobs);
    assert_eq!(jobs, [send(4)]);
    jobs.clear();
    snapshots.on_wanted(wanted(4, 110), at(152), &mut jobs);
    assert_eq!(jobs, [], "the log has moved on");
    assert_eq!(snapshots.due(NOW, Index(160)), Some(Due::Capture));
}

#[test]
fn a_file_that_no_peer_has_needed_for_a_while_goes() {
    let (mut snapshots, mut jobs) = (surviving(), Jobs::new());
    snapshots.on_wanted(wanted(2, 0), at(0), &mut jobs);
    assert_eq!(snapshots.due(NOW, Index(10)), Some(Due::Capture));
    snapshots.on_captured();
    snapshots.on_built(NOW, &snapshot(10), &mut jobs);
    jobs.clear();
    assert_eq!(snapshots.deadline(NOW), None, "it is being sent");
    snapshots.on_sent(NOW, id(2));
    assert_eq!(snapshots.deadline(NOW), None, "the state machine itself is not durable yet");
    snapshots.on_applied(applied(11, 0, Some(10)));
    let idle = NOW + FILE_IDLE;
    assert_eq!(snapshots.deadline(NOW), Some(idle));
    snapshots.on_timer(Instant(idle.0 - 1), &mut jobs);
    assert_eq!(jobs, []);
    snapshots.on_timer(idle, &mut jobs);
    assert_eq!(jobs, [SnapshotJob::Retain(at(11))]);
    assert_eq!(snapshots.deadline(idle), None);
}

#[test]
fn what_could_not_be_built_is_tried_again_later() {
    let mut snapshots = in_memory();
    snapshots.on_applied(applied(1, 1000, None));
    assert_eq!(snapshots.due(NOW, Index(1)), Some(Due::Capture));
    snapshots.on_captured();
    snapshots.on_build_failed(NOW);
    let later = NOW + RETRY_AFTER;
    assert_eq!(snapshots.due(Instant(later.0 - 1), Index(2)), None);
    assert_eq!(snapshots.deadline(NOW), Some(later));
    assert_eq!(snapshots.due(later, Index(2)), Some(Due::Capture));
}

#[test]
fn old_files_go_only_when_the_log_says_so_durably() {
    let (mut snapshots, mut jobs) = (in_memory(), Jobs::new());
    snapshots.on_file(NOW, at(100));
    snapshots.on_write(&mark(7, 90, 100));
    snapshots.on_persisted(Ticket(6), &mut jobs);
    assert_eq!(jobs, []);
    snapshots.on_persisted(Ticket(8), &mut jobs);
    assert_eq!(jobs, [SnapshotJob::Retain(at(100))]);

    // Where the state survives by itself, the older file is good for peers from its end on.
    let (mut snapshots, mut jobs) = (surviving(), Jobs::new());
    snapshots.on_file(NOW, at(100));
    snapshots.on_write(&mark(7, 95, 150));
    snapshots.on_persisted(Ticket(7), &mut jobs);
    assert_eq!(jobs, [SnapshotJob::Retain(at(95))]);
    assert_eq!(snapshots.found.file, Some(at(100)));
}

#[test]
fn a_damaged_file_is_replaced_or_removed() {
    let (mut snapshots, mut jobs) = (in_memory(), Jobs::new());
    snapshots.on_file(NOW, at(100));
    snapshots.on_damaged(&mut jobs);
    assert_eq!(snapshots.due(NOW, Index(100)), Some(Due::Capture), "at once");
    assert_eq!(jobs, []);

    let (mut snapshots, mut jobs) = (surviving(), Jobs::new());
    snapshots.on_file(NOW, at(100));
    snapshots.on_damaged(&mut jobs);
    assert_eq!(jobs, [SnapshotJob::Retain(at(101))]);
    assert_eq!(snapshots.due(NOW, Index(50)), None);
}

#[test]
fn nobody_is_sent_anything_any_more_when_leadership_is_lost() {
    let (mut snapshots, mut jobs) = (in_memory(), Jobs::new());
    snapshots.on_file(NOW, at(100));
    snapshots.on_cancelled(&mut jobs);
    assert_eq!(jobs, [], "there was nothing");
    snapshots.on_wanted(wanted(2, 100), at(90), &mut jobs);
    snapshots.on_wanted(wanted(3, 200), at(90), &mut jobs);
    snapshots.on_cancelled(&mut jobs);
    assert_eq!(jobs.last(), Some(&SnapshotJob::Cancel));
    assert_eq!(snapshots.due(NOW, Index(50)), None, "nobody waits");
}
