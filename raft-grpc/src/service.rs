//! The receiving half: greets each stream, then hands on what it brings.
//!
//! The response's body is what reads the request, so a stream of messages needs no task of its
//! own, and is gone as soon as its connection is. A full inbound channel stops the reading, and
//! HTTP/2's windows stop the sender; each lane has its own channel and its own connection, so
//! only that lane waits.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use raft_core::{Envelope, Lane, NodeId, SnapshotStore};
use tokio::sync::{mpsc, oneshot};
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use crate::decode;
use crate::event::PeerEvent;
use crate::hello::{Purpose, VERSION};
use crate::peer::Peer;
use crate::proto;
use crate::reading::Received;
use crate::shared::Shared;
use crate::ship;

/// Where received messages go, in order within each lane. The capacities bound how many gRPC
/// messages wait there; each holds at most `batch_bytes_max`, or a single larger entry.
#[derive(Clone)]
pub struct Inbound {
    /// Elections, heartbeats and read rounds: to be received before the others.
    pub control: mpsc::Sender<Vec<Envelope>>,
    /// Entries, and what must stay in order with them.
    pub bulk: mpsc::Sender<Vec<Envelope>>,
    /// What happens beside messages. An event that finds it full is told again later.
    pub events: mpsc::Sender<PeerEvent>,
    /// Where received snapshots go. With none, no snapshot is taken.
    pub snapshots: Option<Arc<dyn SnapshotStore>>,
}

impl fmt::Debug for Inbound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inbound").finish_non_exhaustive()
    }
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
    type ShipStream = ReceiverStream<Result<proto::SnapshotReceipt, Status>>;

    async fn talk(
        &self,
        request: Request<Streaming<proto::Batch>>,
    ) -> Result<Response<Reading>, Status> {
        let (hello, peer) = self.welcome(&request).await?;
        let Purpose::Talk(lane) = hello.purpose else {
            return Err(Status::invalid_argument("a greeting for another kind of stream"));
        };
        let open = peer.readings.open(lane, hello.session).ok_or_else(replaced)?;
        let answer = self.shared.hello(&peer, hello.purpose);
        let reader = Reader {
            ended: open.ended,
            peer,
            node: self.shared.identity.node,
            lane,
            session: hello.session,
            batches: request.into_inner(),
            inbound: match lane {
                Lane::Control => self.inbound.control.clone(),
                Lane::Bulk => self.inbound.bulk.clone(),
            },
        };
        let reading = Reading { reader: Box::pin(reader.run()), questions: open.questions };
        let mut response = Response::new(reading);
        answer.write(response.metadata_mut());
        Ok(response)
    }

    async fn ship(
        &self,
        request: Request<Streaming<proto::SnapshotPart>>,
    ) -> Result<Response<Self::ShipStream>, Status> {
        let (hello, peer) = self.welcome(&request).await?;
        if hello.purpose != Purpose::Ship {
            return Err(Status::invalid_argument("a greeting for another kind of stream"));
        }
        let (shared, parts) = (Arc::clone(&self.shared), request.into_inner());
        let receipts = ship::receive(shared, &self.inbound, peer.id, parts)?;
        let mut response = Response::new(receipts);
        self.shared.hello(&peer, hello.purpose).write(response.metadata_mut());
        Ok(response)
    }

    async fn introduce(
        &self,
        _request: Request<proto::IntroduceRequest>,
    ) -> Result<Response<proto::Introduction>, Status> {
        let identity = &self.shared.identity;
        let Some((index, membership)) = self.shared.peers().membership.clone() else {
            let node = identity.node;
            return Err(Status::unavailable(format!("node {node} has not joined a cluster yet")));
        };
        Ok(Response::new(proto::Introduction {
            version: VERSION,
            cluster: identity.cluster.0,
            node: identity.node.get(),
            membership: membership.encode().into(),
            membership_index: index.0,
        }))
    }
}

/// Reads one stream.
struct Reader {
    peer: Arc<Peer>,
    node: NodeId,
    lane: Lane,
    session: u64,
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
            let answer = batch.answer;
            let envelopes = decode::batch(batch, self.peer.id, self.node)?;
            if envelopes.iter().any(|it| it.message.lane() != self.lane) {
                return Err(Status::invalid_argument("a message of another lane"));
            }
            let received = Received::of(&envelopes);
            self.peer.readings.on_received(self.lane, self.session, received, answer);
            if envelopes.is_empty() {
                continue;
            }
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

/// A stream's reader in the shape of a response that says nothing but questions.
pub struct Reading {
    reader: Pin<Box<dyn Future<Output = Result<(), Status>> + Send>>,
    questions: mpsc::Receiver<u64>,
}

impl Stream for Reading {
    type Item = Result<proto::Question, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Poll::Ready(ended) = self.reader.as_mut().poll(context) {
            return Poll::Ready(ended.err().map(Err));
        }
        match self.questions.poll_recv(context) {
            Poll::Ready(Some(number)) => Poll::Ready(Some(Ok(proto::Question { number }))),
            // Closed: the reader is about to end as well.
            Poll::Ready(None) | Poll::Pending => Poll::Pending,
        }
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
    use crate::hello::{Hello, Motive};
    use crate::{ClusterId, Config, GrpcTransport, Identity, Incarnation};

    fn identity(node: u64) -> Identity {
        let node = NodeId::new(node).expect("not zero");
        let incarnation = Incarnation::new(9).expect("not zero");
        Identity { cluster: ClusterId(7), node, incarnation }
    }

    /// Says `messages` to a node 2, as node 1 on the bulk lane, and returns how that ends.
    async fn say<T: prost::Message + 'static>(messages: Vec<T>) -> Status {
        let (control, _control) = mpsc::channel(8);
        let (bulk, _bulk) = mpsc::channel(8);
        let peers = BTreeMap::from([(identity(1).node, "127.0.0.1:1".to_owned())]);
        let config = Config { message_bytes_max: 600 << 10, ..Config::default() };
        let (events, _events) = mpsc::channel(8);
        let inbound = Inbound { control, bulk, events, snapshots: None };
        let transport = GrpcTransport::start(identity(2), config, &peers, inbound).expect("valid");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
        let address = listener.local_addr().expect("bound");
        tokio::spawn(transport.serve(listener, std::future::pending()));

        let endpoint = Endpoint::from_shared(format!("http://{address}")).expect("an address");
        let mut client = Grpc::new(endpoint.connect().await.expect("it listens"));
        client.ready().await.expect("connected");
        let mut request = tokio_stream::iter(messages).into_streaming_request();
        let hello = Hello {
            from: identity(1),
            to: identity(2).node,
            purpose: Purpose::Talk(Lane::Bulk),
            session: 1,
            address: String::new(),
            motive: Motive::Peer,
        };
        hello.write(request.metadata_mut());
        let path = PathAndQuery::from_static("/kontiki.raft.v1.Peer/Talk");
        let codec = StreamCodec::<T, proto::Question>::default();
        let response = client.streaming(request, path, codec).await.expect("greeted");
        let mut replies: Streaming<proto::Question> = response.into_inner();
        match replies.message().await {
            Err(status) => status,
            Ok(reply) => Status::ok(format!("{reply:?}")),
        }
    }

    fn batch(envelope: proto::Envelope) -> proto::Batch {
        proto::Batch { envelopes: vec![envelope], answer: 0 }
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
