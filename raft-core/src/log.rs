//! The log as the core sees it: the term of every index, and the recent entries. Older
//! entries lie in storage, which the core never reads: it asks ([`Effect::Load`]) and is told.
//!
//! ```text
//!        base                    recent                    durable        last
//!   ──────┼────────────────────────┼──────────────────────────┼─────────────┤
//!   snap- │ terms known,           │ entries in memory        │ being       │
//!   shot  │ entries in storage     │                          │ written     │
//! ```
//!
//! [`Effect::Load`]: crate::Effect::Load

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::untracked::Untracked;
use crate::{Entries, Entry, Index, Instant, LogPosition, Term, TermRuns, Ticket, seeded};

/// Invariants: `base <= durable <= last`; `recent` is consecutive and ends at `last`; the
/// indexes in `writing` never fall.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Log {
    terms: TermRuns,
    recent: VecDeque<Chunk>,
    recent_bytes: usize,
    durable: Index,
    /// Writes under way, the last index each will make durable, and when it began.
    writing: VecDeque<(Ticket, Index, Untracked<Instant>)>,
}

/// Entries that came together, and their size.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Chunk {
    entries: Entries,
    bytes: usize,
}

/// What [`Log::extend`] changed, to be written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Change {
    pub(crate) truncate: Option<Index>,
    pub(crate) entries: Entries,
}

impl Chunk {
    fn first(&self) -> Index {
        self.entries[0].index
    }

    fn last(&self) -> Index {
        Index(self.first().0 + self.entries.len() as u64 - 1)
    }
}

impl Log {
    /// A log that lies in storage, all of it durable.
    pub(crate) fn restore(terms: TermRuns) -> Self {
        let durable = terms.last_index();
        let (recent, writing) = (VecDeque::new(), VecDeque::new());
        Self { terms, recent, recent_bytes: 0, durable, writing }
    }

    /// The end of the log, as votes compare it.
    pub(crate) fn last(&self) -> LogPosition {
        self.terms.last()
    }

    pub(crate) fn last_index(&self) -> Index {
        self.terms.last_index()
    }

    pub(crate) fn base(&self) -> LogPosition {
        self.terms.base()
    }

    /// The last index that a crash of this node would not lose.
    pub(crate) fn durable(&self) -> Index {
        self.durable
    }

    pub(crate) fn term_at(&self, index: Index) -> Option<Term> {
        self.terms.term_at(index)
    }

    pub(crate) fn position_at(&self, index: Index) -> Option<LogPosition> {
        self.term_at(index).map(|term| LogPosition { term, index })
    }

    /// Whether this log holds the same as the leader's up to `position` (Raft §5.3). Not asked of
    /// what a snapshot covers: that was committed, and so agrees.
    pub(crate) fn agrees_at(&self, position: LogPosition) -> bool {
        self.term_at(position.index) == Some(position.term)
    }

    /// Where the leader's log may agree with this one at the latest.
    pub(crate) fn latest_agreement(&self, limit: Index, term: Term) -> LogPosition {
        self.terms.latest_agreement(limit, term)
    }

    /// Adds entries at the end.
    pub(crate) fn append(&mut self, entries: Entries) {
        let Some(first) = entries.first() else { return };
        let (mut run, mut start) = (first.term, first.index);
        let mut bytes = 0;
        for entry in entries.iter() {
            if entry.term != run {
                self.terms.push(start, entry.index.prev(), run);
                (run, start) = (entry.term, entry.index);
            }
            bytes += entry.size_bytes();
        }
        let last = entries[entries.len() - 1].index;
        self.terms.push(start, last, run);
        self.recent_bytes += bytes;
        self.recent.push_back(Chunk { entries, bytes });
    }

    /// A follower's append (Raft §5.3, AppendEntries 2-4): `None` where the logs differ at
    /// `previous`. Entries that are there already stay; the first that differs takes the whole
    /// tail with it, so a late or repeated append never shortens the log.
    pub(crate) fn extend(&mut self, previous: LogPosition, entries: Entries) -> Option<Change> {
        if !self.agrees_at(previous) {
            return None;
        }
        let blind = seeded!(TruncatesOnDuplicate) || seeded!(TruncatesCommitted);
        let known = if previous.index == self.last_index() || blind {
            0
        } else {
            entries.iter().take_while(|entry| self.agrees_at(entry.position())).count()
        };
        let entries = if known == 0 { entries } else { entries.slice(known..entries.len()) };
        let Some(first) = entries.first().map(|entry| entry.index) else {
            return Some(Change::default());
        };
        let truncate = (first <= self.last_index()).then_some(first.prev());
        if let Some(last) = truncate {
            self.truncate(last);
        }
        self.append(entries.clone());
        Some(Change { truncate, entries })
    }

    fn truncate(&mut self, last: Index) {
        self.terms.truncate(last);
        self.durable = self.durable.min(last);
        for (_, index, _) in &mut self.writing {
            *index = if seeded!(StaleCompletionTrusted) { *index } else { (*index).min(last) };
        }
        while let Some(chunk) = self.recent.back_mut() {
            if chunk.last() <= last {
                break;
            }
            self.recent_bytes -= chunk.bytes;
            if chunk.first() > last {
                self.recent.pop_back();
                continue;
            }
            let kept = (last.0 - chunk.first().0 + 1) as usize;
            chunk.entries = chunk.entries.slice(0..kept);
            chunk.bytes = chunk.entries.size_bytes();
            self.recent_bytes += chunk.bytes;
        }
    }

    /// Forgets everything up to `base`, which a snapshot covers and which is durable.
    pub(crate) fn compact(&mut self, base: LogPosition) {
        self.terms.compact(base);
        while let Some(chunk) = self.recent.front_mut() {
            if chunk.first() > base.index {
                break;
            }
            self.recent_bytes -= chunk.bytes;
            if chunk.last() <= base.index {
                self.recent.pop_front();
                continue;
            }
            let gone = (base.index.0 - chunk.first().0 + 1) as usize;
            chunk.entries = chunk.entries.slice(gone..chunk.entries.len());
            chunk.bytes = chunk.entries.size_bytes();
            self.recent_bytes += chunk.bytes;
        }
    }

    /// A durable snapshot that ends at `base` takes the place of everything.
    pub(crate) fn reset(&mut self, base: LogPosition) {
        self.terms = TermRuns::starting_after(base);
        self.recent.clear();
        self.recent_bytes = 0;
        self.durable = base.index;
        for (_, index, _) in &mut self.writing {
            *index = base.index;
        }
    }

    /// Notes that `ticket` will make everything up to the end durable.
    pub(crate) fn on_write(&mut self, ticket: Ticket, now: Instant) {
        let last = self.last_index();
        self.writing.push_back((ticket, last, Untracked(now)));
    }

    /// When the oldest write under way began.
    pub(crate) fn writing_since(&self) -> Option<Instant> {
        self.writing.front().map(|(_, _, began)| began.0)
    }

    /// `ticket` and all before it are durable. A truncation since then has lowered what they
    /// vouch for, so they can never vouch for entries that were written later.
    pub(crate) fn on_persisted(&mut self, ticket: Ticket) {
        while let Some(&(oldest, last, _)) = self.writing.front() {
            if oldest > ticket {
                break;
            }
            self.durable = self.durable.max(last);
            self.writing.pop_front();
        }
    }

    /// The index of the first entry in memory, or the one after the last.
    pub(crate) fn recent_first(&self) -> Index {
        self.recent.front().map_or(self.last_index().next(), Chunk::first)
    }

    /// The entries `first..=last` as far as they fit in `bytes_max`, at least one, or `None`
    /// when `first` is not in memory. Shares what was appended together.
    pub(crate) fn recent(&self, first: Index, last: Index, bytes_max: usize) -> Option<Entries> {
        // Most often the newest are wanted, as they came.
        if let Some(newest) = self.recent.back()
            && (newest.first(), newest.last()) == (first, last)
            && newest.bytes <= bytes_max
        {
            return Some(newest.entries.clone());
        }
        if first < self.recent_first() || first > last || last > self.last_index() {
            return None;
        }
        let newest = self.recent.len() - 1;
        let at = if self.recent[newest].first() <= first {
            newest
        } else {
            self.recent.partition_point(|chunk| chunk.first() <= first) - 1
        };
        let chunk = &self.recent[at];
        if first == chunk.first() && last == chunk.last() && chunk.bytes <= bytes_max {
            return Some(chunk.entries.clone());
        }
        let start = (first.0 - chunk.first().0) as usize;
        let count = (last.0 - first.0 + 1) as usize;
        let (taken, bytes) = fitting(&chunk.entries[start..], count, bytes_max);
        let head = chunk.entries.slice(start..start + taken);
        let whole = start + taken == chunk.entries.len();
        // Small neighbours travel together; something large enough goes as it is, unshared.
        if taken == count || !whole || bytes >= bytes_max / 2 {
            return Some(head);
        }
        let (mut all, mut bytes): (Vec<Entry>, usize) = (head.to_vec(), bytes);
        for chunk in self.recent.range(at + 1..) {
            let room = bytes_max.saturating_sub(bytes);
            if chunk.entries[0].size_bytes() > room || all.len() == count {
                break;
            }
            let (taken, more) = fitting(&chunk.entries, count - all.len(), room);
            all.extend_from_slice(&chunk.entries[..taken]);
            bytes += more;
            if taken < chunk.entries.len() {
                break;
            }
        }
        Some(all.into())
    }

    /// Forgets the oldest entries beyond `bytes_max`, as far as storage has them.
    pub(crate) fn evict(&mut self, bytes_max: usize) {
        while self.recent_bytes > bytes_max {
            let Some(oldest) = self.recent.front() else { break };
            if oldest.last() > self.durable {
                break;
            }
            self.recent_bytes -= oldest.bytes;
            self.recent.pop_front();
        }
    }

    /// What must hold after every event.
    pub(crate) fn check(&self) {
        assert!(self.base().index <= self.durable, "a snapshot is durable");
        assert!(self.durable <= self.last_index(), "only what exists is durable");
        let covered = |&(ticket, last, _): &(Ticket, Index, _)| (ticket, last);
        assert!(
            self.writing.iter().is_sorted_by_key(covered),
            "tickets and what they cover grow together"
        );
        let mut next = self.recent_first();
        for chunk in &self.recent {
            for entry in chunk.entries.iter() {
                assert_eq!(entry.index, next, "recent entries are consecutive");
                assert_eq!(Some(entry.term), self.term_at(next), "entries and terms agree");
                next = next.next();
            }
        }
        assert_eq!(next, self.last_index().next(), "recent entries end where the log ends");
        let bytes: usize = self.recent.iter().map(|chunk| chunk.bytes).sum();
        assert_eq!(bytes, self.recent_bytes, "bytes are counted");
    }
}

/// How many of the first `count` entries fit in `bytes_max` (at least one), and their size.
fn fitting(entries: &[Entry], count: usize, bytes_max: usize) -> (usize, usize) {
    let mut bytes = 0;
    for (taken, entry) in entries.iter().take(count).enumerate() {
        let size = entry.size_bytes();
        if taken > 0 && bytes + size > bytes_max {
            return (taken, bytes);
        }
        bytes += size;
    }
    (count.min(entries.len()), bytes)
}

#[cfg(test)]
mod tests;
