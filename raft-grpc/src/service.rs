//! The receiving half: greets each stream, then hands on what it brings.
//!
//! The response's body is what reads the request, so a stream needs no task of its own, and is
//! gone as soon as its connection is. A full inbound channel stops the reading, and HTTP/2's
//! windows stop the sender; each lane has its own channel and its own connection, so only that
//! lane waits.

use std::pin::Pin;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll};
use std::time::Instant;

use raft_core::{Envelope, Lane, NodeId};
use tokio::sync::{mpsc, oneshot};
use tokio_stream::Stream;
use tonic::{Request, Response, Status, Streaming};

use crate::decode;
use crate::hello::{Hello, Mismatch};
use crate::peer::Peer;
use crate::proto;
use crate::shared::Shared;

/// Where received messages go, in order within each lane. The capacities bound how many gRPC
/// messages wait there; each holds at most `batch_bytes_max`, or a single larger entry.
#[derive(Clone, Debug)]
pub struct Inbound {
    /// Elections, heartbeats and read rounds: to be received before the others.
    pub control: mpsc::Sender<Vec<Envelope>>,
    /// Entries, and what must stay in order with them.
    pub bulk: mpsc::Sender<Vec<Envelope>>,
}

/// The gRPC service. Clones share the transport.
#[derive(Clone, Debug)]
pub struct PeerService {
    pub(crate) shared: Arc<Shared>,
    pub(crate) inbound: Inbound,
}

#[tonic::async_trait]
impl proto::peer_server::Peer for PeerService {
    type TalkStream = Reading;

    async fn talk(
        &self,
        request: Request<Streaming<proto::Batch>>,
    ) -> Result<Response<Reading>, Status> {
        let (hello, peer) = self.welcome(&request)?;
        let ours = self.shared.identity;
        let reader = Reader {
            ended: peer.on_reading(hello.lane),
            peer,
            node: ours.node,
            lane: hello.lane,
            batches: request.into_inner(),
            inbound: match hello.lane {
                Lane::Control => self.inbound.control.clone(),
                Lane::Bulk => self.inbound.bulk.clone(),
            },
        };
        let mut response = Response::new(Reading(Box::pin(reader.run())));
        let reply = Hello { from: ours, to: hello.from.node, lane: hello.lane };
        reply.write(response.metadata_mut());
        Ok(response)
    }
}

impl PeerService {
    /// Reads and checks the greeting. A refusal is logged once for each cause.
    fn welcome<T>(&self, request: &Request<T>) -> Result<(Hello, Arc<Peer>), Status> {
        if self.shared.peers().closed {
            return Err(Status::unavailable(format!(
                "node {} is shutting down",
                self.shared.identity.node
            )));
        }
        self.check(request).map_err(|mismatch| {
            let reason = mismatch.to_string();
            let mut said = self.shared.refusals.lock().unwrap_or_else(PoisonError::into_inner);
            if said.is_news(&reason, Instant::now()) {
                let remote = request.remote_addr().map(|address| address.to_string());
                tracing::warn!(remote, reason, "refused a peer's stream");
            }
            mismatch.into()
        })
    }

    fn check<T>(&self, request: &Request<T>) -> Result<(Hello, Arc<Peer>), Mismatch> {
        let ours = &self.shared.identity;
        let hello = Hello::read(request.metadata(), ours.node)?;
        hello.check(ours)?;
        let from = hello.from.node;
        let unknown = Mismatch::Unknown { from, node: ours.node };
        let peer = self.shared.peer(from).ok_or(unknown)?;
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.shared.config.tls {
            tls.check(request, from, ours.node)?;
        }
        peer.recognise(hello.from.incarnation, ours.node)?;
        Ok((hello, peer))
    }
}

/// Reads one stream.
struct Reader {
    peer: Arc<Peer>,
    node: NodeId,
    lane: Lane,
    batches: Streaming<proto::Batch>,
    inbound: mpsc::Sender<Vec<Envelope>>,
    ended: oneshot::Receiver<()>,
}

impl Reader {
    /// Reads until the stream ends, or has to.
    async fn run(mut self) -> Result<(), Status> {
        loop {
            let batch = tokio::select! {
                biased;
                _ = &mut self.ended => return Err(replaced()),
                batch = self.batches.message() => batch?,
            };
            let Some(batch) = batch else { return Ok(()) };
            let envelopes = decode::batch(batch, self.peer.id, self.node)?;
            if envelopes.iter().any(|it| it.message.lane() != self.lane) {
                return Err(Status::invalid_argument("a message of another lane"));
            }
            self.peer.on_received(self.lane, envelopes.len());
            tokio::select! {
                biased;
                sent = self.inbound.send(envelopes) => {
                    sent.map_err(|_| Status::unavailable("the node has stopped"))?;
                }
                _ = &mut self.ended => return Err(replaced()),
            }
        }
    }
}

fn replaced() -> Status {
    Status::aborted("a newer stream of the same node took over, or the node was removed or stops")
}

/// A stream's reader in the shape of a response that never says anything.
pub struct Reading(Pin<Box<dyn Future<Output = Result<(), Status>> + Send>>);

impl Stream for Reading {
    type Item = Result<proto::Nothing, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.as_mut().poll(context).map(|ended| ended.err().map(Err))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use raft_core::NodeId;
    use tokio::net::TcpListener;
    use tonic::client::Grpc;
    use tonic::codegen::http::uri::PathAndQuery;
    use tonic::transport::Endpoint;
    use tonic::{Code, IntoStreamingRequest as _};

    use super::*;
    use crate::codec::StreamCodec;
    use crate::{ClusterId, Config, GrpcTransport, Identity, Incarnation};

    fn identity(node: u64) -> Identity {
        let node = NodeId::new(node).expect("not zero");
        Identity { cluster: ClusterId(7), node, incarnation: Incarnation(9) }
    }

    /// Says `messages` to a node 2, as node 1 on the bulk lane, and returns how that ends.
    async fn say<T: prost::Message + 'static>(messages: Vec<T>) -> Status {
        let (control, _control) = mpsc::channel(8);
        let (bulk, _bulk) = mpsc::channel(8);
        let peers = BTreeMap::from([(identity(1).node, "127.0.0.1:1".to_owned())]);
        let config = Config { message_bytes_max: 600 << 10, ..Config::default() };
        let transport =
            GrpcTransport::start(identity(2), config, &peers, Inbound { control, bulk })
                .expect("valid");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
        let address = listener.local_addr().expect("bound");
        tokio::spawn(transport.serve(listener, std::future::pending()));

        let endpoint = Endpoint::from_shared(format!("http://{address}")).expect("an address");
        let mut client = Grpc::new(endpoint.connect().await.expect("it listens"));
        client.ready().await.expect("connected");
        let mut request = tokio_stream::iter(messages).into_streaming_request();
        let hello = Hello { from: identity(1), to: identity(2).node, lane: Lane::Bulk };
        hello.write(request.metadata_mut());
        let path = PathAndQuery::from_static("/kontiki.raft.v1.Peer/Talk");
        let codec = StreamCodec::<T, proto::Nothing>::default();
        let response = client.streaming(request, path, codec).await.expect("greeted");
        let mut replies: Streaming<proto::Nothing> = response.into_inner();
        match replies.message().await {
            Err(status) => status,
            Ok(reply) => Status::ok(format!("{reply:?}")),
        }
    }

    fn batch(envelope: proto::Envelope) -> proto::Batch {
        proto::Batch { envelopes: vec![envelope] }
    }

    #[tokio::test]
    async fn what_cannot_be_understood_ends_the_stream_as_an_invalid_argument() {
        use crate::proto::envelope::Message::{Heartbeat, Vote};

        let other_schema = say(vec![proto::Run { term: 3, count: 1, kind: 0 }]).await;
        assert_eq!(other_schema.code(), Code::InvalidArgument, "{other_schema:?}");

        let empty = say(vec![batch(proto::Envelope::default())]).await;
        assert_eq!(empty.code(), Code::InvalidArgument);
        assert_eq!(empty.message(), "envelope.message is missing, or of a newer protocol version");

        let message = Some(Vote(proto::Vote::default()));
        let group = say(vec![batch(proto::Envelope { group: 3, term: 1, message })]).await;
        assert_eq!(group.code(), Code::InvalidArgument);

        let message = Some(Heartbeat(proto::Heartbeat::default()));
        let lane = say(vec![batch(proto::Envelope { group: 0, term: 1, message })]).await;
        assert_eq!(lane.message(), "a message of another lane");
    }

    #[tokio::test]
    async fn a_message_over_the_limit_ends_the_stream() {
        let append =
            proto::Append { payloads: vec![vec![0; 1 << 20].into()], ..Default::default() };
        let message = Some(proto::envelope::Message::Append(append));
        let status = say(vec![batch(proto::Envelope { group: 0, term: 1, message })]).await;
        assert_eq!(status.code(), Code::OutOfRange, "{status:?}");
    }

    #[tokio::test]
    async fn a_stream_that_says_nothing_ends_well() {
        assert_eq!(say(Vec::<proto::Batch>::new()).await.code(), Code::Ok);
    }
}
