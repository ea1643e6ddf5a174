//! Turns steps of the core into records.

use std::fmt;
use std::sync::Arc;

use raft_core::{
    Effect, Entry, Event, HardState, Instant, LogPosition, Membership, NodeId, Payload, Raft,
    RoleKind, Write,
};

use super::{
    EntryMark, HardStateMark, MembersMark, Outcome, Persist, Position, Record, Role, Said,
    SnapshotNote, Start, VERSION, What,
};
use crate::Observer;

/// Takes records as they are made. It is called on the driver's path: it must be quick, and had
/// better drop a record, and count it, than wait.
#[derive(Clone)]
pub struct Sink(Arc<dyn Fn(Record) + Send + Sync>);

impl Sink {
    /// A sink that does this with each record.
    pub fn new(take: impl Fn(Record) + Send + Sync + 'static) -> Self {
        Self(Arc::new(take))
    }

    /// Takes one.
    pub fn take(&self, record: Record) {
        (self.0)(record);
    }
}

impl fmt::Debug for Sink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sink")
    }
}

/// Which run of which node is recorded.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// A number that no other run of the node has.
    pub number: u64,
    /// The name of its disk, where it has one.
    pub disk: Option<u64>,
    /// What is added to the driver's clock.
    pub epoch_nanos: u64,
}

/// Watches a driver, or a bare core, and hands a [`Record`] of all it sees to a [`Sink`].
#[derive(Clone, Debug)]
pub struct Recorder {
    run: Run,
    sink: Sink,
    has_started: bool,
    commit: u64,
    /// A timer of which nothing has come yet.
    timer: bool,
}

impl Recorder {
    /// A recorder of a run that is about to begin.
    pub fn new(run: Run, sink: Sink) -> Self {
        Self { run, sink, has_started: false, commit: 0, timer: false }
    }

    /// The node has started, and nothing has happened yet. Without this the first event does it.
    pub fn start(&mut self, now: Instant, raft: &Raft) {
        self.has_started = true;
        self.commit = raft.commit_index().0;
        self.put(now, raft.id(), What::Start(Box::new(start(raft, self.run.disk))));
    }

    /// The node ends by itself.
    pub fn stop(&self, now: Instant, node: NodeId) {
        self.put(now, node, What::Stop);
    }

    fn put(&self, now: Instant, node: NodeId, what: What) {
        let at = self.run.epoch_nanos.saturating_add(now.0);
        self.sink.take(Record { node: node.get(), run: self.run.number, at, what });
    }
}

impl Observer for Recorder {
    fn on_event(&mut self, now: Instant, raft: &Raft, event: &Event) {
        if !self.has_started {
            self.start(now, raft);
        }
        match of_event(event) {
            What::Timer => self.timer = true,
            what => self.put(now, raft.id(), what),
        }
    }

    fn on_effects(&mut self, now: Instant, raft: &Raft, effects: &[Effect]) {
        let id = raft.id();
        let commit = raft.commit_index().0;
        let has_committed = commit != self.commit;
        if std::mem::take(&mut self.timer) && (has_committed || !effects.is_empty()) {
            self.put(now, id, What::Timer);
        }
        let all = |rank: Rank| effects.iter().filter(move |effect| rank_of(effect) == rank);
        for effect in all(Rank::Standing).chain(all(Rank::Write)) {
            self.put(now, id, of_effect(effect));
        }
        if has_committed {
            self.commit = commit;
            self.put(now, id, What::Commit { index: commit });
        }
        for effect in all(Rank::Other) {
            self.put(now, id, of_effect(effect));
        }
    }
}

/// In which order the effects of one step are told.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rank {
    Standing,
    Write,
    Other,
}

fn rank_of(effect: &Effect) -> Rank {
    match effect {
        Effect::RoleChanged(_) | Effect::MembershipChanged { .. } => Rank::Standing,
        Effect::Persist(_) => Rank::Write,
        _ => Rank::Other, // In the core's order.
    }
}

fn of_event(event: &Event) -> What {
    match event {
        Event::Timer => What::Timer,
        Event::Receive(envelope) => What::Receive {
            from: envelope.from.get(),
            term: envelope.term.0,
            says: Said::of(&envelope.message),
        },
        Event::Propose { requests, .. } => What::Propose { count: requests.count },
        Event::Read { requests, lease } => What::Read { count: requests.count, lease: *lease },
        Event::ChangeMembership { set, .. } => {
            What::ChangeMembership { changes: set.changes.len() as u64 }
        }
        Event::TransferLeadership { to, .. } => {
            What::TransferLeadership { to: to.map(NodeId::get) }
        }
        Event::Identified { peer, incarnation } => {
            What::Identified { peer: peer.get(), disk: incarnation.get() }
        }
        Event::Persisted(ticket) => What::Persisted { ticket: ticket.0 },
        Event::StorageFailed => What::StorageFailed,
        Event::Loaded { peer, entries } => {
            What::Loaded { peer: peer.get(), count: entries.len() as u64 }
        }
        Event::SnapshotTaken(snapshot) => What::SnapshotTaken { last: snapshot.last.into() },
        Event::SnapshotReceived { from, term, snapshot } => {
            What::SnapshotReceived { from: from.get(), term: term.0, last: snapshot.last.into() }
        }
        Event::SnapshotSent { peer, last } => {
            What::SnapshotSent { peer: peer.get(), last: last.map(Position::from) }
        }
        Event::Applied(index) => What::Applied { index: index.0 },
    }
}

fn of_effect(effect: &Effect) -> What {
    match effect {
        Effect::Persist(write) => What::Persist(of_write(write)),
        Effect::Send(envelope) => What::Send {
            to: envelope.to.get(),
            term: envelope.term.0,
            says: Said::of(&envelope.message),
        },
        Effect::Apply { first, last } => What::Apply { first: first.0, last: last.0 },
        Effect::Install { last } => What::Install { last: (*last).into() },
        Effect::SendSnapshot { peer, at_least, .. } => {
            What::SendSnapshot { peer: peer.get(), at_least: (*at_least).into() }
        }
        Effect::CancelSnapshots => What::CancelSnapshots,
        Effect::Load { peer, first, last, .. } => {
            What::Load { peer: peer.get(), first: first.0, last: last.0 }
        }
        Effect::ReadReady { requests, index, until } => {
            What::ReadReady { count: requests.count, index: index.0, lease: until.is_some() }
        }
        Effect::Transferred { leader, .. } => What::Transferred { leader: leader.get() },
        Effect::MembershipChanged { index, membership } => {
            What::Members(members(index.0, membership))
        }
        Effect::Resolve { requests, outcome } => {
            let outcome = match outcome {
                raft_core::Outcome::Committed { first } => Outcome::Committed(first.0),
                raft_core::Outcome::Superseded => Outcome::Superseded,
                raft_core::Outcome::Unknown => Outcome::Unknown,
            };
            What::Resolve { count: requests.count, outcome }
        }
        Effect::Refuse { requests, reason } => {
            What::Refuse { count: requests.count, reason: format!("{reason:?}") }
        }
        Effect::PeerRegressed { peer, acknowledged, holds } => {
            What::PeerRegressed { peer: peer.get(), acknowledged: acknowledged.0, holds: holds.0 }
        }
        Effect::RoleChanged(change) => What::Role {
            term: change.term.0,
            role: match change.role {
                RoleKind::Follower => Role::Follower,
                RoleKind::PreCandidate => Role::PreCandidate,
                RoleKind::Candidate => Role::Candidate,
                RoleKind::Leader => Role::Leader,
            },
            leader: change.leader.map(NodeId::get),
            last: change.last.into(),
        },
    }
}

fn start(raft: &Raft, disk: Option<u64>) -> Start {
    let mut terms: Vec<Position> = Vec::new();
    for index in raft.base().index.0 + 1..=raft.last().index.0 {
        let Some(term) = raft.term_at(raft_core::Index(index)) else { break };
        if terms.last().is_none_or(|newest| newest.0 != term.0) {
            terms.push(Position(term.0, index));
        }
    }
    let (term, vote) = (raft.term(), raft.vote());
    Start {
        version: VERSION,
        disk,
        hard_state: HardState { term, vote, commit: raft.commit_index() }.into(),
        applied: raft.applied_index().0,
        base: raft.base().into(),
        last: raft.last().into(),
        terms,
        snapshot: raft.snapshot().into(),
        claim: raft.claim().map(|claim| claim.last.into()),
        members: members(raft.membership_index().0, raft.membership()),
    }
}

fn of_write(write: &Write) -> Persist {
    Persist {
        ticket: write.ticket.0,
        truncate: write.truncate.map(|index| index.0),
        entries: write.entries.iter().map(mark).collect(),
        hard_state: write.hard_state.map(HardStateMark::from),
        snapshot: write
            .snapshot
            .as_ref()
            .map(|mark| SnapshotNote { last: mark.snapshot.last.into(), base: mark.base.into() }),
    }
}

/// What an entry is known by: entries that are alike have equal marks.
fn mark(entry: &Entry) -> EntryMark {
    let checksum = match &entry.payload {
        Payload::Empty => crc32c::crc32c(b"e"),
        Payload::Command(bytes) => crc32c::crc32c_append(crc32c::crc32c(b"c"), bytes),
        Payload::Membership(membership) => {
            crc32c::crc32c_append(crc32c::crc32c(b"m"), &membership.encode())
        }
    };
    EntryMark(entry.index.0, entry.term.0, checksum)
}

fn members(index: u64, membership: &Membership) -> MembersMark {
    let learners = membership.members().iter().map(|member| member.id);
    MembersMark {
        index,
        voters: membership.voters().map(NodeId::get).collect(),
        outgoing: membership.outgoing().map(NodeId::get).collect(),
        learners: learners.filter(|id| membership.is_learner(*id)).map(NodeId::get).collect(),
    }
}

impl From<LogPosition> for Position {
    fn from(at: LogPosition) -> Self {
        Self(at.term.0, at.index.0)
    }
}

impl From<HardState> for HardStateMark {
    fn from(state: HardState) -> Self {
        let HardState { term, vote, commit } = state;
        Self { term: term.0, vote: vote.map(NodeId::get), commit: commit.0 }
    }
}
