//! What is known of the whole cluster, by nobody in it.

use std::collections::BTreeMap;
use std::sync::Arc;

use raft_core::{Entry, Index, LogPosition, Membership, Payload, Term};

use super::configurations;

/// All entries ever written and all that was ever committed.
#[derive(Clone, Debug)]
pub struct Ledger {
    /// Every entry that was ever in any log, and the term of the one before it.
    entries: BTreeMap<LogPosition, (Payload, Term)>,
    /// Of each committed index, from 1 on: its term, and the term in which it was committed.
    committed: Vec<(Term, Term)>,
    /// The committed configurations, the founders' first.
    memberships: Vec<(Index, Arc<Membership>)>,
}

impl Ledger {
    pub(super) fn new(founders: Membership) -> Self {
        let memberships = vec![(Index::ZERO, Arc::new(founders))];
        Self { entries: BTreeMap::new(), committed: Vec::new(), memberships }
    }

    /// The configuration of the committed entry at `index`, and its own index.
    pub fn membership_at(&self, index: Index) -> (Index, &Arc<Membership>) {
        configurations::at(&self.memberships, index)
    }

    /// Everything up to here was committed at some node.
    pub fn committed(&self) -> Index {
        Index(self.committed.len() as u64)
    }

    /// The term of the committed entry at `index`.
    pub fn committed_term(&self, index: Index) -> Option<Term> {
        self.commit_of(index).map(|(term, _)| term)
    }

    /// The term whose leader committed the entry at `index`.
    pub fn committed_in(&self, index: Index) -> Option<Term> {
        self.commit_of(index).map(|(_, within)| within)
    }

    fn commit_of(&self, index: Index) -> Option<(Term, Term)> {
        self.committed.get(index.0.checked_sub(1)? as usize).copied()
    }

    /// The payload of the committed entry at `index`.
    pub fn committed_payload(&self, index: Index) -> Option<&Payload> {
        self.payload(LogPosition { term: self.committed_term(index)?, index })
    }

    /// The payload of the entry at `position`, in whatever log it was.
    pub fn payload(&self, position: LogPosition) -> Option<&Payload> {
        self.entries.get(&position).map(|(payload, _)| payload)
    }

    pub(super) fn write(&mut self, entry: &Entry, before: Term) {
        let Some((payload, known_before)) = self.entries.get(&entry.position()) else {
            self.entries.insert(entry.position(), (entry.payload.clone(), before));
            return;
        };
        let at = entry.position();
        assert_eq!(payload, &entry.payload, "Log Matching: two entries at {at:?}");
        assert_eq!(*known_before, before, "Log Matching: two terms before {at:?}");
    }

    pub(super) fn commit(&mut self, index: Index, term: Term, within: Term) {
        if let Some(known) = self.committed_term(index) {
            assert_eq!(known, term, "State Machine Safety: {index:?} is committed in two terms");
        } else {
            assert_eq!(index, self.committed().next(), "commits leave no gap");
            self.committed.push((term, within));
            let payload = self.payload(LogPosition { term, index });
            if let Some(Payload::Membership(membership)) = payload {
                self.memberships.push((index, Arc::clone(membership)));
            }
        }
    }
}
