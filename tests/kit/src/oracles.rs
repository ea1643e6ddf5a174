//! Watches a group and panics at the first step that breaks a safety property. One small file
//! for each property; [`Ledger`] is what they share. They look at cores, logs and effects alone, so
//! the clusters of cores and the simulator of whole nodes are judged by the same ones.

mod bounded_requests;
mod configurations;
mod durable_promises;
mod election_safety;
mod leader_completeness;
mod leases;
mod ledger;
mod linearizable_reads;
mod log_matching;
mod monotone;
mod one_vote;
mod state_machine_safety;

use std::collections::BTreeMap;

use bytes::Bytes;
use raft_core::{Effect, Index, Instant, Membership, NodeId, Raft, Requests, Snapshot};

pub use bounded_requests::Ending;
pub use ledger::Ledger;

use crate::cluster::Image;

/// What is seen of a node beside its core.
pub(crate) trait Seen {
    /// How many times it has started.
    fn run(&self) -> u64;
    /// What it has written, durable or not.
    fn live(&self) -> &Image;
    /// What would survive a crash.
    fn durable(&self) -> &Image;
    /// What it held durably before its disk was exchanged for an empty one.
    fn lost(&self) -> Option<&Image> {
        None
    }
    /// Its state machine was told to apply everything up to here.
    fn applied(&self) -> Index;
    /// Its clock when the true one shows `clock`.
    fn local(&self, clock: Instant) -> Instant;
    /// The true clock when its own shows `local`.
    fn global(&self, local: Instant) -> Instant;
}

/// One step of one node: what it was told to do just now, before any of it is done.
pub(crate) struct Step<'a, M> {
    pub(crate) id: NodeId,
    /// The true clock.
    pub(crate) now: Instant,
    pub(crate) raft: &'a Raft,
    pub(crate) members: &'a BTreeMap<NodeId, M>,
    pub(crate) effects: &'a [Effect],
}

impl<'a, M> Step<'a, M> {
    fn member(&self) -> &'a M {
        &self.members[&self.id]
    }
}

/// Whether `agrees` holds for more than half of the voters, in a joint phase of both configurations.
/// Counted anew: how the core counts is among what is judged.
fn has_quorum(membership: &Membership, agrees: impl Fn(NodeId) -> bool) -> bool {
    let most = |voters: Vec<NodeId>| {
        2 * voters.iter().filter(|voter| agrees(**voter)).count() > voters.len()
    };
    let outgoing: Vec<NodeId> = membership.outgoing().collect();
    most(membership.voters().collect()) && (outgoing.is_empty() || most(outgoing))
}

/// All oracles. They outlive crashes: what a node promised once binds it for ever.
#[derive(Clone, Debug)]
pub struct Oracles {
    ledger: Ledger,
    election_safety: election_safety::Oracle,
    log_matching: log_matching::Oracle,
    configurations: configurations::Oracle,
    leader_completeness: leader_completeness::Oracle,
    state_machine_safety: state_machine_safety::Oracle,
    monotone: monotone::Oracle,
    one_vote: one_vote::Oracle,
    durable_promises: durable_promises::Oracle,
    bounded_requests: bounded_requests::Oracle,
    linearizable_reads: linearizable_reads::Oracle,
    leases: leases::Oracle,
}

impl Oracles {
    pub(crate) fn new(founders: Membership) -> Self {
        Self {
            ledger: Ledger::new(founders),
            election_safety: Default::default(),
            log_matching: Default::default(),
            configurations: Default::default(),
            leader_completeness: Default::default(),
            state_machine_safety: Default::default(),
            monotone: Default::default(),
            one_vote: Default::default(),
            durable_promises: Default::default(),
            bounded_requests: Default::default(),
            linearizable_reads: Default::default(),
            leases: Default::default(),
        }
    }

    /// Callers propose again what may have been lost.
    pub(crate) fn allow_repetitions(&mut self) {
        self.bounded_requests.allow_repetitions();
    }

    /// What every oracle may know: all entries ever written, all that was ever committed.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    pub(crate) fn observe(&mut self, step: &Step<'_, impl Seen>) {
        self.log_matching.observe(&mut self.ledger, step);
        self.configurations.observe(step);
        self.monotone.observe(step);
        self.election_safety.observe(step);
        self.one_vote.observe(step);
        self.durable_promises.observe(&self.ledger, step);
        self.state_machine_safety.observe_commit(&mut self.ledger, step);
        self.leader_completeness.observe(&self.ledger, step);
        self.state_machine_safety.observe_apply(&self.ledger, step);
        self.bounded_requests.observe(&self.ledger, step);
        self.linearizable_reads.observe(step);
        self.leases.observe(&self.ledger, step);
    }

    /// A node has done what it wanted done.
    pub(crate) fn after(&self, id: NodeId, raft: &Raft, member: &impl Seen) {
        self.configurations.after(id, raft, member);
    }

    /// A node has taken a snapshot.
    pub(crate) fn on_snapshot(&self, id: NodeId, snapshot: &Snapshot) {
        self.configurations.on_snapshot(&self.ledger, id, snapshot);
    }

    /// The disk held this before the cluster began.
    pub(crate) fn on_image(&mut self, entries: &[raft_core::Entry]) {
        self.log_matching.on_image(&mut self.ledger, entries);
    }

    pub(crate) fn on_start(&mut self, id: NodeId, raft: &Raft, member: &impl Seen) {
        self.monotone.on_start(id, raft, member);
    }

    /// A node has lost its disk, and has another one.
    pub(crate) fn on_new_disk(&mut self, id: NodeId) {
        self.one_vote.on_new_disk(id);
    }

    pub(crate) fn on_crash(&mut self, id: NodeId) {
        self.bounded_requests.on_crash(id);
        self.linearizable_reads.on_crash(id);
    }

    pub(crate) fn on_propose(&mut self, id: NodeId, now: Instant, at: Requests, what: &[Bytes]) {
        self.bounded_requests.on_propose(id, now, at, what);
    }

    pub(crate) fn on_read(&mut self, id: NodeId, now: Instant, requests: Requests) {
        self.bounded_requests.on_read(id, now, requests);
        self.linearizable_reads.on_read(id, requests, self.ledger.committed());
    }

    pub(crate) fn on_change(&mut self, id: NodeId, now: Instant, requests: Requests) {
        self.bounded_requests.on_change(id, now, requests);
    }

    pub(crate) fn on_transfer(&mut self, id: NodeId, now: Instant, requests: Requests) {
        self.bounded_requests.on_transfer(id, now, requests);
    }

    /// How many reads were served under a lease.
    pub fn lease_reads(&self) -> u64 {
        self.leases.served()
    }

    /// How many snapshots took the place of a state.
    pub fn installed(&self) -> u64 {
        self.state_machine_safety.installed()
    }

    /// How each request ended so far, and what is still open.
    pub fn requests(&self) -> &bounded_requests::Oracle {
        &self.bounded_requests
    }
}
