//! The suite for logs: ours passes, and careless ones are told what they break.

use raft_testkit::conformance::log_store::{self, Rule};
use raft_testkit::conformance::wal::WalOnSimDisk;

use crate::careless::log::{BROKEN, Careless, Fault};

#[test]
fn our_log_passes() {
    let checked = log_store::check(&WalOnSimDisk, 0..2);
    let figures = checked.unwrap_or_else(|violation| panic!("{violation}"));
    assert!(figures.power_cuts > 1000, "{figures}");
    // Its owner learns which disk it is, and expects none.
    assert_eq!(figures.left_out.into_iter().collect::<Vec<_>>(), [Rule::Identity]);
}

#[test]
fn a_careful_log_in_memory_passes() {
    let checked = log_store::check(&Careless(Fault::None), 0..5);
    let figures = checked.unwrap_or_else(|violation| panic!("{violation}"));
    assert!(figures.left_out.is_empty(), "{figures}");
}

#[test]
fn careless_logs_are_told_which_rule_they_break() {
    crate::careless::must_break(BROKEN, |fault| {
        log_store::check(&Careless(fault), 0..5).map(drop).map_err(|it| it.to_string())
    });
}
