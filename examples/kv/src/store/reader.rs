//! Reading, beside the thread that applies: every answer is one state of the store between two
//! entries, and its header names the revision of just that state.

use std::collections::BTreeMap;
use std::io::Read;
use std::sync::Arc;

use bytes::Bytes;
use kontiki::Index;
use tokio::sync::watch;

use super::base::detach;
use super::error::{Failure, KvError, StoreError};
use super::format::{Change, Revision};
use super::hash;
use super::keeper::{Progress, Shared};
use super::lease::{Lease, Leases};
use super::meter::StoreMeter;
use super::range::{self, key_value};
use super::snapshot::Outgoing;
use super::span::Span;
use super::state::State;
use super::txn;
use crate::proto::etcdserverpb::{
    AlarmMember, RangeRequest, RangeResponse, TxnRequest, TxnResponse,
};
use crate::proto::kontiki::SetMember;
use crate::proto::mvccpb::{Event, KeyValue, event::EventType};

pub use super::hash::StateHash;

/// Reads the store: a handle that is cheap to clone.
///
/// Its calls may read from disk, and so belong on a thread that may block for a moment.
#[derive(Clone)]
pub struct StoreReader(pub(super) Arc<Shared>);

impl StoreReader {
    /// Answers a range request that [passed](super::validate_range).
    ///
    /// # Errors
    /// The revision is compacted or in the future, or the store failed.
    pub fn range(&self, request: &RangeRequest) -> Result<RangeResponse, Failure> {
        self.0.meter.ranges.inc();
        let cut = {
            let state = self.0.read();
            let at = state.readable(request.revision)?;
            state.cut(Span::new(&request.key, &request.range_end), at)
        };
        Ok(range::answer(cut, request)?)
    }

    /// Answers a transaction that [passed](super::validate_txn) and [only reads](super::only_reads).
    ///
    /// # Errors
    /// A revision is compacted or in the future, or the store failed.
    pub fn txn(&self, request: TxnRequest) -> Result<TxnResponse, Failure> {
        txn::read_only(&self.0.read(), request)
    }

    /// The newest revision: 1 in a fresh store.
    pub fn revision(&self) -> i64 {
        self.0.read().mark.revision
    }

    /// The revision of the newest compaction: −1 before the first.
    pub fn compacted(&self) -> i64 {
        self.0.read().mark.compacted
    }

    /// The last entry that was applied.
    pub fn applied(&self) -> Index {
        self.0.read().mark.applied
    }

    /// What the members said of themselves, by id.
    pub fn members(&self) -> Arc<BTreeMap<u64, SetMember>> {
        Arc::clone(&self.0.read().mark.members)
    }

    /// The leases, by id.
    pub fn leases(&self) -> Arc<Leases> {
        Arc::clone(&self.0.read().mark.leases)
    }

    /// The lease, if it is there.
    pub fn lease(&self, id: i64) -> Option<Lease> {
        self.0.read().mark.leases.get(&id).copied()
    }

    /// The keys that go with the lease, in order.
    pub fn lease_keys(&self, id: i64) -> Vec<Bytes> {
        self.0.read().attached.keys(id).cloned().collect()
    }

    /// How far flushing and the deletion of compacted versions are.
    pub fn progress(&self) -> watch::Receiver<Progress> {
        self.0.progress.subscribe()
    }

    /// What the store has done since it was opened.
    pub fn meter(&self) -> &StoreMeter {
        &self.0.meter
    }

    /// The alarms that stand, on every member alike: by kind, then by member.
    pub fn alarms(&self) -> Vec<AlarmMember> {
        self.0.read().mark.alarms.all()
    }

    /// Whether the store is smaller than `bytes_max` with so many bytes more.
    pub fn has_room(&self, more: u64, bytes_max: u64) -> bool {
        let known = {
            let state = self.0.read();
            state.base.disk_bytes + fresh_bytes(&state)
        };
        // What was known at the last flush is enough, unless it is too much.
        let fits = |bytes: u64| bytes.saturating_add(more) < bytes_max;
        fits(known) || fits(self.size().bytes)
    }

    /// Deletes what compactions so far gave up, and writes the tables anew without it, so that
    /// [`Size::bytes`] comes down to what is kept. Takes as long as it takes to read and write
    /// all of it once; readers and writers go on meanwhile.
    ///
    /// # Errors
    /// The store failed.
    pub fn defragment(&self) -> Result<(), StoreError> {
        let (applied, compacted) = {
            let state = self.0.read();
            (state.mark.applied, state.mark.compacted)
        };
        self.0.demand_all(applied);
        self.0.wait_until(|state| {
            let (mark, sweep) = (&state.base.mark, &state.base.upkeep.sweep);
            mark.applied >= applied && sweep.done >= compacted
        })?;
        let base = Arc::clone(&self.0.read().base);
        let tables = base.tables.clone();
        // A view of this would keep what was deleted before it.
        drop(base);
        tables.rewrite()
    }

    /// The sizes of the store.
    pub fn size(&self) -> Size {
        let (base, fresh) = {
            let state = self.0.read();
            (Arc::clone(&state.base), fresh_bytes(&state))
        };
        Size {
            bytes: base.tables.disk_bytes() + fresh,
            bytes_in_use: base.upkeep.kept_bytes + fresh,
        }
    }

    /// Shows the newest revision, whenever there is one.
    pub fn newest(&self) -> watch::Receiver<i64> {
        self.0.newest.subscribe()
    }

    /// The changes from revision `from` on, oldest first: whole revisions, until there are
    /// [`Most`] or more.
    ///
    /// # Errors
    /// `from` is before the compacted revision, or the store failed.
    pub fn events(&self, from: i64, most: Most) -> Result<Events, Failure> {
        let base = {
            let state = self.0.read();
            if let Some(events) = fresh_events(&state, from, most)? {
                return Ok(events);
            }
            Arc::clone(&state.base)
        };
        // What is in the tables is read without the lock; the caller comes again for more.
        let whole = whole_revisions(base.changes(first_of(from)), most)?;
        let until = whole.until.unwrap_or(base.mark.revision);
        let events = whole.changes.iter().map(|change| own(event(change))).collect();
        Ok(Events { events, until })
    }

    /// As [`events`](Self::events), where nothing has to be read from disk; else `None`.
    ///
    /// # Errors
    /// As there.
    pub fn events_in_memory(&self, from: i64, most: Most) -> Result<Option<Events>, Failure> {
        fresh_events(&self.0.read(), from, most)
    }

    /// The state as it is now, as bytes that [`Store::restore`](super::Store::restore) takes;
    /// `snapshot.rs` says what they are. Nothing waits for it to be read, and nothing that happens
    /// meanwhile changes it. As long as it is there, what it shows stays on disk, and the store
    /// cannot be opened again.
    ///
    /// # Errors
    /// The store failed.
    pub fn snapshot(&self) -> Result<Box<dyn Read + Send>, StoreError> {
        self.0.check()?;
        let view = self.0.read().view();
        Ok(Box::new(Outgoing::new(view)))
    }

    /// A hash over every version that is kept at the newest revision, or at `at`, and one over the
    /// leases as they are now: the same on all members that applied the same entries, whatever
    /// their disks look like.
    ///
    /// # Errors
    /// `at` is compacted or in the future, or the store failed.
    pub fn hash(&self, at: Option<i64>) -> Result<StateHash, Failure> {
        hash::hash(&self.0, at)
    }
}

/// How large the store is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// With what is not merged or swept yet.
    pub bytes: u64,
    /// The versions that are kept.
    pub bytes_in_use: u64,
}

/// How much is read of the history at once. The last revision is read to its end even so.
#[derive(Clone, Copy, Debug)]
pub struct Most {
    /// So many events.
    pub events: usize,
    /// So many bytes of keys and values.
    pub bytes: usize,
}

/// A part of the history: whole revisions, oldest first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Events {
    /// What was changed.
    pub events: Vec<Event>,
    /// Every change up to this revision, from where the reading began, is there.
    pub until: i64,
}

fn first_of(revision: i64) -> Revision {
    Revision { main: revision.max(0), sub: 0 }
}

/// The history from `from` on, unless it begins in the tables.
fn fresh_events(state: &State, from: i64, most: Most) -> Result<Option<Events>, Failure> {
    if from < state.mark.compacted {
        return Err(KvError::Compacted.into());
    }
    if from.max(2) <= state.base.mark.revision {
        return Ok(None);
    }
    let changes = state.fresh_changes(first_of(from)).map(|change| Ok(change.clone()));
    let whole = whole_revisions(changes, most)?;
    let until = whole.until.unwrap_or(state.mark.revision);
    Ok(Some(Events { events: whole.changes.iter().map(event).collect(), until }))
}

/// Changes, and up to which revision they go; `None` when they go to the end.
#[derive(Default)]
struct Whole {
    changes: Vec<Change>,
    until: Option<i64>,
}

/// What is only in memory yet.
fn fresh_bytes(state: &State) -> u64 {
    let frozen = state.frozen.as_ref().map_or(0, |frozen| frozen.delta.bytes());
    (state.active.bytes() + frozen) as u64
}

fn whole_revisions(
    changes: impl Iterator<Item = Result<Change, StoreError>>,
    most: Most,
) -> Result<Whole, StoreError> {
    let (mut whole, mut bytes) = (Whole::default(), 0);
    for change in changes {
        let change = change?;
        let last = whole.changes.last().map(|last| last.at.main);
        let is_enough = whole.changes.len() >= most.events || bytes >= most.bytes;
        if is_enough && last != Some(change.at.main) {
            whole.until = Some(last.unwrap_or(change.at.main - 1));
            break;
        }
        bytes += change.key.len() + change.put.as_ref().map_or(0, |put| put.value.len());
        whole.changes.push(change);
    }
    Ok(whole)
}

/// The event without a hold on the block of a table that it was read from.
fn own(mut event: Event) -> Event {
    if let Some(kv) = &mut event.kv {
        (kv.key, kv.value) = (detach(&kv.key), detach(&kv.value));
    }
    event
}

fn event(change: &Change) -> Event {
    let kv = match change.version() {
        Some(version) => {
            let value = change.put.as_ref().map(|put| put.value.clone()).unwrap_or_default();
            key_value(change.key.clone(), &version, value)
        }
        None => KeyValue {
            key: change.key.clone(),
            mod_revision: change.at.main,
            ..KeyValue::default()
        },
    };
    let kind = if change.put.is_some() { EventType::Put } else { EventType::Delete };
    Event { r#type: kind.into(), kv: Some(kv), prev_kv: None }
}
