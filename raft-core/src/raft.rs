//! The state machine: an event goes in, effects come out.

mod receive;
mod roles;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::mem;

use crate::candidate::{Candidate, PreCandidate};
use crate::configurations::Configurations;
use crate::follower::Follower;
use crate::invariants::Summary;
use crate::leader::Leader;
use crate::node::Node;
use crate::reads::Reader;
use crate::{
    Config, ConfigError, Effect, Event, Index, Instant, Refusal, Requests, RoleChange, RoleKind,
    Saved, Ticket, seeded,
};

/// One node of a Raft group.
///
/// Effects may be performed in any order, except that [`Effect::Persist`] is
/// first-in-first-out and so is [`Effect::Apply`]. There is nothing else to remember.
///
/// ```
/// use raft_core::{Config, Event, Instant, Membership, NodeId, Raft, RoleKind, Saved};
///
/// let id = NodeId::new(1).expect("not zero");
/// let saved = Saved::first_start(Membership::new([id]).expect("not empty"));
/// let mut raft = Raft::restore(Config::new(id), saved, 42, Instant(0))?;
///
/// let mut effects = Vec::new();
/// let due = raft.deadline().expect("a lone voter stands at once");
/// raft.handle(due, Event::Timer, &mut effects); // asks for its vote to be made durable
/// assert_eq!(raft.role(), RoleKind::Candidate);
/// # Ok::<(), raft_core::RestoreError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Raft {
    pub(crate) node: Node,
    pub(crate) role: Role,
    announced: RoleChange,
}

/// State that exists in one role lives in that role's struct.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Role {
    Follower(Follower),
    PreCandidate(PreCandidate),
    Candidate(Candidate),
    Leader(Box<Leader>),
}

/// Why a node cannot start from what storage recovered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestoreError {
    /// The settings cannot work.
    Config(ConfigError),
    /// The log ends before what was committed or applied: entries are lost.
    LogTooShort {
        /// The last index of the log.
        last: Index,
        /// What was committed or applied.
        needed: Index,
    },
    /// The configurations are missing, or not in the order of their indexes.
    NoMembership,
}

impl fmt::Display for RestoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(error) => error.fmt(f),
            Self::LogTooShort { last, needed } => write!(
                f,
                "the log ends at index {last}, but index {needed} was committed or applied here: \
                 the log has lost entries, or belongs to another state machine; put back the \
                 missing files, or replace this node by a new one"
            ),
            Self::NoMembership => f.write_str(
                "the store gave no configuration of the group, or gave them out of order: it does \
                 not keep what it is told to keep",
            ),
        }
    }
}

impl core::error::Error for RestoreError {}

impl From<ConfigError> for RestoreError {
    fn from(error: ConfigError) -> Self {
        Self::Config(error)
    }
}

impl Raft {
    /// A node as it starts, from what storage recovered. `seed` must differ from run to run
    /// of one node in production; the same seed gives the same behaviour.
    ///
    /// # Errors
    /// When the settings cannot work, or when the log lacks what was committed.
    pub fn restore(
        config: Config,
        saved: Saved,
        seed: u64,
        now: Instant,
    ) -> Result<Self, RestoreError> {
        config.validate()?;
        let needed = saved.hard_state.commit.max(saved.applied);
        let last = saved.log.last_index();
        // A log that is known to be damaged is sent again what it lacks.
        if needed > last && saved.claim.is_none() {
            return Err(RestoreError::LogTooShort { last, needed });
        }
        let configurations =
            Configurations::new(saved.memberships.clone()).ok_or(RestoreError::NoMembership)?;
        let mut node = Node::restore(config, saved, configurations, seed, now);
        let mut follower = Follower::new(&mut node, None);
        if node.membership.voters().eq([node.id()]) && !node.membership.is_joint() {
            follower.election_at.0 = now; // Nobody else could lead.
        }
        let (term, last) = (node.term, node.log.last());
        let announced = RoleChange { term, role: RoleKind::Follower, leader: None, last };
        Ok(Self { node, role: Role::Follower(follower), announced })
    }

    /// Handles one event, and adds to `effects` what is to be done. Never fails: stale input
    /// is ignored, a refusal is an effect. `now` never goes back; an older one counts as the
    /// newest seen.
    pub fn handle(&mut self, now: Instant, event: Event, effects: &mut Vec<Effect>) {
        assert!(!seeded!(Canary), "the canary");
        let before = self.node.config.check_invariants.then(|| Summary::of(self));
        mem::swap(&mut self.node.effects, effects);
        self.node.now.0 = self.node.now.0.max(now);
        self.dispatch(event);
        self.node.settle();
        self.announce();
        mem::swap(&mut self.node.effects, effects);
        if let Some(before) = before {
            before.check(self);
        }
    }

    /// When [`Event::Timer`] is due, or `None` when never. An idle node needs no ticking.
    pub fn deadline(&self) -> Option<Instant> {
        if self.node.failed {
            return None;
        }
        let role = match &self.role {
            Role::Follower(follower) => follower.deadline(),
            Role::PreCandidate(candidate) => candidate.retry_at.0,
            Role::Candidate(candidate) => candidate.retry_at.0,
            Role::Leader(leader) => leader.deadline(&self.node),
        };
        let unapplied = self.node.has_unapplied().then_some(self.node.now.0);
        let handing_over = self.node.handing_over.map(|transfer| transfer.until.0);
        [self.node.proposals.deadline(), unapplied, handing_over]
            .into_iter()
            .flatten()
            .chain([role])
            .min()
    }

    fn dispatch(&mut self, event: Event) {
        match event {
            Event::Propose { requests, .. } | Event::Read { requests, .. } if self.node.failed => {
                self.node.refuse(requests, Refusal::StorageFailed);
            }
            Event::ChangeMembership { request, .. } | Event::TransferLeadership { request, .. }
                if self.node.failed =>
            {
                self.node.refuse(Requests::one(request), Refusal::StorageFailed);
            }
            Event::Applied(index) => self.node.on_applied(index),
            // Nothing that came after the failure can be trusted or promised.
            _ if self.node.failed => {}
            Event::Timer => self.on_timer(),
            Event::Receive(envelope) => self.on_receive(envelope),
            Event::Propose { requests, .. } | Event::Read { requests, .. }
                if requests.count == 0 => {}
            Event::Propose { requests, entries } => match &mut self.role {
                Role::Follower(role) => role.on_propose(&mut self.node, requests, entries),
                Role::PreCandidate(_) | Role::Candidate(_) => self.refuse_to_lead(requests),
                Role::Leader(role) => role.on_propose(&mut self.node, requests, entries),
            },
            Event::Read { requests, lease } => match &mut self.role {
                Role::Follower(role) => role.on_read(&mut self.node, requests),
                Role::PreCandidate(_) | Role::Candidate(_) => self.refuse_to_lead(requests),
                Role::Leader(role) if lease => role.on_lease_read(&mut self.node, requests),
                Role::Leader(role) => role.on_read(&mut self.node, Reader::Local(requests)),
            },
            Event::ChangeMembership { request, set } => match &mut self.role {
                Role::Leader(role) => role.on_change(&mut self.node, request, &set),
                _ => self.refuse_to_lead(Requests::one(request)),
            },
            Event::TransferLeadership { request, to } => match &mut self.role {
                Role::Leader(role) => role.on_transfer(&mut self.node, request, to),
                _ => self.refuse_to_lead(Requests::one(request)),
            },
            Event::Identified { peer, incarnation } => {
                self.node.identified.insert(peer, incarnation);
            }
            Event::Persisted(ticket) => self.on_persisted(ticket),
            Event::StorageFailed => {
                if let Role::Leader(role) = &mut self.role {
                    role.abdicate(&mut self.node);
                }
                self.become_follower(None);
                self.node.on_storage_failed();
            }
            Event::Loaded { peer, entries } => {
                if let Role::Leader(role) = &mut self.role {
                    role.on_loaded(&mut self.node, peer, entries);
                }
            }
            Event::SnapshotTaken(snapshot) => {
                let keep_after = match &self.role {
                    Role::Leader(role) => role.keep_after(&self.node),
                    Role::Follower(_) | Role::PreCandidate(_) | Role::Candidate(_) => None,
                };
                self.node.on_snapshot_taken(snapshot, keep_after);
            }
            Event::SnapshotReceived { from, term, snapshot } => {
                self.on_snapshot_received(from, term, snapshot);
            }
            Event::SnapshotSent { peer, last } => {
                if let Role::Leader(role) = &mut self.role {
                    role.on_snapshot_sent(&mut self.node, peer, last.map(|last| last.index));
                }
            }
        }
    }

    /// Only a leader can do that; the caller is told who it is.
    fn refuse_to_lead(&mut self, requests: Requests) {
        let leader = self.leader();
        self.node.refuse(requests, Refusal::NotLeader { leader });
    }

    fn on_timer(&mut self) {
        let now = self.node.now.0;
        self.node.proposals.on_timer(now, &mut self.node.effects);
        self.node.end_transfer(|transfer| transfer.until.0 <= now, None);
        if let Role::Follower(role) = &mut self.role {
            role.on_timer(&mut self.node);
        }
        match &mut self.role {
            Role::Follower(role) if now < role.election_at.0 => {}
            Role::Follower(role) if self.node.is_loyal() => {
                role.election_at.0 = self.node.next_election();
            }
            // Who may not lead does not stand; it waits for a leader. The one it had is lost.
            Role::Follower(_) if !self.node.may_stand() => self.become_follower(None),
            Role::PreCandidate(role) if now < role.retry_at.0 => {}
            Role::Candidate(role) if now < role.retry_at.0 => {}
            Role::PreCandidate(_) | Role::Candidate(_) if !self.node.may_stand() => {
                self.become_follower(None);
            }
            Role::Follower(_) | Role::PreCandidate(_) | Role::Candidate(_) => self.stand(),
            Role::Leader(role) => {
                if !role.on_timer(&mut self.node) {
                    self.become_follower(None);
                }
            }
        }
    }

    fn on_persisted(&mut self, ticket: Ticket) {
        let own_vote = self.node.on_persisted(ticket);
        match &mut self.role {
            Role::Candidate(role) if own_vote => {
                role.note(self.node.id(), true);
                self.try_lead();
            }
            Role::Leader(role) => role.advance_commit(&mut self.node),
            Role::Follower(_) | Role::PreCandidate(_) | Role::Candidate(_) => {}
        }
    }

    fn announce(&mut self) {
        let (term, role, leader) = (self.node.term, self.role(), self.leader());
        let known = self.announced;
        if (known.term, known.role, known.leader) != (term, role, leader) {
            self.announced = RoleChange { term, role, leader, last: self.node.log.last() };
            self.node.effects.push(Effect::RoleChanged(self.announced));
            self.node.end_transfer(|_| leader.is_some(), leader);
        }
    }
}
