//! A clock that never goes back, that all processes of a machine share, and that goes on while the
//! machine sleeps: a lease does. It never tells what time it is.

use std::ops::Add;
use std::time::Duration;

/// A moment of this machine, counted from its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(Duration);

impl Moment {
    /// Now.
    pub fn now() -> Self {
        Self(since_boot())
    }

    /// The moment that many microseconds after the start of the machine.
    pub fn from_micros(micros: u64) -> Self {
        Self(Duration::from_micros(micros))
    }

    /// Microseconds from the start of the machine.
    pub fn as_micros(self) -> u64 {
        u64::try_from(self.0.as_micros()).unwrap_or(u64::MAX)
    }

    /// From `earlier` to this; zero where that is later.
    pub fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    /// From now to this; zero when it has passed.
    pub fn remaining(self) -> Duration {
        self.since(Self::now())
    }
}

impl Add<Duration> for Moment {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(duration))
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn since_boot() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Where there is no such clock, that of this process: do not let a machine sleep that leads.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn since_boot() -> Duration {
    static ORIGIN: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    ORIGIN.get_or_init(std::time::Instant::now).elapsed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_that_has_passed_has_nothing_left() {
        let second = Duration::from_secs(1);
        let now = Moment::now();
        assert_eq!((now + second).since(now), second);
        assert_eq!(now.since(now + second), Duration::ZERO);
        assert_eq!(now.remaining(), Duration::ZERO);
        assert!((now + second * 60).remaining() > second * 50);
        let cut = Moment::from_micros(now.as_micros());
        assert!(now.since(cut) < Duration::from_micros(1) && now >= cut);
    }
}
