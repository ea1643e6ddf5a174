//! How long the work may pause after each failure, computed from the settings alone.

use std::time::Duration;

use super::RehearseArgs;

/// What the help says of it.
pub(crate) const FORMULAS: &str = "\
Budgets, with T = --ttl, M = T/10 (the margin of a session), E = 1 s (how often the cluster looks
for leases that have run out, and revokes them), V = 3 x --election-timeout (the cluster has another
leader), H = 0.2 s (the next in the queue is told, asks once more and writes):

  the leader resigns                    H
  the leader replica is killed          T + E + H
  it is stopped for longer than T       T + E + H
  it is cut off from the cluster        M + E + H   it works until its deadline, T - M
  the cluster's leader is killed        0           if V + 0.5 s <= 2T/3 - M: no session is lost
                                        V + T + E + H otherwise
  the cluster is restarted one by one   the same

Each may be late by --slack on a busy machine.

Exit codes: 0 all rules held, 1 one did not, 2 asked wrongly, 130 interrupted.";

/// How often a cluster looks for leases that have run out, with some time to revoke them.
const EXPIRY: Duration = Duration::from_secs(1);
/// Three calls and a write to the disk.
const HAND_OVER: Duration = Duration::from_millis(200);
/// A renewal that failed on one node and is tried on another.
const RETRY: Duration = Duration::from_millis(500);

/// What is done to the replicas and the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blow {
    Resign,
    KillReplica,
    StopReplica,
    CutReplica,
    KillNode,
    RestartNodes,
}

impl Blow {
    pub(crate) const ALL: [Self; 6] = [
        Self::Resign,
        Self::KillReplica,
        Self::StopReplica,
        Self::CutReplica,
        Self::KillNode,
        Self::RestartNodes,
    ];

    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Resign => "the leader resigns",
            Self::KillReplica => "the leader is killed (kill -9)",
            Self::StopReplica => "the leader is stopped, and resumed (SIGSTOP)",
            Self::CutReplica => "the leader is cut off from the cluster",
            Self::KillNode => "the cluster's leader is killed (kill -9)",
            Self::RestartNodes => "the cluster is restarted one by one",
        }
    }

    /// Whether another replica has to lead afterwards.
    pub(crate) fn deposes(self) -> bool {
        match self {
            Self::Resign | Self::KillReplica | Self::StopReplica | Self::CutReplica => true,
            Self::KillNode | Self::RestartNodes => false,
        }
    }

    /// Whether the deposed leader lives to try a stale write.
    pub(crate) fn leaves_a_ghost(self) -> bool {
        match self {
            Self::Resign | Self::StopReplica | Self::CutReplica => true,
            Self::KillReplica | Self::KillNode | Self::RestartNodes => false,
        }
    }

    /// How long nobody works at most.
    pub(crate) fn budget(self, args: &RehearseArgs) -> Duration {
        let ttl = args.ttl();
        let margin = ttl / 10;
        let vote = args.election_timeout() * 3;
        match self {
            Self::Resign => HAND_OVER,
            Self::KillReplica | Self::StopReplica => ttl + EXPIRY + HAND_OVER,
            Self::CutReplica => margin + EXPIRY + HAND_OVER,
            Self::KillNode | Self::RestartNodes if vote + RETRY <= ttl * 2 / 3 - margin => {
                Duration::ZERO
            }
            Self::KillNode | Self::RestartNodes => vote + ttl + EXPIRY + HAND_OVER,
        }
    }
}
