//! What arrives: the term is gated first (Raft §5.1), then the role matched.

use super::{Raft, Role};
use crate::candidate::Cause;
use crate::follower::{self, Follower};
use crate::reads::Reader;
use crate::vote::Verdict;
use crate::{
    Envelope, Instant, LogPosition, Message, NodeId, Refusal, Requests, Round, Snapshot, Term,
    seeded,
};

impl Raft {
    /// Gates the term (Raft §5.1), then matches the role.
    pub(super) fn on_receive(&mut self, envelope: Envelope) {
        let Envelope { from, to, term, message } = envelope;
        if to != self.node.id() || from == to {
            return;
        }
        // Questions about a vote never depose a leader that is heard, and a pre-vote, or the
        // answer of a node in an older term, changes nobody's term.
        match message {
            Message::PreVote { last } => {
                let hears_leader = self.hears_leader() || self.node.is_loyal();
                return self.node.on_pre_vote(from, term, last, hears_leader);
            }
            // The leader itself has asked for this one (thesis §3.10).
            Message::Vote { transfer: true, .. } => {}
            Message::Vote { .. } if self.node.is_loyal() => return,
            Message::Vote { .. } if term > self.node.term && self.hears_leader() => return,
            Message::PreVoteReply { asked, granted: true } => {
                return self.on_pre_vote_reply(from, asked, true);
            }
            _ => {}
        }
        let is_heard = match message {
            Message::Append(_) => seeded!(AppendOfOldTermTaken),
            Message::VoteReply { .. } => seeded!(VoteOfOldTermCounted),
            _ => false,
        };
        if term < self.node.term && !is_heard {
            return self.on_stale(from, term, message);
        }
        self.enter_term(term);
        self.on_message(from, message);
    }

    /// A snapshot has arrived whole. It counts like a message of its sender's term, and that is
    /// looked at now: the sender may have been deposed while it travelled.
    pub(super) fn on_snapshot_received(&mut self, from: NodeId, term: Term, snapshot: Snapshot) {
        if from == self.node.id() || term < self.node.term {
            return;
        }
        self.enter_term(term);
        if let Some((role, node)) = self.follow(from) {
            role.on_snapshot(node, from, snapshot);
        }
    }

    /// Follows others into a newer term (Raft §5.1).
    fn enter_term(&mut self, term: Term) {
        if term <= self.node.term {
            return;
        }
        // Raft §5.2: only a leader that is heard, or a vote that is given, earns patience. If
        // a newer term did, a node that cannot win could keep back for ever one that can.
        let patience = self.patience();
        self.leave();
        self.node.advance_term(term);
        let mut follower = Follower::new(&mut self.node, None);
        follower.election_at.0 = patience.unwrap_or(follower.election_at.0);
        self.role = Role::Follower(follower);
    }

    /// The leader asks this node to take over at once: no pre-vote, for the leader is not
    /// missed but means it (thesis §3.10). The new term is durable before anybody hears of it.
    fn on_timeout_now(&mut self, from: NodeId) {
        let follows = matches!(&self.role, Role::Follower(role) if role.leader == Some(from));
        let id = self.node.id();
        if follows && self.node.membership.is_voter(id) && self.node.may_stand() {
            self.become_candidate(Cause::Transfer);
        }
    }

    /// Only who led `term` was asked. It leads no more, so whatever has not come before was surely
    /// not taken and never will be; a copy may have been, and its sender will call it unknown.
    fn refuse_forwarded(&mut self, from: NodeId, term: Term, session: u64, requests: Requests) {
        if self.node.forwarded.is_new(term, from, session, requests) {
            let outcome = Err(Refusal::NotLeader { leader: self.leader() });
            self.node.send(from, Message::ProposeReply { requests, outcome });
        }
    }

    /// A sender in an older term learns of ours from the answer, and steps down.
    fn on_stale(&mut self, from: NodeId, term: Term, message: Message) {
        let answer = match message {
            Message::Vote { .. } => Message::VoteReply { granted: false },
            // Rounds and log positions of an older term mean nothing in this one, whose leader
            // may be the same node: the answer carries the term, and nothing else.
            Message::Heartbeat { round, sent_at, .. } if seeded!(RoundOfOldTermEchoed) => {
                Message::HeartbeatReply { round, sent_at }
            }
            Message::Heartbeat { .. } | Message::Append(_) => {
                Message::HeartbeatReply { round: Round::ZERO, sent_at: Instant(0) }
            }
            // Whatever the term, the leader that was asked says what became of it.
            Message::ProposeReply { requests, outcome } => {
                return self.node.on_propose_reply(requests, outcome, term, None);
            }
            Message::Propose { session, requests, .. } => {
                return self.refuse_forwarded(from, term, session, requests);
            }
            // A reply to an older term answers nobody any more, and neither does a question to
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
                self.node.on_propose_reply(requests, outcome, self.node.term, leader);
            }
            Message::Propose { session, requests, entries } => match self.lead() {
                Some((role, node)) => role.on_forwarded(node, (from, session), requests, entries),
                None => self.refuse_forwarded(from, self.node.term, session, requests),
            },
            Message::TimeoutNow => self.on_timeout_now(from),
            Message::AppendReply(reply) => {
                if let Some((role, node)) = self.lead() {
                    role.on_append_reply(node, from, reply);
                }
            }
            Message::HeartbeatReply { round, sent_at } => {
                if let Some((role, node)) = self.lead() {
                    role.on_heartbeat_reply(node, from, (round, sent_at));
                }
            }
            Message::Read { question } => {
                if let Some((role, node)) = self.lead() {
                    role.on_read(node, Reader::Remote { peer: from, question });
                }
            }
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
                self.become_candidate(Cause::Timeout);
            }
        }
    }
}
