//! What all services stand on: proposing, reading, and the header of every answer.

use std::sync::Arc;
use std::time::Duration;

use kontiki::{Applied, Consistency, Node, NodeId, ProposeError, ReadError, ReadPermit, Refused};
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tonic::metadata::MetadataMap;
use tonic::{Code, Status};

use super::lessor::Lessor;
use super::metrics::Metrics;
use super::watch::Hub;
use crate::config::ServeConfig;
use crate::proto::etcdserverpb::alarm_request::AlarmAction;
use crate::proto::etcdserverpb::{AlarmMember, AlarmRequest, AlarmType, ResponseHeader};
use crate::proto::kontiki::command::Action;
use crate::store::{Answer, KvError, Response, StoreReader, cost, encode};

/// What a request may take beyond the elections that it may have to wait for; as etcd's.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// How much larger than a request a gRPC message may be; as etcd's.
const MESSAGE_OVERHEAD_BYTES: usize = 512 << 10;
/// How long to wait before asking a leader again that was not one.
pub(super) const RETRY_PAUSE: Duration = Duration::from_millis(5);

/// The node, its store, and its settings. Clones share them.
#[derive(Clone)]
pub(super) struct Backend {
    pub(super) id: NodeId,
    pub(super) cluster_id: u64,
    pub(super) node: Node<Response>,
    pub(super) reader: StoreReader,
    pub(super) hub: Arc<Hub>,
    pub(super) config: Arc<ServeConfig>,
    pub(super) lessor: Lessor,
    pub(super) metrics: Arc<Metrics>,
}

impl Backend {
    /// The largest gRPC message that is taken.
    pub(super) fn message_bytes_max(&self) -> usize {
        self.config.max_request_bytes.saturating_add(MESSAGE_OVERHEAD_BYTES)
    }

    /// Until when a request that begins now must have ended.
    pub(super) fn deadline(&self) -> Instant {
        Instant::now() + REQUEST_TIMEOUT + 2 * self.config.election_timeout
    }

    /// The header of an answer from the state at `revision`.
    pub(super) fn header(&self, revision: i64) -> Option<ResponseHeader> {
        Some(ResponseHeader {
            cluster_id: self.cluster_id,
            member_id: self.id.get(),
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
        if self.wants_leader(metadata) && self.node.leadership().current().leader.is_none() {
            return Err(no_leader());
        }
        Ok(())
    }

    /// Whether a client asked to be told when there is no leader.
    pub(super) fn wants_leader(&self, metadata: &MetadataMap) -> bool {
        metadata.get("hasleader").is_some_and(|value| value == "true")
    }

    /// Replicates a command, and answers once it is applied here. It waits for a leader where
    /// there is none, and tries again what was surely not executed, as long as a request may
    /// take; what may have been executed is never tried again.
    pub(super) async fn propose(&self, action: Action) -> Result<Answer, Status> {
        self.require_space(&action).await?;
        self.replicate(action).await
    }

    /// Refuses what this node has no room for, and tells all members so: from then on nobody
    /// takes any more, until the alarm is put down.
    async fn require_space(&self, action: &Action) -> Result<(), Status> {
        let Some(quota) = self.config.quota_backend_bytes else { return Ok(()) };
        let cost = cost(action);
        if cost == 0 || self.reader.has_room(cost, quota) {
            return Ok(());
        }
        let (alarm, member_id) = (AlarmType::Nospace.into(), self.id.get());
        if !self.reader.alarms().contains(&AlarmMember { member_id, alarm }) {
            tracing::warn!(
                quota,
                "the store has used up its space, and takes no more writes: \
                compact and defragment it, then disarm the alarm"
            );
            let action = AlarmAction::Activate.into();
            let raise = Action::Alarm(AlarmRequest { action, member_id, alarm });
            if let Err(status) = self.replicate(raise).await {
                tracing::warn!(%status, "the alarm could not be raised");
            }
        }
        Err(KvError::NoSpace.into())
    }

    async fn replicate(&self, action: Action) -> Result<Answer, Status> {
        let proposing = self.metrics.proposing();
        let outcome = self.propose_until_told(action).await;
        if matches!(&outcome, Err(status) if status.code() == Code::Unavailable) {
            proposing.failed();
        }
        outcome
    }

    async fn propose_until_told(&self, action: Action) -> Result<Answer, Status> {
        let command = encode(action);
        if command.len() > self.config.max_request_bytes {
            return Err(KvError::RequestTooLarge.into());
        }
        let deadline = self.deadline();
        loop {
            let outcome = timeout_at(deadline, self.node.propose(command.clone())).await;
            match outcome.map_err(|_| timed_out())? {
                Ok(Applied { response, .. }) => return response.map_err(Status::from),
                Err(
                    ProposeError::NotLeader { .. }
                    | ProposeError::Refused(Refused::Superseded | Refused::HandingOver),
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
        // Without a lease it stays valid.
        self.permit(Consistency::Linearizable).await.map(drop)
    }

    /// Looks at a state of the store that holds everything that was acknowledged anywhere before.
    /// Looks twice where a lease has ended meanwhile.
    pub(super) async fn look<T, F: Future<Output = Result<T, Status>>>(
        &self,
        look: impl Fn() -> F,
    ) -> Result<T, Status> {
        if self.config.lease_reads.is_some() {
            let permit = self.permit(Consistency::Lease).await?;
            let seen = look().await?;
            if permit.still_valid() {
                return Ok(seen);
            }
        }
        self.linearizable().await?;
        look().await
    }

    async fn permit(&self, consistency: Consistency) -> Result<ReadPermit, Status> {
        let began = std::time::Instant::now();
        let permit = self.permit_until_told(consistency).await;
        self.metrics.on_read(began, &permit);
        permit
    }

    async fn permit_until_told(&self, consistency: Consistency) -> Result<ReadPermit, Status> {
        let deadline = self.deadline();
        loop {
            let outcome = timeout_at(deadline, self.node.read(consistency)).await;
            match outcome.map_err(|_| timed_out())? {
                Ok(permit) => return Ok(permit),
                Err(ReadError::Overloaded) => {
                    return Err(Status::resource_exhausted("etcdserver: too many requests"));
                }
                Err(ReadError::Stopped) => return Err(stopped()),
                // No leader, or what a later version may add: a read may always be tried again.
                Err(_) => self.wait_for_leader(deadline).await?,
            }
        }
    }

    /// Waits for what ends a stream: the node stops, or it has been without a leader for three
    /// election timeouts and the client asked to be told.
    pub(super) async fn stream_ends(&self, metadata: &MetadataMap) -> Status {
        let asks = self.wants_leader(metadata);
        let patience = 3 * self.config.election_timeout;
        let mut leadership = self.node.leadership();
        loop {
            let is_lost = |now: kontiki::Leadership| asks && now.leader.is_none();
            if leadership.wait_for(is_lost).await.is_none() {
                return stopped();
            }
            let found = leadership.wait_for(|now| now.leader.is_some());
            if timeout(patience, found).await.is_err() {
                return no_leader();
            }
        }
    }

    pub(super) async fn wait_for_leader(&self, deadline: Instant) -> Result<(), Status> {
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

pub(super) fn no_leader() -> Status {
    Status::unavailable("etcdserver: no leader")
}

pub(super) fn timed_out() -> Status {
    Status::new(Code::Unavailable, "etcdserver: request timed out")
}

pub(super) fn stopped() -> Status {
    Status::new(Code::Unavailable, "etcdserver: server stopped")
}
