//! The engine without its I/O: inputs go in, work comes out. The tokio shell around it and a
//! simulator run the same code.
//!
//! ```text
//!   proposals ─┐                    ┌─▶ writes     (storage thread)
//!   reads ─────┤                    ├─▶ sends      (transport)
//!   wishes ────┤                    ├─▶ tasks      (apply thread)
//!   envelopes ─┼─▶ Driver ─▶ Raft ──┼─▶ loads      (reader)
//!   done ──────┤                    ├─▶ snapshots  (files, transport)
//!   timer ─────┘                    └─▶ endings    (callers)
//! ```

mod hand_over;
mod observer;
mod parking;
mod snapshots;
mod work;

use std::collections::VecDeque;
use std::mem;
use std::time::Duration;

use bytes::Bytes;
use raft_core::{
    Effect, Entries, Event, Index, Instant, LogPosition, Message, Outcome, Raft, Refusal, Requests,
    RoleKind, Snapshot, seeded,
};

use crate::waiters::Waiters;
use observer::Observed;
pub use observer::Observer;
pub use parking::ReadKind;
use parking::{Asked, Parking};
use snapshots::{Due, Snapshots, Wanted};
pub use snapshots::{Found, Policy};
pub use work::{
    Batch, BuildFailed, Ending, Input, Load, MembersNow, Progress, Regression, SnapshotJob, Task,
    Wish, Work,
};

/// How many batches are with the apply thread at once: one to work on, one to go on with.
const APPLY_BATCHES_MAX: usize = 2;
/// The most bytes of one batch to apply (a single larger entry goes alone).
const APPLY_BYTES_MAX: usize = 1 << 20;
/// The most entries of a batch that has to be read from storage.
const APPLY_STORED_MAX: u64 = 1024;
/// How long a leader that hands over is left alone before it is asked again.
const PARKING_PAUSE: Duration = Duration::from_millis(5);

/// The core, and everybody who waits for it. `W` is how to answer a caller; each is answered
/// exactly once.
#[derive(Debug)]
pub struct Driver<W> {
    raft: Raft,
    effects: Vec<Effect>,
    waiters: Waiters<(Kind, W)>,
    /// Committed, but not yet handed to the apply thread.
    committed: VecDeque<(Index, W)>,
    /// Confirmed, but the state machine is not there yet. Ascending.
    confirmed: VecDeque<Confirmed<W>>,
    /// Handed to the apply thread up to here.
    applying: Index,
    /// May be handed to it up to here.
    applicable: Index,
    batches: usize,
    installs: usize,
    parking: Parking<W>,
    snapshots: Snapshots,
    /// Whether the members in force are committed, as told.
    is_settled: bool,
    observed: Observed,
}

/// What somebody waits for.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Proposal,
    Read(ReadKind),
    Wish,
}

#[derive(Debug)]
struct Confirmed<W> {
    index: Index,
    until: Option<Instant>,
    reader: W,
}

/// What a driver is told at the start.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The core's.
    pub election_timeout: Duration,
    /// When a snapshot is due.
    pub policy: Policy,
    /// What the disk and the state machine say.
    pub found: Found,
}

impl<W> Driver<W> {
    /// A node that goes on from where `raft` was restored.
    pub fn new(raft: Raft, settings: Settings) -> Self {
        let applied = raft.applied_index();
        let Settings { election_timeout, policy, found } = settings;
        Self {
            snapshots: Snapshots::new(policy, found, raft.snapshot().index),
            raft,
            effects: Vec::new(),
            waiters: Waiters::new(),
            committed: VecDeque::new(),
            confirmed: VecDeque::new(),
            applying: applied,
            applicable: applied,
            batches: 0,
            installs: 0,
            parking: Parking::new(election_timeout * 2, PARKING_PAUSE),
            is_settled: false,
            observed: Observed::default(),
        }
    }

    /// Lets somebody watch every step of the core from now on.
    pub fn observe(&mut self, observer: Box<dyn Observer>) {
        self.observed = Observed(Some(observer));
    }

    /// The core.
    pub fn raft(&self) -> &Raft {
        &self.raft
    }

    /// Proposes a batch of commands. Leaves `proposals` empty.
    pub fn propose(&mut self, now: Instant, proposals: &mut Vec<(Bytes, W)>, work: &mut Work<W>) {
        if proposals.is_empty() {
            return;
        }
        if self.raft.transferring_to().is_some() {
            // It would refuse them, and the commands would be gone.
            for (bytes, waiter) in proposals.drain(..) {
                self.park(waiter, Asked::Proposal(bytes), Refusal::Transferring, work);
            }
            return;
        }
        let entries = Entries::proposal(proposals.iter_mut().map(|(b, _)| mem::take(b)));
        let waiters = proposals.drain(..).map(|(_, waiter)| (Kind::Proposal, waiter));
        let requests = self.waiters.add(waiters);
        if self.raft.role() != RoleKind::Leader {
            // Only a leader elsewhere can say no when the commands are gone from here.
            self.parking.on_forward(requests, entries.clone(), self.waiters.oldest());
        }
        self.step(now, Event::Propose { requests, entries }, work);
    }

    /// Asks for a read index for a batch of readers. Leaves `readers` empty.
    pub fn read(&mut self, now: Instant, kind: ReadKind, readers: &mut Vec<W>, work: &mut Work<W>) {
        if readers.is_empty() {
            return;
        }
        let requests = self.waiters.add(readers.drain(..).map(|it| (Kind::Read(kind), it)));
        let lease = kind == ReadKind::Leased;
        self.step(now, Event::Read { requests, lease }, work);
    }

    /// Changes the members, or the leader.
    pub fn wish(&mut self, now: Instant, wish: Wish, waiter: W, work: &mut Work<W>) {
        let requests = self.waiters.add([(Kind::Wish, waiter)]);
        let request = requests.first;
        let event = match wish {
            Wish::Change(set) => Event::ChangeMembership { request, set },
            Wish::Transfer(to) => Event::TransferLeadership { request, to },
        };
        self.step(now, event, work);
    }

    /// Takes in what happened; what is to be done about it is added to `work`.
    pub fn handle(&mut self, now: Instant, input: Input, work: &mut Work<W>) {
        let event = match input {
            Input::Timer => {
                self.snapshots.on_timer(now, &mut work.snapshots);
                Event::Timer
            }
            Input::Receive(envelope) => {
                if let Message::TimeoutNow | Message::Vote { transfer: true, .. } = envelope.message
                {
                    self.parking.open(now, envelope.term);
                }
                Event::Receive(envelope)
            }
            Input::Persisted(ticket) => {
                self.snapshots.on_persisted(ticket, &mut work.snapshots);
                Event::Persisted(ticket)
            }
            Input::StorageFailed => Event::StorageFailed,
            Input::Loaded { peer, entries } => Event::Loaded { peer, entries },
            Input::Applied(progress) => {
                self.batches -= 1;
                self.snapshots.on_applied(progress);
                self.on_applied(progress.applied, work)
            }
            Input::Installed(index) => {
                self.installs -= 1;
                self.on_applied(index, work)
            }
            Input::Built(Ok(snapshot)) => {
                self.snapshots.on_built(now, &snapshot, &mut work.snapshots);
                Event::SnapshotTaken(snapshot)
            }
            Input::Built(Err(BuildFailed)) => {
                self.snapshots.on_build_failed(now);
                return;
            }
            Input::SnapshotReceived { from, term, snapshot } => {
                self.snapshots.on_file(now, snapshot.last);
                Event::SnapshotReceived { from, term, snapshot }
            }
            Input::SnapshotDamaged => {
                self.snapshots.on_damaged(&mut work.snapshots);
                Event::Timer // Nothing for the core.
            }
            Input::SnapshotSent { peer, last } => {
                self.snapshots.on_sent(now, peer);
                Event::SnapshotSent { peer, last }
            }
            Input::Identified { peer, incarnation } => Event::Identified { peer, incarnation },
        };
        self.step(now, event, work);
    }

    /// The state machine was captured as it is at `index`: what a snapshot of it covers, if one
    /// is to be built; to be reported with [`Input::Built`]. `None` as `index` if it failed.
    pub fn captured(&mut self, now: Instant, index: Option<Index>) -> Option<Snapshot> {
        let snapshot = index.and_then(|index| self.raft.snapshot_at(index));
        match snapshot {
            Some(_) => self.snapshots.on_captured(),
            // Or the log has been replaced since.
            None => self.snapshots.on_build_failed(now),
        }
        snapshot
    }

    /// The entry that the state machine needs next and that the log does not hold any more, if a
    /// batch ended for want of it, and no snapshot is about to take its place: the node cannot go
    /// on.
    pub fn misses(&self, progress: Progress) -> Option<Index> {
        let is_short = progress.applied < progress.last && self.installs == 0;
        is_short.then(|| progress.applied.next())
    }

    /// Whether nobody waits for a response.
    pub fn is_idle(&self) -> bool {
        let is_applied = self.committed.is_empty() && self.batches == 0;
        self.waiters.is_empty() && self.parking.is_empty() && is_applied
    }

    /// Ends everybody who waits: the node stops.
    pub fn stop(&mut self, work: &mut Work<W>) {
        let ended = &mut work.ended;
        ended.extend(self.committed.drain(..).map(|(_, waiter)| (waiter, Ending::Unknown)));
        ended.extend(self.confirmed.drain(..).map(|it| (it.reader, Ending::Stopped)));
        // They were never asked for, or surely refused.
        ended.extend(self.parking.take().into_iter().map(|(it, _)| (it, Ending::Stopped)));
        ended.extend(self.waiters.drain().map(|(kind, waiter)| match kind {
            Kind::Proposal | Kind::Wish => (waiter, Ending::Unknown),
            Kind::Read(_) => (waiter, Ending::Stopped),
        }));
    }

    /// When [`Input::Timer`] is due.
    pub fn deadline(&self, now: Instant) -> Option<Instant> {
        let (parking, snapshots) = (self.parking.deadline(now), self.snapshots.deadline(now));
        [self.raft.deadline(), parking, snapshots].into_iter().flatten().min()
    }

    fn step(&mut self, now: Instant, event: Event, work: &mut Work<W>) {
        self.handle_event(now, event, work);
        match self.snapshots.due(now, self.raft.applied_index()) {
            None => {}
            Some(Due::Capture) => work.tasks.push(Task::Capture),
            Some(Due::Take(index)) => {
                if let Some(snapshot) = self.raft.snapshot_at(index) {
                    self.handle_event(now, Event::SnapshotTaken(snapshot), work);
                }
            }
        }
        if !self.is_settled && self.is_membership_known() {
            self.is_settled = true;
            let (index, membership) =
                (self.raft.membership_index(), self.raft.membership().clone());
            work.members.push(MembersNow::Settled(index, membership));
        }
        if self.raft.transferring_to().is_some() {
            self.parking.open(now, self.raft.term());
        }
        if self.waiters.is_empty() {
            self.parking.forget_forwarded();
        }
        if !self.parking.is_empty() {
            self.unpark(now, work);
        }
    }

    /// Whether the members in force are committed; and this node has joined them.
    fn is_membership_known(&self) -> bool {
        let raft = &self.raft;
        raft.membership_index() <= raft.commit_index() && raft.membership().voters().len() > 0
    }

    fn handle_event(&mut self, now: Instant, event: Event, work: &mut Work<W>) {
        let mut effects = mem::take(&mut self.effects);
        if let Some(observer) = &mut self.observed.0 {
            observer.on_event(now, &self.raft, &event);
        }
        self.raft.handle(now, event, &mut effects);
        if let Some(observer) = &mut self.observed.0 {
            observer.on_effects(now, &self.raft, &effects);
        }
        for effect in effects.drain(..) {
            self.perform(now, effect, work);
        }
        self.effects = effects;
        self.hand_out(work);
    }

    fn perform(&mut self, now: Instant, effect: Effect, work: &mut Work<W>) {
        match effect {
            Effect::Persist(write) => {
                self.snapshots.on_write(&write);
                if seeded!(OldSnapshotGoesTooEarly) {
                    self.snapshots.on_persisted(write.ticket, &mut work.snapshots);
                }
                work.writes.push(write);
            }
            Effect::Send(envelope) => work.sends.push(envelope),
            Effect::Apply { last, .. } => self.applicable = last,
            Effect::Install { last } => self.install(last, work),
            Effect::SendSnapshot { peer, term, at_least } => {
                let wanted = Wanted { peer, term, at_least };
                self.snapshots.on_wanted(wanted, self.raft.base(), &mut work.snapshots);
            }
            Effect::CancelSnapshots => self.snapshots.on_cancelled(&mut work.snapshots),
            Effect::Load { peer, first, last, bytes_max } => {
                work.loads.push(Load { peer, first, last, bytes_max });
            }
            Effect::ReadReady { requests, index, until } => {
                self.on_ready(requests, index, until, work);
            }
            Effect::Transferred { request, leader } => {
                self.waiters.take(Requests::one(request), |_, (_, waiter)| {
                    work.ended.push((waiter, Ending::Transferred(leader)));
                });
            }
            Effect::MembershipChanged { index, membership } => {
                self.is_settled = false;
                work.members.push(MembersNow::InForce(index, membership));
            }
            Effect::Resolve { requests, outcome } => self.resolve(requests, outcome, work),
            Effect::Refuse { requests, reason } => self.refuse(now, requests, reason, work),
            Effect::PeerRegressed { peer, acknowledged, holds } => {
                work.regressions.push(Regression { peer, acknowledged, holds });
            }
            Effect::RoleChanged(change) => {
                if change.leader.is_some() {
                    self.parking.resume();
                }
                work.role_changes.push(change);
            }
        }
    }

    /// A snapshot takes the place of the state, in line with what is with the apply thread. What
    /// has not gone there yet is in the snapshot, and may be gone from the log.
    fn install(&mut self, last: LogPosition, work: &mut Work<W>) {
        let covered = self.committed.partition_point(|(index, _)| *index <= last.index);
        let unknown = |(_, waiter)| (waiter, Ending::Unknown);
        work.ended.extend(self.committed.drain(..covered).map(unknown));
        self.applying = self.applying.max(last.index);
        self.applicable = self.applicable.max(last.index);
        self.installs += 1;
        work.tasks.push(Task::Install(last));
    }

    fn on_applied(&mut self, index: Index, work: &mut Work<W>) -> Event {
        while let Some(ready) = self.confirmed.pop_front_if(|it| it.index <= index) {
            let ending = Ending::Readable { index, until: ready.until };
            work.ended.push((ready.reader, ending));
        }
        Event::Applied(index)
    }

    fn on_ready(
        &mut self,
        requests: Requests,
        index: Index,
        until: Option<Instant>,
        work: &mut Work<W>,
    ) {
        let applied = self.raft.applied_index();
        let confirmed = &mut self.confirmed;
        self.waiters.take(requests, |_, (_, reader)| {
            if index <= applied || seeded!(ReadBeforeApplied) {
                work.ended.push((reader, Ending::Readable { index: applied, until }));
            } else {
                let at = confirmed.partition_point(|other| other.index <= index);
                confirmed.insert(at, Confirmed { index, until, reader });
            }
        });
    }

    fn resolve(&mut self, requests: Requests, outcome: Outcome, work: &mut Work<W>) {
        let (committed, applying) = (&mut self.committed, self.applying);
        self.waiters.take(requests, |offset, (kind, waiter)| {
            let ending = match (outcome, kind) {
                (Outcome::Committed { first }, Kind::Wish) => Ending::Changed(first),
                (Outcome::Committed { first }, _) if first.0 + offset > applying.0 => {
                    let index = Index(first.0 + offset);
                    let at = committed.partition_point(|(other, _)| *other < index);
                    committed.insert(at, (index, waiter));
                    return;
                }
                // Its place became known only after it was applied: the response is gone.
                (Outcome::Committed { .. } | Outcome::Unknown, _) => Ending::Unknown,
                (Outcome::Superseded, _) => Ending::Superseded,
            };
            work.ended.push((waiter, ending));
        });
    }

    /// Hands what may be applied to the apply thread, as far as it keeps up.
    fn hand_out(&mut self, work: &mut Work<W>) {
        while self.applying < self.applicable && self.batches < APPLY_BATCHES_MAX {
            let first = self.applying.next();
            let entries = self.raft.recent_entries(first, self.applicable, APPLY_BYTES_MAX);
            let last = match &entries {
                Some(entries) => Index(self.applying.0 + entries.len() as u64),
                None => self.applicable.min(Index(self.applying.0 + APPLY_STORED_MAX)),
            };
            let mine = self.committed.partition_point(|(index, _)| *index <= last);
            let waiters = self.committed.drain(..mine).collect();
            work.tasks.push(Task::Apply(Batch { first, last, entries, waiters }));
            self.applying = last;
            self.batches += 1;
        }
    }
}

#[cfg(test)]
mod tests;
