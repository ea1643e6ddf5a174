//! The settings of one node's core.

use core::fmt;
use core::time::Duration;

use crate::{Incarnation, NodeId};

/// Settings that [`Config::validate`] accepts. Defaults are safe and as etcd's.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    /// This node.
    pub id: NodeId,
    /// How often a leader shows that it lives. Default 100 ms.
    pub heartbeat_interval: Duration,
    /// How long a node waits for a leader at least; the actual time is drawn anew each time,
    /// up to twice this. A leader that hears no quorum for this long steps down. Default 1 s.
    pub election_timeout: Duration,
    /// Ask before standing for election (thesis §9.6). Default on.
    pub pre_vote: bool,
    /// A leader without a quorum steps down, and nobody votes against a leader that lives
    /// (thesis §6.2, §4.2.3). Default on. When off, a leader that is cut off leads for ever,
    /// and its requests end only when it learns of another.
    pub check_quorum: bool,
    /// How long a new commit index may wait for an append to travel with, before a leader tells
    /// its followers of it alone. Those who wait for a proposal that they handed on are told at
    /// once. Saves a message a peer and commit under load. Default zero: all are told at once.
    pub commit_notice_delay: Duration,
    /// Hand proposals on to the leader rather than refuse them. Default on.
    pub forward_proposals: bool,
    /// The most bytes of entries in one append (a single larger entry goes alone). 1 MiB.
    pub append_bytes_max: usize,
    /// The most appends under way to one peer. 256.
    pub inflight_appends_max: usize,
    /// The most bytes under way to one peer. 16 MiB.
    pub inflight_bytes_max: usize,
    /// The most bytes in a leader's log that are not committed, or not yet durable on its own
    /// disk; beyond, proposals are refused as overloaded. 64 MiB.
    pub uncommitted_bytes_max: usize,
    /// The largest payload of one entry. 8 MiB.
    pub entry_bytes_max: usize,
    /// How many bytes of recent entries are kept in memory. 32 MiB.
    pub recent_bytes_max: usize,
    /// How many entries behind a snapshot stay in the log, for followers that are a little slow.
    /// 5000.
    pub snapshot_tail_entries: u64,
    /// How long a write may be under way before a leader takes its disk for stalled and yields,
    /// and a follower does not stand. Default 3 s.
    pub disk_stall_timeout: Duration,
    /// Serve reads under a lease (thesis §6.4.1). Safe only where the clocks of all voters run
    /// as evenly as it says; to be set alike on all of them. Default off.
    pub lease: Option<Lease>,
    /// The disk that this node's promises lie on, to be noted in the configuration.
    pub incarnation: Option<Incarnation>,
    /// Check after every event that the state is sound and may follow the one before; a node of
    /// which that is not true panics. Default: in debug builds.
    pub check_invariants: bool,
}

/// How far clocks are trusted: every voter refuses to elect another leader for an election
/// timeout after it has heard one, so a leader that was heard by a quorum leads alone for nearly
/// as long, counted from when it spoke.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lease {
    /// How much faster or slower than true time a voter's clock may run, in parts per million.
    /// Hardware drifts by less than 100; a machine whose clock is being corrected, by 500 more.
    pub clock_error_ppm: u32,
    /// What is taken off beyond that.
    pub margin: Duration,
}

impl Lease {
    /// How long a leader leads alone after it spoke, by its own clock: the time that the others
    /// wait by the fastest clock, seen by the slowest. Zero where nothing is left.
    pub(crate) fn length(&self, election_timeout: Duration) -> Duration {
        // (1 - e) / (1 + e) is at least 1 - 2e.
        let error = election_timeout.as_nanos() * 2 * u128::from(self.clock_error_ppm);
        let error = Duration::from_nanos(u64::try_from(error / 1_000_000).unwrap_or(u64::MAX));
        election_timeout.saturating_sub(error).saturating_sub(self.margin)
    }
}

/// Why a configuration is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigError {
    /// The heartbeat interval is zero.
    HeartbeatZero,
    /// The election timeout is less than five heartbeats.
    ElectionTooShort {
        /// The election timeout.
        election_timeout: Duration,
        /// The heartbeat interval.
        heartbeat_interval: Duration,
    },
    /// This limit is zero.
    LimitZero(&'static str),
    /// A write counts as stalled in less than two heartbeats.
    StallTooShort,
    /// Leases rest on the check of the quorum, which is off.
    LeaseWithoutCheckQuorum,
    /// With this clock error and margin, nothing is left of the election timeout.
    LeaseEmpty,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HeartbeatZero => f.write_str("the heartbeat interval is zero; 100 ms is usual"),
            Self::ElectionTooShort { election_timeout, heartbeat_interval } => write!(
                f,
                "the election timeout ({election_timeout:?}) is less than five heartbeats \
                 ({heartbeat_interval:?}); one late heartbeat would depose a healthy leader, so \
                 make it at least {:?}",
                heartbeat_interval.saturating_mul(Config::HEARTBEATS_PER_ELECTION_MIN)
            ),
            Self::LimitZero(name) => write!(f, "{name} is zero; give it at least one"),
            Self::StallTooShort => f.write_str(
                "the disk stall timeout is less than two heartbeats, so that any slow sync would \
                 depose the leader; a few seconds are usual",
            ),
            Self::LeaseWithoutCheckQuorum => f.write_str(
                "lease reads need check_quorum: without it voters elect others while a lease runs",
            ),
            Self::LeaseEmpty => f.write_str(
                "the clock error and the margin of the lease take up the whole election timeout; \
                 make them smaller or the timeout longer",
            ),
        }
    }
}

impl core::error::Error for ConfigError {}

impl Config {
    /// As etcd: an election timeout has room for several heartbeats.
    pub const HEARTBEATS_PER_ELECTION_MIN: u32 = 5;

    /// The defaults for `id`.
    pub fn new(id: NodeId) -> Self {
        Self {
            id,
            heartbeat_interval: Duration::from_millis(100),
            election_timeout: Duration::from_millis(1000),
            pre_vote: true,
            check_quorum: true,
            commit_notice_delay: Duration::ZERO,
            forward_proposals: true,
            append_bytes_max: 1 << 20,
            inflight_appends_max: 256,
            inflight_bytes_max: 16 << 20,
            uncommitted_bytes_max: 64 << 20,
            entry_bytes_max: 8 << 20,
            recent_bytes_max: 32 << 20,
            snapshot_tail_entries: 5000,
            disk_stall_timeout: Duration::from_secs(3),
            lease: None,
            incarnation: None,
            check_invariants: cfg!(debug_assertions),
        }
    }

    /// Refuses settings that cannot work.
    ///
    /// # Errors
    /// The first setting found wrong, with the reason.
    pub fn validate(&self) -> Result<(), ConfigError> {
        if self.heartbeat_interval.is_zero() {
            return Err(ConfigError::HeartbeatZero);
        }
        let heartbeats = Self::HEARTBEATS_PER_ELECTION_MIN;
        if self.election_timeout < self.heartbeat_interval.saturating_mul(heartbeats) {
            return Err(ConfigError::ElectionTooShort {
                election_timeout: self.election_timeout,
                heartbeat_interval: self.heartbeat_interval,
            });
        }
        for (name, value) in [
            ("append_bytes_max", self.append_bytes_max),
            ("inflight_appends_max", self.inflight_appends_max),
            ("inflight_bytes_max", self.inflight_bytes_max),
            ("uncommitted_bytes_max", self.uncommitted_bytes_max),
            ("entry_bytes_max", self.entry_bytes_max),
            ("recent_bytes_max", self.recent_bytes_max),
        ] {
            if value == 0 {
                return Err(ConfigError::LimitZero(name));
            }
        }
        if self.disk_stall_timeout < self.heartbeat_interval.saturating_mul(2) {
            return Err(ConfigError::StallTooShort);
        }
        match self.lease {
            Some(_) if !self.check_quorum => Err(ConfigError::LeaseWithoutCheckQuorum),
            Some(lease) if lease.length(self.election_timeout).is_zero() => {
                Err(ConfigError::LeaseEmpty)
            }
            Some(_) | None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    fn with(change: impl FnOnce(&mut Config)) -> Result<(), ConfigError> {
        let mut config = Config::new(NodeId::new(1).expect("not zero"));
        change(&mut config);
        config.validate()
    }

    #[test]
    fn the_defaults_work() {
        assert_eq!(with(|_| {}), Ok(()));
    }

    #[test]
    fn an_election_timeout_has_room_for_five_heartbeats() {
        let heartbeat = |millis| {
            move |config: &mut Config| config.heartbeat_interval = Duration::from_millis(millis)
        };
        assert_eq!(with(heartbeat(200)), Ok(()));
        let refused = with(heartbeat(201)).expect_err("too short");
        assert!(refused.to_string().ends_with("make it at least 1.005s"), "{refused}");
        assert_eq!(with(heartbeat(0)), Err(ConfigError::HeartbeatZero));
    }

    #[test]
    fn an_absurd_heartbeat_is_refused_not_overflowed() {
        let refused = with(|config| config.heartbeat_interval = Duration::MAX);
        let refused = refused.expect_err("longer than the election timeout");
        assert!(refused.to_string().contains("make it at least"), "{refused}");
    }

    #[test]
    fn no_limit_is_zero() {
        type Limit = fn(&mut Config) -> &mut usize;
        let limits: [(&str, Limit); 6] = [
            ("append_bytes_max", |config| &mut config.append_bytes_max),
            ("inflight_appends_max", |config| &mut config.inflight_appends_max),
            ("inflight_bytes_max", |config| &mut config.inflight_bytes_max),
            ("uncommitted_bytes_max", |config| &mut config.uncommitted_bytes_max),
            ("entry_bytes_max", |config| &mut config.entry_bytes_max),
            ("recent_bytes_max", |config| &mut config.recent_bytes_max),
        ];
        for (name, limit) in limits {
            let refused = with(|config| *limit(config) = 0);
            assert_eq!(refused, Err(ConfigError::LimitZero(name)));
        }
    }
    #[test]
    fn a_disk_has_two_heartbeats_to_answer_in() {
        for (millis, outcome) in
            [(199, Err(ConfigError::StallTooShort)), (200, Ok(())), (201, Ok(()))]
        {
            let validated = with(|config| {
                config.heartbeat_interval = Duration::from_millis(100);
                config.disk_stall_timeout = Duration::from_millis(millis);
            });
            assert_eq!(validated, outcome, "{millis} ms");
        }
    }

    #[test]
    fn a_lease_is_shorter_than_the_election_timeout_and_needs_a_quorum_that_is_heard() {
        let lease = |margin, check_quorum| {
            with(|config| {
                config.lease = Some(Lease { clock_error_ppm: 500, margin });
                config.check_quorum = check_quorum;
            })
        };
        let (short, long) = (Duration::from_millis(50), Duration::from_secs(100));
        assert_eq!(lease(short, true), Ok(()));
        assert_eq!(lease(long, true), Err(ConfigError::LeaseEmpty));
        assert_eq!(lease(short, false), Err(ConfigError::LeaseWithoutCheckQuorum));
    }
}
