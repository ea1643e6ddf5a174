//! Where everything is seen: the shadows of all nodes, the oracles, the marks and the story.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use raft_core::{
    Effect, Event, Index, Instant, Membership, Message, NodeId, Outcome, Raft, RequestId, Requests,
    RoleKind,
};
use raft_driver::Observer;
use raft_driver::trace::What;

use super::marks::{Mark, Marks};
use super::recording::Recording;
use super::shadow::Shadow;
use crate::oracles::{Oracles, Seen as _, Step};

/// The one court of a cluster. Clones are the same.
#[derive(Clone)]
pub(super) struct Court(Arc<Mutex<Bench>>);

pub(super) struct Bench {
    pub(super) now: Instant,
    pub(super) shadows: BTreeMap<NodeId, Shadow>,
    pub(super) oracles: Oracles,
    pub(super) marks: Marks,
    pub(super) elections: u64,
    roles: BTreeMap<NodeId, RoleKind>,
    /// Who stands still.
    pub(super) paused: BTreeSet<NodeId>,
    /// Reads that a lease would do for.
    leased: BTreeSet<(NodeId, RequestId)>,
    /// The members as each node knew them last.
    members: BTreeMap<NodeId, (Index, Arc<Membership>)>,
    /// What happened, for people.
    pub(super) story: Option<Vec<String>>,
    /// The same, for machines.
    pub(super) recording: Recording,
}

impl Court {
    pub(super) fn new(founders: Membership, with_story: bool) -> Self {
        let mut oracles = Oracles::new(founders);
        oracles.allow_repetitions();
        Self(Arc::new(Mutex::new(Bench {
            now: Instant(0),
            shadows: BTreeMap::new(),
            oracles,
            marks: Marks::new(),
            elections: 0,
            roles: BTreeMap::new(),
            paused: BTreeSet::new(),
            leased: BTreeSet::new(),
            members: BTreeMap::new(),
            story: with_story.then(Vec::new),
            recording: Recording::default(),
        })))
    }

    pub(super) fn bench(&self) -> MutexGuard<'_, Bench> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn observer(&self, id: NodeId) -> Box<dyn Observer> {
        Box::new(Watch { court: self.clone(), id })
    }
}

impl Bench {
    pub(super) fn mark(&mut self, mark: Mark) {
        *self.marks.entry(mark).or_default() += 1;
    }

    pub(super) fn tell(&mut self, what: impl FnOnce() -> String) {
        let now = self.now;
        if let Some(story) = &mut self.story {
            story.push(format!("{:>9.3}s  {}", now.0 as f64 / 1e9, what()));
        }
    }

    pub(super) fn shadow(&mut self, id: NodeId) -> &mut Shadow {
        self.shadows.get_mut(&id).expect("every node has a shadow")
    }

    pub(super) fn on_down(&mut self, id: NodeId) {
        self.recording.on_end(id, self.now, What::Crash);
        self.oracles.on_crash(id);
        self.roles.remove(&id);
        self.paused.remove(&id);
        self.leased.retain(|(node, _)| *node != id);
    }

    fn on_event(&mut self, id: NodeId, raft: &Raft, event: &Event) {
        let now = self.now;
        self.recording.on_event(id, now, raft, event);
        match event {
            Event::Read { requests, lease } => {
                self.oracles.on_read(id, now, *requests);
                if *lease {
                    self.leased.insert((id, requests.first));
                }
            }
            Event::Propose { requests, entries } => {
                let payloads: Vec<_> = entries
                    .iter()
                    .filter_map(|entry| match &entry.payload {
                        raft_core::Payload::Command(bytes) => Some(bytes.clone()),
                        _ => None,
                    })
                    .collect();
                self.oracles.on_propose(id, now, *requests, &payloads);
            }
            Event::ChangeMembership { request, .. } => {
                self.oracles.on_change(id, now, Requests::one(*request));
            }
            Event::TransferLeadership { request, .. } => {
                self.oracles.on_transfer(id, now, Requests::one(*request));
            }
            Event::Receive(envelope) if envelope.term < raft.term() => {
                self.mark(Mark::OldMessageAgain);
            }
            _ => {}
        }
    }

    fn on_effects(&mut self, id: NodeId, raft: &Raft, effects: &[Effect]) {
        self.recording.on_effects(id, self.now, raft, effects);
        let (now, members) = (self.now, &self.shadows);
        self.oracles.observe(&Step { id, now, raft, members, effects });
        for effect in effects {
            self.on_effect(id, raft, effect);
        }
        let shadow = &self.shadows[&id];
        self.oracles.after(id, raft, shadow);
        self.look_at_counts(id, raft);
    }

    fn on_effect(&mut self, id: NodeId, raft: &Raft, effect: &Effect) {
        match effect {
            Effect::Persist(write) => {
                if write.truncate.is_some_and(|last| last < self.shadows[&id].live().last_index()) {
                    self.mark(Mark::EntriesOverwritten);
                }
                self.shadow(id).store.write(write.clone());
            }
            Effect::Apply { last, .. } => self.shadow(id).applied = *last,
            Effect::Install { last } => {
                self.shadow(id).applied = last.index;
                self.mark(Mark::SnapshotInstalled);
                self.tell(|| format!("{id:?} installs the snapshot of {last:?}"));
            }
            Effect::Send(envelope) => match &envelope.message {
                Message::Propose { .. } => self.mark(Mark::ProposalForwarded),
                Message::TimeoutNow => {
                    self.tell(|| format!("{id:?} asks {:?} to take over", envelope.to));
                }
                _ => {}
            },
            Effect::ReadReady { requests, until, .. } => {
                let is_leased = self.leased.remove(&(id, requests.first));
                match until {
                    Some(_) => self.mark(Mark::LeaseRead),
                    None if is_leased => self.mark(Mark::LeaseReadConfirmed),
                    None => {}
                }
            }
            Effect::Transferred { .. } => self.mark(Mark::TransferDone),
            Effect::Resolve { outcome: Outcome::Superseded, .. } => {
                self.mark(Mark::ProposalSuperseded);
            }
            Effect::Resolve { outcome: Outcome::Unknown, .. } => self.mark(Mark::ProposalUnknown),
            Effect::PeerRegressed { peer, acknowledged, holds } => self
                .tell(|| format!("{id:?} finds that {peer:?} fell from {acknowledged} to {holds}")),
            Effect::MembershipChanged { index, membership } => {
                self.tell(|| format!("{id:?} knows the members {membership}"));
                self.on_members(id, *index, membership);
            }
            Effect::RoleChanged(change) => self.on_role(id, raft, change),
            _ => {}
        }
    }

    fn on_members(&mut self, id: NodeId, index: Index, members: &Arc<Membership>) {
        let Some((at, before)) = self.members.insert(id, (index, Arc::clone(members))) else {
            return;
        };
        if index < at {
            self.mark(Mark::ChangeUndone);
        }
        if before.is_joint() && !members.is_joint() && index > at {
            self.mark(Mark::JointConsensusLeft);
        }
        if before.voters().any(|voter| !members.is_voter(voter)) {
            self.mark(Mark::VoterLeft);
        }
        if members.voters().any(|voter| before.is_learner(voter)) {
            self.mark(Mark::LearnerPromoted);
        }
    }

    fn on_role(&mut self, id: NodeId, raft: &Raft, change: &raft_core::RoleChange) {
        let before = self.roles.insert(id, change.role).unwrap_or(RoleKind::Follower);
        match (before, change.role) {
            (RoleKind::Candidate, RoleKind::Follower) => self.mark(Mark::ElectionLost),
            (RoleKind::PreCandidate, RoleKind::Follower) => self.mark(Mark::PreVoteLost),
            (RoleKind::Leader, RoleKind::Follower) => {
                if raft.last().index > raft.commit_index() {
                    self.mark(Mark::CommittedByNobody);
                }
                if raft.is_stalled() {
                    self.mark(Mark::LeaderYieldedStalled);
                }
                if change.leader.is_none() && raft.vote() == Some(id) {
                    self.mark(Mark::QuorumLost);
                }
            }
            (before, RoleKind::Leader) if before != RoleKind::Leader => self.on_elected(id),
            _ => {}
        }
        if before != change.role || change.role != RoleKind::Follower {
            let role = match change.role {
                RoleKind::Follower => "follower",
                RoleKind::PreCandidate => "pre-candidate",
                RoleKind::Candidate => "candidate",
                RoleKind::Leader => "leader",
            };
            self.tell(|| {
                format!("{id:?} is {role} {:?}, its log ends at {:?}", change.term, change.last)
            });
        }
    }

    fn on_elected(&mut self, id: NodeId) {
        self.elections += 1;
        let others =
            self.roles.iter().filter(|(other, role)| **other != id && **role == RoleKind::Leader);
        let others: Vec<NodeId> = others.map(|(other, _)| *other).collect();
        if !others.is_empty() {
            self.mark(Mark::TwoLeaders);
        }
        if others.iter().any(|other| self.paused.contains(other)) {
            self.mark(Mark::PausedLeader);
        }
    }

    /// Raft §5.4.2, figure 8: what is on a majority, and not committed for all that.
    fn look_at_counts(&mut self, id: NodeId, raft: &Raft) {
        if raft.role() != RoleKind::Leader || self.marks.contains_key(&Mark::OldTermNotCounted) {
            return;
        }
        let next = raft.commit_index().next();
        let is_old = raft.term_at(next).is_some_and(|term| term < raft.term());
        let has =
            |index| move |(peer, matched): (NodeId, Index)| (matched >= index).then_some(peer);
        let holders: Vec<NodeId> = raft.matched().filter_map(has(next)).collect();
        let counts = |voter| voter == id || holders.contains(&voter);
        if is_old && raft.durable_index() >= next && raft.membership().has_quorum(counts) {
            self.mark(Mark::OldTermNotCounted);
        }
    }
}

/// Watches one node for the court.
struct Watch {
    court: Court,
    id: NodeId,
}

impl Observer for Watch {
    fn on_event(&mut self, _now: Instant, raft: &Raft, event: &Event) {
        self.court.bench().on_event(self.id, raft, event);
    }

    fn on_effects(&mut self, _now: Instant, raft: &Raft, effects: &[Effect]) {
        self.court.bench().on_effects(self.id, raft, effects);
    }
}
