//! `kontiki bench sessions` as a user runs it, in small: sessions outlive the cluster's leader.

use serde_json::Value;

use crate::kit::{base_port, command, run_to_end, turn};

/// Nobody renews for as long as nobody leads, and no lease may end meanwhile.
#[test]
fn no_session_is_lost_when_the_leader_is_killed() {
    turn::take();
    let port = format!("--base-port={}", base_port());
    // Time enough for an election on a busy machine.
    let small = ["--sessions=40", "--ttl=12", "--clients=3", "--steady=5", "--after=20"];
    let output = run_to_end(
        command().args(["bench", "sessions", "--systems=kontiki", "--json", &port]).args(small),
    );
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let results: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    let result = &results[0];
    for (count, expected) in [("sessions", 40), ("lost", 0), ("keys_gone", 0)] {
        assert_eq!(result[count], expected, "{result:#}");
    }
    // Each session was renewed some times, and none far apart.
    assert!(result["renewals_per_s"].as_f64() > Some(40.0 / 12.0), "{result:#}");
    assert!(result["longest_pause_s"].as_f64() < Some(12.0), "{result:#}");
}
