//! **Election Safety** (Raft §5.2, figure 3): at most one leader is elected in a given term.

use std::collections::BTreeMap;

use raft_core::{NodeId, RoleKind, Term};

use super::{Seen, Step};

#[derive(Clone, Debug, Default)]
pub struct Oracle {
    leaders: BTreeMap<Term, NodeId>,
}

impl Oracle {
    pub(super) fn observe(&mut self, step: &Step<'_, impl Seen>) {
        let raft = step.raft;
        if raft.role() == RoleKind::Leader {
            let leader = *self.leaders.entry(raft.term()).or_insert(step.id);
            assert_eq!(leader, step.id, "Election Safety: two leaders of {:?}", raft.term());
        }
    }
}
