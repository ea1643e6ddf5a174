//! Who votes, and what a majority of them is.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use crate::NodeId;

/// The voters of a group. Never empty.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Membership {
    voters: BTreeSet<NodeId>,
}

impl Membership {
    /// A group of these voters, or `None` when there are none.
    pub fn new(voters: impl IntoIterator<Item = NodeId>) -> Option<Self> {
        let voters: BTreeSet<NodeId> = voters.into_iter().collect();
        (!voters.is_empty()).then_some(Self { voters })
    }

    /// The voters, ascending.
    pub fn voters(&self) -> impl ExactSizeIterator<Item = NodeId> + '_ {
        self.voters.iter().copied()
    }

    /// Whether `node` votes.
    pub fn is_voter(&self, node: NodeId) -> bool {
        self.voters.contains(&node)
    }

    /// How many voters make a majority.
    pub fn quorum(&self) -> usize {
        self.voters.len() / 2 + 1
    }

    /// Whether `agrees` holds for a majority.
    pub fn has_quorum(&self, agrees: impl Fn(NodeId) -> bool) -> bool {
        self.voters().filter(|&voter| agrees(voter)).count() >= self.quorum()
    }

    /// The largest value that a majority has reached: with match indexes, what is committed
    /// (Raft §5.3); with times, since when a quorum has been heard. `scratch` is only space.
    pub(crate) fn quorum_value<T: Ord + Copy>(
        &self,
        scratch: &mut Vec<T>,
        value: impl Fn(NodeId) -> T,
    ) -> T {
        scratch.clear();
        scratch.extend(self.voters().map(value));
        scratch.sort_unstable();
        scratch[scratch.len() - self.quorum()]
    }
}
