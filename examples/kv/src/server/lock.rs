//! The Lock service: one at a time, in the order in which they came.

use tonic::{Request, Response, Status};

use super::backend::Backend;
use super::line::Line;
use crate::proto::etcdserverpb::DeleteRangeRequest;
use crate::proto::etcdserverpb::kv_server::Kv;
use crate::proto::v3lockpb::lock_server::Lock;
use crate::proto::v3lockpb::{LockRequest, LockResponse, UnlockRequest, UnlockResponse};

#[tonic::async_trait]
impl Lock for Backend {
    /// Waits for the lock as long as its client does.
    async fn lock(&self, request: Request<LockRequest>) -> Result<Response<LockResponse>, Status> {
        let LockRequest { name, lease } = request.into_inner();
        let expired = "mutex: session is expired";
        let turn = Line::new(&name).take_turn(self, lease, None, expired).await?;
        Ok(Response::new(LockResponse { header: turn.taken, key: turn.place.key }))
    }

    async fn unlock(
        &self,
        request: Request<UnlockRequest>,
    ) -> Result<Response<UnlockResponse>, Status> {
        let key = request.into_inner().key;
        let delete = DeleteRangeRequest { key, ..DeleteRangeRequest::default() };
        let header = Kv::delete_range(self, Request::new(delete)).await?.into_inner().header;
        Ok(Response::new(UnlockResponse { header }))
    }
}
