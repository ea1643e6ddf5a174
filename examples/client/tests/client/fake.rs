//! A server that counts what reaches it and answers as the test says.

mod lease;

pub(crate) use lease::LATE;

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use kontiki_client::proto::etcdserverpb::kv_server::{Kv, KvServer};
use kontiki_client::proto::etcdserverpb::lease_server::LeaseServer;
use kontiki_client::proto::etcdserverpb::watch_server::{Watch, WatchServer};
use kontiki_client::proto::etcdserverpb::{
    CompactionRequest, CompactionResponse, DeleteRangeRequest, DeleteRangeResponse, PutRequest,
    PutResponse, RangeRequest, RangeResponse, RangeStreamResponse, TxnRequest, TxnResponse,
    WatchRequest, WatchResponse,
};
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Pending, StreamExt};
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status, Streaming};

/// What becomes of a request that has arrived.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    Good,
    Refuse(Status),
    /// The answer is lost, with all connections of that proxy.
    Cut(Arc<watch::Sender<u64>>),
    Never,
}

pub(crate) type Script = mpsc::Receiver<Result<WatchResponse, Status>>;

/// What the server has seen, and how it answers.
pub(crate) struct Fake {
    pub(crate) reads: AtomicUsize,
    pub(crate) writes: AtomicUsize,
    answer: Mutex<Answer>,
    /// One for each stream of watches to come: what it sends.
    scripts: Mutex<Vec<Script>>,
    /// The first request of each stream of watches, and whether it asked for a leader.
    pub(crate) watches: Mutex<Vec<(WatchRequest, bool)>>,
}

impl Fake {
    /// Serves until the test ends; the port is the second.
    pub(crate) async fn start(answer: Answer) -> (Arc<Self>, u16) {
        let fake = Arc::new(Self {
            reads: AtomicUsize::new(0),
            writes: AtomicUsize::new(0),
            answer: Mutex::new(answer),
            scripts: Mutex::default(),
            watches: Mutex::default(),
        });
        let incoming = TcpIncoming::bind(([127, 0, 0, 1], 0).into()).expect("a free port");
        let port = incoming.local_addr().expect("bound").port();
        let server = Server::builder()
            .add_service(KvServer::from_arc(fake.clone()))
            .add_service(LeaseServer::from_arc(fake.clone()))
            .add_service(WatchServer::from_arc(fake.clone()));
        tokio::spawn(server.serve_with_incoming(incoming));
        (fake, port)
    }

    pub(crate) fn answer(&self, answer: Answer) {
        *self.answer.lock().expect("not poisoned") = answer;
    }

    /// The next stream of watches sends what comes in here.
    pub(crate) fn expect_watch(&self) -> mpsc::Sender<Result<WatchResponse, Status>> {
        let (sender, script) = mpsc::channel(16);
        self.scripts.lock().expect("not poisoned").insert(0, script);
        sender
    }

    pub(crate) fn seen(&self) -> (usize, usize) {
        (self.reads.load(Ordering::SeqCst), self.writes.load(Ordering::SeqCst))
    }

    async fn respond<T: Default>(&self, count: &AtomicUsize) -> Result<Response<T>, Status> {
        count.fetch_add(1, Ordering::SeqCst);
        let answer = self.answer.lock().expect("not poisoned").clone();
        match answer {
            Answer::Good => Ok(Response::new(T::default())),
            Answer::Refuse(status) => Err(status),
            Answer::Cut(scissors) => {
                scissors.send_modify(|cuts| *cuts += 1);
                std::future::pending().await
            }
            Answer::Never => std::future::pending().await,
        }
    }
}

#[tonic::async_trait]
impl Kv for Fake {
    type RangeStreamStream = Pending<Result<RangeStreamResponse, Status>>;

    async fn range(&self, _: Request<RangeRequest>) -> Result<Response<RangeResponse>, Status> {
        self.respond(&self.reads).await
    }

    async fn range_stream(
        &self,
        _: Request<RangeRequest>,
    ) -> Result<Response<Self::RangeStreamStream>, Status> {
        Err(Status::unimplemented("not here"))
    }

    async fn put(&self, _: Request<PutRequest>) -> Result<Response<PutResponse>, Status> {
        self.respond(&self.writes).await
    }

    async fn delete_range(
        &self,
        _: Request<DeleteRangeRequest>,
    ) -> Result<Response<DeleteRangeResponse>, Status> {
        self.respond(&self.writes).await
    }

    async fn txn(&self, _: Request<TxnRequest>) -> Result<Response<TxnResponse>, Status> {
        self.respond(&self.writes).await
    }

    async fn compact(
        &self,
        _: Request<CompactionRequest>,
    ) -> Result<Response<CompactionResponse>, Status> {
        self.respond(&self.writes).await
    }
}

#[tonic::async_trait]
impl Watch for Fake {
    type WatchStream = Pin<Box<ReceiverStream<Result<WatchResponse, Status>>>>;

    async fn watch(
        &self,
        request: Request<Streaming<WatchRequest>>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let has_leader = request.metadata().get("hasleader").is_some_and(|value| value == "true");
        let first = request.into_inner().next().await;
        let first = first.ok_or_else(|| Status::invalid_argument("no request"))??;
        self.watches.lock().expect("not poisoned").push((first, has_leader));
        let script = self.scripts.lock().expect("not poisoned").pop();
        let script = script.ok_or_else(|| Status::unavailable("etcdserver: no leader"))?;
        Ok(Response::new(Box::pin(ReceiverStream::new(script))))
    }
}
