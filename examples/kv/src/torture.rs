//! `kontiki torture`: a cluster of its own, of real processes, with everything going wrong that
//! can, and the proof that nothing that was acknowledged is lost.
//!
//! ```text
//! schedule ── step ──▶ arena: processes, disks ── wires: links between them
//!  (the seed)            ▲ gRPC
//!                     workload: clients ──▶ record: what they saw
//!                                             │ between two epochs all is well, and all rest
//!                                             ▼
//!                     audit: one store could have answered so? all nodes hold the same?
//! nodes ── --trace ──▶ traces: did every step keep the rules of the protocol?
//! ```
//! What goes wrong and when is a function of the seed. What comes of it is not: processes, disks
//! and the scheduler of the machine are real.

mod arena;
mod damage;
mod deeds;
mod disk;
mod node;
mod record;
mod report;
mod run;
pub(crate) mod schedule;
mod traces;
mod troubles;
mod wires;
mod workload;

use std::path::PathBuf;
use std::time::Duration;

use crate::cli::Failure;
use schedule::Kind;

pub(crate) use run::run;

/// The timing of the cluster, in milliseconds: heartbeats, and the election timeout.
const HEARTBEAT_MS: u64 = 50;
const ELECTION_MS: u64 = 500;
/// How long anything may take before it counts as a fault: far more than it does take.
const PATIENCE: Duration = Duration::from_secs(90);

/// How long to wait before asking again.
const AGAIN: Duration = Duration::from_millis(50);

/// How long it goes on.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Length {
    /// So long, and then until all is well again.
    Time(Duration),
    /// So many steps in which nodes are killed.
    Kills(u64),
}

/// What to do.
#[derive(Clone, Debug)]
pub(crate) struct Wish {
    pub(crate) seed: u64,
    pub(crate) length: Length,
    pub(crate) nodes: usize,
    pub(crate) clients: usize,
    pub(crate) kinds: Vec<Kind>,
    pub(crate) snapshot_count: u64,
    /// Where the nodes keep what is theirs; empty at first.
    pub(crate) dir: PathBuf,
}

/// Asks again and again until there is an answer.
async fn until<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> Result<T, Failure> {
    let asking = async {
        loop {
            if let Some(answer) = ask().await {
                return answer;
            }
            tokio::time::sleep(AGAIN).await;
        }
    };
    let failed = |_| Failure::new(format!("not within {} s: {what}", PATIENCE.as_secs()));
    tokio::time::timeout(PATIENCE, asking).await.map_err(failed)
}
