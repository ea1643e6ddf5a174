//! What must hold after every event: of one state, and of two successive ones. Checked
//! where [`Config::check_invariants`](crate::Config::check_invariants) says so: in debug builds, and
//! in simulations.

use crate::raft::{Raft, Role};
use crate::{Index, LogPosition, NodeId, RoleKind, Term};

/// What is remembered of a state to judge the next one.
pub(crate) struct Summary {
    term: Term,
    vote: Option<NodeId>,
    role: RoleKind,
    leader: Option<NodeId>,
    last: LogPosition,
    commit: Index,
    commit_term: Option<Term>,
    applied: Index,
    durable: Index,
}

impl Summary {
    pub(crate) fn of(raft: &Raft) -> Self {
        let commit = raft.commit_index();
        Self {
            term: raft.term(),
            vote: raft.vote(),
            role: raft.role(),
            leader: raft.leader(),
            last: raft.last(),
            commit,
            commit_term: raft.term_at(commit),
            applied: raft.applied_index(),
            durable: raft.durable_index(),
        }
    }

    /// Checks the state itself, and that it may follow the one remembered.
    pub(crate) fn check(&self, after: &Raft) {
        self.check_state(after);
        self.check_step(after);
    }

    fn check_state(&self, raft: &Raft) {
        let (node, role) = (&raft.node, &raft.role);
        node.check();
        if let Role::Leader(leader) = role {
            leader.check(node);
            assert_eq!(node.vote, Some(node.id()), "a leader voted for itself");
        }
    }

    fn check_step(&self, raft: &Raft) {
        assert!(raft.term() >= self.term, "terms never fall");
        assert!(raft.commit_index() >= self.commit, "the commit index never falls");
        assert!(raft.applied_index() >= self.applied, "the applied index never falls");
        let covered = self.commit <= raft.base().index;
        let kept = raft.term_at(self.commit) == self.commit_term;
        assert!(covered || kept, "what is committed stays");
        if raft.term() > self.term {
            return;
        }
        if self.vote.is_some() {
            assert_eq!(raft.vote(), self.vote, "one vote a term (Raft §5.2)");
        }
        if let (Some(old), Some(new)) = (self.leader, raft.leader()) {
            assert_eq!(old, new, "one leader a term (Raft §5.2, Election Safety)");
        }
        if self.role == RoleKind::Leader && raft.role() == RoleKind::Leader {
            assert!(raft.last() >= self.last, "a leader only appends (Raft §5.3)");
            assert!(raft.durable_index() >= self.durable, "what is durable stays");
        }
    }
}
