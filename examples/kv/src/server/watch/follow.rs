//! A watch of the node's own: a service waits for what happens, without a client in between.

use std::future::poll_fn;
use std::sync::Arc;

use tonic::Status;

use super::hub::Hub;
use super::index::Keys;
use super::queue::{BOUNDS, Content, Happening, Next, Queue};
use super::registry::{Create, StreamSlot, Wants};
use crate::proto::mvccpb::Event;
use crate::server::backend::stopped;

/// Watches keys until it is dropped.
pub(in crate::server) struct Follow {
    hub: Arc<Hub>,
    queue: Arc<Queue>,
    stream: StreamSlot,
}

/// What a follower learns.
#[derive(Debug)]
pub(in crate::server) enum News {
    /// What happened at one revision, or at several.
    Events(Vec<Event>),
    /// It was away for too long: something may have happened.
    Lost,
}

impl Follow {
    pub fn new(hub: &Arc<Hub>) -> Self {
        let queue = Arc::new(Queue::new(BOUNDS));
        let stream = hub.open(Arc::clone(&queue));
        Self { hub: Arc::clone(hub), queue, stream }
    }

    /// Watches these keys too, from a revision on.
    #[must_use]
    pub fn of(self, key: &[u8], range_end: &[u8], start: i64) -> Self {
        let wants = Wants { puts: true, deletions: true, ..Wants::default() };
        let keys = Keys::new(key, range_end);
        self.hub.create(self.stream, Create { keys, watch_id: 0, start, wants });
        self
    }

    /// Waits for the next thing that happens.
    ///
    /// # Errors
    /// The node stops.
    pub async fn next(&mut self) -> Result<News, Status> {
        loop {
            let reply = match poll_fn(|context| self.queue.poll_next(context)).await {
                None => return Err(stopped()),
                Some(Next::End(status)) => return Err(status),
                Some(Next::Reply(reply)) => reply,
                Some(Next::Starved(reply)) => {
                    self.hub.on_room(self.stream);
                    reply
                }
            };
            match reply.content {
                Content::Events(happenings, _) => {
                    let event = |happening: &Arc<Happening>| happening.event.clone();
                    return Ok(News::Events(happenings.iter().map(event).collect()));
                }
                Content::Compacted(_) => return Ok(News::Lost),
                Content::Created | Content::Canceled | Content::Refused(_) | Content::Progress => {}
            }
        }
    }
}

impl Drop for Follow {
    fn drop(&mut self) {
        self.hub.close(self.stream);
    }
}
