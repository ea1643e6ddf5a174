//! Leases as the log makes them: who has one, for how long, and which keys go with it.
//!
//! No clock runs here. That the time of a lease is over is decided by the leader alone, which says
//! so in the log; what it said counts only where its own term wrote it there, for another leader
//! may have given the lease new time (scenario B80).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use kontiki::{Index, Term};

use super::base::Base;
use super::error::{Failure, KvError, StoreError};
use super::span::Span;
use super::state::{NEWEST, State};
use super::write::{Writer, header};
use crate::proto::etcdserverpb::{LeaseGrantRequest, LeaseGrantResponse, LeaseRevokeResponse};
use crate::proto::kontiki::{Lease as Wire, LeaseCheckpoint, LeaseRevoke};

/// No lease is granted for more seconds; as etcd's.
pub const LEASE_TTL_MAX: i64 = 9_000_000_000;

/// All leases, by id.
pub type Leases = BTreeMap<i64, Lease>;

/// A lease; `1 <= remaining <= ttl`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// For how many seconds it was granted.
    pub ttl: i64,
    /// How many of them were left at the last checkpoint: all, where there was none.
    pub remaining: i64,
    /// The entry that granted it: an id may come again, and is another lease then.
    pub granted_at: Index,
}

impl Lease {
    pub(super) fn encode(self, id: i64) -> Wire {
        let Self { ttl, remaining, granted_at } = self;
        Wire { id, ttl, remaining, granted_at: granted_at.0 }
    }

    pub(super) fn decode(lease: &Wire) -> Result<(i64, Self), StoreError> {
        let Wire { id, ttl, remaining, granted_at } = *lease;
        if id == 0 || !(1..=LEASE_TTL_MAX).contains(&ttl) || !(1..=ttl).contains(&remaining) {
            return Err(StoreError::Corrupt("a lease that makes no sense"));
        }
        Ok((id, Self { ttl, remaining, granted_at: Index(granted_at) }))
    }
}

/// Which keys go with which lease: those whose newest version names it.
#[derive(Default)]
pub(super) struct Attached(BTreeMap<i64, BTreeSet<Bytes>>);

impl Attached {
    /// Looks through all keys, where there is a lease at all.
    pub fn read(base: &Base) -> Result<Self, StoreError> {
        let mut attached = Self::default();
        if base.mark.leases.is_empty() {
            return Ok(attached);
        }
        let everything = Span::Range { start: Bytes::new(), end: None };
        for row in base.scan(&everything, NEWEST) {
            let (key, version) = row?;
            if version.lease != 0 {
                // A copy, because the key is a part of a block.
                attached.attach(&Bytes::copy_from_slice(&key), version.lease);
            }
        }
        Ok(attached)
    }

    pub fn attach(&mut self, key: &Bytes, lease: i64) {
        if lease != 0 {
            self.0.entry(lease).or_default().insert(key.clone());
        }
    }

    pub fn detach(&mut self, key: &Bytes, lease: i64) {
        if let Some(keys) = self.0.get_mut(&lease) {
            keys.remove(key);
            if keys.is_empty() {
                self.0.remove(&lease);
            }
        }
    }

    /// The keys of a lease, in order.
    pub fn keys(&self, lease: i64) -> impl Iterator<Item = &Bytes> {
        self.0.get(&lease).into_iter().flatten()
    }
}

/// Grants a lease. How short one may be was decided by who proposed it.
pub(super) fn grant(
    state: &mut State,
    request: &LeaseGrantRequest,
    at: Index,
) -> Result<LeaseGrantResponse, KvError> {
    if request.id == 0 {
        return Err(KvError::LeaseNotFound);
    }
    if request.ttl > LEASE_TTL_MAX {
        return Err(KvError::LeaseTtlTooLarge);
    }
    if state.mark.leases.contains_key(&request.id) {
        return Err(KvError::LeaseExists);
    }
    let ttl = request.ttl.max(1);
    let lease = Lease { ttl, remaining: ttl, granted_at: at };
    Arc::make_mut(&mut state.mark.leases).insert(request.id, lease);
    let header = header(state.mark.revision);
    Ok(LeaseGrantResponse { header, id: request.id, ttl, ..LeaseGrantResponse::default() })
}

/// Ends a lease, and deletes its keys at one revision, in order.
pub(super) fn revoke(
    state: &mut State,
    request: &LeaseRevoke,
    term: Term,
    entry_len: usize,
) -> Result<LeaseRevokeResponse, Failure> {
    let lease = state.mark.leases.get(&request.id).ok_or(KvError::LeaseNotFound)?;
    if let Some(expired) = request.expired {
        if expired.term != term.0 {
            return Err(KvError::Superseded.into());
        }
        if expired.granted_at != lease.granted_at.0 {
            return Err(KvError::LeaseNotFound.into());
        }
    }
    Arc::make_mut(&mut state.mark.leases).remove(&request.id);
    let keys = state.attached.0.remove(&request.id).unwrap_or_default();
    Writer::new(state, entry_len).delete_keys(keys)?;
    Ok(LeaseRevokeResponse { header: header(state.mark.revision) })
}

/// Notes how much time leases have left, those that are still there.
pub(super) fn checkpoint(
    state: &mut State,
    request: &LeaseCheckpoint,
    term: Term,
) -> Result<Vec<i64>, KvError> {
    if request.term != term.0 {
        return Err(KvError::Superseded);
    }
    let leases = Arc::make_mut(&mut state.mark.leases);
    for said in &request.leases {
        if let Some(lease) = leases.get_mut(&said.id)
            && lease.granted_at.0 == said.granted_at
        {
            lease.remaining = said.remaining.clamp(1, lease.ttl);
        }
    }
    Ok(request.leases.iter().map(|said| said.id).collect())
}

/// A checksum over all leases, in order of their ids.
pub(super) fn hash(leases: &Leases) -> u32 {
    leases.iter().fold(0, |hash, (id, lease)| {
        let granted_at = lease.granted_at.0.cast_signed();
        let numbers = [*id, lease.ttl, lease.remaining, granted_at];
        numbers.iter().fold(hash, |hash, n| crc32c::crc32c_append(hash, &n.to_be_bytes()))
    })
}
