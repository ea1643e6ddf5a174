//! Changing who belongs to the group (Raft §6, thesis §4): one change at a time, and every step by
//! an entry of the log, which whoever leads next carries on with.
//!
//! ```text
//!   asked ─▶ learners catch up ─▶ joint phase ─▶ new configuration ─▶ (a leader that is
//!              each step once the one before it is committed            not in it hands over)
//! ```

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::Leader;
use crate::node::Node;
use crate::progress::{CatchUp, Progress};
use crate::untracked::Untracked;
use crate::{
    Change, ChangeError, ChangeSet, Effect, Entry, Index, Membership, NodeId, Outcome, Payload,
    Refusal, RequestId, Requests, seeded,
};

/// How many election timeouts a removed member is still talked to, so that it learns of it.
const DEPARTURE: u32 = 4;

/// Somebody waits for the end of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Changing {
    request: RequestId,
    /// Its first entry.
    index: Index,
}

impl Changing {
    fn end(self, node: &mut Node, outcome: Outcome) {
        let requests = Requests::one(self.request);
        node.effects.push(Effect::Resolve { requests, outcome });
    }

    /// Another leader may finish it, or never have seen it.
    pub(super) fn give_up(self, node: &mut Node) {
        self.end(node, Outcome::Unknown);
    }
}

impl Leader {
    /// Somebody wants to change the members.
    pub(crate) fn on_change(&mut self, node: &mut Node, request: RequestId, set: &ChangeSet) {
        match self.changed(node, set) {
            Ok(membership) => {
                let index = self.append_membership(node, membership);
                self.changing = Some(Changing { request, index });
                self.replicate(node);
            }
            Err(reason) => node.refuse(Requests::one(request), reason),
        }
    }

    fn changed(&self, node: &Node, set: &ChangeSet) -> Result<Membership, Refusal> {
        let (in_force, _) = node.configurations.newest();
        if self.transfer.is_some() {
            return Err(Refusal::Transferring);
        }
        // Else two leaders could each commit a change that the other has not seen, by majorities
        // that do not meet (Ongaro, raft-dev 2015).
        if node.log.term_at(node.commit) != Some(node.term) && !seeded!(ChangeBeforeOwnTerm) {
            return Err(Refusal::Change(ChangeError::TooEarly));
        }
        if in_force > node.commit && !seeded!(TwoChangesAtOnce) {
            return Err(Refusal::Change(ChangeError::InProgress));
        }
        if set.expected.is_some_and(|expected| expected != in_force) {
            return Err(Refusal::Change(ChangeError::NotExpected { in_force }));
        }
        let ready = |id| self.is_ready(node, id);
        let after = node.membership.changed(&set.changes, ready).map_err(Refusal::Change)?;
        if !set.force && !self.would_live(node, &after) {
            return Err(Refusal::Change(ChangeError::NoLiveQuorum));
        }
        Ok(after)
    }

    /// Whether a learner could vote now: it keeps up, and is heard.
    fn is_ready(&self, node: &Node, id: NodeId) -> bool {
        self.peers.get(&id).is_some_and(|progress| {
            let catch_up = progress.catch_up.as_ref();
            catch_up.is_some_and(|catch_up| catch_up.done || seeded!(PromotedTooEarly))
                && progress.is_live(node.now.0, node.config.election_timeout)
        })
    }

    /// Whether a majority of those who would vote is alive.
    fn would_live(&self, node: &Node, after: &Membership) -> bool {
        let (now, patience) = (node.now.0, node.config.election_timeout);
        let live = |id| {
            id == node.id()
                || self.peers.get(&id).is_some_and(|progress| progress.is_live(now, patience))
        };
        after.has_quorum(live)
    }

    /// Appends a configuration, which is in force at once.
    fn append_membership(&mut self, node: &mut Node, membership: Membership) -> Index {
        let index = node.log.last_index().next();
        let payload = Payload::Membership(Arc::new(membership));
        self.append(node, Entry { index, term: node.term, payload }.into());
        self.meet_members(node);
        index
    }

    /// Knows every member, and says farewell to those who are none any more.
    pub(super) fn meet_members(&mut self, node: &Node) {
        let (last, now) = (node.log.last_index(), node.now.0);
        for member in node.membership.members().iter().filter(|member| member.id != node.id()) {
            let fresh = || Progress::new(last, now);
            let progress = self.peers.entry(member.id).or_insert_with(fresh);
            if node.membership.is_voter(member.id) {
                progress.catch_up = None;
            } else if progress.catch_up.is_none() {
                progress.catch_up = Some(CatchUp::new(last, now));
            }
        }
        let departs_at = Untracked(now + node.config.election_timeout * DEPARTURE);
        for (id, progress) in &mut self.peers {
            if node.membership.member(*id).is_none() && progress.departs_at.is_none() {
                progress.departs_at = Some(departs_at);
            }
        }
    }

    /// The commit index has moved: a change may go on, or be over.
    pub(super) fn on_commit(&mut self, node: &mut Node) {
        self.tend_members(node);
        let (in_force, _) = node.configurations.newest();
        if in_force > node.commit {
            return;
        }
        // Neither in a joint phase nor about to enter one: what was asked for is done.
        // A transfer may keep the phase from being left.
        let is_over = |it: &mut Changing| it.index <= node.commit && !node.membership.is_joint();
        if let Some(changing) = self.changing.take_if(is_over) {
            changing.end(node, Outcome::Committed { first: in_force });
        }
        if !node.membership.is_voter(node.id()) && self.transfer.is_none() {
            // Thesis §4.2.2: a leader that removed itself led without counting itself so far.
            if let Some(best) = self.best(node) {
                self.hand_over(node, best, None);
            }
        }
    }

    /// Takes the next step of a change, once the one before it is committed: leaves a joint
    /// phase, also one that an earlier leader began; promotes who is ready; notes new disks.
    pub(super) fn tend_members(&mut self, node: &mut Node) {
        self.part(node);
        let (in_force, _) = node.configurations.newest();
        let settled = in_force <= node.commit && node.log.term_at(node.commit) == Some(node.term);
        let settled = settled || seeded!(JointLeftTooEarly);
        if !settled || self.transfer.is_some() {
            return;
        }
        let next = node
            .membership
            .left()
            .filter(|_| self.changing.is_some() || !seeded!(JointNeverLeft))
            .or_else(|| self.promoted(node))
            .or_else(|| self.identified(node));
        let Some(next) = next else { return };
        self.append_membership(node, next);
        self.replicate(node);
    }

    /// Those who are ready vote from now on. Voters that retire for them may be needed yet: where
    /// too few of the others are alive, they stay.
    fn promoted(&self, node: &Node) -> Option<Membership> {
        let promoted = node.membership.promoted(|id| self.is_ready(node, id));
        promoted.filter(|after| self.would_live(node, after))
    }

    /// The members with the disks that have shown themselves since.
    fn identified(&self, node: &Node) -> Option<Membership> {
        let own = node.config.incarnation.map(|own| (node.id(), own));
        let known = node.identified.iter().map(|(&id, &incarnation)| (id, incarnation)).chain(own);
        let is_news = |id| node.membership.member(id).is_some_and(|it| it.incarnation.is_none());
        let news = known.filter(|&(id, _)| is_news(id));
        let changes: Vec<Change> =
            news.map(|(id, incarnation)| Change::SetIncarnation(id, incarnation)).collect();
        if changes.is_empty() {
            return None;
        }
        node.membership.changed(&changes, |_| false).ok()
    }

    /// Forgets removed members that know it, or had time enough to learn it.
    fn part(&mut self, node: &Node) {
        let (in_force, _) = node.configurations.newest();
        let stays = |progress: &Progress| {
            progress.departs_at.is_none_or(|at| {
                let knows = progress.commit_sent.min(progress.matched) >= in_force;
                node.now.0 < at.0 && !knows
            })
        };
        self.peers.retain(|_, progress| stays(progress));
    }
}
