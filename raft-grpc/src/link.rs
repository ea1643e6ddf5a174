//! Keeps the stream of one lane to one peer: connects, greets, and after a loss tries again.
//!
//! ```text
//!   ┌─► connect ─► greet ─► open ─► (the peer ends it, or is silent for too long) ─┐
//!   └───────────── backoff, jittered ◄── any failure ◄─────────────────────────────┘
//! ```
//! Each lane has a connection of its own. On a shared one, HTTP/2's connection window, the
//! socket's send buffer and a lost TCP segment would all let a heartbeat wait for megabytes of
//! entries; no priority between streams helps once the bytes are in the kernel.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use raft_core::Lane;
use tokio::time::{sleep, timeout};
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status, Streaming};

use crate::config::Config;
use crate::hello::Hello;
use crate::peer::Peer;
use crate::proto::{self, peer_client::PeerClient};
use crate::queue::Outgoing;
use crate::shared::Shared;

/// The replies to a stream are only its end.
const REPLY_BYTES_MAX: usize = 1024;

/// Runs until aborted.
pub(crate) async fn run(shared: Arc<Shared>, peer: Arc<Peer>, lane: Lane) {
    let mut backoff = Backoff::new(&shared.config);
    loop {
        let outgoing = peer.queues.of(lane).begin();
        let error = match open(&shared, &peer, lane, outgoing).await {
            Ok(replies) => {
                peer.on_connected(lane);
                backoff.reset();
                ended(replies).await
            }
            Err(error) => error,
        };
        peer.on_failed(lane, error);
        sleep(backoff.pause()).await;
    }
}

async fn open(
    shared: &Shared,
    peer: &Peer,
    lane: Lane,
    outgoing: Outgoing,
) -> Result<Streaming<proto::Nothing>, String> {
    let endpoint = endpoint(shared, peer)?;
    let channel = endpoint.connect().await.map_err(|error| root_cause(&error))?;
    let greeting = greet(shared, peer, lane, channel, outgoing);
    match timeout(shared.config.handshake_timeout, greeting).await {
        Ok(done) => done,
        Err(_) => Err("connected, but the greeting was not answered in time".to_owned()),
    }
}

fn endpoint(shared: &Shared, peer: &Peer) -> Result<Endpoint, String> {
    let config = &shared.config;
    let endpoint = Endpoint::from(peer.address())
        .connect_timeout(config.connect_timeout)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(config.keepalive_interval)
        .keep_alive_timeout(config.keepalive_timeout)
        .keep_alive_while_idle(true);
    #[cfg(feature = "tls")]
    let endpoint = match &config.tls {
        Some(tls) => endpoint.tls_config(tls.client(peer.id)).map_err(|e| root_cause(&e))?,
        None => endpoint,
    };
    Ok(endpoint)
}

/// Opens the stream. Nothing flows on it before the caller opens the queue.
async fn greet(
    shared: &Shared,
    peer: &Peer,
    lane: Lane,
    channel: Channel,
    outgoing: Outgoing,
) -> Result<Streaming<proto::Nothing>, String> {
    let ours = &shared.identity;
    let mut request = Request::new(outgoing);
    Hello { from: *ours, to: peer.id, lane }.write(request.metadata_mut());

    let mut client = PeerClient::new(channel)
        .max_encoding_message_size(shared.config.message_bytes_max)
        .max_decoding_message_size(REPLY_BYTES_MAX);
    let response = client.talk(request).await.map_err(|status| describe(&status))?;

    let checked = Hello::read(response.metadata(), ours.node).and_then(|theirs| {
        theirs.check(ours)?;
        theirs.check_sender(peer.id, ours.node)?;
        peer.recognise(theirs.from.incarnation, ours.node)
    });
    match checked {
        Ok(()) => Ok(response.into_inner()),
        Err(mismatch) => Err(mismatch.to_string()),
    }
}

/// Waits for the end of an open stream, and tells why.
async fn ended(mut replies: Streaming<proto::Nothing>) -> String {
    loop {
        match replies.message().await {
            Ok(Some(proto::Nothing {})) => {} // Nothing to learn from it.
            Ok(None) => return "the peer ended the stream".to_owned(),
            Err(status) => return describe(&status),
        }
    }
}

fn describe(status: &Status) -> String {
    match std::error::Error::source(status) {
        Some(source) => root_cause(source),
        None => format!("{}: {}", status.code(), status.message()),
    }
}

/// The innermost error: the outer ones only say "transport error".
fn root_cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}

/// Doubling pauses, each jittered to 50-100 %, so that nodes that lost each other at the same
/// moment do not meet at the same moment.
struct Backoff {
    min: Duration,
    max: Duration,
    next: Duration,
    random: RandomState,
    attempt: u64,
}

impl Backoff {
    fn new(config: &Config) -> Self {
        let (min, max) = (config.backoff_min, config.backoff_max);
        Self { min, max, next: min, random: RandomState::new(), attempt: 0 }
    }

    fn reset(&mut self) {
        self.next = self.min;
    }

    fn pause(&mut self) -> Duration {
        self.attempt += 1;
        let pause = self.next;
        self.next = (pause * 2).min(self.max);
        let part = self.random.hash_one(self.attempt) % 512;
        pause * (512 + part as u32) / 1024
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_maximum_and_start_again() {
        let config = Config::default();
        let mut backoff = Backoff::new(&config);
        for expected in [20, 40, 80, 160, 200, 200] {
            let (pause, whole) = (backoff.pause(), Duration::from_millis(expected));
            assert!(pause >= whole / 2 && pause <= whole, "{pause:?} of {whole:?}");
        }
        backoff.reset();
        assert!(backoff.pause() <= config.backoff_min);
    }
}
