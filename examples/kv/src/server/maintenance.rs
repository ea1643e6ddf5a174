//! The Maintenance service: what a node says of itself, alarms, backups, and who leads.

use std::io::Read;

use bytes::Bytes;
use kontiki::NodeId;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

use super::backend::Backend;
use super::kv::{blocking, mismatch};
use super::members::Via;
use super::refusal;
use crate::backup::Sealed;
use crate::proto::etcdserverpb::alarm_request::AlarmAction;
use crate::proto::etcdserverpb::downgrade_request::DowngradeAction;
use crate::proto::etcdserverpb::maintenance_server::Maintenance;
use crate::proto::etcdserverpb::{
    AlarmMember, AlarmRequest, AlarmResponse, AlarmType, DefragmentRequest, DefragmentResponse,
    DowngradeRequest, DowngradeResponse, HashKvRequest, HashKvResponse, HashRequest, HashResponse,
    MoveLeaderRequest, MoveLeaderResponse, SnapshotRequest, SnapshotResponse, StatusRequest,
    StatusResponse,
};
use crate::proto::kontiki::command::Action;
use crate::store::Answer;

/// The etcd version whose API is spoken. Several programs refuse to work with less.
pub(super) const API_VERSION: &str = "3.5.21";
/// How much of a backup is in one message, and how many messages are made ahead.
const CHUNK_BYTES: usize = 64 << 10;
const CHUNKS_AHEAD: usize = 4;

#[tonic::async_trait]
impl Maintenance for Backend {
    async fn status(&self, _: Request<StatusRequest>) -> Result<Response<StatusResponse>, Status> {
        let (status, size) = (self.node.status(), self.reader.size());
        let leader = status.leadership.leader.map_or(0, |leader| leader.get());
        let mut errors = errors(&status);
        errors.extend(self.reader.alarms().into_iter().map(in_words));
        Ok(Response::new(StatusResponse {
            header: self.header(self.reader.revision()),
            version: API_VERSION.into(),
            db_size: signed(size.bytes),
            leader,
            raft_index: status.committed.0,
            raft_term: status.leadership.term.0,
            raft_applied_index: status.applied.0,
            errors,
            // What is kept may be pressed into less.
            db_size_in_use: signed(size.bytes_in_use.min(size.bytes)),
            is_learner: status.members.membership.is_learner(self.id),
            storage_version: String::new(),
            db_size_quota: self.config.quota_backend_bytes.map_or(-1, signed),
            downgrade_info: None,
        }))
    }

    /// Through the log, also to list them: so the list holds every alarm that was raised before.
    async fn alarm(
        &self,
        request: Request<AlarmRequest>,
    ) -> Result<Response<AlarmResponse>, Status> {
        let request = request.into_inner();
        AlarmAction::try_from(request.action).map_err(|_| refusal::unknown_method())?;
        match self.propose(Action::Alarm(request)).await? {
            Answer::Alarm(mut response) => {
                self.complete(&mut response.header);
                Ok(Response::new(response))
            }
            other => Err(mismatch(&other)),
        }
    }

    async fn defragment(
        &self,
        _: Request<DefragmentRequest>,
    ) -> Result<Response<DefragmentResponse>, Status> {
        let reader = self.reader.clone();
        blocking(move || Ok(reader.defragment()?)).await?;
        Ok(Response::new(DefragmentResponse { header: None }))
    }

    /// Over all that the store has: leases too, which are no part of any revision.
    async fn hash(&self, _: Request<HashRequest>) -> Result<Response<HashResponse>, Status> {
        let reader = self.reader.clone();
        let hash = blocking(move || reader.hash(None)).await?;
        let (header, hash) = (self.header(hash.revision), hash.hash ^ hash.leases);
        Ok(Response::new(HashResponse { header, hash }))
    }

    /// The same on all members at one revision; another number than etcd's, whose bytes differ.
    async fn hash_kv(
        &self,
        request: Request<HashKvRequest>,
    ) -> Result<Response<HashKvResponse>, Status> {
        let (reader, revision) = (self.reader.clone(), request.into_inner().revision);
        let hash = blocking(move || reader.hash(Some(revision))).await?;
        Ok(Response::new(HashKvResponse {
            header: self.header(self.reader.revision()),
            hash: hash.hash,
            compact_revision: hash.compacted,
            hash_revision: hash.revision,
        }))
    }

    type SnapshotStream = ReceiverStream<Result<SnapshotResponse, Status>>;

    /// A backup of what this node has applied, leader or not: it works without a quorum too.
    async fn snapshot(
        &self,
        _: Request<SnapshotRequest>,
    ) -> Result<Response<Self::SnapshotStream>, Status> {
        let snapshot =
            self.reader.snapshot().map_err(|error| Status::internal(error.to_string()))?;
        let header = self.header(self.reader.revision());
        let expected = self.reader.size().bytes_in_use;
        let (chunks, received) = mpsc::channel(CHUNKS_AHEAD);
        tokio::task::spawn_blocking(move || {
            let mut sealed = Sealed::new(snapshot);
            let mut sent = 0;
            loop {
                let chunk = read_chunk(&mut sealed);
                let is_last = chunk.as_ref().map_or(true, |chunk| chunk.len() < CHUNK_BYTES);
                let message = chunk.map(|blob| {
                    sent += blob.len() as u64;
                    // An estimate, but never zero before the end.
                    let left = if is_last { 0 } else { expected.saturating_sub(sent).max(1) };
                    let version = API_VERSION.into();
                    SnapshotResponse { header, remaining_bytes: left, blob, version }
                });
                // A client that has gone wants no more.
                if chunks.blocking_send(message).is_err() || is_last {
                    return;
                }
            }
        });
        Ok(Response::new(ReceiverStream::new(received)))
    }

    async fn move_leader(
        &self,
        request: Request<MoveLeaderRequest>,
    ) -> Result<Response<MoveLeaderResponse>, Status> {
        // As etcd's, only the leader does it; the Admin service asks the leader.
        if !self.node.leadership().current().is_leader() {
            return Err(refusal::not_leader());
        }
        let target = NodeId::new(request.into_inner().target_id).ok_or_else(refusal::bad_target)?;
        if target != self.id {
            self.transfer(Some(target), Via::Member).await?;
        }
        Ok(Response::new(MoveLeaderResponse { header: None }))
    }

    /// What this store writes no etcd reads: there is no version to go back to, and so nothing
    /// to cancel.
    async fn downgrade(
        &self,
        request: Request<DowngradeRequest>,
    ) -> Result<Response<DowngradeResponse>, Status> {
        let DowngradeRequest { action, version } = request.into_inner();
        match DowngradeAction::try_from(action) {
            Ok(DowngradeAction::Validate | DowngradeAction::Enable) if is_version(&version) => {
                Err(Status::invalid_argument("etcdserver: invalid downgrade target version"))
            }
            Ok(DowngradeAction::Validate | DowngradeAction::Enable) => {
                let words = "etcdserver: wrong downgrade target version format";
                Err(Status::invalid_argument(words))
            }
            Ok(DowngradeAction::Cancel) => {
                Err(Status::failed_precondition("etcdserver: no inflight downgrade job"))
            }
            Err(_) => Err(refusal::unknown_method()),
        }
    }
}

/// What is wrong with this node, in words.
fn errors(status: &kontiki::Status) -> Vec<String> {
    let mut errors = Vec::new();
    if status.leadership.leader.is_none() {
        errors.push("etcdserver: no leader".to_owned());
    }
    if status.is_storage_stalled {
        errors.push("the disk of the log is stalled".to_owned());
    }
    if let Some(claim) = status.claim {
        let missing = claim.last.index;
        errors.push(format!("the log was damaged, and is being repaired up to {missing}"));
    }
    errors
}

/// An alarm as etcd's status names it.
fn in_words(alarm: AlarmMember) -> String {
    let kind = AlarmType::try_from(alarm.alarm).map_or("UNKNOWN", |kind| kind.as_str_name());
    format!("memberID:{} alarm:{kind} ", alarm.member_id)
}

/// The next bytes: fewer than a chunk only at the end.
fn read_chunk(source: &mut impl Read) -> Result<Bytes, Status> {
    let mut chunk = Vec::with_capacity(CHUNK_BYTES);
    let read = source.take(CHUNK_BYTES as u64).read_to_end(&mut chunk);
    read.map_err(|error| Status::internal(format!("the snapshot cannot be read: {error}")))?;
    Ok(chunk.into())
}

fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

/// Two or three numbers, and whatever may follow the third.
fn is_version(text: &str) -> bool {
    let mut parts = text.splitn(3, '.');
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|it| it.is_ascii_digit());
    let is_first = parts.next().is_some_and(is_number);
    let is_second = parts.next().is_some_and(is_number);
    let is_third = parts.next().is_none_or(|part| {
        let number = part.split(['-', '+']).next().unwrap_or_default();
        is_number(number)
    });
    is_first && is_second && is_third
}

#[cfg(test)]
mod tests {
    use super::is_version;

    #[test]
    fn versions_have_two_or_three_numbers() {
        for text in ["3.4", "3.4.0", "03.4", "3.4.1-rc.0", "3.4.1+git"] {
            assert!(is_version(text), "{text}");
        }
        for text in ["", "x", "3", "3.", ".4", "v3.4", "3.4.x", "3.4-rc", "3.4.0.0", "3.4."] {
            assert!(!is_version(text), "{text}");
        }
    }
}
