//! The KV service: keys and values, linearizable unless a request says otherwise.

use tonic::{Request, Response, Status};

use super::backend::Backend;
use crate::proto::etcdserverpb::kv_server::Kv;
use crate::proto::etcdserverpb::{
    CompactionRequest, CompactionResponse, DeleteRangeRequest, DeleteRangeResponse, PutRequest,
    PutResponse, RangeRequest, RangeResponse, RangeStreamResponse, TxnRequest, TxnResponse,
};
use crate::proto::kontiki::command::Action;
use crate::store::{
    Answer, Failure, is_serializable, only_reads, validate_delete_range, validate_put,
    validate_range, validate_txn,
};

/// A range that finds no more keys than this is answered at once; what may find more goes to a
/// thread that may block for longer.
const QUICK_KEYS_MAX: i64 = 64;

#[tonic::async_trait]
impl Kv for Backend {
    async fn range(
        &self,
        request: Request<RangeRequest>,
    ) -> Result<Response<RangeResponse>, Status> {
        self.require_leader(request.metadata())?;
        let request = request.into_inner();
        validate_range(&request)?;
        let is_quick = request.range_end.is_empty()
            || (1..=QUICK_KEYS_MAX).contains(&request.limit) && !request.count_only;
        let is_serializable = request.serializable;
        let look = || {
            let (reader, request) = (self.reader.clone(), request.clone());
            async move {
                match is_quick {
                    true => Ok(reader.range(&request)?),
                    false => blocking(move || reader.range(&request)).await,
                }
            }
        };
        let mut response = if is_serializable { look().await? } else { self.look(look).await? };
        self.complete(&mut response.header);
        Ok(Response::new(response))
    }

    type RangeStreamStream = tokio_stream::Empty<Result<RangeStreamResponse, Status>>;

    async fn range_stream(
        &self,
        _: Request<RangeRequest>,
    ) -> Result<Response<Self::RangeStreamStream>, Status> {
        Err(Status::unimplemented("unknown method RangeStream for service etcdserverpb.KV"))
    }

    async fn put(&self, request: Request<PutRequest>) -> Result<Response<PutResponse>, Status> {
        self.require_leader(request.metadata())?;
        let request = request.into_inner();
        validate_put(&request)?;
        match self.propose(Action::Put(request)).await? {
            Answer::Put(mut response) => {
                self.complete(&mut response.header);
                Ok(Response::new(response))
            }
            other => Err(mismatch(&other)),
        }
    }

    async fn delete_range(
        &self,
        request: Request<DeleteRangeRequest>,
    ) -> Result<Response<DeleteRangeResponse>, Status> {
        self.require_leader(request.metadata())?;
        let request = request.into_inner();
        validate_delete_range(&request)?;
        match self.propose(Action::DeleteRange(request)).await? {
            Answer::DeleteRange(mut response) => {
                self.complete(&mut response.header);
                Ok(Response::new(response))
            }
            other => Err(mismatch(&other)),
        }
    }

    async fn txn(&self, request: Request<TxnRequest>) -> Result<Response<TxnResponse>, Status> {
        self.require_leader(request.metadata())?;
        let request = request.into_inner();
        validate_txn(&request, self.config.max_txn_ops)?;
        let mut response = if only_reads(&request) {
            let look = || {
                let (reader, request) = (self.reader.clone(), request.clone());
                blocking(move || reader.txn(request))
            };
            if is_serializable(&request) { look().await? } else { self.look(look).await? }
        } else {
            match self.propose(Action::Txn(request)).await? {
                Answer::Txn(response) => response,
                other => return Err(mismatch(&other)),
            }
        };
        self.complete(&mut response.header);
        Ok(Response::new(response))
    }

    async fn compact(
        &self,
        request: Request<CompactionRequest>,
    ) -> Result<Response<CompactionResponse>, Status> {
        self.require_leader(request.metadata())?;
        let request = request.into_inner();
        let (revision, is_physical) = (request.revision, request.physical);
        match self.propose(Action::Compact(request)).await? {
            Answer::Compact(mut response) => {
                if is_physical {
                    let mut progress = self.reader.progress();
                    let swept = progress.wait_for(|progress| progress.swept >= revision).await;
                    swept.map_err(|_| Status::unavailable("etcdserver: server stopped"))?;
                }
                self.complete(&mut response.header);
                Ok(Response::new(response))
            }
            other => Err(mismatch(&other)),
        }
    }
}

/// Reads on a thread that may block.
pub(super) async fn blocking<T: Send + 'static>(
    read: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Status> {
    let done = tokio::task::spawn_blocking(read).await;
    done.map_err(|error| Status::internal(format!("a read failed: {error}")))?.map_err(Status::from)
}

pub(super) fn mismatch(answer: &Answer) -> Status {
    Status::internal(format!("the store answered another question: {answer:?}"))
}
