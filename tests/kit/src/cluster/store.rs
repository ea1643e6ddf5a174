//! What a node has written. It keeps two images: the live one, which the running node sees, and
//! the durable one, which is all that a crash leaves. Snapshots lie beside them, always durable.
//!
//! ```text
//!   Persist ──▶ live image ──▶ pending writes ──sync──▶ durable image
//!                                     └── crash: lost, all but a first few perhaps
//! ```

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use raft_core::{
    Claim, Entries, Entry, HardState, Index, LogPosition, Membership, Payload, Saved, Snapshot,
    Term, TermRuns, Ticket, Write,
};

/// One state of a disk: hard state and log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// The hard state.
    pub hard_state: HardState,
    /// The position before the first entry.
    base: LogPosition,
    log: Vec<Entry>,
    /// The newest snapshot that the log was told of; before any, who founded the group.
    snapshot: Snapshot,
    claim: Option<Claim>,
}

impl Image {
    /// An image that was there before the story begins: whole, from the first entry on.
    ///
    /// # Panics
    /// When the log has a gap.
    pub fn new(founders: Membership, hard_state: HardState, log: Vec<Entry>) -> Self {
        for (entry, index) in log.iter().zip(1..) {
            assert_eq!(entry.index, Index(index), "a log has no gaps");
        }
        let membership = Arc::new(founders);
        let snapshot =
            Snapshot { last: LogPosition::ZERO, membership, membership_index: Index::ZERO };
        Self { hard_state, base: LogPosition::ZERO, log, snapshot, claim: None }
    }

    /// What a log was found to hold when it was opened.
    pub(crate) fn found(saved: &Saved, log: Vec<Entry>) -> Self {
        let (membership_index, membership) = saved.memberships[0].clone();
        let snapshot = Snapshot { last: saved.snapshot, membership, membership_index };
        let (hard_state, base, claim) = (saved.hard_state, saved.log.base(), saved.claim);
        Self { hard_state, base, log, snapshot, claim }
    }

    /// All entries.
    pub fn log(&self) -> &[Entry] {
        &self.log
    }

    /// The position before the first entry.
    pub fn base(&self) -> LogPosition {
        self.base
    }

    /// The newest snapshot that the log was told of.
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// What the log held before it was damaged, where it does not hold as much again.
    pub fn claim(&self) -> Option<Claim> {
        self.claim.filter(|claim| claim.last > self.last())
    }

    /// Without a claim that the log has reached again.
    pub(crate) fn settled(mut self) -> Self {
        self.claim = self.claim();
        self
    }

    /// The last index; the base's in an empty log.
    pub fn last_index(&self) -> Index {
        self.last().index
    }

    /// The end of the log.
    pub fn last(&self) -> LogPosition {
        self.log.last().map_or(self.base, Entry::position)
    }

    /// The entry at `index`.
    pub fn entry(&self, index: Index) -> Option<&Entry> {
        self.log.get(self.place(index)?)
    }

    /// The entries from `first` to `last`, as far as they are here.
    pub fn entries(&self, first: Index, last: Index) -> &[Entry] {
        let from = self.place(first).map_or(self.log.len(), |place| place.min(self.log.len()));
        let end = last.0.saturating_sub(self.base.index.0) as usize;
        &self.log[from..end.clamp(from, self.log.len())]
    }

    fn place(&self, index: Index) -> Option<usize> {
        Some(index.0.checked_sub(self.base.index.0 + 1)? as usize)
    }

    /// The term at `index`; `None` before the base or past the end.
    pub fn term_at(&self, index: Index) -> Option<Term> {
        if index == self.base.index {
            return Some(self.base.term);
        }
        self.entry(index).map(|entry| entry.term)
    }

    /// The newest configuration up to `index`, and its own index: that of the snapshot, or the
    /// last one in the log behind it.
    pub fn membership_at(&self, index: Index) -> (Index, &Arc<Membership>) {
        self.memberships().take_while(|(at, _)| *at <= index).last().unwrap_or_else(|| {
            panic!("nobody asks for a configuration before the snapshot's: {index:?}")
        })
    }

    /// The newest configuration, and its index.
    pub fn membership(&self) -> (Index, &Arc<Membership>) {
        self.membership_at(Index(u64::MAX))
    }

    fn memberships(&self) -> impl Iterator<Item = (Index, &Arc<Membership>)> {
        let Snapshot { last, membership, membership_index } = &self.snapshot;
        let later = self.log.iter().filter(|entry| entry.index > last.index);
        let later = later.filter_map(|entry| match &entry.payload {
            Payload::Membership(membership) => Some((entry.index, membership)),
            Payload::Empty | Payload::Command(_) => None,
        });
        [(*membership_index, membership)].into_iter().chain(later)
    }

    fn apply(&mut self, write: &Write) {
        if let Some(last) = write.truncate {
            assert!(last < self.last_index(), "a truncation cuts something");
            assert!(last >= self.snapshot.last.index, "a snapshot's entries are never cut");
            self.log.truncate((last.0 - self.base.index.0) as usize);
        }
        for entry in write.entries.iter() {
            assert_eq!(entry.index, self.last_index().next(), "a write leaves no gap");
            self.log.push(entry.clone());
        }
        if let Some(hard_state) = write.hard_state {
            self.hard_state = hard_state;
        }
        if let Some(mark) = &write.snapshot {
            assert!(mark.base.index <= mark.snapshot.last.index, "a snapshot covers what goes");
            if self.term_at(mark.base.index) == Some(mark.base.term) {
                self.log.retain(|entry| entry.index > mark.base.index);
            } else {
                self.log.clear();
            }
            (self.base, self.snapshot) = (mark.base, mark.snapshot.clone());
        }
    }

    /// Everything behind `last` was damaged: it is gone, and it is known how much there was.
    pub(super) fn damage(&mut self, last: Index) {
        let known = self.claim().map_or(self.last(), |claim| claim.last.max(self.last()));
        // A snapshot's mark stands behind the entries that it covers.
        let last = last.max(self.snapshot.last.index);
        self.log.retain(|entry| entry.index <= last);
        self.claim = Some(Claim { last: known });
    }

    /// What a node that finds this image starts from, with a state machine at `applied`.
    pub fn saved(&self, applied: Index) -> Saved {
        let mut log = TermRuns::starting_after(self.base);
        for entry in &self.log {
            log.push(entry.index, entry.index, entry.term);
        }
        let memberships =
            self.memberships().map(|(index, membership)| (index, Arc::clone(membership)));
        Saved {
            hard_state: self.hard_state,
            log,
            memberships: memberships.collect(),
            snapshot: self.snapshot.last,
            applied,
            claim: self.claim(),
        }
    }
}

/// A snapshot's file: what it covers, and the state machine as it was then.
#[derive(Clone, Debug)]
pub struct File {
    /// What it covers.
    pub snapshot: Snapshot,
    /// The entries that the state machine had applied.
    pub machine: Arc<[Entry]>,
}

/// A live and a durable [`Image`], and what lies between them; and the snapshots.
#[derive(Clone, Debug)]
pub struct Store {
    live: Image,
    durable: Image,
    pending: VecDeque<Write>,
    files: BTreeMap<LogPosition, File>,
}

impl Store {
    /// A disk that holds `image`.
    pub fn new(image: Image) -> Self {
        let (pending, files) = (VecDeque::new(), BTreeMap::new());
        Self { live: image.clone(), durable: image, pending, files }
    }

    /// What the running node sees.
    pub fn live(&self) -> &Image {
        &self.live
    }

    /// What a crash would leave.
    pub fn durable(&self) -> &Image {
        &self.durable
    }

    /// The snapshots, oldest first.
    pub fn files(&self) -> impl DoubleEndedIterator<Item = &File> {
        self.files.values()
    }

    /// The snapshot that ends at `last`.
    pub fn file(&self, last: LogPosition) -> Option<&File> {
        self.files.get(&last)
    }

    /// A snapshot is durable under its name.
    pub fn publish(&mut self, file: File) {
        self.files.insert(file.snapshot.last, file);
    }

    /// Takes a write, in order. It is not durable yet.
    pub fn write(&mut self, write: Write) {
        self.live.apply(&write);
        self.pending.push_back(write);
    }

    /// Makes everything up to `ticket` durable. What was before the newest mark may go then.
    pub fn sync(&mut self, ticket: Ticket) {
        while let Some(write) = self.pending.pop_front_if(|write| write.ticket <= ticket) {
            self.durable.apply(&write);
            if let Some(mark) = &write.snapshot {
                let last = mark.snapshot.last;
                assert!(self.files.contains_key(&last), "only what is durable is marked");
                self.files.retain(|file, _| *file >= last);
            }
        }
    }

    /// The tickets of the writes that are not durable, oldest first.
    pub fn pending(&self) -> impl ExactSizeIterator<Item = Ticket> + '_ {
        self.pending.iter().map(|write| write.ticket)
    }

    /// The writes that are not durable, oldest first.
    pub fn writes(&self) -> impl ExactSizeIterator<Item = &Write> + '_ {
        self.pending.iter()
    }

    /// Loses what is not durable, but for the `kept` oldest writes: a disk may have got that
    /// far before anybody heard of it.
    pub fn crash(&mut self, kept: usize) {
        for write in self.pending.drain(..).take(kept) {
            self.durable.apply(&write);
        }
        self.live = self.durable.clone();
    }

    /// What a crash would leave if the `kept` oldest writes had reached the disk.
    pub(crate) fn after_crash(&self, kept: usize) -> Image {
        let mut image = self.durable.clone();
        self.pending.iter().take(kept).for_each(|write| image.apply(write));
        image
    }

    /// Everything behind `last` turns out to be damaged while the node is down.
    pub fn damage(&mut self, last: Index) {
        self.durable.damage(last);
        self.live = self.durable.clone();
    }

    /// Durable entries from `first` to at most `last`, as many as fit in `bytes_max`, at least
    /// one where there is one; none where a snapshot has taken the place of the first.
    pub fn read(&self, first: Index, last: Index, bytes_max: usize) -> Entries {
        let mut bytes = 0;
        let fits = |entry: &&Entry| {
            let is_first = bytes == 0;
            bytes += entry.size_bytes();
            is_first || bytes <= bytes_max
        };
        self.durable.entries(first, last).iter().take_while(fits).cloned().collect()
    }
}
