//! What a node makes of what storage recovered, and of snapshots that come in another order.

use std::sync::Arc;

use raft_core::{
    Config, Effect, Event, Index, Instant, LogPosition, Membership, Raft, RestoreError, Saved,
    Snapshot, Term, TermRuns,
};
use raft_testkit::cluster::node;

fn founders() -> Membership {
    Membership::new([node(1), node(2), node(3)]).expect("there are voters")
}

fn at(index: u64) -> LogPosition {
    LogPosition { term: Term(1), index: Index(index) }
}

/// A log of entries `base + 1..=last`, and a snapshot.
fn saved(base: u64, last: u64, snapshot: u64) -> Saved {
    let mut log = TermRuns::starting_after(at(base));
    log.push(Index(base + 1), Index(last), Term(1));
    Saved { log, snapshot: at(snapshot), ..Saved::first_start(founders()) }
}

fn start(saved: Saved) -> Result<Raft, RestoreError> {
    Raft::restore(Config::new(node(1)), saved, 1, Instant(0))
}

#[test]
fn what_a_snapshot_covers_is_committed_whatever_else_was_forgotten() {
    let mut raft = start(saved(3, 10, 8)).expect("it can start");
    assert_eq!(raft.commit_index(), Index(8));
    // The state machine is empty, and the log does not begin at its beginning.
    let mut effects = Vec::new();
    raft.handle(Instant(0), Event::Timer, &mut effects);
    assert!(effects.contains(&Effect::Install { last: at(8) }), "{effects:?}");
}

#[test]
fn a_snapshot_that_is_overtaken_changes_nothing() {
    let mut raft = start(Saved { applied: Index(10), ..saved(3, 10, 8) }).expect("it can start");
    let taken = |index, raft: &mut Raft| {
        let membership = Arc::new(founders());
        let snapshot = Snapshot { last: at(index), membership, membership_index: Index::ZERO };
        let mut effects = Vec::new();
        raft.handle(Instant(0), Event::SnapshotTaken(snapshot), &mut effects);
        effects.len()
    };
    assert_eq!(taken(5, &mut raft), 0, "an older one");
    assert_eq!(taken(8, &mut raft), 0, "the same one");
    assert_eq!(taken(9, &mut raft), 1, "a newer one is noted");
    assert_eq!(raft.snapshot(), at(9));
}

#[test]
fn a_log_that_ends_too_early_is_no_log() {
    let needed = Saved { applied: Index(11), ..saved(3, 10, 8) };
    let refused = start(needed).expect_err("an entry is missing");
    assert_eq!(refused, RestoreError::LogTooShort { last: Index(10), needed: Index(11) });
    let nobody = Saved { memberships: Vec::new(), ..saved(3, 10, 8) };
    assert_eq!(start(nobody).expect_err("nobody is known"), RestoreError::NoMembership);
    let twice = vec![(Index(4), Arc::new(founders())), (Index(4), Arc::new(founders()))];
    let twice = Saved { memberships: twice, ..saved(3, 10, 8) };
    assert_eq!(start(twice).expect_err("out of order"), RestoreError::NoMembership);
}
