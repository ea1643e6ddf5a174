//! Handing leadership over (thesis §3.10): the log stands still, the other one catches up, and is
//! told not to wait for its timeout. Whatever goes wrong, the deadline ends it.

use super::Leader;
use crate::node::{HandingOver, Node};
use crate::untracked::Untracked;
use crate::{
    Effect, Instant, Message, NodeId, Refusal, RequestId, Requests, TransferError, seeded,
};

/// How many election timeouts pass before a member of higher priority is tried again.
const PREFER_AGAIN: u32 = 10;

/// A transfer under way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Transfer {
    pub(super) to: NodeId,
    /// Who asked; nobody, where the leader hands over by itself.
    request: Option<RequestId>,
    pub(super) until: Untracked<Instant>,
    /// The other one was told to stand.
    told: bool,
}

impl Transfer {
    fn fail(self, node: &mut Node) {
        if let Some(request) = self.request {
            let reason = Refusal::Transfer(TransferError::Failed(self.to));
            node.refuse(Requests::one(request), reason);
        }
    }

    /// Leadership is lost in the middle of it: to whom, is not known yet.
    pub(super) fn leave_open(self, node: &mut Node) {
        if self.until.0 <= node.now.0 {
            return self.fail(node);
        }
        if let Some(request) = self.request {
            node.handing_over = Some(HandingOver { request, to: self.to, until: self.until });
        }
    }
}

impl Leader {
    /// Somebody wants `to` to lead, or the best there is.
    pub(crate) fn on_transfer(&mut self, node: &mut Node, request: RequestId, to: Option<NodeId>) {
        let chosen = match to {
            _ if self.transfer.is_some() => Err(TransferError::InProgress),
            Some(to) if node.membership.member(to).is_none() => {
                Err(TransferError::UnknownMember(to))
            }
            Some(to) if !node.membership.is_voter(to) => Err(TransferError::NotVoter(to)),
            // All writes would wait for it, and in vain.
            Some(to) if to != node.id() && !self.could_lead(node, to) => {
                Err(TransferError::Lags(to))
            }
            Some(to) => Ok(to),
            None => self.best(node).ok_or(TransferError::NobodyElse),
        };
        match chosen {
            Ok(to) if to == node.id() => {
                node.effects.push(Effect::Transferred { request, leader: to });
            }
            Ok(to) => self.hand_over(node, to, Some(request)),
            Err(reason) => node.refuse(Requests::one(request), Refusal::Transfer(reason)),
        }
    }

    /// To whom leadership is being handed over.
    pub(crate) fn transferring_to(&self) -> Option<NodeId> {
        self.transfer.as_ref().map(|transfer| transfer.to)
    }

    pub(super) fn hand_over(&mut self, node: &mut Node, to: NodeId, request: Option<RequestId>) {
        let until = Untracked(node.now.0 + node.config.election_timeout);
        self.transfer = Some(Transfer { to, request, until, told: false });
        self.try_hand_over(node);
    }

    /// Tells the other one to stand, once it holds the whole log.
    pub(super) fn try_hand_over(&mut self, node: &mut Node) {
        let Some(transfer) = &mut self.transfer else { return };
        let matched = self.peers.get(&transfer.to).map(|progress| progress.matched);
        if !transfer.told && matched == Some(node.log.last_index()) {
            transfer.told = true;
            let to = transfer.to;
            self.tell_to_stand(node, to);
        }
    }

    /// From here on the other one may lead at any moment, so that no lease holds any more, not
    /// even when nothing comes of it: the message may be on its way for long.
    fn tell_to_stand(&mut self, node: &mut Node, to: NodeId) {
        self.lease_is_void = !seeded!(LeaseSurvivesTransfer);
        node.send(to, Message::TimeoutNow);
    }

    /// Ends a transfer whose time is up; the members do not change while it lasts. Returns whether
    /// this node may go on leading: one that is no voter any more only waited for it.
    pub(super) fn tend_transfer(&mut self, node: &mut Node) -> bool {
        let is_over = |transfer: &mut Transfer| transfer.until.0 <= node.now.0;
        let Some(transfer) = self.transfer.take_if(is_over) else { return true };
        transfer.fail(node);
        node.membership.is_voter(node.id())
    }

    /// This node can lead no more, and has no time to see another one catch up.
    pub(crate) fn abdicate(&mut self, node: &mut Node) {
        if let Some(best) = self.best(node) {
            self.tell_to_stand(node, best);
        }
    }

    /// Who is to lead next: of the other voters that are heard and keep up, the one of the highest priority,
    /// and among equals the one that holds most.
    pub(super) fn best(&self, node: &Node) -> Option<NodeId> {
        let rank = |id: &NodeId| {
            let priority = node.membership.member(*id).map(|member| member.priority);
            (priority, self.peers[id].matched)
        };
        let is_able = |id: &NodeId| {
            // In a joint phase, rather one that stays.
            self.could_lead(node, *id) && node.membership.voters().any(|voter| voter == *id)
        };
        node.other_voters().into_iter().filter(is_able).max_by_key(rank)
    }

    fn could_lead(&self, node: &Node, peer: NodeId) -> bool {
        self.peers[&peer].keeps_up(node.now.0, node.config.election_timeout)
    }

    /// Gives leadership to a member of higher priority that has caught up. Not soon after this
    /// node began to lead or tried it last, so that leadership does not go to and fro.
    pub(super) fn prefer(&mut self, node: &mut Node) {
        if node.now.0 < self.prefer_at.0 || self.transfer.is_some() || node.membership.is_joint() {
            return;
        }
        let priority = |id| node.membership.member(id).map_or(0, |member| member.priority);
        let Some(best) = self.best(node).filter(|best| priority(*best) > priority(node.id()))
        else {
            return;
        };
        if self.peers[&best].matched >= node.commit {
            self.prefer_at.0 = node.now.0 + node.config.election_timeout * PREFER_AGAIN;
            self.hand_over(node, best, None);
        }
    }
}
