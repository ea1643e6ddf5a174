//! Who would be refused because leadership is being handed over, and waits instead.

use raft_core::{Instant, Refusal, RequestId, Requests};

use super::parking::Asked;
use super::{Driver, Ending, Kind, ReadKind, Work};

impl<W> Driver<W> {
    /// Ends those who were refused, but for those who can wait out a hand-over.
    pub(super) fn refuse(
        &mut self,
        now: Instant,
        requests: Requests,
        reason: Refusal,
        work: &mut Work<W>,
    ) {
        if reason == Refusal::Transferring {
            self.parking.open(now, self.raft.term());
            self.parking.pause(now);
        }
        let is_passing = matches!(reason, Refusal::Transferring | Refusal::NotLeader { .. });
        let can_wait = is_passing && self.parking.is_open(now);
        let parking = &mut self.parking;
        self.waiters.take(requests, |offset, (kind, waiter)| {
            let request = RequestId(requests.first.0 + offset);
            let asked = match kind {
                Kind::Proposal if can_wait => parking.forwarded(request).map(Asked::Proposal),
                Kind::Read(kind) if can_wait => Some(Asked::Read(kind)),
                Kind::Proposal | Kind::Read(_) | Kind::Wish => None,
            };
            let refused = match asked {
                Some(asked) => parking.park(waiter, asked).err(),
                None => Some(waiter),
            };
            work.ended.extend(refused.map(|waiter| (waiter, Ending::Refused(reason))));
        });
    }

    pub(super) fn park(&mut self, waiter: W, asked: Asked, reason: Refusal, work: &mut Work<W>) {
        let refused = self.parking.park(waiter, asked).err();
        work.ended.extend(refused.map(|waiter| (waiter, Ending::Refused(reason))));
    }

    /// Asks again for what was parked, or refuses it where it has waited for too long.
    pub(super) fn unpark(&mut self, now: Instant, work: &mut Work<W>) {
        if !self.parking.is_open(now) {
            let refused = Ending::Refused(Refusal::Transferring);
            let ended = self.parking.take().into_iter();
            work.ended.extend(ended.map(|(waiter, _)| (waiter, refused.clone())));
        } else if self.parking.is_due(now)
            && self.raft.leader().is_some()
            && self.raft.transferring_to().is_none()
        {
            let (mut proposals, mut confirmed, mut leased) = (Vec::new(), Vec::new(), Vec::new());
            for (waiter, asked) in self.parking.take() {
                match asked {
                    Asked::Proposal(bytes) => proposals.push((bytes, waiter)),
                    Asked::Read(ReadKind::Confirmed) => confirmed.push(waiter),
                    Asked::Read(ReadKind::Leased) => leased.push(waiter),
                }
            }
            // Asked in vain, the leader is not asked again before the pause is over.
            self.parking.pause(now);
            self.propose(now, &mut proposals, work);
            self.read(now, ReadKind::Confirmed, &mut confirmed, work);
            self.read(now, ReadKind::Leased, &mut leased, work);
        }
    }
}
