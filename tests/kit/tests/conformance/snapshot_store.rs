//! The suite for snapshots: ours passes, and careless ones are told what they break.

use raft_testkit::conformance::snapshot_store;
use raft_testkit::conformance::wal::WalOnSimDisk;

use crate::careless::snapshots::{BROKEN, Careless, Fault};

#[test]
fn our_snapshots_pass() {
    let checked = snapshot_store::check(&WalOnSimDisk);
    let figures = checked.unwrap_or_else(|violation| panic!("{violation}"));
    assert!(figures.power_cuts > 150, "{figures}");
    assert!(figures.left_out.is_empty(), "{figures}");
}

#[test]
fn careful_snapshots_in_memory_pass() {
    let checked = snapshot_store::check(&Careless(Fault::None));
    let figures = checked.unwrap_or_else(|violation| panic!("{violation}"));
    assert!(figures.left_out.is_empty(), "{figures}");
}

#[test]
fn careless_snapshots_are_told_which_rule_they_break() {
    crate::careless::must_break(BROKEN, |fault| {
        snapshot_store::check(&Careless(fault)).map(drop).map_err(|it| it.to_string())
    });
}
