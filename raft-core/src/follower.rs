//! A follower trusts one leader per term. It never counts votes and never reads a clock.

use crate::node::Node;
use crate::reads::Questions;
use crate::untracked::Untracked;
use crate::{
    Append, AppendReply, Entries, Index, Instant, LogPosition, Message, NodeId, Payload, Refusal,
    Requests, Round, Snapshot, seeded,
};

/// Invariant: a leader, once known, stays the leader of its term.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Follower {
    pub(crate) leader: Option<NodeId>,
    pub(crate) election_at: Untracked<Instant>,
    /// When the leader was last heard.
    heard_at: Untracked<Instant>,
    questions: Questions,
}

impl Follower {
    pub(crate) fn new(node: &mut Node, leader: Option<NodeId>) -> Self {
        Self {
            leader,
            election_at: Untracked(node.next_election()),
            heard_at: node.now,
            questions: Questions::default(),
        }
    }

    /// Whether a leader was heard within the shortest election timeout. Then nobody is helped
    /// to depose it (thesis §4.2.3).
    pub(crate) fn hears_leader(&self, node: &Node) -> bool {
        self.leader.is_some() && node.now.since(self.heard_at.0) < node.config.election_timeout
    }

    fn on_leader(&mut self, node: &mut Node, leader: NodeId) {
        debug_assert!(self.leader.is_none_or(|known| known == leader), "one leader a term");
        self.leader = Some(leader);
        self.heard_at = node.now;
        self.election_at = Untracked(node.next_election());
        node.on_leader_heard();
    }

    /// Extends the log where it agrees with the leader's at `append.previous` (Raft §5.3).
    pub(crate) fn on_append(&mut self, node: &mut Node, leader: NodeId, append: Append) {
        self.on_leader(node, leader);
        let (previous, covered) = (append.previous, append.last_covered());
        if seeded!(CommitsUnproven) {
            node.commit_up_to(append.commit.min(node.log.last_index()));
        }
        let below = previous.index < node.commit && !seeded!(TruncatesCommitted);
        let entries = if below { above(append.entries, node.commit) } else { append.entries };
        // What is committed here is equal in every leader's log (Raft §5.4, Leader
        // Completeness), so an old append can agree no earlier than there.
        let start = if below { node.log.position_at(node.commit) } else { Some(previous) };
        let change = start.and_then(|start| node.log.extend(start, entries));
        let Some(change) = change else {
            let hint = node.log.latest_agreement(previous.index, previous.term);
            let repairing = node.claim.is_some();
            let reject = AppendReply::Reject { previous: previous.index, hint, repairing };
            return node.send(leader, Message::AppendReply(reject));
        };
        node.change(change);
        // Only what this message proved equal is known to be the leader's.
        node.commit_up_to(append.commit.min(covered).min(node.log.last_index()));
        // A promise, because the leader will count us.
        let matched = covered.max(node.commit);
        node.promise(leader, Message::AppendReply(AppendReply::Accept { matched }));
    }

    /// A snapshot has come from the leader, and is durable (Raft §7, InstallSnapshot). Where the
    /// log holds its end, it says no more than that so much is committed; else it takes the
    /// place of the log. What is committed here already is never replaced.
    pub(crate) fn on_snapshot(&mut self, node: &mut Node, leader: NodeId, snapshot: Snapshot) {
        self.on_leader(node, leader);
        let last = snapshot.last;
        let term = node.log.term_at(last.index).filter(|_| !seeded!(SnapshotDropsAgreeingLog));
        if term == Some(last.term) || (seeded!(SnapshotKeepsOtherLog) && term.is_some()) {
            node.commit_up_to(last.index);
        } else if last.index > node.commit || seeded!(SnapshotGoesBack) {
            node.install(snapshot);
        }
        let matched = node.commit;
        node.promise(leader, Message::AppendReply(AppendReply::Accept { matched }));
    }

    /// The leader lives. Its commit index is capped by what it knows us to hold.
    pub(crate) fn on_heartbeat(
        &mut self,
        node: &mut Node,
        leader: NodeId,
        commit: Index,
        (round, sent_at): (Round, Instant),
    ) {
        self.on_commit(node, leader, commit);
        node.send(leader, Message::HeartbeatReply { round, sent_at });
        if commit > node.log.last_index() {
            // The leader knows us to hold that, but the disk has lost it since.
            let (hint, repairing) = (node.log.last(), node.claim.is_some());
            let reject = AppendReply::Reject { previous: commit, hint, repairing };
            node.send(leader, Message::AppendReply(reject));
        }
        if let Some(question) = self.questions.again(node.now.0, node.config.heartbeat_interval) {
            node.send(leader, Message::Read { question });
        }
    }

    /// The leader has committed this much, and knows us to hold it.
    pub(crate) fn on_commit(&mut self, node: &mut Node, leader: NodeId, commit: Index) {
        self.on_leader(node, leader);
        if commit <= node.log.last_index() {
            node.commit_up_to(commit);
        }
    }

    pub(crate) fn deadline(&self) -> Instant {
        let (election, question) = (self.election_at.0, self.questions.refuse_at());
        question.map_or(election, |at| election.min(at))
    }

    /// Gives up a question that the leader has not answered in time, although it is heard.
    pub(crate) fn on_timer(&mut self, node: &mut Node) {
        if self.questions.refuse_at().is_some_and(|at| at <= node.now.0) {
            let reason = Refusal::NotLeader { leader: self.leader };
            self.questions.refuse_asking(reason, &mut node.effects);
            self.ask(node);
        }
    }

    pub(crate) fn on_propose(&mut self, node: &mut Node, requests: Requests, entries: Entries) {
        let Some(leader) = self.leader.filter(|_| node.config.forward_proposals) else {
            return node.refuse(requests, Refusal::NotLeader { leader: self.leader });
        };
        if node.is_too_large(&entries) {
            return node.refuse(requests, Refusal::TooLarge);
        }
        node.forward(leader, requests, entries);
    }

    pub(crate) fn on_read(&mut self, node: &mut Node, requests: Requests) {
        let asked = match self.leader {
            Some(_) => self.questions.ask(requests),
            None => Err(Refusal::NotLeader { leader: None }),
        };
        match asked {
            Ok(()) => self.ask(node),
            Err(reason) => node.refuse(requests, reason),
        }
    }

    pub(crate) fn on_read_reply(&mut self, node: &mut Node, question: Round, index: Index) {
        self.questions.on_reply(question, index, &mut node.effects);
        self.ask(node);
    }

    fn ask(&mut self, node: &mut Node) {
        let Some(leader) = self.leader else { return };
        let fresh = Round(node.question.0 + 1);
        // Twice, as for a proposal that is handed on.
        let refuse_at = node.now.0 + node.config.election_timeout * 2;
        if self.questions.begin(fresh, node.now.0, refuse_at) {
            node.question.0 += 1;
            node.send(leader, Message::Read { question: fresh });
        }
    }

    /// The leader is given up: its requests cannot be answered any more.
    pub(crate) fn on_leave(&mut self, node: &mut Node) {
        let reason = Refusal::NotLeader { leader: None };
        self.questions.refuse(reason, &mut node.effects);
        node.proposals.doubt(node.unknown_at());
    }
}

/// The entries above `commit`.
fn above(entries: Entries, commit: Index) -> Entries {
    let below = entries.iter().take_while(|entry| entry.index <= commit).count();
    entries.slice(below..entries.len())
}

/// Whether an append that came from the network can be meant: consecutive entries, terms that
/// do not fall and do not pass the sender's.
pub(crate) fn is_well_formed(append: &Append, term: crate::Term) -> bool {
    let LogPosition { term: mut newest, mut index } = append.previous;
    if append.previous.index.0.checked_add(append.entries.len() as u64 + 1).is_none() {
        return false;
    }
    append.entries.iter().all(|entry| {
        let follows = entry.index == index.next() && entry.term >= newest;
        (newest, index) = (entry.term, entry.index);
        follows && has_voters(&entry.payload)
    }) && newest <= term
}

/// Nobody writes a configuration in which nobody votes.
fn has_voters(payload: &Payload) -> bool {
    match payload {
        Payload::Membership(membership) => membership.voters().len() > 0,
        Payload::Empty | Payload::Command(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Entry, Membership, Term};
    use alloc::vec;

    /// An append of these indexes and terms, behind this position.
    fn append((index, term): (u64, u64), entries: &[(u64, u64)]) -> Append {
        let position = |index, term| LogPosition { term: Term(term), index: Index(index) };
        let entry = |&(index, term): &(u64, u64)| Entry {
            index: Index(index),
            term: Term(term),
            payload: Payload::Empty,
        };
        let entries = entries.iter().map(entry).collect();
        Append { previous: position(index, term), entries, commit: Index::ZERO }
    }

    #[test]
    fn an_append_is_consecutive_and_its_terms_neither_fall_nor_pass_the_sender_s() {
        for (previous, entries, well_formed) in [
            ((0, 0), &[][..], true),
            ((7, 3), &[], true),
            ((7, 4), &[], false), // Of a term after the sender's.
            ((2, 1), &[(3, 1), (4, 1), (5, 3)], true),
            ((2, 1), &[(3, 1), (4, 4)], false),
            ((2, 1), &[(3, 2), (4, 1)], false),
            ((2, 2), &[(3, 1)], false),
            ((2, 1), &[(4, 1)], false),
            ((2, 1), &[(2, 1)], false),
            ((2, 1), &[(3, 1), (5, 1)], false),
            ((u64::MAX - 1, 1), &[], true),
            ((u64::MAX, 1), &[], false), // There is no index behind it.
            ((u64::MAX - 2, 1), &[(u64::MAX - 1, 1)], true),
            ((u64::MAX - 1, 1), &[(u64::MAX, 1)], false),
        ] {
            let append = append(previous, entries);
            assert_eq!(is_well_formed(&append, Term(3)), well_formed, "{append:?}");
        }
    }

    #[test]
    fn an_append_brings_no_configuration_in_which_nobody_votes() {
        let with = |membership: Membership| {
            let payload = Payload::Membership(membership.into());
            let entry = Entry { index: Index(1), term: Term(1), payload };
            Append { entries: vec![entry].into(), ..append((0, 0), &[]) }
        };
        let voters = Membership::new(NodeId::new(1)).expect("a voter");
        assert!(is_well_formed(&with(voters), Term(1)));
        assert!(!is_well_formed(&with(Membership::unknown()), Term(1)));
    }
}
