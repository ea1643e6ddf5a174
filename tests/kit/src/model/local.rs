//! One node: the shipped core, its disk and its state machine; and what one act makes of it.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use raft_core::{
    ChangeSet, Effect, Entries, Event, Index, Instant, Membership, Message, NodeId, Raft,
    RequestId, Requests, RoleKind, Saved, Snapshot, Term, Ticket,
};

use super::act::{Act, Machine, Packet};
use super::bounds::{Bounds, Disks, HEARTBEAT, LONG};
use super::rules::{self, Facts};
use super::text::Text;
use crate::cluster::{File, Image, Store, node};

/// A node and everything that belongs to it alone.
#[derive(Clone, Debug)]
pub(super) struct Local {
    pub(super) raft: Raft,
    pub(super) store: Store,
    /// How far the state machine has come.
    pub(super) machine: Index,
    pub(super) open: BTreeMap<RequestId, Open>,
    requests: u64,
    /// How often it has started; told apart only where questions are asked, by their numbers.
    run: u64,
    clock: Instant,
}

/// A request that has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Open {
    /// Of an entry, which stands at this index and was written in this term.
    Proposal(Index, Term),
    /// It must see everything up to here.
    Read(Index),
    Change,
    Transfer,
}

/// What one act did.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) local: Local,
    pub(super) sent: Vec<Packet>,
    pub(super) facts: Facts,
    /// Whether something was written, and was durable at once.
    pub(super) synced: bool,
    pace: Pace,
}

/// How long writes take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Pace {
    /// No time; those before them are done then, too.
    AtOnce,
    /// The disk stalls.
    Stalled,
}

impl Local {
    pub(super) fn new(bounds: &Bounds, number: u64) -> Self {
        let founders = (1..=bounds.founders).map(node);
        let known = if number <= bounds.founders {
            Membership::new(founders).expect("somebody founds a group")
        } else {
            Membership::unknown()
        };
        let image = Image::new(known.clone(), Default::default(), Vec::new());
        let config = bounds.config(node(number));
        let saved = Saved::first_start(known);
        let raft = Raft::restore(config, saved, 0, Instant(0)).expect("the settings work");
        Self {
            raft,
            store: Store::new(image),
            machine: Index::ZERO,
            open: BTreeMap::new(),
            requests: 0,
            run: 0,
            clock: Instant(0),
        }
    }

    pub(super) fn id(&self) -> NodeId {
        self.raft.id()
    }

    /// Writes down everything that can matter later.
    pub(super) fn describe(&self, text: &mut Text) {
        let pending: Vec<_> = self.store.writes().collect();
        let files: Vec<_> = self.store.files().map(|file| &file.snapshot).collect();
        let disk = (self.store.durable(), pending, files);
        text.show(&(&self.raft, disk, self.machine, &self.open, self.run));
        text.counting_from(self.clock.0);
    }

    /// What can happen to it now, but for packets that arrive.
    pub(super) fn acts(&self, bounds: &Bounds) -> Vec<Act> {
        let (raft, mut acts) = (&self.raft, Vec::new());
        let leads = raft.role() == RoleKind::Leader;
        if leads {
            if bounds.heartbeats {
                acts.push(Act::Heartbeat);
            }
            if bounds.check_quorum || bounds.transfers > 0 {
                acts.push(Act::Timeout);
            }
        } else if raft.term().0 < bounds.term_max {
            acts.push(Act::Timeout);
        }
        if bounds.silence && (leads || raft.leader().is_some()) {
            acts.push(Act::Silence);
        }
        let pending = self.store.pending().len() as u8;
        acts.extend((1..=pending).map(Act::Persisted));
        if bounds.crashes > 0 {
            for kept in 0..=pending {
                acts.push(Act::Crash { kept, machine: Machine::Stays });
                if self.machine > self.store.durable().snapshot().last.index {
                    acts.push(Act::Crash { kept, machine: Machine::FallsBackToSnapshot });
                }
            }
        }
        if bounds.damages > 0 {
            let image = self.store.durable();
            let kept = image.snapshot().last.index.max(image.base().index).0;
            acts.extend((kept..image.last_index().0).map(|last| Act::Damage(Index(last))));
        }
        if bounds.snapshots > 0 && self.machine > raft.snapshot().index {
            acts.push(Act::Snapshot);
        }
        if leads {
            if bounds.proposals > 0 && raft.last().index.0 < bounds.last_max {
                acts.push(Act::Propose);
            }
            acts.extend((0..bounds.changes.len() as u8).map(Act::Change));
            if bounds.transfers > 0 {
                let others = raft.membership().voters().filter(|other| *other != raft.id());
                acts.extend(others.map(Act::Transfer));
            }
        }
        acts
    }

    /// Whether a read can be asked for here.
    pub(super) fn can_read(&self) -> bool {
        self.raft.leader().is_some()
    }

    /// Whether it keeps within the bounds.
    pub(super) fn is_within(&self, bounds: &Bounds) -> bool {
        self.raft.term().0 <= bounds.term_max && self.raft.last().index.0 <= bounds.last_max
    }

    /// What `act` makes of it.
    ///
    /// # Panics
    /// When it breaks a rule.
    pub(super) fn after(
        &self,
        bounds: &Bounds,
        (act, pace): (Act, Pace),
        packet: Option<&Packet>,
    ) -> Outcome {
        let (sent, facts) = (Vec::new(), Facts::default());
        let mut step = Outcome { local: self.clone(), sent, facts, synced: false, pace };
        match act {
            Act::Receive(_) => {
                let event = match packet.expect("a packet arrives") {
                    Packet::Message(envelope) => Event::Receive(envelope.clone()),
                    Packet::Snapshot { from, term, snapshot, .. } => {
                        step.receive_snapshot(*from, *term, snapshot)
                    }
                    Packet::Sent { peer, last, .. } => {
                        Event::SnapshotSent { peer: *peer, last: *last }
                    }
                };
                step.tell(bounds, event);
            }
            Act::Timeout => {
                step.local.clock = step.local.clock + LONG;
                step.tell(bounds, Event::Timer);
            }
            Act::Heartbeat => {
                step.local.clock = step.local.clock + HEARTBEAT;
                step.tell(bounds, Event::Timer);
            }
            Act::Silence => step.local.clock = step.local.clock + LONG,
            Act::Persisted(count) => {
                let ticket = self.store.pending().nth(usize::from(count) - 1);
                step.persist(bounds, ticket.expect("such a write is under way"));
            }
            Act::Crash { kept, machine } => step.crash(bounds, usize::from(kept), machine),
            Act::Damage(last) => {
                step.local.store.crash(usize::MAX);
                step.local.store.damage(last);
                step.crash(bounds, 0, Machine::Stays);
            }
            Act::Propose => {
                let at = self.raft.last().index.next();
                let requests = step.ask(Open::Proposal(at, self.raft.term()));
                let entries = Entries::proposal([Bytes::from_static(b"x")]);
                step.tell(bounds, Event::Propose { requests, entries });
            }
            Act::Read(floor) => {
                let requests = step.ask(Open::Read(floor));
                step.tell(bounds, Event::Read { requests, lease: false });
            }
            Act::Snapshot => step.take_snapshot(bounds),
            Act::Change(number) => {
                let request = step.ask(Open::Change).first;
                let changes = bounds.changes[usize::from(number)].clone();
                let set = ChangeSet { changes, expected: None, force: false };
                step.tell(bounds, Event::ChangeMembership { request, set });
            }
            Act::Transfer(to) => {
                let request = step.ask(Open::Transfer).first;
                step.tell(bounds, Event::TransferLeadership { request, to: Some(to) });
            }
        }
        rules::settled(self, &mut step);
        step
    }
}

impl Outcome {
    fn ask(&mut self, open: Open) -> Requests {
        self.local.requests += 1;
        let request = RequestId(self.local.requests);
        self.local.open.insert(request, open);
        Requests::one(request)
    }

    /// Tells the core, and does what it wants done, until it wants no more.
    fn tell(&mut self, bounds: &Bounds, event: Event) {
        let mut events = VecDeque::from([event]);
        let mut effects = Vec::new();
        while let Some(event) = events.pop_front() {
            let before = rules::Before::of(&self.local);
            self.local.raft.handle(self.local.clock, event, &mut effects);
            rules::observe(&before, &mut self.local, &effects, &mut self.facts);
            for effect in effects.drain(..) {
                self.perform(bounds, effect, &mut events);
            }
        }
    }

    fn perform(&mut self, bounds: &Bounds, effect: Effect, events: &mut VecDeque<Event>) {
        let local = &mut self.local;
        match effect {
            Effect::Persist(write) => {
                let ticket = write.ticket;
                local.store.write(write);
                if self.pace == Pace::AtOnce {
                    self.synced = true;
                    if bounds.disks != Disks::LieAboutSyncs {
                        local.store.sync(ticket);
                    }
                    events.push_back(Event::Persisted(ticket));
                }
            }
            Effect::Send(mut envelope) => {
                if let Message::Heartbeat { sent_at, .. } = &mut envelope.message {
                    *sent_at = Instant(0); // Means something only where leases are on.
                }
                self.sent.push(Packet::Message(envelope));
            }
            Effect::Apply { last, .. } => {
                local.machine = last;
                events.push_back(Event::Applied(last));
            }
            Effect::Install { last } => {
                local.machine = last.index;
                events.push_back(Event::Applied(last.index));
            }
            Effect::SendSnapshot { peer, term, at_least } => {
                let file = local.store.files().next_back().expect("who has no log has a snapshot");
                let (from, snapshot) = (local.raft.id(), file.snapshot.clone());
                assert!(snapshot.last >= at_least, "{from:?} sends what covers too little");
                self.sent.push(Packet::Snapshot { from, to: peer, term, snapshot });
                self.sent.push(Packet::Sent { to: from, peer, last: None });
            }
            Effect::Load { peer, first, last, bytes_max } => {
                let entries = local.store.read(first, last, bytes_max);
                events.push_back(Event::Loaded { peer, entries });
            }
            Effect::CancelSnapshots
            | Effect::ReadReady { .. }
            | Effect::Transferred { .. }
            | Effect::MembershipChanged { .. }
            | Effect::Resolve { .. }
            | Effect::Refuse { .. }
            | Effect::PeerRegressed { .. }
            | Effect::RoleChanged(_) => {}
        }
    }

    fn persist(&mut self, bounds: &Bounds, ticket: Ticket) {
        if bounds.disks != Disks::LieAboutSyncs {
            self.local.store.sync(ticket);
        }
        self.tell(bounds, Event::Persisted(ticket));
    }

    fn crash(&mut self, bounds: &Bounds, kept: usize, machine: Machine) {
        let local = &mut self.local;
        local.store.crash(kept);
        if bounds.disks == Disks::ForgetVotes {
            let mut image = local.store.durable().clone();
            image.hard_state.vote = None;
            local.store = Store::new(image);
        }
        if machine == Machine::FallsBackToSnapshot {
            local.machine = local.store.durable().snapshot().last.index;
        }
        local.open.clear();
        local.requests = 0;
        local.run += u64::from(bounds.reads > 0);
        let (saved, seed) = (local.store.durable().saved(local.machine), local.run);
        let config = bounds.config(local.raft.id());
        local.raft = Raft::restore(config, saved, seed, local.clock).expect("it can start");
        if local.raft.deadline() == Some(local.clock) {
            self.tell(bounds, Event::Timer); // Something can be applied at once.
        }
    }

    fn take_snapshot(&mut self, bounds: &Bounds) {
        let applied = self.local.raft.applied_index();
        let Some(snapshot) = self.local.raft.snapshot_at(applied) else { return };
        self.facts.snapshot = Some(snapshot.clone());
        self.local.store.publish(File { snapshot: snapshot.clone(), machine: [].into() });
        self.tell(bounds, Event::SnapshotTaken(snapshot));
    }

    fn receive_snapshot(&mut self, from: NodeId, term: Term, snapshot: &Snapshot) -> Event {
        self.local.store.publish(File { snapshot: snapshot.clone(), machine: [].into() });
        let (peer, last) = (self.local.id(), Some(snapshot.last));
        self.sent.push(Packet::Sent { to: from, peer, last });
        Event::SnapshotReceived { from, term, snapshot: snapshot.clone() }
    }
}
