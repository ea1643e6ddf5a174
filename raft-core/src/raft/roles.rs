//! From one role to another.

use alloc::boxed::Box;

use super::{Raft, Role};
use crate::candidate::{Candidate, Cause, PreCandidate};
use crate::follower::Follower;
use crate::leader::Leader;
use crate::node::Node;
use crate::{Instant, NodeId, seeded};

impl Raft {
    /// When this node stands next, if it hears of no leader; a leader does not.
    pub(super) fn patience(&self) -> Option<Instant> {
        match &self.role {
            Role::Follower(role) => Some(role.election_at.0),
            Role::PreCandidate(role) => Some(role.retry_at.0),
            Role::Candidate(role) => Some(role.retry_at.0),
            Role::Leader(_) => None,
        }
    }

    /// Whether a leader lives as far as this node knows: it hears one, or is one whose quorum
    /// answers.
    pub(super) fn hears_leader(&self) -> bool {
        let helps = seeded!(NoStickiness) || seeded!(VotersIgnoreLeases);
        self.node.config.check_quorum
            && !helps
            && match &self.role {
                Role::Follower(role) => role.hears_leader(&self.node),
                Role::PreCandidate(_) | Role::Candidate(_) => false,
                Role::Leader(_) => true,
            }
    }

    /// The follower of `leader` that this node is, or becomes: a leader of the current term
    /// ends every candidacy in it (Raft §5.2).
    pub(super) fn follow(&mut self, leader: NodeId) -> Option<(&mut Follower, &mut Node)> {
        if matches!(self.role, Role::PreCandidate(_) | Role::Candidate(_)) {
            self.become_follower(Some(leader));
        }
        match &mut self.role {
            Role::Follower(role) => Some((role, &mut self.node)),
            _ => {
                debug_assert!(false, "{leader:?} and {:?} both lead", self.node.id());
                None
            }
        }
    }

    /// The leader that this node is.
    pub(super) fn lead(&mut self) -> Option<(&mut Leader, &mut Node)> {
        match &mut self.role {
            Role::Leader(role) => Some((role, &mut self.node)),
            Role::Follower(_) | Role::PreCandidate(_) | Role::Candidate(_) => None,
        }
    }

    pub(super) fn stand(&mut self) {
        if self.node.config.pre_vote {
            self.become_pre_candidate();
        } else {
            self.become_candidate(Cause::Timeout);
        }
    }

    pub(super) fn try_lead(&mut self) {
        if matches!(&self.role, Role::Candidate(role) if role.wins(&self.node)) {
            self.role = Role::Leader(Box::new(Leader::new(&mut self.node)));
        }
    }

    pub(super) fn become_follower(&mut self, leader: Option<NodeId>) {
        self.leave();
        if seeded!(VoteClearedAtEqualTerm) {
            self.node.vote = None;
        }
        self.role = Role::Follower(Follower::new(&mut self.node, leader));
    }

    pub(super) fn become_pre_candidate(&mut self) {
        self.leave();
        let role = PreCandidate::new(&mut self.node);
        let wins = role.wins(&self.node);
        self.role = Role::PreCandidate(role);
        if wins {
            self.become_candidate(Cause::Timeout); // A single voter needs nobody's word.
        }
    }

    pub(super) fn become_candidate(&mut self, cause: Cause) {
        self.leave();
        self.role = Role::Candidate(Candidate::new(&mut self.node, cause));
    }

    pub(super) fn leave(&mut self) {
        match &mut self.role {
            Role::Follower(role) => role.on_leave(&mut self.node),
            Role::PreCandidate(_) => {}
            Role::Candidate(_) => self.node.withdraw_candidacy(),
            Role::Leader(role) => role.on_leave(&mut self.node),
        }
    }
}
