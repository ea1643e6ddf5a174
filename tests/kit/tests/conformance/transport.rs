//! The suite for transports: careless ones are told what they break. Ours has its test in its own
//! crate.

use raft_testkit::conformance::transport;

use crate::careless::network::{BROKEN, Careless, Fault};

fn check(fault: Fault) -> Result<(), String> {
    let network = Careless::new(fault);
    let checked = transport::check(&network);
    network.end();
    checked.map(drop).map_err(|violation| violation.to_string())
}

#[test]
fn a_careful_network_in_memory_passes() {
    check(Fault::None).unwrap_or_else(|violation| panic!("{violation}"));
}

#[test]
fn careless_networks_are_told_which_rule_they_break() {
    crate::careless::must_break(BROKEN, check);
}
