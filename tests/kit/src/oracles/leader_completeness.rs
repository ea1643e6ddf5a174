//! **Leader Completeness** (Raft §5.4, figure 3): if an entry is committed in a given term, it is
//! present in the logs of the leaders of all higher terms.

use std::collections::BTreeMap;

use raft_core::{Index, NodeId, RoleKind, Term};

use super::{Ledger, Seen, Step};

#[derive(Clone, Debug, Default)]
pub struct Oracle {
    /// The term in which each node was last seen to lead.
    seen: BTreeMap<NodeId, Term>,
}

impl Oracle {
    pub(super) fn observe(&mut self, ledger: &Ledger, step: &Step<'_, impl Seen>) {
        let raft = step.raft;
        if raft.role() != RoleKind::Leader || self.seen.get(&step.id) == Some(&raft.term()) {
            return;
        }
        self.seen.insert(step.id, raft.term());
        for index in (1..=ledger.committed().0).map(Index) {
            if ledger.committed_in(index) >= Some(raft.term()) {
                break; // Only the leaders of higher terms must have it.
            }
            if index < raft.base().index {
                continue; // A snapshot covers it.
            }
            assert_eq!(
                raft.term_at(index),
                ledger.committed_term(index),
                "Leader Completeness: {:?} leads {:?} without {index:?}",
                step.id,
                raft.term()
            );
        }
    }
}
