//! **Every request ends exactly once, and truly** (thesis §6.3): committed means this entry, at
//! this place; refused and superseded mean that it is executed never, by nobody; and whatever is
//! proposed once is executed at most once. [`Oracle::open`] is for tests that demand an end.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use raft_core::{Effect, Index, Instant, NodeId, Outcome, Payload, RequestId, Requests};

use super::{Ledger, Seen, Step};

/// How requests ended, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ending {
    /// Proposals committed.
    pub committed: u64,
    /// Proposals superseded.
    pub superseded: u64,
    /// Proposals and changes whose fate is not known.
    pub unknown: u64,
    /// Requests of all kinds refused.
    pub refused: u64,
    /// Reads answered.
    pub read: u64,
    /// Changes of the members made to the end.
    pub changed: u64,
    /// Leaderships handed over.
    pub transferred: u64,
}

#[derive(Clone, Debug, Default)]
pub struct Oracle {
    open: BTreeMap<(NodeId, RequestId), Open>,
    /// Callers propose the same again: then the payload does not tell one proposal from another,
    /// and whoever knows the callers judges what was executed how often.
    may_repeat: bool,
    /// Payloads that must never be committed.
    never: BTreeSet<Bytes>,
    /// Where each payload was committed, as far as `audited`.
    places: BTreeMap<Bytes, Index>,
    audited: Index,
    ending: Ending,
}

/// A request that has not ended, and since when it is open.
#[derive(Clone, Debug)]
struct Open {
    what: What,
    since: Instant,
}

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum What {
    Propose(Bytes),
    Read,
    Change,
    Transfer,
}

impl Oracle {
    pub(super) fn allow_repetitions(&mut self) {
        self.may_repeat = true;
    }

    pub(super) fn on_propose(&mut self, id: NodeId, now: Instant, at: Requests, what: &[Bytes]) {
        assert_eq!(at.count, what.len() as u64, "one number for each");
        for (payload, request) in what.iter().zip(at.first.0..) {
            let open = Open { what: What::Propose(payload.clone()), since: now };
            self.open.insert((id, RequestId(request)), open);
        }
    }

    pub(super) fn on_read(&mut self, id: NodeId, now: Instant, requests: Requests) {
        self.ask(id, now, requests, &What::Read);
    }

    pub(super) fn on_change(&mut self, id: NodeId, now: Instant, requests: Requests) {
        self.ask(id, now, requests, &What::Change);
    }

    pub(super) fn on_transfer(&mut self, id: NodeId, now: Instant, requests: Requests) {
        self.ask(id, now, requests, &What::Transfer);
    }

    fn ask(&mut self, id: NodeId, now: Instant, requests: Requests, what: &What) {
        for request in requests.first.0..requests.end().0 {
            let open = Open { what: what.clone(), since: now };
            self.open.insert((id, RequestId(request)), open);
        }
    }

    /// The callers died with their node.
    pub(super) fn on_crash(&mut self, id: NodeId) {
        self.open.retain(|(node, _), _| *node != id);
    }

    /// The requests that have not ended, and since when each is open.
    pub fn open(&self) -> impl ExactSizeIterator<Item = (NodeId, RequestId, Instant)> + '_ {
        self.open.iter().map(|(&(node, request), open)| (node, request, open.since))
    }

    /// How all others ended.
    pub fn ending(&self) -> Ending {
        self.ending
    }

    pub(super) fn observe(&mut self, ledger: &Ledger, step: &Step<'_, impl Seen>) {
        self.audit(ledger);
        for effect in step.effects {
            match *effect {
                Effect::Resolve { requests, outcome: Outcome::Committed { first } } => {
                    for (what, index) in self.close(step, requests).into_iter().zip(first.0..) {
                        self.check_committed(ledger, step, what, Index(index));
                    }
                }
                Effect::Resolve { requests, outcome: Outcome::Superseded } => {
                    self.ending.superseded += requests.count;
                    self.forbid(step, requests);
                }
                Effect::Resolve { requests, outcome: Outcome::Unknown } => {
                    self.ending.unknown += requests.count;
                    let closed = self.close(step, requests);
                    let may_be = |what: &What| matches!(what, What::Propose(_) | What::Change);
                    assert!(closed.iter().all(may_be), "only what changes something is unknown");
                }
                Effect::Refuse { requests, .. } => {
                    self.ending.refused += requests.count;
                    self.forbid(step, requests);
                }
                Effect::ReadReady { requests, .. } => {
                    self.ending.read += requests.count;
                    let closed = self.close(step, requests);
                    let is_read = |what: &What| *what == What::Read;
                    assert!(closed.iter().all(is_read), "only a read is answered");
                }
                Effect::Transferred { request, .. } => {
                    self.ending.transferred += 1;
                    let closed = self.close(step, Requests::one(request));
                    assert_eq!(closed, [What::Transfer], "only leadership is transferred");
                }
                _ => {}
            }
        }
    }

    fn check_committed(
        &mut self,
        ledger: &Ledger,
        step: &Step<'_, impl Seen>,
        what: What,
        index: Index,
    ) {
        let committed = ledger.committed_payload(index);
        match what {
            What::Propose(payload) => {
                self.ending.committed += 1;
                assert_eq!(
                    committed,
                    Some(&Payload::Command(payload)),
                    "{:?} says that its proposal is committed at {index}",
                    step.id
                );
            }
            What::Change => {
                self.ending.changed += 1;
                let Some(Payload::Membership(membership)) = committed else {
                    panic!("{:?} says that the members changed at {index}", step.id);
                };
                assert!(!membership.is_joint(), "{:?} ends a change in its middle", step.id);
            }
            What::Read | What::Transfer => panic!("only what changes something is committed"),
        }
    }

    fn close(&mut self, step: &Step<'_, impl Seen>, requests: Requests) -> Vec<What> {
        assert!(requests.count > 0, "{:?} ends nothing", step.id);
        let numbers = requests.first.0..requests.end().0;
        let close = |number| {
            let open = self.open.remove(&(step.id, RequestId(number)));
            open.unwrap_or_else(|| panic!("{:?} ends r{number} twice", step.id)).what
        };
        numbers.map(close).collect()
    }

    fn forbid(&mut self, step: &Step<'_, impl Seen>, requests: Requests) {
        for what in self.close(step, requests) {
            let What::Propose(payload) = what else { continue };
            if self.may_repeat {
                continue;
            }
            let place = self.places.get(&payload);
            assert_eq!(place, None, "{:?} denies {payload:?}, which is committed", step.id);
            self.never.insert(payload);
        }
    }

    /// Looks at what was committed since the last time.
    fn audit(&mut self, ledger: &Ledger) {
        while !self.may_repeat && self.audited < ledger.committed() {
            self.audited = self.audited.next();
            let payload = ledger.committed_payload(self.audited).expect("committed");
            let Payload::Command(payload) = payload else { continue };
            assert!(!self.never.contains(payload), "{payload:?} was denied, and is committed");
            let earlier = self.places.insert(payload.clone(), self.audited);
            assert_eq!(earlier, None, "{payload:?} is committed twice");
        }
    }
}
