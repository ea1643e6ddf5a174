//! The configurations in snapshot and log. The newest one is in force, committed or not
//! (Raft §6), so it is found anew whenever the log is cut or replaced.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::{Index, Membership};

/// Invariants: never empty; indexes ascend.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Configurations(Vec<(Index, Arc<Membership>)>);

impl Configurations {
    /// What storage recovered; `None` where it is empty or out of order.
    pub(crate) fn new(recovered: Vec<(Index, Arc<Membership>)>) -> Option<Self> {
        let ascends = recovered.is_sorted_by(|(one, _), (other, _)| one < other);
        (ascends && !recovered.is_empty()).then_some(Self(recovered))
    }

    /// The one in force, and its index.
    pub(crate) fn newest(&self) -> (Index, &Arc<Membership>) {
        let (index, membership) = &self.0[self.0.len() - 1];
        (*index, membership)
    }

    /// The one in force at `index`, and its own index; `None` before the oldest.
    pub(crate) fn at(&self, index: Index) -> Option<(Index, &Arc<Membership>)> {
        let after = self.0.partition_point(|(start, _)| *start <= index);
        let (start, membership) = &self.0[after.checked_sub(1)?];
        Some((*start, membership))
    }

    /// Another one, behind all others.
    pub(crate) fn push(&mut self, index: Index, membership: Arc<Membership>) {
        assert!(index > self.newest().0, "configurations ascend along the log");
        self.0.push((index, membership));
    }

    /// The log was cut behind `last`.
    pub(crate) fn truncate(&mut self, last: Index) {
        self.0.retain(|(index, _)| *index <= last);
        assert!(!self.0.is_empty(), "what is committed stays");
    }

    /// A snapshot covers everything up to `last`: only the one in force there is kept of those.
    pub(crate) fn compact(&mut self, last: Index) {
        let after = self.0.partition_point(|(start, _)| *start <= last);
        self.0.drain(..after.saturating_sub(1));
    }

    /// A snapshot has taken the place of the whole log.
    pub(crate) fn reset(&mut self, index: Index, membership: Arc<Membership>) {
        self.0.clear();
        self.0.push((index, membership));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NodeId;

    /// Groups of one, two and three voters, from these indexes on.
    fn configurations(starts: [u64; 3]) -> Configurations {
        let group = |voters| Membership::new((1..=voters).filter_map(NodeId::new));
        let group = |(start, voters)| (Index(start), Arc::new(group(voters).expect("voters")));
        Configurations::new(starts.into_iter().zip(1..).map(group).collect()).expect("they ascend")
    }

    #[test]
    fn below_a_snapshot_only_the_one_in_force_is_kept() {
        for (last, oldest, kept) in
            [(0, 0, 3), (3, 0, 3), (4, 4, 2), (8, 4, 2), (9, 9, 1), (99, 9, 1)]
        {
            let mut all = configurations([0, 4, 9]);
            let in_force = all.at(Index(last)).map(|(start, it)| (start, Arc::clone(it)));
            all.compact(Index(last));
            assert_eq!(all.at(Index(last)).map(|(start, it)| (start, Arc::clone(it))), in_force);
            assert_eq!((all.0[0].0, all.0.len()), (Index(oldest), kept), "a snapshot of {last}");
        }
    }

    #[test]
    fn they_ascend_and_there_is_one() {
        assert_eq!(Configurations::new(Vec::new()), None);
        let mut twice = configurations([0, 4, 9]).0;
        twice[1].0 = Index(9);
        assert_eq!(Configurations::new(twice), None);
    }
}
