//! How fresh a read must be, and the permit to read.

use raft_core::{Index, Instant};

use crate::clock::Clock;

/// How fresh a read must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consistency {
    /// It sees every write that was acknowledged anywhere before the read began (Raft §8): a
    /// leader has confirmed since then that it still leads. Any node can serve it.
    Linearizable,
    /// The same for as long as the clocks of the group run as evenly as the settings say, and
    /// without a round of messages where this node leads: it knows until when nobody else can
    /// (thesis §6.4.1). Whoever reads must look at the clock afterwards; see [`ReadPermit`].
    /// Where leases are off, or in doubt, it is confirmed like a linearizable one.
    Lease,
    /// It sees what this node has applied, once that is at least this much, however old: with
    /// the index of an earlier write or read, it never goes back behind that. Zero never waits.
    Stale {
        /// What must be applied here before.
        at_least: Index,
    },
}

/// The state machine of this node may be read.
#[derive(Clone, Copy, Debug)]
pub struct ReadPermit {
    /// The state machine has applied everything up to here.
    pub index: Index,
    lease: Option<(Instant, Clock)>,
}

impl ReadPermit {
    pub(crate) fn new(index: Index, until: Option<Instant>, clock: Clock) -> Self {
        Self { index, lease: until.map(|until| (until, clock)) }
    }

    /// Whether what has been read so far may be used. Always, but under a lease: there only
    /// until it ends, for the process may have been paused between the permit and the read.
    pub fn still_valid(&self) -> bool {
        self.lease.is_none_or(|(until, clock)| clock.now() < until)
    }
}
