//! The engine without its I/O: inputs go in, work comes out. The tokio shell around it
//! ([`runtime`](crate::runtime)) and a simulator run the same code.
//!
//! ```text
//!   proposals ─┐                    ┌─▶ writes   (storage thread)
//!   reads ─────┤                    ├─▶ sends    (transport)
//!   envelopes ─┼─▶ Driver ─▶ Raft ──┼─▶ applies  (apply thread)
//!   done ──────┤                    ├─▶ loads    (reader)
//!   timer ─────┘                    └─▶ answers  (callers)
//! ```

use std::collections::VecDeque;

use bytes::Bytes;
use raft_core::{
    Effect, Entries, Envelope, Event, Index, Instant, NodeId, Outcome, Raft, Refusal, RoleChange,
    Write,
};

use crate::error::{ProposeError, ReadError, Refused};
use crate::waiters::Waiters;

/// How many batches are with the apply thread at once: one to work on, one to go on with.
const APPLY_BATCHES_MAX: usize = 2;
/// The most bytes of one batch to apply (a single larger entry goes alone).
const APPLY_BYTES_MAX: usize = 1 << 20;
/// The most entries of a batch that has to be read from storage.
const APPLY_STORED_MAX: u64 = 1024;

/// What happened, beside proposals and reads.
#[derive(Debug)]
pub(crate) enum Input {
    Timer,
    Receive(Envelope),
    Persisted(raft_core::Ticket),
    StorageFailed,
    Loaded { peer: NodeId, entries: Entries },
    Applied(Index),
}

/// What is to be done. Writes and batches to apply are first-in-first-out.
#[derive(Debug)]
pub(crate) struct Work<P, R> {
    pub(crate) writes: Vec<Write>,
    pub(crate) sends: Vec<Envelope>,
    pub(crate) applies: Vec<Batch<P>>,
    pub(crate) loads: Vec<Load>,
    pub(crate) proposals_failed: Vec<(P, ProposeError)>,
    pub(crate) reads_failed: Vec<(R, ReadError)>,
    pub(crate) reads_ready: Vec<(R, Index)>,
    pub(crate) role_changes: Vec<RoleChange>,
    pub(crate) regressions: Vec<Regression>,
}

/// Committed entries to be applied, and who waits for their responses.
#[derive(Debug)]
pub(crate) struct Batch<P> {
    pub(crate) first: Index,
    pub(crate) last: Index,
    /// The entries, or `None` when they have to be read from storage.
    pub(crate) entries: Option<Entries>,
    pub(crate) waiters: Vec<(Index, P)>,
}

/// Entries to be read from storage for a peer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) peer: NodeId,
    pub(crate) first: Index,
    pub(crate) last: Index,
    pub(crate) bytes_max: usize,
}

/// A peer lost what it had acknowledged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Regression {
    pub(crate) peer: NodeId,
    pub(crate) acknowledged: Index,
    pub(crate) holds: Index,
}

/// The core, and everybody who waits for it. `P` and `R` are how to answer a proposal and a
/// read; both end exactly once.
#[derive(Debug)]
pub(crate) struct Driver<P, R> {
    raft: Raft,
    effects: Vec<Effect>,
    waiters: Waiters<Waiter<P, R>>,
    /// Committed, but not yet handed to the apply thread.
    committed: VecDeque<(Index, P)>,
    /// Confirmed, but the state machine is not there yet. Ascending.
    confirmed: VecDeque<(Index, R)>,
    /// Handed to the apply thread up to here.
    applying: Index,
    /// May be handed to it up to here.
    applicable: Index,
    batches: usize,
}

#[derive(Debug)]
enum Waiter<P, R> {
    Proposal(P),
    Read(R),
}

impl<P, R> Default for Work<P, R> {
    fn default() -> Self {
        Self {
            writes: Vec::new(),
            sends: Vec::new(),
            applies: Vec::new(),
            loads: Vec::new(),
            proposals_failed: Vec::new(),
            reads_failed: Vec::new(),
            reads_ready: Vec::new(),
            role_changes: Vec::new(),
            regressions: Vec::new(),
        }
    }
}

impl<P, R> Driver<P, R> {
    pub(crate) fn new(raft: Raft) -> Self {
        let applied = raft.applied_index();
        Self {
            raft,
            effects: Vec::new(),
            waiters: Waiters::new(),
            committed: VecDeque::new(),
            confirmed: VecDeque::new(),
            applying: applied,
            applicable: applied,
            batches: 0,
        }
    }

    pub(crate) fn raft(&self) -> &Raft {
        &self.raft
    }

    /// Proposes a batch of commands. Leaves `proposals` empty.
    pub(crate) fn propose(
        &mut self,
        now: Instant,
        proposals: &mut Vec<(Bytes, P)>,
        work: &mut Work<P, R>,
    ) {
        if proposals.is_empty() {
            return;
        }
        let entries = Entries::proposal(proposals.iter_mut().map(|(b, _)| std::mem::take(b)));
        let waiters = proposals.drain(..).map(|(_, waiter)| Waiter::Proposal(waiter));
        let requests = self.waiters.add(waiters);
        self.step(now, Event::Propose { requests, entries }, work);
    }

    /// Asks for a read index for a batch of readers. Leaves `readers` empty.
    pub(crate) fn read(&mut self, now: Instant, readers: &mut Vec<R>, work: &mut Work<P, R>) {
        if readers.is_empty() {
            return;
        }
        let requests = self.waiters.add(readers.drain(..).map(Waiter::Read));
        self.step(now, Event::Read { requests, lease: false }, work);
    }

    pub(crate) fn handle(&mut self, now: Instant, input: Input, work: &mut Work<P, R>) {
        let event = match input {
            Input::Timer => Event::Timer,
            Input::Receive(envelope) => Event::Receive(envelope),
            Input::Persisted(ticket) => Event::Persisted(ticket),
            Input::StorageFailed => Event::StorageFailed,
            Input::Loaded { peer, entries } => Event::Loaded { peer, entries },
            Input::Applied(index) => {
                self.batches -= 1;
                while let Some((_, reader)) =
                    self.confirmed.pop_front_if(|(needs, _)| *needs <= index)
                {
                    work.reads_ready.push((reader, index));
                }
                Event::Applied(index)
            }
        };
        self.step(now, event, work);
    }

    /// Ends everybody who waits: the node stops.
    pub(crate) fn stop(&mut self, work: &mut Work<P, R>) {
        let unknown = |waiter| (waiter, ProposeError::Unknown);
        work.proposals_failed.extend(self.committed.drain(..).map(|(_, waiter)| unknown(waiter)));
        let stopped = |reader| (reader, ReadError::Stopped);
        work.reads_failed.extend(self.confirmed.drain(..).map(|(_, reader)| stopped(reader)));
        for waiter in self.waiters.drain() {
            match waiter {
                Waiter::Proposal(waiter) => work.proposals_failed.push(unknown(waiter)),
                Waiter::Read(reader) => work.reads_failed.push(stopped(reader)),
            }
        }
    }

    fn step(&mut self, now: Instant, event: Event, work: &mut Work<P, R>) {
        let mut effects = std::mem::take(&mut self.effects);
        self.raft.handle(now, event, &mut effects);
        for effect in effects.drain(..) {
            self.perform(effect, work);
        }
        self.effects = effects;
        self.hand_out(work);
    }

    fn perform(&mut self, effect: Effect, work: &mut Work<P, R>) {
        match effect {
            Effect::Persist(write) => work.writes.push(write),
            Effect::Send(envelope) => work.sends.push(envelope),
            Effect::Apply { last, .. } => self.applicable = last,
            Effect::Load { peer, first, last, bytes_max } => {
                work.loads.push(Load { peer, first, last, bytes_max });
            }
            Effect::ReadReady { requests, index, until: _ } => {
                let applied = self.raft.applied_index();
                let confirmed = &mut self.confirmed;
                self.waiters.take(requests, |_, waiter| match waiter {
                    Waiter::Read(reader) if index <= applied => {
                        work.reads_ready.push((reader, applied));
                    }
                    Waiter::Read(reader) => {
                        let at = confirmed.partition_point(|(needs, _)| *needs <= index);
                        confirmed.insert(at, (index, reader));
                    }
                    Waiter::Proposal(_) => unreachable!("only reads are ready"),
                });
            }
            Effect::Resolve { requests, outcome } => self.resolve(requests, outcome, work),
            Effect::Refuse { requests, reason } => {
                self.waiters.take(requests, |_, waiter| match waiter {
                    Waiter::Proposal(waiter) => {
                        work.proposals_failed.push((waiter, refused(reason)));
                    }
                    Waiter::Read(reader) => work.reads_failed.push((reader, unreadable(reason))),
                });
            }
            Effect::PeerRegressed { peer, acknowledged, holds } => {
                work.regressions.push(Regression { peer, acknowledged, holds });
            }
            Effect::RoleChanged(change) => work.role_changes.push(change),
            Effect::Install { .. }
            | Effect::SendSnapshot { .. }
            | Effect::CancelSnapshots
            | Effect::Transferred { .. }
            | Effect::MembershipChanged { .. } => {}
        }
    }

    fn resolve(&mut self, requests: raft_core::Requests, outcome: Outcome, work: &mut Work<P, R>) {
        let (committed, applying) = (&mut self.committed, self.applying);
        self.waiters.take(requests, |offset, waiter| {
            let Waiter::Proposal(waiter) = waiter else { unreachable!("only proposals resolve") };
            match outcome {
                Outcome::Committed { first } if first.0 + offset > applying.0 => {
                    let index = Index(first.0 + offset);
                    let at = committed.partition_point(|(other, _)| *other < index);
                    committed.insert(at, (index, waiter));
                }
                // Its place became known only after it was applied: the response is gone.
                Outcome::Committed { .. } | Outcome::Unknown => {
                    work.proposals_failed.push((waiter, ProposeError::Unknown));
                }
                Outcome::Superseded => {
                    let error = ProposeError::Refused(Refused::Superseded);
                    work.proposals_failed.push((waiter, error));
                }
            }
        });
    }

    /// Hands what may be applied to the apply thread, as far as it keeps up.
    fn hand_out(&mut self, work: &mut Work<P, R>) {
        while self.applying < self.applicable && self.batches < APPLY_BATCHES_MAX {
            let first = self.applying.next();
            let entries = self.raft.recent_entries(first, self.applicable, APPLY_BYTES_MAX);
            let last = match &entries {
                Some(entries) => Index(self.applying.0 + entries.len() as u64),
                None => self.applicable.min(Index(self.applying.0 + APPLY_STORED_MAX)),
            };
            let mine = self.committed.partition_point(|(index, _)| *index <= last);
            let waiters = self.committed.drain(..mine).collect();
            work.applies.push(Batch { first, last, entries, waiters });
            self.applying = last;
            self.batches += 1;
        }
    }

    /// When [`Input::Timer`] is due.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.raft.deadline()
    }
}

fn refused(reason: Refusal) -> ProposeError {
    match reason {
        Refusal::NotLeader { leader } => ProposeError::NotLeader { leader },
        Refusal::Overloaded => ProposeError::Refused(Refused::Overloaded),
        Refusal::TooLarge => ProposeError::Refused(Refused::TooLarge),
        Refusal::StorageFailed => ProposeError::Stopped,
        Refusal::Transferring | Refusal::Change(_) | Refusal::Transfer(_) => {
            ProposeError::NotLeader { leader: None }
        }
    }
}

fn unreadable(reason: Refusal) -> ReadError {
    match reason {
        Refusal::NotLeader { leader } => ReadError::NoLeader { leader },
        Refusal::Overloaded | Refusal::TooLarge => ReadError::Overloaded,
        Refusal::StorageFailed => ReadError::Stopped,
        Refusal::Transferring | Refusal::Change(_) | Refusal::Transfer(_) => {
            ReadError::NoLeader { leader: None }
        }
    }
}
