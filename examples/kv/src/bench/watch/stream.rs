//! Many watches on one stream, and what each of them sees of numbered writes. It speaks the wire's
//! messages itself, as the client library gives a stream to each watch. It never opens a watch
//! again: a stream that breaks is an error, and so is a watch that the server cancels.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use kontiki_client::proto::etcdserverpb::watch_client::WatchClient;
use kontiki_client::proto::etcdserverpb::watch_request::RequestUnion;
use kontiki_client::proto::etcdserverpb::{WatchCreateRequest, WatchRequest, WatchResponse};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use tonic::transport::Channel;

use super::Stats;
use crate::cli::Failure;

/// Requests on their way.
const REQUESTS_MAX: usize = 64;

/// An open stream. Dropped, its watches end.
pub(super) struct Watches {
    /// Held, as a stream whose requests have ended may be at its end.
    _requests: mpsc::Sender<WatchRequest>,
    responses: Streaming<WatchResponse>,
    watches: HashMap<i64, Watch>,
}

impl Watches {
    /// A stream with a watch of each of `keys`, once the server says that all stand.
    pub(super) async fn open(channel: Channel, keys: Vec<String>) -> Result<Self, Failure> {
        let (requests, sent) = mpsc::channel(REQUESTS_MAX);
        let mut watches = HashMap::with_capacity(keys.len());
        let count = keys.len();
        let mut keys = keys.into_iter();
        // A stream opens with its first request.
        if let Some(key) = keys.next() {
            requests.send(create(key)).await.map_err(Failure::new)?;
        }
        let opened = WatchClient::new(channel).watch(ReceiverStream::new(sent)).await;
        let mut responses = opened.map_err(Failure::new)?.into_inner();
        while watches.len() < count {
            tokio::select! {
                permit = requests.reserve(), if keys.len() > 0 => {
                    if let Some(key) = keys.next() {
                        permit.map_err(Failure::new)?.send(create(key));
                    }
                }
                response = responses.message() => {
                    let response = expected(response)?;
                    if response.created {
                        watches.insert(response.watch_id, Watch::default());
                    }
                }
            }
        }
        Ok(Self { _requests: requests, responses, watches })
    }

    /// Counts what each watch sees, until whoever holds the other side of `end` lets go. Writes
    /// tell when they were sent, counted from `epoch`.
    pub(super) async fn follow(
        mut self,
        epoch: Instant,
        stats: Arc<Stats>,
        mut end: watch::Receiver<()>,
    ) -> Result<Vec<Watch>, Failure> {
        loop {
            let response = tokio::select! {
                biased; // What is here is counted before the end.
                response = self.responses.message() => expected(response)?,
                _ = end.changed() => return Ok(self.watches.into_values().collect()),
            };
            let id = response.watch_id;
            let watch = self.watches.get_mut(&id);
            let watch =
                watch.ok_or_else(|| Failure::new(format!("nobody asked for watch {id}")))?;
            let now = epoch.elapsed();
            for event in response.events {
                let value = event.kv.map(|kv| kv.value).unwrap_or_default();
                let stamp = Stamp::decode(&value)
                    .ok_or_else(|| Failure::new("somebody else writes the key"))?;
                if watch.on_event(stamp.number) {
                    stats.lock().took(now.saturating_sub(stamp.sent));
                }
            }
        }
    }
}

fn create(key: String) -> WatchRequest {
    let create = RequestUnion::CreateRequest(WatchCreateRequest::key(key));
    WatchRequest { request_union: Some(create) }
}

/// A response that does not end anything.
fn expected(
    response: Result<Option<WatchResponse>, tonic::Status>,
) -> Result<WatchResponse, Failure> {
    match response.map_err(Failure::new)? {
        None => Err(Failure::new("a stream of watches has ended")),
        Some(response) if response.canceled => {
            let reason = &response.cancel_reason;
            Err(Failure::new(format!("watch {} was cancelled: {reason}", response.watch_id)))
        }
        Some(response) => Ok(response),
    }
}

/// What a written value says: 8 bytes of the number, 8 bytes of the time in µs, big-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) number: u64,
    pub(super) sent: Duration,
}

impl Stamp {
    pub(super) fn encode(self) -> Vec<u8> {
        let sent_us = u64::try_from(self.sent.as_micros()).unwrap_or(u64::MAX);
        [self.number.to_be_bytes(), sent_us.to_be_bytes()].concat()
    }

    fn decode(value: &[u8]) -> Option<Self> {
        let (number, sent_us) = value.split_first_chunk()?;
        let sent = Duration::from_micros(u64::from_be_bytes(sent_us.try_into().ok()?));
        Some(Self { number: u64::from_be_bytes(*number), sent })
    }
}

/// One watch: writes are numbered from zero, and have to come in this order.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Watch {
    /// The number that is due.
    next: u64,
    seen: Seen,
}

/// Of one watch, or of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    /// Passed over, or never here.
    pub(super) missing: u64,
    /// Seen before, or overtaken by later ones.
    pub(super) doubled: u64,
}

impl Watch {
    /// Whether it is new.
    fn on_event(&mut self, number: u64) -> bool {
        let is_new = number >= self.next;
        if is_new {
            self.seen.missing += number - self.next;
            self.next = number + 1;
        } else {
            self.seen.doubled += 1;
        }
        is_new
    }

    /// What it has seen, when there were `writes` of them.
    pub(super) fn after(self, writes: u64) -> Seen {
        let missing = self.seen.missing + writes.saturating_sub(self.next);
        Seen { missing, ..self.seen }
    }
}

impl Seen {
    pub(super) fn add(&mut self, other: Self) {
        self.missing += other.missing;
        self.doubled += other.doubled;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_passed_over_never_here_or_here_twice_is_counted() {
        let after = |numbers: &[u64], writes| {
            let mut watch = Watch::default();
            let new = numbers.iter().filter(|&&number| watch.on_event(number)).count();
            let Seen { missing, doubled } = watch.after(writes);
            (new, missing, doubled)
        };
        assert_eq!(after(&[0, 1, 2], 3), (3, 0, 0));
        assert_eq!(after(&[], 3), (0, 3, 0));
        assert_eq!(after(&[0, 1], 3), (2, 1, 0), "the last one");
        assert_eq!(after(&[1, 2], 3), (2, 1, 0), "the first one");
        assert_eq!(after(&[0, 0, 1, 2], 3), (3, 0, 1));
        assert_eq!(after(&[0, 2, 1], 3), (2, 1, 1), "out of order");
    }

    #[test]
    fn a_value_tells_its_number_and_when_it_was_sent() {
        let stamp = Stamp { number: 258, sent: Duration::from_micros(1_000_003) };
        assert_eq!(Stamp::decode(&stamp.encode()), Some(stamp));
        assert_eq!(Stamp::decode(b"too short"), None);
        assert_eq!(Stamp::decode(b"one byte too much"), None);
    }
}
