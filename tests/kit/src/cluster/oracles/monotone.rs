//! **What only grows** (Raft figure 2): terms, commit indexes, applied indexes; and across a
//! restart, whatever of them was durable.

use std::collections::BTreeMap;

use raft_core::{Index, NodeId, Term};

use super::{Member, Step};

#[derive(Clone, Debug, Default)]
pub struct Oracle {
    seen: BTreeMap<NodeId, Seen>,
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    term: Term,
    commit: Index,
    applied: Index,
}

impl Oracle {
    pub(super) fn on_start(&mut self, id: NodeId, member: &Member) {
        let raft = member.raft().expect("it starts");
        let (term, commit) = (raft.term(), raft.commit_index());
        let saved = member.store().durable().hard_state;
        assert!(term >= saved.term, "{id:?} forgot its term");
        assert!(commit >= saved.commit, "{id:?} forgot its commit index");
        let applied = raft.applied_index();
        assert!(commit >= applied, "{id:?} applied what is not committed");
        self.seen.insert(id, Seen { term, commit, applied });
    }

    pub(super) fn observe(&mut self, step: &Step<'_>) {
        let raft = step.raft();
        let seen = self.seen.get_mut(&step.id).expect("it started");
        let (term, commit) = (raft.term(), raft.commit_index());
        let applied = raft.applied_index();
        assert!(term >= seen.term, "{:?} falls from {:?} to {term:?}", step.id, seen.term);
        assert!(commit >= seen.commit, "{:?} takes back a commit", step.id);
        assert!(applied >= seen.applied, "{:?} takes back what it applied", step.id);
        *seen = Seen { term, commit, applied };
    }
}
