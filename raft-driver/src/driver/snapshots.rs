//! When a snapshot is due, which one is under way, and who waits for it. Touches no file.
//!
//! ```text
//!                 due, or a peer waits
//!      Idle ────────────────────────────▶ Capturing   (the state machine, between two batches)
//!       ▲                                     │
//!       └──────── built, or failed ─────── Building   (a thread of its own)
//! ```
//!
//! A state machine that survives a crash by itself needs no file for the log to be cut; for it
//! one is built only when a peer needs it, and goes when nobody has needed it for a while.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use raft_core::{
    Index, Instant, LogPosition, NodeId, Saved, Snapshot, SnapshotStore, Term, Ticket, Write,
};

use super::work::{Progress, SnapshotJob};

/// How long to wait after a snapshot could not be built.
const RETRY_AFTER: Duration = Duration::from_secs(5);
/// How long a file that is only for peers stays when no peer has needed it.
const FILE_IDLE: Duration = Duration::from_secs(600);

/// When a snapshot is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// So many entries after the last one.
    pub entries: u64,
    /// Or so many bytes of log.
    pub bytes: u64,
}

/// What the disk and the state machine say at the start.
#[derive(Clone, Copy, Debug, Default)]
pub struct Found {
    /// The newest snapshot file.
    pub file: Option<LogPosition>,
    /// What [`StateMachine::durable`](crate::StateMachine::durable) says.
    pub durable: Option<Index>,
}

impl Found {
    /// Looks for the newest snapshot file. One that is missing or damaged does no harm unless the
    /// state machine needs it.
    ///
    /// # Errors
    /// The state machine needs it: what is wrong with the file.
    pub fn at_start(
        saved: &Saved,
        durable: Option<Index>,
        snapshots: &dyn SnapshotStore,
    ) -> Result<Self, String> {
        let (applied, base) = (saved.applied, saved.log.base().index);
        let file = match snapshots.newest() {
            Ok(newest) => newest.map(|source| source.snapshot().last),
            Err(error) if applied < base => return Err(format!("that is damaged ({error})")),
            Err(error) => {
                tracing::error!(%error, "a snapshot is damaged; it is not needed at this moment");
                None
            }
        };
        if applied < base && file.is_none_or(|last| last.index < base) {
            return Err("that is missing".into());
        }
        Ok(Self { file, durable })
    }
}

#[derive(Debug)]
pub(crate) struct Snapshots {
    policy: Policy,
    found: Found,
    /// The log was told of a snapshot that ends here.
    taken: Index,
    /// Bytes of log that were applied since.
    bytes: u64,
    /// One was to be taken, and is still to be.
    is_overdue: bool,
    stage: Stage,
    retry_at: Instant,
    /// Peers that wait for a file.
    wanted: BTreeMap<NodeId, Term>,
    sending: BTreeSet<NodeId>,
    idle_since: Instant,
    /// Notes in the log that are not durable yet, and what may go when they are.
    marks: VecDeque<(Ticket, LogPosition)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Idle,
    Capturing,
    Building,
}

/// What is to be done now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// The state machine is to be captured.
    Capture,
    /// The log may be cut: the state machine itself has everything up to here, durably.
    Take(Index),
}

impl Snapshots {
    pub(crate) fn new(policy: Policy, found: Found, taken: Index) -> Self {
        Self {
            policy,
            found,
            taken,
            bytes: 0,
            is_overdue: false,
            stage: Stage::Idle,
            retry_at: Instant(0),
            wanted: BTreeMap::new(),
            sending: BTreeSet::new(),
            idle_since: Instant(0),
            marks: VecDeque::new(),
        }
    }

    pub(crate) fn on_applied(&mut self, progress: Progress) {
        self.bytes = self.bytes.saturating_add(progress.bytes);
        self.found.durable = progress.durable;
    }

    /// What is due, once. To be asked after every step.
    pub(crate) fn due(&mut self, now: Instant, applied: Index) -> Option<Due> {
        if now < self.retry_at {
            return None;
        }
        if self.stage == Stage::Idle && (!self.wanted.is_empty() || self.is_file_due(applied)) {
            self.stage = Stage::Capturing;
            (self.bytes, self.is_overdue) = (0, false);
            return Some(Due::Capture);
        }
        let durable = self.found.durable?.min(applied);
        if !self.is_due(durable) {
            return None;
        }
        (self.taken, self.bytes) = (durable, 0);
        Some(Due::Take(durable))
    }

    fn is_file_due(&self, applied: Index) -> bool {
        self.found.durable.is_none() && (self.is_overdue || self.is_due(applied))
    }

    fn is_due(&self, covered: Index) -> bool {
        let entries = covered.0.saturating_sub(self.taken.0);
        entries >= self.policy.entries || (entries > 0 && self.bytes >= self.policy.bytes)
    }

    /// The state machine was captured; a file is built of it.
    pub(crate) fn on_captured(&mut self) {
        self.stage = Stage::Building;
    }

    pub(crate) fn on_built(&mut self, now: Instant, snapshot: &Snapshot, jobs: &mut Jobs) {
        self.stage = Stage::Idle;
        self.on_file(now, snapshot.last);
        for (peer, term) in std::mem::take(&mut self.wanted) {
            self.send(peer, term, jobs);
        }
    }

    /// Tries again, later.
    pub(crate) fn on_build_failed(&mut self, now: Instant) {
        self.stage = Stage::Idle;
        self.retry_at = now + RETRY_AFTER;
        self.is_overdue = true;
    }

    /// There is a file that ends here.
    pub(crate) fn on_file(&mut self, now: Instant, last: LogPosition) {
        if self.found.file.is_none_or(|file| file.index < last.index) {
            self.found.file = Some(last);
        }
        self.idle_since = now;
    }

    /// The file is of no use: another one takes its place, or none where the state survives by
    /// itself.
    pub(crate) fn on_damaged(&mut self, jobs: &mut Jobs) {
        let Some(LogPosition { term, index }) = self.found.file.take() else { return };
        match self.found.durable {
            None => self.is_overdue = true,
            Some(_) => jobs.push(SnapshotJob::Retain(LogPosition { term, index: index.next() })),
        }
    }

    /// A peer needs what covers `at_least`. The newest file will do, if the log goes on from it.
    pub(crate) fn on_wanted(&mut self, wanted: Wanted, base: LogPosition, jobs: &mut Jobs) {
        let Wanted { peer, term, at_least } = wanted;
        let fits = |file: LogPosition| file.index >= at_least.index && file.index >= base.index;
        if self.found.file.is_some_and(fits) {
            self.send(peer, term, jobs);
        } else {
            self.wanted.insert(peer, term);
        }
    }

    fn send(&mut self, peer: NodeId, term: Term, jobs: &mut Jobs) {
        self.sending.insert(peer);
        jobs.push(SnapshotJob::Send { peer, term });
    }

    pub(crate) fn on_sent(&mut self, now: Instant, peer: NodeId) {
        self.sending.remove(&peer);
        self.idle_since = now;
    }

    pub(crate) fn on_cancelled(&mut self, jobs: &mut Jobs) {
        self.wanted.clear();
        if !self.sending.is_empty() {
            self.sending.clear();
            jobs.push(SnapshotJob::Cancel);
        }
    }

    /// The log is told of a snapshot. Older files may go when that is durable; where the state
    /// machine needs none, the newest one stays, for peers, as long as the log goes on from it.
    pub(crate) fn on_write(&mut self, write: &Write) {
        let Some(mark) = &write.snapshot else { return };
        let last = mark.snapshot.last;
        self.taken = self.taken.max(last.index);
        let keep = if self.found.file == Some(last) { last } else { mark.base };
        self.marks.push_back((write.ticket, keep));
    }

    pub(crate) fn on_persisted(&mut self, ticket: Ticket, jobs: &mut Jobs) {
        let mut keep = None;
        while let Some((_, position)) = self.marks.pop_front_if(|(noted, _)| *noted <= ticket) {
            keep = keep.max(Some(position));
        }
        if let Some(position) = keep {
            self.retain(position, jobs);
        }
    }

    /// A file that nobody needs goes.
    pub(crate) fn on_timer(&mut self, now: Instant, jobs: &mut Jobs) {
        if self.file_goes_at().is_some_and(|at| at <= now)
            && let Some(LogPosition { term, index }) = self.found.file
        {
            self.retain(LogPosition { term, index: index.next() }, jobs);
        }
    }

    fn retain(&mut self, position: LogPosition, jobs: &mut Jobs) {
        self.found.file = self.found.file.filter(|file| file.index >= position.index);
        jobs.push(SnapshotJob::Retain(position));
    }

    fn file_goes_at(&self) -> Option<Instant> {
        let file = self.found.file?;
        let is_idle = self.stage == Stage::Idle && self.wanted.is_empty();
        let is_spare = self.found.durable.is_some_and(|durable| file.index <= durable);
        (is_idle && is_spare && self.sending.is_empty()).then(|| self.idle_since + FILE_IDLE)
    }

    /// When to look again.
    pub(crate) fn deadline(&self, now: Instant) -> Option<Instant> {
        let retry = (now < self.retry_at).then_some(self.retry_at);
        [retry, self.file_goes_at()].into_iter().flatten().min()
    }
}

pub(crate) type Jobs = Vec<SnapshotJob>;

/// Who needs a snapshot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(crate) peer: NodeId,
    pub(crate) term: Term,
    pub(crate) at_least: LogPosition,
}

#[cfg(test)]
mod tests;
