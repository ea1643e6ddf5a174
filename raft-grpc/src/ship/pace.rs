//! A limit on bytes per second: who has taken some waits until the next are due.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// Shared by all who have to keep to it together.
#[derive(Debug)]
pub(crate) struct Pace {
    bytes_per_second: Option<u64>,
    /// When all that was taken is paid for.
    due: Mutex<Option<Instant>>,
}

impl Pace {
    pub(crate) fn new(bytes_per_second: Option<u64>) -> Self {
        Self { bytes_per_second, due: Mutex::default() }
    }

    /// Makes of `bytes_max` what takes about an eighth of a second, so that a low limit lets
    /// little come often.
    pub(super) fn chunk_bytes(&self, bytes_max: usize) -> usize {
        match self.bytes_per_second {
            Some(rate) => bytes_max.min(usize::try_from(rate / 8).unwrap_or(usize::MAX).max(1024)),
            None => bytes_max,
        }
    }

    /// Waits until `bytes` may go.
    pub(super) async fn take(&self, bytes: u64) {
        let Some(rate) = self.bytes_per_second else { return };
        let turn = self.reserve(bytes, rate, Instant::now());
        sleep_until(turn).await;
    }

    fn reserve(&self, bytes: u64, rate: u64, now: Instant) -> Instant {
        let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
        // Time in which nothing went is not made up for.
        let turn = due.map_or(now, |due| due.max(now));
        *due = Some(turn + Duration::from_secs_f64(bytes as f64 / rate.max(1) as f64));
        turn
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_go_no_faster_than_allowed_and_idle_time_is_not_made_up_for() {
        let (pace, start) = (Pace::new(Some(1000)), Instant::now());
        let after = |milliseconds| start + Duration::from_millis(milliseconds);
        assert_eq!(pace.reserve(500, 1000, start), start);
        assert_eq!(pace.reserve(250, 1000, start), after(500));
        assert_eq!(pace.reserve(100, 1000, after(600)), after(750));
        assert_eq!(pace.reserve(100, 1000, after(9000)), after(9000));
        assert_eq!(pace.reserve(100, 1000, after(9000)), after(9100));
        assert_eq!(Pace::new(Some(80_000)).chunk_bytes(1 << 20), 10_000);
        assert_eq!(Pace::new(None).chunk_bytes(1 << 20), 1 << 20);
    }
}
