//! The clock of one node: it may be ahead of the true one, and run faster or slower.

use core::time::Duration;

use raft_core::Instant;

const MILLION: i128 = 1_000_000;

/// A clock that is wrong.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Clock {
    /// How far it is ahead.
    pub(crate) skew: Duration,
    /// By how many millionths it runs faster; slower where negative.
    pub(crate) rate_ppm: i64,
}

impl Clock {
    /// What it shows when the true one shows `clock`.
    pub(crate) fn local(&self, clock: Instant) -> Instant {
        let nanos = i128::from(clock.0) * self.pace() / MILLION;
        Instant(nanos as u64) + self.skew
    }

    /// What the true one shows when it reaches `local`.
    pub(crate) fn global(&self, local: Instant) -> Instant {
        let nanos = i128::from((local - self.skew).0) * MILLION;
        Instant(((nanos + self.pace() - 1) / self.pace()) as u64)
    }

    /// How far it goes while the true one goes a million.
    fn pace(&self) -> i128 {
        MILLION + i128::from(self.rate_ppm)
    }
}
