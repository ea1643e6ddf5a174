//! Keeps the stream of one lane to one peer: connects, greets, and after a loss tries again.
//!
//! ```text
//!   ┌─► connect ─► greet ─► open ─► (the peer ends it, or is silent for too long) ─┐
//!   └───────────── backoff, jittered ◄── any failure ◄─────────────────────────────┘
//! ```
//! A peer of several addresses is looked for at each of them before there is a pause.
//!
//! Each lane has a connection of its own. On a shared one, HTTP/2's connection window, the
//! socket's send buffer and a lost TCP segment would all let a heartbeat wait for megabytes of
//! entries; no priority between streams helps once the bytes are in the kernel.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use raft_core::{Lane, NodeId};
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};
use tonic::transport::{Channel, Endpoint, Uri};
use tonic::{Request, Status, Streaming};

use crate::config::Config;
use crate::hello::Purpose;
use crate::peer::Peer;
use crate::proto::{self, peer_client::PeerClient};
use crate::queue::{Outgoing, Queue};
use crate::refusal::{Mismatch, Refused};
use crate::shared::Shared;

/// The replies to a stream are questions and receipts, and its end.
const REPLY_BYTES_MAX: usize = 1024;

/// Why there is no stream.
#[derive(Debug)]
pub(crate) struct Failure {
    /// What happened, for people.
    pub(crate) message: String,
    /// The peer has refused this node.
    pub(crate) refused: Option<Refused>,
}

/// Starts to keep both streams to `peer`.
pub(crate) fn start(shared: &Arc<Shared>, peer: &Arc<Peer>) -> Vec<AbortHandle> {
    let link = |lane| {
        let link = run(Arc::clone(shared), Arc::clone(peer), lane);
        shared.runtime.spawn(link).abort_handle()
    };
    [Lane::Control, Lane::Bulk].map(link).into()
}

/// Runs until aborted, or until a guest calls no more.
async fn run(shared: Arc<Shared>, peer: Arc<Peer>, lane: Lane) {
    let mut backoff = Backoff::new(&shared.config);
    let mut addresses = peer.addresses();
    loop {
        for address in &addresses {
            let queue = peer.queues.of(lane);
            let opened = open(&shared, &peer, lane, address, queue.begin()).await;
            let is_opened = opened.is_ok();
            let failure = match opened {
                Ok(questions) => {
                    peer.on_connected(lane, address);
                    backoff.reset();
                    ended(questions, queue).await
                }
                Err(failure) => failure,
            };
            peer.on_failed(lane, address, failure, &shared.events);
            if is_opened {
                break;
            }
        }
        if peer.is_abandoned(&shared.config) {
            return shared.forget(&peer);
        }
        sleep(backoff.pause()).await;
        addresses = peer.addresses();
    }
}

async fn open(
    shared: &Shared,
    peer: &Peer,
    lane: Lane,
    address: &Uri,
    outgoing: Outgoing,
) -> Result<Streaming<proto::Question>, Failure> {
    let mut client = connect(shared, peer.id, address).await?;
    let mut request = Request::new(outgoing);
    shared.hello(peer, Purpose::Talk(lane)).write(request.metadata_mut());
    // Nothing flows on the stream before the queue is opened.
    let greeting = client.talk(request);
    let Ok(response) = timeout(shared.config.handshake_timeout, greeting).await else {
        return Err("connected, but the greeting was not answered in time".to_owned().into());
    };
    let response = response?;
    shared.recognise(peer, response.metadata())?;
    Ok(response.into_inner())
}

/// Connects to `peer` at one of its addresses.
pub(crate) async fn connect(
    shared: &Shared,
    peer: NodeId,
    address: &Uri,
) -> Result<PeerClient<Channel>, Failure> {
    let endpoint = endpoint(&shared.config, address);
    #[cfg(feature = "tls")]
    let endpoint = match &shared.config.tls {
        Some(tls) => endpoint.tls_config(tls.client(peer)).map_err(|e| root_cause(&e))?,
        None => endpoint,
    };
    #[cfg(not(feature = "tls"))]
    let _ = peer; // Only its certificate would tell who it is before the greeting.
    let channel = endpoint.connect().await.map_err(|error| root_cause(&error))?;
    Ok(PeerClient::new(channel)
        .max_encoding_message_size(shared.config.message_bytes_max)
        .max_decoding_message_size(REPLY_BYTES_MAX))
}

pub(crate) fn endpoint(config: &Config, address: &Uri) -> Endpoint {
    Endpoint::from(address.clone())
        .connect_timeout(config.connect_timeout)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(config.keepalive_interval)
        .keep_alive_timeout(config.keepalive_timeout)
        .keep_alive_while_idle(true)
}

/// Waits for the end of an open stream, and tells why. Meanwhile it gives signs of life.
async fn ended(mut questions: Streaming<proto::Question>, queue: &Queue) -> Failure {
    loop {
        match questions.message().await {
            Ok(Some(question)) => queue.answer(question.number),
            Ok(None) => return "the peer ended the stream".to_owned().into(),
            Err(status) => return status.into(),
        }
    }
}

impl From<String> for Failure {
    fn from(message: String) -> Self {
        Self { message, refused: None }
    }
}

impl From<Mismatch> for Failure {
    fn from(mismatch: Mismatch) -> Self {
        mismatch.to_string().into()
    }
}

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        let message = match std::error::Error::source(&status) {
            Some(source) => root_cause(source),
            // The code says in tonic's words what the message says better.
            None if !status.message().is_empty() => status.message().to_owned(),
            None => status.code().to_string(),
        };
        Self { message, refused: Refused::read(&status) }
    }
}

/// The innermost error: the outer ones only say "transport error".
pub(crate) fn root_cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}

/// Doubling pauses, each jittered to 50-100 %, so that nodes that lost each other at the same
/// moment do not meet at the same moment.
pub(crate) struct Backoff {
    min: Duration,
    max: Duration,
    next: Duration,
    random: RandomState,
    attempt: u64,
}

impl Backoff {
    pub(crate) fn new(config: &Config) -> Self {
        let (min, max) = (config.backoff_min, config.backoff_max);
        Self { min, max, next: min, random: RandomState::new(), attempt: 0 }
    }

    pub(crate) fn reset(&mut self) {
        self.next = self.min;
    }

    pub(crate) fn pause(&mut self) -> Duration {
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
