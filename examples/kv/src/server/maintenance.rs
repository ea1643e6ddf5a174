//! The Maintenance service, as far as it goes yet: what a node says of itself.

use tonic::{Request, Response, Status};

use super::backend::Backend;
use crate::proto::etcdserverpb::alarm_request::AlarmAction;
use crate::proto::etcdserverpb::maintenance_server::Maintenance;
use crate::proto::etcdserverpb::{
    AlarmRequest, AlarmResponse, DefragmentRequest, DefragmentResponse, DowngradeRequest,
    DowngradeResponse, HashKvRequest, HashKvResponse, HashRequest, HashResponse, MoveLeaderRequest,
    MoveLeaderResponse, SnapshotRequest, SnapshotResponse, StatusRequest, StatusResponse,
};

/// The etcd version whose API is spoken. Several programs refuse to work with less.
const API_VERSION: &str = "3.5.21";

#[tonic::async_trait]
impl Maintenance for Backend {
    async fn status(&self, _: Request<StatusRequest>) -> Result<Response<StatusResponse>, Status> {
        let (status, size) = (self.node.status(), self.reader.size());
        let leader = status.leadership.leader.map_or(0, |leader| leader.get());
        let errors = if leader == 0 { vec!["etcdserver: no leader".into()] } else { vec![] };
        Ok(Response::new(StatusResponse {
            header: self.header(self.reader.revision()),
            version: API_VERSION.into(),
            db_size: signed(size.bytes),
            leader,
            raft_index: status.committed.0,
            raft_term: status.leadership.term.0,
            raft_applied_index: status.applied.0,
            errors,
            db_size_in_use: signed(size.bytes_in_use),
            is_learner: false,
            storage_version: String::new(),
            db_size_quota: signed(self.config.quota_backend_bytes),
            downgrade_info: None,
        }))
    }

    /// There are no alarms yet: all of them are listed, and none can be raised.
    async fn alarm(
        &self,
        request: Request<AlarmRequest>,
    ) -> Result<Response<AlarmResponse>, Status> {
        match request.into_inner().action() {
            AlarmAction::Get | AlarmAction::Deactivate => {
                let header = self.header(self.reader.revision());
                Ok(Response::new(AlarmResponse { header, alarms: vec![] }))
            }
            AlarmAction::Activate => Err(later("Alarm ACTIVATE")),
        }
    }

    async fn defragment(
        &self,
        _: Request<DefragmentRequest>,
    ) -> Result<Response<DefragmentResponse>, Status> {
        Err(later("Defragment"))
    }

    async fn hash(&self, _: Request<HashRequest>) -> Result<Response<HashResponse>, Status> {
        Err(later("Hash"))
    }

    async fn hash_kv(&self, _: Request<HashKvRequest>) -> Result<Response<HashKvResponse>, Status> {
        Err(later("HashKV"))
    }

    type SnapshotStream = tokio_stream::Empty<Result<SnapshotResponse, Status>>;

    async fn snapshot(
        &self,
        _: Request<SnapshotRequest>,
    ) -> Result<Response<Self::SnapshotStream>, Status> {
        Err(later("Snapshot"))
    }

    async fn move_leader(
        &self,
        _: Request<MoveLeaderRequest>,
    ) -> Result<Response<MoveLeaderResponse>, Status> {
        Err(later("MoveLeader"))
    }

    async fn downgrade(
        &self,
        _: Request<DowngradeRequest>,
    ) -> Result<Response<DowngradeResponse>, Status> {
        Err(later("Downgrade"))
    }
}

fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

fn later(method: &str) -> Status {
    Status::unimplemented(format!("{method} is not offered by this version"))
}
