//! **A lease is held alone** (thesis §6.4.1): a read under a lease sees everything that was
//! committed, and as long as its answer may leave, nobody commits as a later leader.

use std::collections::{BTreeMap, BTreeSet};

use raft_core::{Effect, Envelope, Instant, Message, NodeId, Term};

use super::{Ledger, Seen, Step};

#[derive(Clone, Debug, Default)]
pub struct Oracle {
    /// Until when the last lease of each leader holds, by the cluster's clock.
    leases: BTreeMap<(NodeId, Term), Instant>,
    /// Leaders that have asked somebody to take over: none of them holds a lease any more.
    void: BTreeSet<(NodeId, Term)>,
    /// How many reads were served so.
    served: u64,
}

impl Oracle {
    /// How many reads were served under a lease.
    pub fn served(&self) -> u64 {
        self.served
    }

    pub(super) fn observe(&mut self, ledger: &Ledger, step: &Step<'_, impl Seen>) {
        let (raft, member) = (step.raft, step.member());
        let local = member.local(step.now);
        let holder = (step.id, raft.term());
        for effect in step.effects {
            if let Effect::Send(Envelope { term, message: Message::TimeoutNow, .. }) = effect {
                // What was answered before that was asked before that, too.
                self.void.insert((step.id, *term));
                self.leases.remove(&(step.id, *term));
            }
            let &Effect::ReadReady { requests, index, until: Some(until) } = effect else {
                continue;
            };
            assert!(until > local, "{:?} answers under a lease that is over", step.id);
            assert_eq!(index, ledger.committed(), "{:?} does not see all under a lease", step.id);
            let until = member.global(until);
            assert!(!self.void.contains(&holder), "{:?} reads under a void lease", step.id);
            let known = self.leases.entry(holder).or_insert(until);
            *known = (*known).max(until);
            self.served += requests.count;
        }
        let within = ledger.committed_in(ledger.committed()).unwrap_or_default();
        self.leases.retain(|_, until| *until > step.now);
        for (holder, term) in self.leases.keys() {
            assert!(
                within <= *term,
                "{within:?} commits while {holder:?} holds a lease of {term:?}"
            );
        }
    }
}
