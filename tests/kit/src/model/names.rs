//! States that differ only in the names of the nodes count as one.

use super::intern::scramble;
use super::space::NODES_MAX;
use super::text::{NAMELESS, Renaming, SAME};

/// The renamings that count.
#[derive(Debug)]
pub(super) struct Names {
    /// All that count, and behind them the one that takes all names away.
    all: Vec<Renaming>,
    /// Of each that counts, which node gets each name.
    owners: Vec<Vec<usize>>,
}

impl Names {
    /// Of a group of `nodes`, the first `free` of which can be renamed.
    pub(super) fn new(nodes: usize, free: u8) -> Self {
        let mut all = renamings(free);
        let owner = |names: &Renaming, name: usize| {
            (0..nodes).find(|node| usize::from(names[node + 1]) == name + 1)
        };
        let owners = |names| (0..nodes).filter_map(|name| owner(names, name)).collect();
        let owners = all.iter().map(owners).collect();
        all.push(NAMELESS);
        Self { all, owners }
    }

    /// How many fingerprints everything has.
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn all(&self) -> &[Renaming] {
        &self.all
    }

    /// The least fingerprint of a state under the renamings which sort the nodes by what they are
    /// without their names. Of each node, `nodes` has the fingerprints of itself and its inbox.
    pub(super) fn fingerprint(
        &self,
        nodes: &[&[u64]; 2 * NODES_MAX],
        record: &[u64],
        spent: u64,
    ) -> u64 {
        let of = |node: usize, at: usize| {
            scramble(nodes[2 * node][at].wrapping_add(nodes[2 * node + 1][at].rotate_left(32)))
        };
        let nameless = self.all.len() - 1;
        let mut known = [0; NODES_MAX];
        for &node in &self.owners[0] {
            known[node] = of(node, nameless);
        }
        let mut least = u64::MAX;
        for (at, owners) in self.owners.iter().enumerate() {
            if nameless > 1 && !owners.is_sorted_by_key(|owner| known[*owner]) {
                continue;
            }
            let mut print = scramble(record[at]).wrapping_add(spent);
            for &owner in owners {
                print = scramble(print ^ of(owner, at));
            }
            least = least.min(print);
        }
        least
    }
}

/// All ways to give the first `count` nodes each other's names; the first one changes nothing.
fn renamings(count: u8) -> Vec<Renaming> {
    let mut all = vec![SAME];
    for at in 1..count {
        let known = all.clone();
        for other in at + 1..=count {
            for names in &known {
                let mut names = *names;
                names.swap(usize::from(at), usize::from(other));
                all.push(names);
            }
        }
    }
    all
}
