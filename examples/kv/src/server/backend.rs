//! What all services stand on: proposing, reading, and the header of every answer.

use std::sync::Arc;
use std::time::Duration;

use kontiki::{Applied, Consistency, Node, ProposeError, ReadError, Refused};
use tokio::time::{Instant, sleep, timeout_at};
use tonic::metadata::MetadataMap;
use tonic::{Code, Status};

use crate::config::ServeConfig;
use crate::proto::etcdserverpb::ResponseHeader;
use crate::proto::kontiki::command::Action;
use crate::store::{Answer, KvError, Response, StoreReader, encode};

/// What a request may take beyond the elections that it may have to wait for; as etcd's.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// How much larger than a request a gRPC message may be; as etcd's.
const MESSAGE_OVERHEAD_BYTES: usize = 512 << 10;
/// How long to wait before asking a leader again that was not one.
const RETRY_PAUSE: Duration = Duration::from_millis(5);

/// The node, its store, and its settings. Clones share them.
#[derive(Clone)]
pub(super) struct Backend {
    pub(super) node: Node<Response>,
    pub(super) reader: StoreReader,
    pub(super) config: Arc<ServeConfig>,
}

impl Backend {
    pub(super) fn new(node: Node<Response>, reader: StoreReader, config: Arc<ServeConfig>) -> Self {
        Self { node, reader, config }
    }

    /// The largest gRPC message that is taken.
    pub(super) fn message_bytes_max(&self) -> usize {
        self.config.max_request_bytes.saturating_add(MESSAGE_OVERHEAD_BYTES)
    }

    fn request_timeout(&self) -> Duration {
        REQUEST_TIMEOUT + 2 * self.config.election_timeout
    }

    /// The header of an answer from the state at `revision`.
    pub(super) fn header(&self, revision: i64) -> Option<ResponseHeader> {
        Some(ResponseHeader {
            cluster_id: self.config.cluster_id,
            member_id: self.config.member_id.get(),
            revision,
            raft_term: self.node.leadership().current().term.0,
        })
    }

    /// Completes a header that holds the revision alone, as the store makes them.
    pub(super) fn complete(&self, header: &mut Option<ResponseHeader>) {
        let revision = header.as_ref().map_or_else(|| self.reader.revision(), |h| h.revision);
        *header = self.header(revision);
    }

    /// A client that asked for it is told at once that there is no leader.
    pub(super) fn require_leader(&self, metadata: &MetadataMap) -> Result<(), Status> {
        let asks = metadata.get("hasleader").is_some_and(|value| value == "true");
        if asks && self.node.leadership().current().leader.is_none() {
            return Err(Status::unavailable("etcdserver: no leader"));
        }
        Ok(())
    }

    /// Replicates a command, and answers once it is applied here. It waits for a leader where
    /// there is none, and tries again what was surely not executed, as long as a request may
    /// take; what may have been executed is never tried again.
    pub(super) async fn propose(&self, action: Action) -> Result<Answer, Status> {
        let command = encode(action);
        if command.len() > self.config.max_request_bytes {
            return Err(KvError::RequestTooLarge.into());
        }
        let deadline = Instant::now() + self.request_timeout();
        loop {
            let outcome = timeout_at(deadline, self.node.propose(command.clone())).await;
            match outcome.map_err(|_| timed_out())? {
                Ok(Applied { response, .. }) => return response.map_err(Status::from),
                Err(
                    ProposeError::NotLeader { .. } | ProposeError::Refused(Refused::Superseded),
                ) => {
                    self.wait_for_leader(deadline).await?;
                }
                Err(ProposeError::Refused(Refused::Overloaded)) => {
                    return Err(Status::resource_exhausted("etcdserver: too many requests"));
                }
                Err(ProposeError::Refused(Refused::TooLarge)) => {
                    return Err(KvError::RequestTooLarge.into());
                }
                Err(ProposeError::Stopped) => return Err(stopped()),
                // Unknown, and what a later version of the engine may add: never tried again.
                Err(_) => {
                    return Err(Status::unavailable(
                        "etcdserver: request timed out, possibly due to previous leader failure",
                    ));
                }
            }
        }
    }

    /// Waits until the store here holds everything that was acknowledged anywhere before.
    pub(super) async fn linearizable(&self) -> Result<(), Status> {
        let deadline = Instant::now() + self.request_timeout();
        loop {
            let outcome = timeout_at(deadline, self.node.read(Consistency::Linearizable)).await;
            match outcome.map_err(|_| timed_out())? {
                Ok(_) => return Ok(()),
                Err(ReadError::Overloaded) => {
                    return Err(Status::resource_exhausted("etcdserver: too many requests"));
                }
                Err(ReadError::Stopped) => return Err(stopped()),
                // No leader, or what a later version may add: a read may always be tried again.
                Err(_) => self.wait_for_leader(deadline).await?,
            }
        }
    }

    async fn wait_for_leader(&self, deadline: Instant) -> Result<(), Status> {
        let mut leadership = self.node.leadership();
        let known = timeout_at(deadline, leadership.wait_for(|now| now.leader.is_some())).await;
        match known {
            Ok(Some(_)) => {
                sleep(RETRY_PAUSE).await;
                Ok(())
            }
            Ok(None) => Err(stopped()),
            Err(_) => Err(timed_out()),
        }
    }
}

fn timed_out() -> Status {
    Status::new(Code::Unavailable, "etcdserver: request timed out")
}

fn stopped() -> Status {
    Status::new(Code::Unavailable, "etcdserver: server stopped")
}
