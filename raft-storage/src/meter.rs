//! What writing the log has cost since it was opened: for metrics. A few atomic additions for each
//! sync, no lock, and nothing for an entry.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Each bound is twice the one before; the first is a millisecond.
const BOUNDS: usize = 14;

/// Counts the syncs of a log.
#[derive(Debug, Default)]
pub struct WriteMeter {
    /// How many syncs took no longer than each bound, and longer than the bound before it; the
    /// last counts those that took longer than all.
    syncs: [AtomicU64; BOUNDS + 1],
    sync_nanos: AtomicU64,
    written_bytes: AtomicU64,
}

/// What a [`WriteMeter`] has counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteCounts {
    /// Bounds, growing, and how many syncs took no longer than each, those before it included.
    pub within: Vec<(Duration, u64)>,
    /// All syncs.
    pub syncs: u64,
    /// How long they took together.
    pub sync_time: Duration,
    /// The bytes that were written to segments.
    pub written_bytes: u64,
}

impl WriteMeter {
    /// A batch was written.
    pub(crate) fn on_written(&self, bytes: usize) {
        self.written_bytes.fetch_add(bytes as u64, Relaxed);
    }

    /// A sync has returned.
    pub(crate) fn on_synced(&self, took: Duration) {
        let at = (0..BOUNDS).find(|at| took <= bound(*at)).unwrap_or(BOUNDS);
        self.syncs[at].fetch_add(1, Relaxed);
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.sync_nanos.fetch_add(nanos, Relaxed);
    }

    /// What was counted until now. A sync that returns meanwhile may be in one number and not
    /// yet in another.
    pub fn counts(&self) -> WriteCounts {
        let mut syncs = 0;
        let mut add = |at: usize| {
            syncs += self.syncs[at].load(Relaxed);
            syncs
        };
        let within = (0..BOUNDS).map(|at| (bound(at), add(at))).collect();
        let syncs = add(BOUNDS);
        WriteCounts {
            within,
            syncs,
            sync_time: Duration::from_nanos(self.sync_nanos.load(Relaxed)),
            written_bytes: self.written_bytes.load(Relaxed),
        }
    }
}

fn bound(at: usize) -> Duration {
    Duration::from_millis(1 << at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sync_counts_in_every_bound_that_it_keeps() {
        let meter = WriteMeter::default();
        let ms = Duration::from_millis;
        for took in [Duration::ZERO, ms(1), ms(2) + Duration::from_nanos(1), ms(9000)] {
            meter.on_synced(took);
        }
        meter.on_written(512);
        meter.on_written(1024);
        let counts = meter.counts();
        assert_eq!(counts.within.len(), BOUNDS);
        assert_eq!(counts.within[..3], [(ms(1), 2), (ms(2), 2), (ms(4), 3)]);
        assert_eq!(counts.within[BOUNDS - 1], (ms(8192), 3));
        assert_eq!((counts.syncs, counts.written_bytes), (4, 1536));
        assert_eq!(counts.sync_time, ms(9003) + Duration::from_nanos(1));
    }
}
