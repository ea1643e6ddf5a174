//! What a node has written. It keeps two images: the live one, which the running node sees, and
//! the durable one, which is all that a crash leaves.
//!
//! ```text
//!   Persist ──▶ live image ──▶ pending writes ──sync──▶ durable image
//!                                     └── crash: lost, all but a first few perhaps
//! ```

use std::collections::VecDeque;
use std::sync::Arc;

use raft_core::{
    Entries, Entry, HardState, Index, LogPosition, Membership, Saved, Term, TermRuns, Ticket, Write,
};

/// One state of a disk: hard state and log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Image {
    /// The hard state.
    pub hard_state: HardState,
    log: Vec<Entry>,
}

impl Image {
    /// An image that was there before the story begins.
    ///
    /// # Panics
    /// When the log has a gap.
    pub fn new(hard_state: HardState, log: Vec<Entry>) -> Self {
        for (entry, index) in log.iter().zip(1..) {
            assert_eq!(entry.index, Index(index), "a log has no gaps");
        }
        Self { hard_state, log }
    }

    /// All entries.
    pub fn log(&self) -> &[Entry] {
        &self.log
    }

    /// The last index; zero in an empty log.
    pub fn last_index(&self) -> Index {
        Index(self.log.len() as u64)
    }

    /// The entry at `index`.
    pub fn entry(&self, index: Index) -> Option<&Entry> {
        self.log.get(index.0.checked_sub(1)? as usize)
    }

    /// The term at `index`; the one before the first entry is zero.
    pub fn term_at(&self, index: Index) -> Option<Term> {
        if index == Index::ZERO {
            return Some(Term::ZERO);
        }
        self.entry(index).map(|entry| entry.term)
    }

    fn apply(&mut self, write: &Write) {
        if let Some(last) = write.truncate {
            assert!(last < self.last_index(), "a truncation cuts something");
            self.log.truncate(last.0 as usize);
        }
        for entry in write.entries.iter() {
            assert_eq!(entry.index, self.last_index().next(), "a write leaves no gap");
            self.log.push(entry.clone());
        }
        if let Some(hard_state) = write.hard_state {
            self.hard_state = hard_state;
        }
    }

    /// What a node that finds this image starts from, with a state machine at `applied`.
    pub fn saved(&self, membership: Membership, applied: Index) -> Saved {
        let mut log = TermRuns::starting_after(LogPosition::ZERO);
        for entry in &self.log {
            log.push(entry.index, entry.index, entry.term);
        }
        let memberships = vec![(Index::ZERO, Arc::new(membership))];
        let (hard_state, snapshot, claim) = (self.hard_state, LogPosition::ZERO, None);
        Saved { hard_state, log, memberships, snapshot, applied, claim }
    }
}

/// A live and a durable [`Image`], and what lies between them.
#[derive(Clone, Debug, Default)]
pub struct Store {
    live: Image,
    durable: Image,
    pending: VecDeque<Write>,
}

impl Store {
    /// A disk that holds `image`.
    pub fn new(image: Image) -> Self {
        Self { live: image.clone(), durable: image, pending: VecDeque::new() }
    }

    /// What the running node sees.
    pub fn live(&self) -> &Image {
        &self.live
    }

    /// What a crash would leave.
    pub fn durable(&self) -> &Image {
        &self.durable
    }

    /// Takes a write, in order. It is not durable yet.
    pub fn write(&mut self, write: Write) {
        self.live.apply(&write);
        self.pending.push_back(write);
    }

    /// Makes everything up to `ticket` durable.
    pub fn sync(&mut self, ticket: Ticket) {
        while let Some(write) = self.pending.pop_front_if(|write| write.ticket <= ticket) {
            self.durable.apply(&write);
        }
    }

    /// The tickets of the writes that are not durable, oldest first.
    pub fn pending(&self) -> impl ExactSizeIterator<Item = Ticket> + '_ {
        self.pending.iter().map(|write| write.ticket)
    }

    /// Loses what is not durable, but for the `kept` oldest writes: a disk may have got that
    /// far before anybody heard of it.
    pub fn crash(&mut self, kept: usize) {
        for write in self.pending.drain(..).take(kept) {
            self.durable.apply(&write);
        }
        self.live = self.durable.clone();
    }

    /// Durable entries from `first` to at most `last`, as many as fit in `bytes_max`, at least
    /// one where there is one.
    pub fn read(&self, first: Index, last: Index, bytes_max: usize) -> Entries {
        let range = first.0 as usize - 1..(last.0 as usize).min(self.durable.log.len());
        let mut bytes = 0;
        let fits = |entry: &&Entry| {
            let is_first = bytes == 0;
            bytes += entry.size_bytes();
            is_first || bytes <= bytes_max
        };
        self.durable.log.get(range).unwrap_or_default().iter().take_while(fits).cloned().collect()
    }
}
