//! **One vote a term, for life** (Raft §5.2): a node grants its vote to at most one candidate in
//! a term, restarts included. A candidacy is a vote for oneself.

use std::collections::BTreeMap;

use raft_core::{Effect, Envelope, Message, NodeId, RoleKind, Term};

use super::{Seen, Step};

#[derive(Clone, Debug, Default)]
pub struct Oracle {
    votes: BTreeMap<(NodeId, Term), NodeId>,
}

impl Oracle {
    pub(super) fn observe(&mut self, step: &Step<'_, impl Seen>) {
        for effect in step.effects {
            let Effect::Send(Envelope { to, term, message, .. }) = effect else { continue };
            match message {
                Message::VoteReply { granted: true } => self.note(step.id, *term, *to),
                Message::Vote { .. } => self.note(step.id, *term, step.id),
                _ => {}
            }
        }
        let raft = step.raft;
        if raft.role() == RoleKind::Leader {
            self.note(step.id, raft.term(), step.id);
        }
    }

    /// The node has another disk: it is another voter, whom nobody must count as the one it was.
    pub(super) fn on_new_disk(&mut self, id: NodeId) {
        self.votes.retain(|(voter, _), _| *voter != id);
    }

    fn note(&mut self, voter: NodeId, term: Term, candidate: NodeId) {
        let known = *self.votes.entry((voter, term)).or_insert(candidate);
        assert_eq!(known, candidate, "{voter:?} votes twice in {term:?}");
    }
}
