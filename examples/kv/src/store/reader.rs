//! Reading, beside the thread that applies: every answer is one state of the store between two
//! entries, and its header names the revision of just that state.

use std::collections::BTreeMap;
use std::io::Read;
use std::sync::Arc;

use bytes::Bytes;
use kontiki::Index;
use tokio::sync::watch;

use super::error::{Failure, KvError, StoreError};
use super::format::{Change, Revision};
use super::hash;
use super::keeper::{Progress, Shared};
use super::lease::{Lease, Leases};
use super::range::{self, key_value};
use super::snapshot::Outgoing;
use super::span::Span;
use super::txn;
use crate::proto::etcdserverpb::{RangeRequest, RangeResponse, TxnRequest, TxnResponse};
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

    /// The sizes of the store.
    pub fn size(&self) -> Size {
        let (base, fresh) = {
            let state = self.0.read();
            let frozen = state.frozen.as_ref().map_or(0, |frozen| frozen.delta.bytes());
            (Arc::clone(&state.base), (state.active.bytes() + frozen) as u64)
        };
        Size {
            bytes: base.tables.disk_bytes() + fresh,
            bytes_in_use: base.upkeep.kept_bytes + fresh,
        }
    }

    /// The changes from revision `from` on, oldest first: whole revisions, until there are
    /// `events_max` or more. No event at all means that there is none yet.
    ///
    /// # Errors
    /// `from` is before the compacted revision, or the store failed.
    pub fn events(&self, from: i64, events_max: usize) -> Result<Vec<Event>, Failure> {
        let (base, fresh) = {
            let state = self.0.read();
            if from < state.mark.compacted {
                return Err(KvError::Compacted.into());
            }
            // What is in the tables is read without the lock; the caller comes again for more.
            let is_flushed = from.max(2) <= state.base.mark.revision;
            let from = Revision { main: from.max(0), sub: 0 };
            let mut fresh = Vec::new();
            if !is_flushed {
                let changes = state.fresh_changes(from).map(|change| Ok(change.clone()));
                fresh = whole_revisions(changes, events_max)?;
            }
            (is_flushed.then(|| Arc::clone(&state.base)), fresh)
        };
        let from = Revision { main: from.max(0), sub: 0 };
        let changes = match base {
            Some(base) => whole_revisions(base.changes(from), events_max)?,
            None => fresh,
        };
        Ok(changes.iter().map(event).collect())
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

fn whole_revisions(
    changes: impl Iterator<Item = Result<Change, StoreError>>,
    count_max: usize,
) -> Result<Vec<Change>, StoreError> {
    let mut whole: Vec<Change> = Vec::new();
    for change in changes {
        let change = change?;
        let begins = whole.last().is_none_or(|last| last.at.main != change.at.main);
        if begins && whole.len() >= count_max {
            break;
        }
        whole.push(change);
    }
    Ok(whole)
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
