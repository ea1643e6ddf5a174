//! What one leadership knows of leases beyond the log: until when each of them lasts. It never
//! reads a clock, and never writes to the log: it says what is due.
//!
//! ```text
//!   begin ─▶ every lease has all the time that its last checkpoint left, and an election timeout
//!   learn ─▶ what the log has made of a lease: granted, noted, or gone
//!   renew ─▶ all of its time again, from now on
//!   expired ─▶ to be revoked; from then on it is not renewed any more, whatever comes of it
//!   notes ─▶ to be noted in the log: a long lease's remaining time, or that it was renewed
//! ```
//! A later leader gives a lease what the log says, so a renewal may be confirmed only while the log
//! says that all of its time is left, and nothing else is on its way there.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use kontiki::Term;

use crate::proto::kontiki::{LeaseExpired, LeaseRemaining, LeaseRevoke};
use crate::store::{Lease, Leases};

/// What becomes of a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Renewal {
    /// It has all of its time again: so many seconds.
    Renewed(i64),
    /// There is no such lease.
    Gone,
    /// Nobody can say yet. To be asked again in a moment.
    Later,
}

/// The leases in one term, on the node that leads in it. Every lease that lasts is in `ends`, and
/// in `due` where something of it is to be noted.
pub(super) struct Tenure {
    term: Term,
    /// What is noted of a lease is older than this at no time.
    interval: Duration,
    leases: BTreeMap<i64, Held>,
    ends: BTreeSet<(Instant, i64)>,
    due: BTreeSet<(Instant, i64)>,
}

struct Held {
    /// As the log has it.
    lease: Lease,
    until: Instant,
    is_ending: bool,
    note: Note,
}

/// What of a lease is to be noted in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Note {
    Nothing,
    /// What is left then.
    Remaining(Instant),
    /// That all of its time is left, wanted since then: a renewal waits for it.
    All(Instant),
    UnderWay,
}

impl Note {
    fn due(self) -> Option<Instant> {
        match self {
            Self::Remaining(at) | Self::All(at) => Some(at),
            Self::Nothing | Self::UnderWay => None,
        }
    }
}

impl Tenure {
    /// Begins once all entries of earlier terms are applied: `leases` are what they left. Whoever
    /// had a lease could not renew it for about `grace`.
    pub fn begin(
        term: Term,
        leases: &Leases,
        now: Instant,
        grace: Duration,
        interval: Duration,
    ) -> Self {
        let mut tenure = Self {
            term,
            interval,
            leases: BTreeMap::new(),
            ends: BTreeSet::new(),
            due: BTreeSet::new(),
        };
        for (id, lease) in leases {
            tenure.hold(*id, *lease, now, now + seconds(lease.remaining) + grace);
        }
        tenure
    }

    pub fn term(&self) -> Term {
        self.term
    }

    /// Takes in what the store has of a lease, once that was applied.
    pub fn learn(&mut self, id: i64, lease: Option<Lease>, now: Instant) {
        let held = self.leases.get_mut(&id);
        match (lease, held) {
            (Some(lease), Some(held)) if lease.granted_at == held.lease.granted_at => {
                held.lease = lease;
            }
            (Some(lease), _) => {
                self.forget(id);
                self.hold(id, lease, now, now + seconds(lease.ttl));
            }
            (None, _) => self.forget(id),
        }
    }

    /// Gives a lease all of its time again. The caller has confirmed after it was asked that this
    /// node leads in this term.
    pub fn renew(&mut self, id: i64, now: Instant) -> Renewal {
        let Some(held) = self.leases.get_mut(&id) else { return Renewal::Gone };
        if held.is_ending || held.until <= now {
            return Renewal::Later;
        }
        let is_noted = held.lease.remaining < held.lease.ttl;
        self.ends.remove(&(held.until, id));
        held.until = now + seconds(held.lease.ttl);
        self.ends.insert((held.until, id));
        match held.note {
            Note::UnderWay | Note::All(_) => Renewal::Later,
            Note::Nothing | Note::Remaining(_) if is_noted => {
                self.plan(id, Note::All(now));
                Renewal::Later
            }
            Note::Nothing | Note::Remaining(_) => {
                let ttl = held.lease.ttl;
                self.plan_next(id, now);
                Renewal::Renewed(ttl)
            }
        }
    }

    /// How many seconds a lease has left.
    pub fn remaining(&self, id: i64, now: Instant) -> Option<i64> {
        let left = self.leases.get(&id)?.until.saturating_duration_since(now);
        Some(i64::try_from(left.as_secs()).unwrap_or(i64::MAX))
    }

    /// Leases whose time is over, so many at most, to be revoked.
    pub fn expired(&mut self, now: Instant, count_max: usize) -> Vec<LeaseRevoke> {
        let mut expired = Vec::new();
        while expired.len() < count_max
            && let Some((_, id)) = self.ends.pop_first_if(now)
        {
            self.plan(id, Note::Nothing);
            if let Some(held) = self.leases.get_mut(&id) {
                held.is_ending = true;
                let granted_at = held.lease.granted_at.0;
                let expired_in = LeaseExpired { term: self.term.0, granted_at };
                expired.push(LeaseRevoke { id, expired: Some(expired_in) });
            }
        }
        expired
    }

    /// A revocation came to nothing, or nobody knows: it is to be tried again from `at` on.
    pub fn not_revoked(&mut self, revoke: &LeaseRevoke, at: Instant) {
        let granted_at = revoke.expired.map_or(0, |expired| expired.granted_at);
        if let Some(held) = self.leases.get_mut(&revoke.id)
            && held.is_ending
            && held.lease.granted_at.0 == granted_at
        {
            held.until = at;
            self.ends.insert((at, revoke.id));
        }
    }

    /// What is to be noted in the log, of so many leases at most. Once that is over, in whatever
    /// way, it is [`noted`](Self::noted).
    pub fn notes(&mut self, now: Instant, count_max: usize) -> Vec<LeaseRemaining> {
        let mut notes = Vec::new();
        while notes.len() < count_max
            && let Some((_, id)) = self.due.pop_first_if(now)
        {
            let Some(held) = self.leases.get_mut(&id) else { continue };
            let Lease { ttl, granted_at, .. } = held.lease;
            let left = held.until.saturating_duration_since(now);
            // Rounded up: nobody is to lose time by it.
            let left = left.as_secs() + u64::from(left.subsec_nanos() > 0);
            let left = i64::try_from(left).unwrap_or(i64::MAX).min(ttl);
            let remaining = if matches!(held.note, Note::All(_)) { ttl } else { left };
            held.note = Note::UnderWay;
            notes.push(LeaseRemaining { id, granted_at: granted_at.0, remaining });
        }
        notes
    }

    /// What was under way is in the log and applied, or not.
    pub fn noted(&mut self, ids: impl IntoIterator<Item = i64>, now: Instant) {
        for id in ids {
            let is_under_way = self.leases.get(&id).is_some_and(|held| held.note == Note::UnderWay);
            if is_under_way {
                self.plan_next(id, now);
            }
        }
    }

    /// When there is something to do next.
    pub fn next_at(&self) -> Option<Instant> {
        let (ends, due) = (self.ends.first(), self.due.first());
        ends.into_iter().chain(due).map(|(at, _)| *at).min()
    }

    /// When the time of a lease is over next.
    pub fn next_end(&self) -> Option<Instant> {
        self.ends.first().map(|(at, _)| *at)
    }

    fn hold(&mut self, id: i64, lease: Lease, now: Instant, until: Instant) {
        self.leases.insert(id, Held { lease, until, is_ending: false, note: Note::Nothing });
        self.ends.insert((until, id));
        self.plan_next(id, now);
    }

    fn forget(&mut self, id: i64) {
        self.plan(id, Note::Nothing);
        if let Some(held) = self.leases.remove(&id) {
            self.ends.remove(&(held.until, id));
        }
    }

    /// Of a lease that lasts longer than the interval, what is left is noted after it.
    fn plan_next(&mut self, id: i64, now: Instant) {
        let at = now + self.interval;
        let lasts = self.leases.get(&id).is_some_and(|held| !held.is_ending && held.until > at);
        self.plan(id, if lasts { Note::Remaining(at) } else { Note::Nothing });
    }

    fn plan(&mut self, id: i64, note: Note) {
        let Some(held) = self.leases.get_mut(&id) else { return };
        if let Some(at) = held.note.due() {
            self.due.remove(&(at, id));
        }
        held.note = note;
        if let Some(at) = note.due() {
            self.due.insert((at, id));
        }
    }
}

/// A set of moments, each with whose it is.
trait Moments {
    /// Takes the first one out, once it has come.
    fn pop_first_if(&mut self, now: Instant) -> Option<(Instant, i64)>;
}

impl Moments for BTreeSet<(Instant, i64)> {
    fn pop_first_if(&mut self, now: Instant) -> Option<(Instant, i64)> {
        self.first().filter(|(at, _)| *at <= now)?;
        self.pop_first()
    }
}

fn seconds(count: i64) -> Duration {
    Duration::from_secs(count.unsigned_abs())
}

#[cfg(test)]
mod tests;
