//! A change of the members is finished by whoever leads next, at whatever step its leader fell
//! (Raft §6): no group stays in a joint phase, and nobody is left who thinks otherwise.
//!
//! ```text
//!   asked ─ learners ─ joint ─ committed ─ new ─ committed ─ handed over
//!     ✝        ✝         ✝         ✝         ✝        ✝          ✝       the leader falls here,
//!                                                                        and comes back, or not
//! ```

// scenario B45

use std::time::Duration;

use raft_core::{Change, ChangeSet, NewMember, NodeId};
use raft_testkit::cluster::{Cluster, Dice, Options, node};

const CHANGES: [fn() -> Vec<Change>; 5] = [
    || vec![add(4)],
    || vec![add(4), add(5), Change::Remove(node(2)), Change::Remove(node(3))],
    || vec![add(4), Change::Remove(node(1))],
    || vec![Change::Remove(node(1))],
    || vec![Change::Demote(node(1)), Change::Demote(node(2))],
];

fn add(number: u64) -> Change {
    Change::AddVoter(NewMember { id: node(number), address: String::new() })
}

/// What becomes of the leader that fell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Afterwards {
    Returns,
    StaysAway,
}

/// The leader falls `steps` steps after it was asked, and whoever follows it a few steps after
/// the next change of leaders.
fn fall(changes: Vec<Change>, steps: u64, afterwards: Afterwards) {
    let mut cluster = Cluster::new(Options { seed: steps, ..Options::default() });
    let mut dice = Dice::new(steps);
    cluster.campaign(node(1));
    cluster.run_for(Duration::from_millis(300));
    assert_eq!(cluster.leader(), Some(node(1)), "it leads");
    cluster.add_node(node(4));
    cluster.add_node(node(5));
    let request = cluster.change(node(1), ChangeSet { changes, ..ChangeSet::default() });
    request.expect("it is up");
    let limit = cluster.clock() + Duration::from_secs(1);
    for _ in 0..steps {
        cluster.step(limit);
    }
    let fallen = cluster.leader().unwrap_or(node(1)); // Nobody leads while it hands over.
    cluster.crash(fallen, dice.below(3) as usize);
    cluster.run_for(Duration::from_secs(6));
    if afterwards == Afterwards::Returns {
        cluster.restart(fallen);
    } else if is_needed(&cluster, fallen) {
        cluster.restart(fallen); // Two of two.
    }
    cluster.run_for(Duration::from_secs(6));
    assert_over(&mut cluster, steps);
}

/// Whether the others have no leader without it.
fn is_needed(cluster: &Cluster, fallen: NodeId) -> bool {
    cluster.leader().is_none_or(|leader| leader == fallen)
}

fn assert_over(cluster: &mut Cluster, steps: u64) {
    let leader = cluster.leader().unwrap_or_else(|| panic!("nobody leads after {steps} steps"));
    let raft = cluster.member(leader).raft().expect("it leads");
    let members = raft.membership().clone();
    assert!(!members.is_joint(), "joint for ever after {steps} steps: {members:?}");
    assert!(members.is_voter(leader), "{leader:?} leads and does not vote");
    let floor = raft.commit_index();
    cluster.propose(leader, ["end"]);
    cluster.run_for(Duration::from_millis(500));
    let up = members.members().iter().filter_map(|it| cluster.member(it.id).raft());
    for raft in up {
        assert!(raft.commit_index() > floor, "{:?} goes on after {steps} steps", raft.id());
        assert_eq!(raft.membership(), &members, "{:?} knows of it", raft.id());
    }
}

const STEPS: u64 = if cfg!(debug_assertions) { 60 } else { 250 };

#[test]
fn whoever_leads_next_finishes_a_change() {
    for changes in CHANGES {
        for steps in 0..STEPS {
            fall(changes(), steps, Afterwards::StaysAway);
            fall(changes(), steps, Afterwards::Returns);
        }
    }
}
