//! What the tests stand on. Nothing here asserts anything about the store.

mod client;
mod cluster;
mod lease;
mod load;
pub(crate) mod namespace;
mod node;
mod operator;
mod ports;
pub(crate) mod turn;
pub(crate) mod web;

use std::time::Duration;

pub(crate) use client::{Client, Swap, text};
pub(crate) use cluster::Cluster;
pub(crate) use kontiki_client::ClientError;
pub(crate) use kontiki_kv::ports::free as ports;
pub(crate) use load::{Acknowledged, Load, lost_or_doubled};
pub(crate) use node::{Node, Serve, command, run_to_end};
pub(crate) use operator::{add_voter, set_address};
pub(crate) use ports::base_port;

/// The timing of every cluster here, in milliseconds: heartbeats, and the election timeout.
pub(crate) const HEARTBEAT_MS: u64 = 50;
pub(crate) const ELECTION_MS: u64 = 500;

/// How long anything may take before a test gives up. Far more than it does take: the machine
/// may be busy, and nothing here measures speed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// How often a loop runs: `usual` times, or as often as the environment wants.
pub(crate) fn rounds(usual: usize) -> usize {
    let wanted = std::env::var("KONTIKI_TEST_ROUNDS").ok();
    wanted.map_or(usual, |rounds| rounds.parse().expect("KONTIKI_TEST_ROUNDS is a number"))
}

/// The seed of this run, printed for the next one.
pub(crate) fn seed() -> u64 {
    let wanted = std::env::var("KONTIKI_TEST_SEED").ok();
    let seed = wanted.map_or_else(
        || u64::from(std::process::id()),
        |seed| seed.parse().expect("KONTIKI_TEST_SEED is a number"),
    );
    println!("KONTIKI_TEST_SEED={seed}");
    seed
}

/// What `future` gives, or a panic that says what did not happen.
pub(crate) async fn patiently<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(given) => given,
        Err(_) => panic!("not within {PATIENCE:?}: {what}"),
    }
}

/// Asks again and again until there is an answer.
pub(crate) async fn until<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let asking = async {
        loop {
            if let Some(answer) = ask().await {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    patiently(what, asking).await
}
