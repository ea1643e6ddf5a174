//! The model checker: small searches find nothing wrong with the shipped core, and find at once
//! what a disk that breaks its word leads to.

use std::process::Command;

use raft_testkit::model::{Bounds, Disks, Opening, Violation, check, configurations};

fn led() -> Bounds {
    Bounds { opening: Opening::Led, ..Bounds::default() }
}

/// The bounds are small enough to be exhausted, and the rules hold in all of it.
fn holds(bounds: Bounds) -> u64 {
    let figures = check(&bounds, 1_000_000).unwrap_or_else(|violation| panic!("{violation}"));
    assert!(figures.is_exhausted, "{bounds}: {figures}");
    figures.states
}

fn breaks(bounds: Bounds) -> Violation {
    let found = check(&bounds, 1_000_000);
    *found.expect_err("a rule is broken")
}

#[test]
fn elections_are_safe() {
    let states = holds(Bounds { last_max: 1, ..Bounds::default() });
    assert!(states > 1_000, "{states} states are no search");
}

#[test]
fn entries_are_safe_while_another_leader_is_elected() {
    holds(Bounds { last_max: 3, proposals: 1, timeouts: Some(1), ..led() });
}

#[test]
fn writes_that_take_time_are_safe_in_crashes() {
    holds(Bounds { term_max: 1, last_max: 1, stalls: 1, crashes: 1, ..Bounds::default() });
}

#[test]
fn a_leader_that_is_heard_no_more_is_deposed_safely() {
    let polite = Bounds { pre_vote: true, check_quorum: true, ..led() };
    holds(Bounds { silence: true, timeouts: Some(1), ..polite });
}

#[test]
fn three_voters_become_two() {
    let changes = configurations().into_iter().find(|it| it.name == "removal");
    let changes = changes.expect("there is such a search").bounds.changes;
    holds(Bounds { term_max: 1, last_max: 4, changes, symmetry: false, ..led() });
}

#[test]
fn names_do_not_matter() {
    let bounds = Bounds { last_max: 1, ..Bounds::default() };
    let merged = check(&bounds, 1_000_000).expect("no rule is broken");
    let all = check(&Bounds { symmetry: false, ..bounds }, 1_000_000).expect("no rule is broken");
    assert_eq!(merged.depth, all.depth, "nothing is farther away under another name");
    assert!(5 * merged.states < all.states && all.states <= 6 * merged.states, "{merged}\n{all}");
}

#[test]
fn a_disk_that_forgets_votes_leads_to_two_leaders() {
    let bounds = Bounds { disks: Disks::ForgetVotes, crashes: 1, last_max: 1, ..Bounds::default() };
    let violation = breaks(bounds);
    assert!(violation.rule.contains("two leaders of t1"), "{violation}");
    // Two stand, the third votes for one, forgets it, and votes for the other.
    assert_eq!(violation.story.len(), 7, "a shortest story:\n{violation}");
    assert!(violation.story.iter().any(|line| line.contains("crashes")), "{violation}");
}

#[test]
fn a_disk_that_lies_about_syncs_is_found_at_once() {
    let violation = breaks(Bounds { disks: Disks::LieAboutSyncs, ..Bounds::default() });
    assert!(violation.rule.contains("before it is durable"), "{violation}");
    assert_eq!(violation.story.len(), 1, "{violation}");
}

#[test]
fn a_search_stops_where_it_is_told() {
    let figures = check(&Bounds::default(), 50).expect("no rule is broken");
    assert!(!figures.is_exhausted && (50..100).contains(&figures.states), "{figures}");
}

#[test]
fn a_search_is_the_same_in_every_process() {
    let one = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_raft-testkit"));
        let output = command.args(["model", "--config", "replication", "--states-max", "2000"]);
        let output = output.output().expect("the testkit runs");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("it speaks UTF-8")
    };
    let (first, second) = (one(), one());
    assert!(first.contains("digest"), "{first}");
    assert_eq!(first, second);
}

#[test]
fn a_search_that_is_not_there_is_refused() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_raft-testkit"));
    let output = command.args(["model", "--config", "everything"]).output().expect("it runs");
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("there is no search everything; there are "), "{error}");
}
