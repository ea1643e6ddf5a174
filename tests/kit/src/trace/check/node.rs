//! What is known of one node from its own trace.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::log::Log;
use crate::trace::{HardStateMark, MembersMark, Persist, Position, Role, Said, Start};

/// One node, as its trace tells it.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) id: u64,
    /// Whether all since the run's start was seen.
    pub(super) is_known: bool,
    /// Whether a start was ever seen.
    pub(super) has_history: bool,
    pub(super) disk: Option<u64>,
    pub(super) term: u64,
    pub(super) role: Role,
    pub(super) commit: u64,
    /// Handed to the state machine up to here.
    pub(super) applying: u64,
    pub(super) log: Log,
    /// What was promised last, durable or not.
    pub(super) written: HardStateMark,
    /// What was promised and is durable.
    pub(super) promised: HardStateMark,
    writing: VecDeque<(u64, HardStateMark)>,
    pub(super) members: MembersMark,
    /// The members before this step, if it changed them.
    members_before: Option<MembersMark>,
    /// The commit index that others spoke of in this run.
    pub(super) told: u64,
    /// Who asked for a vote, with what log the last time.
    pub(super) asked: BTreeMap<u64, Position>,
    /// Who gave it a vote in this term.
    pub(super) votes: BTreeSet<u64>,
    /// Up to where each has acknowledged in this term.
    pub(super) matched: BTreeMap<u64, u64>,
    /// Up to where it has acknowledged to others in its term.
    pub(super) acknowledged: (u64, u64),
}

impl Node {
    pub(super) fn new(id: u64) -> Self {
        Self {
            id,
            is_known: false,
            has_history: false,
            disk: None,
            term: 0,
            role: Role::Follower,
            commit: 0,
            applying: 0,
            log: Log::default(),
            written: HardStateMark::default(),
            promised: HardStateMark::default(),
            writing: VecDeque::new(),
            members: MembersMark::default(),
            members_before: None,
            told: 0,
            asked: BTreeMap::new(),
            votes: BTreeSet::new(),
            matched: BTreeMap::new(),
            acknowledged: (0, 0),
        }
    }

    pub(super) fn begin_step(&mut self) {
        self.members_before = None;
    }

    /// What follows is not the continuation of what was seen.
    pub(super) fn lose_sight(&mut self) {
        self.is_known = false;
    }

    pub(super) fn start(&mut self, start: &Start) {
        let found = start.hard_state;
        *self = Self {
            is_known: true,
            has_history: true,
            disk: start.disk,
            term: found.term,
            commit: found.commit,
            applying: start.applied,
            log: Log::start(start),
            written: found,
            promised: found,
            members: start.members.clone(),
            told: found.commit,
            ..Self::new(self.id)
        };
    }

    pub(super) fn on_role(&mut self, term: u64, role: Role) {
        if term != self.term {
            self.votes.clear();
            self.matched.clear();
            self.term = term;
        }
        self.role = role;
    }

    pub(super) fn on_receive(&mut self, from: u64, term: u64, says: &Said) {
        match *says {
            Said::Vote { last, .. } => {
                self.asked.insert(from, last);
            }
            Said::VoteReply { granted: true } if term == self.term => {
                self.votes.insert(from);
            }
            Said::Accept { matched } if term == self.term => {
                let known = self.matched.entry(from).or_default();
                *known = matched.max(*known);
            }
            Said::Append { commit, .. }
            | Said::Heartbeat { commit, .. }
            | Said::Commit { commit } => {
                self.on_told(commit);
            }
            _ => {} // Nothing that anything rests on.
        }
    }

    pub(super) fn on_told(&mut self, commit: u64) {
        self.told = self.told.max(commit);
    }

    pub(super) fn on_members(&mut self, members: &MembersMark) {
        let before = std::mem::replace(&mut self.members, members.clone());
        self.members_before.get_or_insert(before);
    }

    pub(super) fn on_persist(&mut self, write: &Persist) {
        self.log.write(write);
        if let Some(state) = write.hard_state {
            self.written = state;
            self.writing.push_back((write.ticket, state));
        }
    }

    pub(super) fn on_persisted(&mut self, ticket: u64) {
        self.log.on_persisted(ticket);
        while let Some((_, state)) = self.writing.pop_front_if(|(needs, _)| *needs <= ticket) {
            self.promised = state;
        }
    }

    /// Whether those who agree are enough, by the members in force before this step or after it.
    pub(super) fn has_quorum(&self, agrees: impl Fn(u64) -> bool) -> bool {
        let enough = |voters: &[u64]| {
            voters.iter().filter(|voter| agrees(**voter)).count() * 2 > voters.len()
        };
        let both = |it: &MembersMark| {
            enough(&it.voters) && (it.outgoing.is_empty() || enough(&it.outgoing))
        };
        both(&self.members) || self.members_before.as_ref().is_some_and(both)
    }
}
