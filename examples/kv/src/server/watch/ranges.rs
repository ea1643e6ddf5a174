//! Ranges of keys, and who watches each: a search tree by start, in which every node knows how far
//! the ranges below it reach. A key finds the ranges that hold it, and passes all others by.
//!
//! ```text
//!             [d, f)  reach z          Balanced by chance (a treap): a node's weight is drawn, and
//!            ╱      ╲                  none is heavier than its parent. Equal ranges are one node.
//!   [b, z)  reach z   [e, g)  reach g
//! ```

use std::cmp::Ordering;
use std::sync::Arc;

use slab::Slab;

use super::index::{Slot, Watchers};

/// A key, shared by all that is said about it.
pub(super) type Key = Arc<[u8]>;

/// Where a range ends; the last variant is after every key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum End {
    Before(Key),
    Never,
}

impl End {
    fn is_after(&self, key: &[u8]) -> bool {
        match self {
            Self::Before(end) => key < &end[..],
            Self::Never => true,
        }
    }
}

struct Node {
    start: Key,
    end: End,
    /// The last end in this part of the tree.
    reach: End,
    weight: u64,
    below: [Option<usize>; 2],
    watchers: Watchers,
}

/// The tree.
pub(super) struct Ranges {
    nodes: Slab<Node>,
    root: Option<usize>,
    drawn: u64,
}

impl Ranges {
    pub fn new() -> Self {
        Self { nodes: Slab::new(), root: None, drawn: 0 }
    }

    /// Those who watch just this range, if there are any.
    pub fn watchers(&mut self, start: &[u8], end: &End) -> Option<&mut Watchers> {
        let mut at = self.root;
        while let Some(node) = at {
            at = match self.compare(start, end, node) {
                Ordering::Less => self.nodes[node].below[0],
                Ordering::Greater => self.nodes[node].below[1],
                Ordering::Equal => return Some(&mut self.nodes[node].watchers),
            };
        }
        None
    }

    /// Adds a range that is not there yet.
    pub fn add(&mut self, start: Key, end: End, watchers: Watchers) {
        self.drawn += 1;
        let (reach, weight) = (end.clone(), mix(self.drawn));
        let new = Node { start, end, reach, weight, below: [None; 2], watchers };
        let new = self.nodes.insert(new);
        self.root = Some(self.add_below(self.root, new));
    }

    /// Removes a range that is there.
    pub fn remove(&mut self, start: &[u8], end: &End) {
        self.root = self.remove_below(self.root, start, end);
    }

    /// Calls `found` with all who watch a range that holds this key.
    pub fn holding(&self, key: &[u8], found: &mut impl FnMut(Slot)) {
        self.holding_below(self.root, key, found);
    }

    fn holding_below(&self, at: Option<usize>, key: &[u8], found: &mut impl FnMut(Slot)) {
        let Some(node) = at.map(|at| &self.nodes[at]).filter(|node| node.reach.is_after(key))
        else {
            return;
        };
        self.holding_below(node.below[0], key, found);
        if &node.start[..] <= key {
            if node.end.is_after(key) {
                node.watchers.iter().for_each(&mut *found);
            }
            self.holding_below(node.below[1], key, found);
        }
    }

    fn add_below(&mut self, at: Option<usize>, new: usize) -> usize {
        let Some(at) = at else { return new };
        let side = self.side(new, at);
        if self.nodes[new].weight > self.nodes[at].weight {
            self.nodes[new].below = self.split(Some(at), new);
            return self.settle(new);
        }
        self.nodes[at].below[side] = Some(self.add_below(self.nodes[at].below[side], new));
        self.settle(at)
    }

    /// What is before `new`, and what is after it.
    fn split(&mut self, at: Option<usize>, new: usize) -> [Option<usize>; 2] {
        let Some(at) = at else { return [None; 2] };
        let side = self.side(new, at);
        let mut parts = self.split(self.nodes[at].below[side], new);
        self.nodes[at].below[side] = parts[1 - side];
        parts[1 - side] = Some(self.settle(at));
        parts
    }

    fn remove_below(&mut self, at: Option<usize>, start: &[u8], end: &End) -> Option<usize> {
        let at = at?;
        let side = match self.compare(start, end, at) {
            Ordering::Less => 0,
            Ordering::Greater => 1,
            Ordering::Equal => {
                let [before, after] = self.nodes.remove(at).below;
                return self.join(before, after);
            }
        };
        self.nodes[at].below[side] = self.remove_below(self.nodes[at].below[side], start, end);
        Some(self.settle(at))
    }

    /// One tree of two, the first of which is before the other.
    fn join(&mut self, before: Option<usize>, after: Option<usize>) -> Option<usize> {
        let (Some(first), Some(second)) = (before, after) else { return before.or(after) };
        let top = if self.nodes[first].weight > self.nodes[second].weight {
            self.nodes[first].below[1] = self.join(self.nodes[first].below[1], after);
            first
        } else {
            self.nodes[second].below[0] = self.join(before, self.nodes[second].below[0]);
            second
        };
        Some(self.settle(top))
    }

    /// Sees again how far this node's part reaches.
    fn settle(&mut self, at: usize) -> usize {
        let below = self.nodes[at].below.iter().flatten().map(|below| &self.nodes[*below].reach);
        let reach = below.chain([&self.nodes[at].end]).max().cloned();
        if let Some(reach) = reach {
            self.nodes[at].reach = reach;
        }
        at
    }

    /// On which side of `at` this node belongs.
    fn side(&self, new: usize, at: usize) -> usize {
        let Node { start, end, .. } = &self.nodes[new];
        usize::from(self.compare(start, end, at) == Ordering::Greater)
    }

    fn compare(&self, start: &[u8], end: &End, at: usize) -> Ordering {
        let node = &self.nodes[at];
        start.cmp(&node.start[..]).then_with(|| end.cmp(&node.end))
    }
}

/// A number without any order, from a counter.
fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 31)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let number = (number ^ (number >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    number ^ (number >> 32)
}
