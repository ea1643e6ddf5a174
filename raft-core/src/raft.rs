//! The state machine: an event goes in, effects come out.

use alloc::vec::Vec;
use core::fmt;
use core::mem;

use crate::candidate::{Candidate, PreCandidate};
use crate::follower::{self, Follower};
use crate::invariants::Summary;
use crate::leader::Leader;
use crate::node::Node;
use crate::reads::Reader;
use crate::vote::Verdict;
use crate::{
    Config, ConfigError, Effect, Envelope, Event, Index, Instant, LogPosition, Message, NodeId,
    Refusal, RoleChange, RoleKind, Round, Saved, Term, Ticket,
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
    Leader(Leader),
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
        if needed > last {
            return Err(RestoreError::LogTooShort { last, needed });
        }
        let mut node = Node::restore(config, saved, seed, now);
        let mut follower = Follower::new(&mut node, None);
        if node.membership.voters().eq([node.id()]) {
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
        let before = cfg!(debug_assertions).then(|| Summary::of(self));
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
        [self.node.proposals.deadline(), unapplied].into_iter().flatten().chain([role]).min()
    }

    fn dispatch(&mut self, event: Event) {
        match event {
            Event::Propose { requests, .. } | Event::Read { requests, .. } if self.node.failed => {
                self.node.refuse(requests, Refusal::StorageFailed);
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
                Role::PreCandidate(_) | Role::Candidate(_) => {
                    self.node.refuse(requests, Refusal::NotLeader { leader: None });
                }
                Role::Leader(role) => role.on_propose(&mut self.node, requests, entries),
            },
            Event::Read { requests, .. } => match &mut self.role {
                Role::Follower(role) => role.on_read(&mut self.node, requests),
                Role::PreCandidate(_) | Role::Candidate(_) => {
                    self.node.refuse(requests, Refusal::NotLeader { leader: None });
                }
                Role::Leader(role) => role.on_read(&mut self.node, Reader::Local(requests)),
            },
            Event::Persisted(ticket) => self.on_persisted(ticket),
            Event::StorageFailed => {
                self.become_follower(None);
                self.node.on_storage_failed();
            }
            Event::Loaded { peer, entries } => {
                if let Role::Leader(role) = &mut self.role {
                    role.on_loaded(&mut self.node, peer, entries);
                }
            }
            Event::ChangeMembership { .. }
            | Event::TransferLeadership { .. }
            | Event::Identified { .. }
            | Event::SnapshotTaken(_)
            | Event::SnapshotReceived { .. }
            | Event::SnapshotSent { .. } => {}
        }
    }

    fn on_timer(&mut self) {
        let now = self.node.now.0;
        self.node.proposals.on_timer(now, &mut self.node.effects);
        if let Role::Follower(role) = &mut self.role {
            role.on_timer(&mut self.node);
        }
        match &mut self.role {
            Role::Follower(role) if now < role.election_at.0 => {}
            // Who has no vote does not stand; it waits for a leader.
            Role::Follower(role) if !self.node.membership.is_voter(self.node.config.id) => {
                role.election_at.0 = self.node.next_election();
            }
            Role::PreCandidate(role) if now < role.retry_at.0 => {}
            Role::Candidate(role) if now < role.retry_at.0 => {}
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

    /// Gates the term (Raft §5.1), then matches the role.
    fn on_receive(&mut self, envelope: Envelope) {
        let Envelope { from, to, term, message } = envelope;
        if to != self.node.id() || from == to {
            return;
        }
        // Questions about a vote never depose a leader that is heard, and a pre-vote, or the
        // answer of a node in an older term, changes nobody's term.
        match message {
            Message::PreVote { last } => {
                let hears_leader = self.hears_leader();
                return self.node.on_pre_vote(from, term, last, hears_leader);
            }
            Message::Vote { .. } if term > self.node.term && self.hears_leader() => return,
            Message::PreVoteReply { asked, granted: true } => {
                return self.on_pre_vote_reply(from, asked, true);
            }
            _ => {}
        }
        if term < self.node.term {
            return self.on_stale(from, message);
        }
        if term > self.node.term {
            // Raft §5.2: only a leader that is heard, or a vote that is given, earns patience. If
            // a newer term did, a node that cannot win could keep back for ever one that can.
            let patience = self.patience();
            self.leave();
            self.node.advance_term(term);
            let mut follower = Follower::new(&mut self.node, None);
            follower.election_at.0 = patience.unwrap_or(follower.election_at.0);
            self.role = Role::Follower(follower);
        }
        self.on_message(from, message);
    }

    /// A sender in an older term learns of ours from the answer, and steps down.
    fn on_stale(&mut self, from: NodeId, message: Message) {
        let answer = match message {
            Message::Vote { .. } => Message::VoteReply { granted: false },
            // Rounds and log positions of an older term mean nothing in this one, whose leader
            // may be the same node: the answer carries the term, and nothing else.
            Message::Heartbeat { .. } | Message::Append(_) => {
                Message::HeartbeatReply { round: Round::ZERO, sent_at: Instant(0) }
            }
            // A reply to an older term answers nobody any more, and neither does a request to
            // the leader of an older term: its sender learns of ours from that leader.
            _ => return,
        };
        self.node.send(from, answer);
    }

    fn on_message(&mut self, from: NodeId, message: Message) {
        match message {
            Message::PreVote { .. } => {} // Answered above.
            Message::PreVoteReply { asked, granted } => {
                self.on_pre_vote_reply(from, asked, granted);
            }
            Message::Vote { last, .. } => self.on_vote(from, last),
            Message::VoteReply { granted } => {
                if let Role::Candidate(role) = &mut self.role {
                    role.note(from, granted);
                    self.try_lead();
                }
            }
            Message::Append(append) => {
                if !follower::is_well_formed(&append, self.node.term) {
                    return;
                }
                if let Some((role, node)) = self.follow(from) {
                    role.on_append(node, from, append);
                }
            }
            Message::Heartbeat { commit, round, sent_at } => {
                if let Some((role, node)) = self.follow(from) {
                    role.on_heartbeat(node, from, commit, (round, sent_at));
                }
            }
            Message::Commit { commit } => {
                if let Some((role, node)) = self.follow(from) {
                    role.on_commit(node, from, commit);
                }
            }
            Message::ReadReply { question, index } => {
                if let Role::Follower(role) = &mut self.role {
                    role.on_read_reply(&mut self.node, question, index);
                }
            }
            Message::ProposeReply { requests, outcome } => {
                let leader = self.leader();
                self.node.on_propose_reply(requests, outcome, leader);
            }
            // Only who led this term is asked, and who does so no more cannot refuse: it may
            // have taken another copy. The sender will call it unknown.
            Message::Propose { session, requests, entries } => {
                if let Some((role, node)) = self.lead() {
                    role.on_forwarded(node, (from, session), requests, entries);
                }
            }
            Message::TimeoutNow => {}
            Message::AppendReply(reply) => {
                if let Some((role, node)) = self.lead() {
                    role.on_append_reply(node, from, reply);
                }
            }
            Message::HeartbeatReply { round, .. } => {
                if let Some((role, node)) = self.lead() {
                    role.on_heartbeat_reply(node, from, round);
                }
            }
            Message::Read { question } => {
                if let Some((role, node)) = self.lead() {
                    role.on_read(node, Reader::Remote { peer: from, question });
                }
            }
        }
    }

    /// When this node stands next, if it hears of no leader; a leader does not.
    fn patience(&self) -> Option<Instant> {
        match &self.role {
            Role::Follower(role) => Some(role.election_at.0),
            Role::PreCandidate(role) => Some(role.retry_at.0),
            Role::Candidate(role) => Some(role.retry_at.0),
            Role::Leader(_) => None,
        }
    }

    /// Whether a leader lives as far as this node knows: it hears one, or is one whose quorum
    /// answers.
    fn hears_leader(&self) -> bool {
        self.node.config.check_quorum
            && match &self.role {
                Role::Follower(role) => role.hears_leader(&self.node),
                Role::PreCandidate(_) | Role::Candidate(_) => false,
                Role::Leader(_) => true,
            }
    }

    fn on_vote(&mut self, candidate: NodeId, last: LogPosition) {
        if self.node.on_vote(candidate, last) == Verdict::Refused {
            return;
        }
        match &mut self.role {
            // Raft §5.2: who has voted waits a whole timeout for the result.
            Role::Follower(role) => role.election_at.0 = self.node.next_election(),
            Role::PreCandidate(_) => self.become_follower(None),
            Role::Candidate(_) | Role::Leader(_) => {} // They voted for themselves.
        }
    }

    fn on_pre_vote_reply(&mut self, from: NodeId, asked: Term, granted: bool) {
        if let Role::PreCandidate(role) = &mut self.role
            && asked == self.node.term
        {
            role.note(from, granted);
            if role.wins(&self.node) {
                self.become_candidate();
            }
        }
    }

    /// The follower of `leader` that this node is, or becomes: a leader of the current term
    /// ends every candidacy in it (Raft §5.2).
    fn follow(&mut self, leader: NodeId) -> Option<(&mut Follower, &mut Node)> {
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
    fn lead(&mut self) -> Option<(&mut Leader, &mut Node)> {
        match &mut self.role {
            Role::Leader(role) => Some((role, &mut self.node)),
            Role::Follower(_) | Role::PreCandidate(_) | Role::Candidate(_) => None,
        }
    }

    fn stand(&mut self) {
        if self.node.config.pre_vote {
            self.become_pre_candidate();
        } else {
            self.become_candidate();
        }
    }

    fn try_lead(&mut self) {
        if matches!(&self.role, Role::Candidate(role) if role.wins(&self.node)) {
            self.role = Role::Leader(Leader::new(&mut self.node));
        }
    }

    fn become_follower(&mut self, leader: Option<NodeId>) {
        self.leave();
        self.role = Role::Follower(Follower::new(&mut self.node, leader));
    }

    fn become_pre_candidate(&mut self) {
        self.leave();
        let role = PreCandidate::new(&mut self.node);
        let wins = role.wins(&self.node);
        self.role = Role::PreCandidate(role);
        if wins {
            self.become_candidate(); // A single voter needs nobody's word.
        }
    }

    fn become_candidate(&mut self) {
        self.leave();
        self.role = Role::Candidate(Candidate::new(&mut self.node));
    }

    fn leave(&mut self) {
        match &mut self.role {
            Role::Follower(role) => role.on_leave(&mut self.node),
            Role::PreCandidate(_) => {}
            Role::Candidate(_) => self.node.withdraw_candidacy(),
            Role::Leader(role) => role.on_leave(&mut self.node),
        }
    }

    fn announce(&mut self) {
        let (term, role, leader) = (self.node.term, self.role(), self.leader());
        let known = self.announced;
        if (known.term, known.role, known.leader) != (term, role, leader) {
            self.announced = RoleChange { term, role, leader, last: self.node.log.last() };
            self.node.effects.push(Effect::RoleChanged(self.announced));
        }
    }
}
