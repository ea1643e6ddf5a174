//! As long as some majority of nodes hear one another, both ways, there is a leader and it
//! commits: see [`partitions`](raft_testkit::cluster::partitions).

// scenario B12

use raft_testkit::cluster::partitions::{Break, survive};

const SEEDS: u64 = if cfg!(debug_assertions) { 25 } else { 1000 };

#[test]
fn a_majority_that_is_connected_makes_progress() {
    for seed in 0..SEEDS {
        survive(seed, Break::BothWays);
    }
}

#[test]
fn so_it_does_where_links_work_one_way() {
    for seed in 0..SEEDS {
        survive(seed, Break::OneWay);
    }
}
