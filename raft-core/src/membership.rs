//! Who votes, and what a majority of them is.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use crate::NodeId;

/// The voters of a group. Never empty.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Membership {
    voters: Vec<NodeId>,
}

impl Membership {
    /// A group of these voters, or `None` when there are none.
    pub fn new(voters: impl IntoIterator<Item = NodeId>) -> Option<Self> {
        let voters: BTreeSet<NodeId> = voters.into_iter().collect();
        let voters: Vec<NodeId> = voters.into_iter().collect();
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn group(voters: u64) -> Membership {
        Membership::new((1..=voters).filter_map(NodeId::new)).expect("there are voters")
    }

    #[test]
    fn a_majority_is_more_than_half() {
        let quorums: Vec<usize> = (1..=7).map(|voters| group(voters).quorum()).collect();
        assert_eq!(quorums, [1, 2, 2, 3, 3, 4, 4]);
        assert_eq!(Membership::new([]), None);
    }

    proptest! {
        /// The quorum's value is reached by a majority, and no larger one is.
        #[test]
        fn the_quorum_value_is_the_largest_that_a_majority_reached(
            values in prop::collection::vec(0..20u64, 1..9),
        ) {
            let group = group(values.len() as u64);
            let value = |voter: NodeId| values[voter.get() as usize - 1];
            let found = group.quorum_value(&mut Vec::new(), value);
            prop_assert!(group.has_quorum(|voter| value(voter) >= found));
            prop_assert!(!group.has_quorum(|voter| value(voter) > found));
        }
    }
}
