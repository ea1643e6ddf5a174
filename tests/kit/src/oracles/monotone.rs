//! **What only grows** (Raft figure 2): terms, commit indexes, applied indexes; and across a
//! restart, whatever of them was durable.

use std::collections::BTreeMap;

use raft_core::{Index, NodeId, Raft, Term};

use super::{Seen, Step};

#[derive(Clone, Debug, Default)]
pub struct Oracle {
    seen: BTreeMap<NodeId, Mark>,
}

#[derive(Clone, Copy, Debug)]
struct Mark {
    term: Term,
    commit: Index,
    applied: Index,
}

impl Oracle {
    pub(super) fn on_start(&mut self, id: NodeId, raft: &Raft, member: &impl Seen) {
        let (term, commit) = (raft.term(), raft.commit_index());
        let (image, applied) = (member.durable(), raft.applied_index());
        let saved = image.hard_state;
        assert!(term >= saved.term, "{id:?} forgot its term");
        // A damaged log may end before what was committed.
        let is_whole = image.claim().is_none();
        assert!(commit >= saved.commit || !is_whole, "{id:?} forgot its commit index");
        assert!(commit >= applied || !is_whole, "{id:?} applied what is not committed");
        assert_eq!(raft.claim(), image.claim(), "{id:?} does not know what it lost");
        self.seen.insert(id, Mark { term, commit, applied });
    }

    pub(super) fn observe(&mut self, step: &Step<'_, impl Seen>) {
        let raft = step.raft;
        let seen = self.seen.get_mut(&step.id).expect("it started");
        let (term, commit) = (raft.term(), raft.commit_index());
        let applied = raft.applied_index();
        assert!(term >= seen.term, "{:?} falls from {:?} to {term:?}", step.id, seen.term);
        assert!(commit >= seen.commit, "{:?} takes back a commit", step.id);
        assert!(applied >= seen.applied, "{:?} takes back what it applied", step.id);
        *seen = Mark { term, commit, applied };
    }
}
