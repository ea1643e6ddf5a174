//! The null server: puts and ranges are answered and nothing is done. No store that is served by
//! the same gRPC stack can be faster, so the share of it that one reaches says what is left.

use std::net::SocketAddr;
use std::process::ExitCode;

use bytes::Bytes;
use clap::Args;
use kontiki_kv::proto::etcdserverpb::kv_server::{Kv, KvServer};
use kontiki_kv::proto::etcdserverpb::{
    CompactionRequest, CompactionResponse, DeleteRangeRequest, DeleteRangeResponse, PutRequest,
    PutResponse, RangeRequest, RangeResponse, RangeStreamResponse, ResponseHeader, TxnRequest,
    TxnResponse,
};
use kontiki_kv::proto::mvccpb::KeyValue;
use tokio::net::TcpListener;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};

use crate::cli::{Failure, serving_runtime, stop_requested};

#[derive(Args)]
pub(crate) struct NullArgs {
    /// Where to serve
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:24379")]
    listen: SocketAddr,
    /// Bytes of the value that every range finds
    #[arg(long, value_name = "BYTES", default_value_t = 256)]
    value_size: usize,
}

pub(super) fn run(args: NullArgs) -> Result<ExitCode, Failure> {
    let runtime = serving_runtime().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new(format!("cannot start: {error}")))?;
    runtime.block_on(async {
        let listener = TcpListener::bind(args.listen).await.map_err(|error| {
            Failure::new(format!("cannot listen on {}: {error}; choose another", args.listen))
        })?;
        println!("the null server is on {}; Ctrl-C stops it", args.listen);
        serve(listener, args.value_size).await
    })?;
    Ok(ExitCode::SUCCESS)
}

async fn serve(listener: TcpListener, value_bytes: usize) -> Result<(), Failure> {
    let null = Null { value: vec![b'0'; value_bytes].into() };
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    Server::builder()
        .add_service(KvServer::new(null))
        .serve_with_incoming_shutdown(incoming, stop_requested())
        .await
        .map_err(|error| Failure::new(format!("cannot serve: {error}")))
}

struct Null {
    value: Bytes,
}

/// As long as a header of a real store.
const HEADER: ResponseHeader = ResponseHeader {
    cluster_id: 0xcdf8_1818_8e17_8de8,
    member_id: 0x8e9e_05c5_2164_694d,
    revision: 1 << 20,
    raft_term: 2,
};

#[tonic::async_trait]
impl Kv for Null {
    async fn range(
        &self,
        request: Request<RangeRequest>,
    ) -> Result<Response<RangeResponse>, Status> {
        let found = KeyValue {
            key: request.into_inner().key,
            value: self.value.clone(),
            create_revision: 1 << 19,
            mod_revision: 1 << 20,
            version: 1,
            lease: 0,
        };
        let header = Some(HEADER);
        Ok(Response::new(RangeResponse { header, kvs: vec![found], more: false, count: 1 }))
    }

    async fn put(&self, _: Request<PutRequest>) -> Result<Response<PutResponse>, Status> {
        Ok(Response::new(PutResponse { header: Some(HEADER), prev_kv: None }))
    }

    type RangeStreamStream = tokio_stream::Empty<Result<RangeStreamResponse, Status>>;

    async fn range_stream(
        &self,
        _: Request<RangeRequest>,
    ) -> Result<Response<Self::RangeStreamStream>, Status> {
        Err(nothing())
    }

    async fn delete_range(
        &self,
        _: Request<DeleteRangeRequest>,
    ) -> Result<Response<DeleteRangeResponse>, Status> {
        Err(nothing())
    }

    async fn txn(&self, _: Request<TxnRequest>) -> Result<Response<TxnResponse>, Status> {
        Err(nothing())
    }

    async fn compact(
        &self,
        _: Request<CompactionRequest>,
    ) -> Result<Response<CompactionResponse>, Status> {
        Err(nothing())
    }
}

fn nothing() -> Status {
    Status::unimplemented("the null server answers puts and ranges only")
}
