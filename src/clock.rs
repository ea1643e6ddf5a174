//! The node's clock: monotonic, and it goes on while the machine is suspended. A lease must not
//! outlive a sleep from which the other voters did not suffer.

use std::time::Duration;

use raft_core::Instant;
use tokio::time;

/// Counts from the start of the node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    origin: Duration,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self { origin: since_boot() }
    }

    pub(crate) fn now(&self) -> Instant {
        let elapsed = since_boot().saturating_sub(self.origin);
        Instant(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX))
    }

    /// When a timer of tokio's fires at `at`; it stands still while the machine is suspended.
    pub(crate) fn timer(&self, at: Instant) -> time::Instant {
        time::Instant::now() + at.since(self.now())
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn since_boot() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Where there is no such clock, the monotonic one: do not serve reads under leases on a machine
/// that is suspended now and then.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn since_boot() -> Duration {
    static ORIGIN: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    ORIGIN.get_or_init(std::time::Instant::now).elapsed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_moves_on_and_a_timer_is_as_far_away_as_it_says() {
        let clock = Clock::start();
        let first = clock.now();
        assert!(first < Instant(1_000_000_000), "it counts from its start");
        std::thread::sleep(Duration::from_millis(5));
        let second = clock.now();
        assert!(second.since(first) >= Duration::from_millis(5));
        let due = clock.timer(second + Duration::from_secs(10));
        let away = due.saturating_duration_since(time::Instant::now());
        assert!(away > Duration::from_secs(9) && away <= Duration::from_secs(10), "{away:?}");
        assert!(clock.timer(first) <= time::Instant::now(), "what is past is due");
    }
}
