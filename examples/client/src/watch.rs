//! A watch that outlives the member it was opened on: every event of every revision, in order,
//! once, or an error that says from where on they are missing.
//!
//! ```text
//!            created                      stream ends, member dies, no leader
//!   opening ─────────► open at revision r ───────────────────────────────────► opening
//!      ▲                   │ events up to revision s: r = s + 1                 from r
//!      └───── pause ◄──────┴─ compacted beyond r, or refused: the end
//! ```
//!
//! What moves r: events, and progress that was sent for this watch. Not the answer to somebody's
//! request for progress, which etcd 3.4 and early 3.5 let overtake events. Parts of a revision
//! (fragments) are kept until it is whole. It never runs in the background: whoever does not ask
//! for the next events slows the server, which has to bound what it keeps.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};
use tokio_stream::{StreamExt, once, pending};
use tonic::metadata::MetadataValue;
use tonic::{Request, Response, Status, Streaming};

use crate::client::{Client, Retry};
use crate::error::{ClientError, Refusal, Verdict};
use crate::proto::etcdserverpb::watch_client::WatchClient;
use crate::proto::etcdserverpb::watch_request::RequestUnion;
use crate::proto::etcdserverpb::{WatchCreateRequest, WatchRequest, WatchResponse};
use crate::proto::mvccpb::Event;

/// From one opening to the next at least.
const REOPEN_AFTER: Duration = Duration::from_millis(100);
/// Events of all revisions that were put into one answer may be long.
const ANSWER_BYTES_MAX: usize = i32::MAX as usize;

/// What happened, or that nothing did.
#[derive(Clone, Debug, PartialEq)]
pub struct Changes {
    /// The store's revision when this was sent.
    pub revision: i64,
    /// In the order of their revisions, none of which is split over two of these. Empty: progress.
    /// With `progress_notify` it says that nothing is missing up to `revision`.
    pub events: Vec<Event>,
}

/// Why there will be no more events.
#[derive(Clone, Debug, thiserror::Error)]
pub enum WatchError {
    /// Events are missing: those from where this watch was, up to the revision given here. Read
    /// the keys, and watch from the revision of that answer plus one.
    #[error("events up to revision {revision} are compacted: read the keys, then watch again")]
    Compacted {
        /// The revision of the compaction.
        revision: i64,
    },
    /// The server ended this watch and gave a reason.
    #[error("the watch was cancelled: {reason}")]
    Cancelled {
        /// In the server's words.
        reason: String,
    },
    /// No endpoint serves this watch.
    #[error("{0}")]
    Refused(Refusal),
}

/// A watch of a key or a range. Dropping it ends it on the server too.
#[derive(Debug)]
pub struct Watcher {
    client: Client,
    /// As it was asked for, but from the next revision that is due.
    request: WatchCreateRequest,
    stream: Option<Streaming<WatchResponse>>,
    opened_at: Instant,
    /// Of the last revision, while there is more of it to come.
    fragments: Vec<Event>,
    end: Option<WatchError>,
}

impl Client {
    /// Watches keys from the request's revision on; without one, from now: what is written after
    /// this returns is seen. Which `watch_id` is asked for does not matter, each watch has a
    /// stream of its own.
    ///
    /// # Errors
    /// When no endpoint answers in the time of this client, or it refuses.
    pub async fn watch(&self, request: WatchCreateRequest) -> Result<Watcher, ClientError> {
        let (stream, created) = open(self, &request).await?;
        let mut watcher = Watcher {
            client: self.clone(),
            request,
            stream: Some(stream),
            opened_at: Instant::now(),
            fragments: Vec::new(),
            end: None,
        };
        if let Some(header) = &created.header
            && watcher.request.start_revision <= 0
            && !created.canceled
        {
            watcher.request.start_revision = header.revision + 1;
        }
        watcher.on_response(created);
        Ok(watcher)
    }
}

impl Watcher {
    /// The next events, or progress. Waits as long as nothing happens and as long as no member can
    /// be reached; may be dropped and called again without a loss.
    ///
    /// # Errors
    /// When there will be no more: the same at each further call.
    pub async fn next(&mut self) -> Result<Changes, WatchError> {
        loop {
            if let Some(end) = &self.end {
                return Err(end.clone());
            }
            let Some(stream) = &mut self.stream else {
                self.reopen().await;
                continue;
            };
            match stream.message().await {
                Ok(Some(response)) => {
                    if let Some(changes) = self.on_response(response) {
                        return Ok(changes);
                    }
                }
                Ok(None) => self.stream = None,
                Err(status) => {
                    self.stream = None;
                    if Verdict::of(&status) == Verdict::Refused {
                        self.end = Some(WatchError::Refused(Refusal(status)));
                    }
                }
            }
        }
    }

    /// The first revision that has not been seen as a whole.
    pub fn next_revision(&self) -> i64 {
        self.request.start_revision
    }

    async fn reopen(&mut self) {
        sleep_until(self.opened_at + REOPEN_AFTER).await;
        let opened = open(&self.client, &self.request).await;
        self.opened_at = Instant::now();
        self.fragments.clear();
        match opened {
            Ok((stream, created)) => {
                self.stream = Some(stream);
                self.on_response(created);
            }
            Err(ClientError::Refused(refusal)) => self.end = Some(WatchError::Refused(refusal)),
            Err(ClientError::Unreachable(_) | ClientError::Unknown { .. }) => {}
        }
    }

    /// What is to be told of a response, if anything.
    fn on_response(&mut self, response: WatchResponse) -> Option<Changes> {
        if response.canceled {
            self.stream = None;
            self.end = Some(match response.compact_revision {
                0 => WatchError::Cancelled { reason: response.cancel_reason },
                revision => WatchError::Compacted { revision },
            });
            return None;
        }
        if response.created {
            return None;
        }
        let revision = response.header.map_or(0, |header| header.revision);
        if response.events.is_empty() && !response.fragment && self.fragments.is_empty() {
            if response.watch_id >= 0 {
                self.request.start_revision = self.request.start_revision.max(revision + 1);
            }
            return Some(Changes { revision, events: Vec::new() });
        }
        let due = self.request.start_revision;
        let is_due = |event: &Event| revision_of(event) >= due;
        self.fragments.extend(response.events.into_iter().filter(is_due));
        if response.fragment || self.fragments.is_empty() {
            return None;
        }
        let events = std::mem::take(&mut self.fragments);
        let last = events.iter().map(revision_of).max().unwrap_or(0);
        self.request.start_revision = due.max(last + 1);
        Some(Changes { revision, events })
    }
}

fn revision_of(event: &Event) -> i64 {
    event.kv.as_ref().map_or(0, |kv| kv.mod_revision)
}

/// A stream of one watch, on the first member that has a leader and says that the watch stands.
async fn open(
    client: &Client,
    create: &WatchCreateRequest,
) -> Result<(Streaming<WatchResponse>, WatchResponse), ClientError> {
    let ask = |channel, create| async move {
        let create = RequestUnion::CreateRequest(create);
        // Never half-closed: that would be no end to etcd, but it may be one to others.
        let requests = once(WatchRequest { request_union: Some(create) }).chain(pending());
        let mut request = Request::new(requests);
        request.metadata_mut().insert("hasleader", MetadataValue::from_static("true"));
        let mut client = WatchClient::new(channel).max_decoding_message_size(ANSWER_BYTES_MAX);
        let mut stream = client.watch(request).await?.into_inner();
        match stream.message().await? {
            Some(created) if created.created => Ok(Response::new((stream, created))),
            _ => Err(Status::unavailable("the stream began without its watch")),
        }
    };
    client.call(Retry::Safe, create.clone(), ask).await
}
