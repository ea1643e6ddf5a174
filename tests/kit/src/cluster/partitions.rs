//! Networks that are broken for good, but not for everybody: as long as some majority of nodes
//! hear one another, both ways, there is a leader and it commits (Cloudflare, 2020-11-02).
//!
//! ```text
//!   N1 ─── N2 ─── N3        {N2 N3 N4} is a majority of five whose links all work;
//!            ╲   ╱          every other link works, works one way, or does not
//!             N4       N5
//! ```

// scenario B12

use core::time::Duration;

use super::{Cluster, Dice, Options, node};

/// How links are broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Break {
    /// A link works both ways or not at all.
    BothWays,
    /// Some links work one way only.
    OneWay,
}

/// A cluster whose network breaks, and what must go on all the same.
///
/// # Panics
/// When nothing is committed any more, or terms climb, or a leader is deposed that the majority
/// hears (thesis §4.2.3).
pub fn survive(seed: u64, how: Break) {
    let mut dice = Dice::new(seed);
    let nodes = dice.pick(&[3, 4, 5, 5, 7]);
    let mut cluster = Cluster::new(Options { nodes, seed, ..Options::default() });
    cluster.run_for(Duration::from_secs(4));
    let (leader, term) = (cluster.leader(), cluster.term());
    let majority = break_links(&mut cluster, &mut dice, nodes, how);
    cluster.run_for(Duration::from_secs(12));
    let before = (cluster.oracles().ledger().committed(), cluster.term());
    if leader.is_some_and(|leader| majority.contains(&leader.get())) {
        assert_eq!((cluster.leader(), cluster.term()), (leader, term), "seed {seed}: deposed");
    }
    for (number, id) in cluster.ids().into_iter().enumerate() {
        cluster.propose(id, [format!("x{number}")]);
    }
    cluster.run_for(Duration::from_secs(12));
    let after = (cluster.oracles().ledger().committed(), cluster.term());
    assert!(after.0 > before.0, "seed {seed}: {majority:?} commit nothing");
    assert!(after.1.0 <= before.1.0 + 1, "seed {seed}: terms climb from {:?}", before.1);
}

/// Breaks links for good. Returns the majority whose links all work.
fn break_links(cluster: &mut Cluster, dice: &mut Dice, nodes: u64, how: Break) -> Vec<u64> {
    let mut others: Vec<u64> = (1..=nodes).collect();
    let mut majority = Vec::new();
    while (majority.len() as u64) < nodes / 2 + 1 {
        majority.push(others.swap_remove(dice.below(others.len() as u64) as usize));
    }
    for one in 1..=nodes {
        for other in one + 1..=nodes {
            if majority.contains(&one) && majority.contains(&other) {
                continue;
            }
            let (there, back) = (dice.chance(500), dice.chance(500));
            let back = if how == Break::OneWay { back } else { there };
            for (is_cut, link) in [(there, (one, other)), (back, (other, one))] {
                if is_cut {
                    cluster.network().cut((node(link.0), node(link.1)));
                }
            }
        }
    }
    majority
}
