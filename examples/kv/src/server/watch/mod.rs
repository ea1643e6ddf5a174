//! The Watch service: what happens to keys, told in order, without a gap, and each once.
//!
//! ```text
//!   client ─▶ requests ─▶ Hub, Registry ─▶ Queue ─▶ messages ─▶ client
//!                             ▲
//!                           Store
//! ```
//! ranges, index   who watches a key
//! queue           what a stream has still to be told; bounded
//! registry        all watches, and how far each has come: synced, or behind
//! hub             reads what happens, once for all
//! message         replies as messages
//! follow          a watch of the node's own
//!
//! A client that does not read holds up nobody: its watches fall behind, and are brought up from
//! history when it reads again.

mod follow;
mod hub;
mod index;
mod message;
mod queue;
mod ranges;
mod registry;

#[cfg(test)]
mod tests;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use kontiki::Node;
use tokio::sync::oneshot;
use tokio::time::{Instant, interval_at, timeout};
use tokio_stream::Stream;
use tonic::{Request, Response, Status, Streaming};

use super::backend::{Backend, no_leader, stopped};
use crate::proto::etcdserverpb::watch_create_request::FilterType;
use crate::proto::etcdserverpb::watch_request::RequestUnion;
use crate::proto::etcdserverpb::watch_server::Watch;
use crate::proto::etcdserverpb::{WatchCreateRequest, WatchRequest, WatchResponse};
use index::Keys;
use message::Messages;
use queue::{BOUNDS, Next, Queue};
use registry::{Create, StreamSlot, Wants};

pub(super) use follow::{Follow, News};
pub(super) use hub::Hub;

/// After so many election timeouts without a leader streams end that asked for one; as etcd's.
const LEADERLESS_ELECTIONS_MAX: u32 = 3;

#[tonic::async_trait]
impl Watch for Backend {
    type WatchStream = Replies;

    async fn watch(
        &self,
        request: Request<Streaming<WatchRequest>>,
    ) -> Result<Response<Replies>, Status> {
        self.require_leader(request.metadata())?;
        let wants_leader = self.wants_leader(request.metadata());
        let queue = Arc::new(Queue::new(BOUNDS));
        let stream = self.hub.open(Arc::clone(&queue));
        let (alive, gone) = oneshot::channel();
        let replies = Replies {
            backend: self.clone(),
            queue: Arc::clone(&queue),
            stream,
            messages: None,
            _alive: alive,
        };
        let session = Session { backend: self.clone(), queue, stream, wants_leader };
        tokio::spawn(session.run(request.into_inner(), gone));
        Ok(Response::new(replies))
    }
}

/// What a stream's requests do, until it ends.
struct Session {
    backend: Backend,
    queue: Arc<Queue>,
    stream: StreamSlot,
    wants_leader: bool,
}

impl Session {
    /// Runs until nobody reads the replies any more, or something ends them.
    async fn run(self, requests: Streaming<WatchRequest>, gone: oneshot::Receiver<()>) {
        let hub = Arc::clone(&self.backend.hub);
        let mut stopping = hub.stopping();
        let leaderless = leaderless(self.backend.clone(), self.wants_leader);
        let end = tokio::select! {
            _ = gone => None,
            _ = stopping.wait_for(|is_stopping| *is_stopping) => Some(stopped()),
            () = leaderless => Some(no_leader()),
            status = self.serve(requests) => Some(status),
        };
        end.into_iter().for_each(|status| self.queue.end(status));
        hub.close(self.stream);
    }

    /// Does what the client asks, until it breaks the stream off.
    async fn serve(&self, mut requests: Streaming<WatchRequest>) -> Status {
        let period = self.backend.config.watch_progress_notify_interval;
        let mut ticks = interval_at(Instant::now() + period, period);
        loop {
            // Who does not read cannot ask for more either.
            let request = async {
                self.queue.room().await;
                requests.message().await
            };
            tokio::select! {
                _ = ticks.tick() => self.backend.hub.tell_idle(self.stream),
                request = request => match request {
                    Ok(Some(request)) => self.on_request(request),
                    // It has nothing more to ask, and goes on listening.
                    Ok(None) => break,
                    Err(status) => return status,
                },
            }
        }
        loop {
            ticks.tick().await;
            self.backend.hub.tell_idle(self.stream);
        }
    }

    fn on_request(&self, request: WatchRequest) {
        let hub = &self.backend.hub;
        match request.request_union {
            Some(RequestUnion::CreateRequest(create)) => hub.create(self.stream, create.into()),
            Some(RequestUnion::CancelRequest(cancel)) => hub.cancel(self.stream, cancel.watch_id),
            Some(RequestUnion::ProgressRequest(_)) => hub.ask_progress(self.stream),
            None => {}
        }
    }
}

impl From<WatchCreateRequest> for Create {
    fn from(request: WatchCreateRequest) -> Self {
        let filters = |filter: FilterType| request.filters.contains(&filter.into());
        Self {
            keys: Keys::new(&request.key, &request.range_end),
            watch_id: request.watch_id,
            start: request.start_revision,
            wants: Wants {
                puts: !filters(FilterType::Noput),
                deletions: !filters(FilterType::Nodelete),
                previous: request.prev_kv,
                progress: request.progress_notify,
                fragments: request.fragment,
            },
        }
    }
}

/// Ends when there was no leader for too long; never where nobody cares.
async fn leaderless(backend: Backend, cares: bool) {
    if cares {
        let patience = LEADERLESS_ELECTIONS_MAX * backend.config.election_timeout;
        if no_leader_for(&backend.node, patience).await {
            return;
        }
    }
    std::future::pending().await
}

/// Waits until there was no leader for so long; `false` when the node stops first.
async fn no_leader_for<R: Send + 'static>(node: &Node<R>, patience: Duration) -> bool {
    let mut leadership = node.leadership();
    while leadership.wait_for(|now| now.leader.is_none()).await.is_some() {
        match timeout(patience, leadership.wait_for(|now| now.leader.is_some())).await {
            Ok(Some(_)) => {}
            Ok(None) => return false,
            Err(_) => return true,
        }
    }
    false
}

/// What a client is told.
pub(super) struct Replies {
    backend: Backend,
    queue: Arc<Queue>,
    stream: StreamSlot,
    /// What is left of a reply.
    messages: Option<Messages>,
    _alive: oneshot::Sender<()>,
}

impl Stream for Replies {
    type Item = Result<WatchResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(message) = self.messages.as_mut().and_then(Iterator::next) {
                return Poll::Ready(Some(Ok(message)));
            }
            self.messages = None;
            let reply = match ready!(self.queue.poll_next(context)) {
                None => return Poll::Ready(None),
                Some(Next::End(status)) => return Poll::Ready(Some(Err(status))),
                Some(Next::Reply(reply)) => reply,
                Some(Next::Starved(reply)) => {
                    self.backend.hub.on_room(self.stream);
                    reply
                }
            };
            let header = self.backend.header(reply.revision);
            let messages = Messages::new(reply, header, self.backend.message_bytes_max());
            self.messages = Some(messages);
        }
    }
}
