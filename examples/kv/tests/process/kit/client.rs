//! A client of one node that tells what surely did not happen from what may have.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use kontiki_kv::proto::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use kontiki_kv::proto::etcdserverpb::kv_client::KvClient;
use kontiki_kv::proto::etcdserverpb::maintenance_client::MaintenanceClient;
use kontiki_kv::proto::etcdserverpb::request_op::Request;
use kontiki_kv::proto::etcdserverpb::response_op::Response;
use kontiki_kv::proto::etcdserverpb::{
    Compare, PutRequest, RangeRequest, RangeResponse, RequestOp, StatusRequest, StatusResponse,
    TxnRequest,
};
use kontiki_kv::proto::mvccpb::KeyValue;
use tokio::time::{sleep, timeout};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};

use super::patiently;

/// Longer than a node takes to give up.
const ANSWER_MAX: Duration = Duration::from_secs(15);
const CONNECT_MAX: Duration = Duration::from_secs(2);
/// How long to wait before asking a node again.
pub(super) const PAUSE: Duration = Duration::from_millis(20);

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum Fault {
    /// There is no connection: nothing was sent.
    NotSent(String),
    /// The node said no: nothing was executed.
    Refused(Status),
    /// It may have been executed, or may yet be.
    Unknown(Status),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotSent(reason) => f.write_str(reason),
            Self::Refused(status) | Self::Unknown(status) => {
                write!(f, "{:?}: {}", status.code(), status.message())
            }
        }
    }
}

/// What a compare-and-swap did.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Swap {
    Done,
    /// It found this instead, and changed nothing.
    Found(Option<String>),
}

/// Talks to one node, and connects again where it has to.
pub(crate) struct Client {
    endpoint: Endpoint,
    channel: Option<Channel>,
    answer_max: Duration,
}

impl Client {
    /// A client of a node of this machine.
    pub(crate) fn new(port: u16) -> Self {
        Self::to(&format!("127.0.0.1:{port}"))
    }

    /// A client of the node at this host and port.
    pub(crate) fn to(endpoint: &str) -> Self {
        let endpoint = Endpoint::from_shared(format!("http://{endpoint}"));
        let endpoint = endpoint.expect("an address").connect_timeout(CONNECT_MAX);
        Self { endpoint, channel: None, answer_max: ANSWER_MAX }
    }

    /// Gives up on an answer after this time.
    pub(crate) fn within(self, answer_max: Duration) -> Self {
        Self { answer_max, ..self }
    }

    pub(crate) async fn put(&mut self, key: &str, value: impl Into<Bytes>) -> Result<i64, Fault> {
        let value = value.into();
        let request = PutRequest { key: key.to_owned().into(), value, ..PutRequest::default() };
        let answer = self.call(async |channel| kv(channel).put(request).await).await?;
        Ok(answer.header.expect("every answer has a header").revision)
    }

    /// The value of a key, confirmed by a majority.
    pub(crate) async fn get(&mut self, key: &str) -> Result<Option<String>, Fault> {
        let request = RangeRequest { key: key.to_owned().into(), ..RangeRequest::default() };
        Ok(self.range(request).await?.kvs.into_iter().next().map(|kv| text(&kv.value)))
    }

    /// The value of a key as this node has it.
    pub(crate) async fn get_local(&mut self, key: &str) -> Result<Option<String>, Fault> {
        let key = key.to_owned().into();
        let request = RangeRequest { key, serializable: true, ..RangeRequest::default() };
        Ok(self.range(request).await?.kvs.into_iter().next().map(|kv| text(&kv.value)))
    }

    /// Writes until it is acknowledged; for values that may as well be written twice.
    pub(crate) async fn put_surely(&mut self, key: &str, value: impl Into<Bytes>) {
        let value = value.into();
        let writing = async {
            loop {
                match self.put(key, value.clone()).await {
                    Ok(_) => return,
                    Err(Fault::Refused(status)) => panic!("a put was refused: {status}"),
                    Err(fault) => {
                        println!("no answer yet: {fault}");
                        sleep(PAUSE).await;
                    }
                }
            }
        };
        patiently("a write", writing).await;
    }

    /// Reads until there is an answer.
    pub(crate) async fn get_surely(&mut self, key: &str) -> Option<String> {
        let reading = async {
            loop {
                match self.get(key).await {
                    Ok(value) => return value,
                    Err(Fault::Refused(status)) => panic!("a read was refused: {status}"),
                    Err(fault) => {
                        println!("no answer yet: {fault}");
                        sleep(PAUSE).await;
                    }
                }
            }
        };
        patiently("a read", reading).await
    }

    /// Writes `new` where the key holds `old`; reads it where it does not.
    pub(crate) async fn swap(
        &mut self,
        key: &str,
        old: Option<&str>,
        new: &str,
    ) -> Result<Swap, Fault> {
        let bytes = |text: &str| Bytes::copy_from_slice(text.as_bytes());
        let (target, value) = match old {
            Some(old) => (CompareTarget::Value, TargetUnion::Value(bytes(old))),
            None => (CompareTarget::Create, TargetUnion::CreateRevision(0)),
        };
        let compare = Compare {
            result: CompareResult::Equal.into(),
            target: target.into(),
            key: bytes(key),
            range_end: Bytes::new(),
            target_union: Some(value),
        };
        let put = PutRequest { key: bytes(key), value: bytes(new), ..PutRequest::default() };
        let read = RangeRequest { key: bytes(key), ..RangeRequest::default() };
        let request = TxnRequest {
            compare: vec![compare],
            success: vec![RequestOp { request: Some(Request::RequestPut(put)) }],
            failure: vec![RequestOp { request: Some(Request::RequestRange(read)) }],
        };
        let answer = self.call(async |channel| kv(channel).txn(request).await).await?;
        match answer.responses.into_iter().next().and_then(|response| response.response) {
            Some(Response::ResponsePut(_)) if answer.succeeded => Ok(Swap::Done),
            Some(Response::ResponseRange(found)) if !answer.succeeded => {
                Ok(Swap::Found(found.kvs.into_iter().next().map(|kv| text(&kv.value))))
            }
            other => panic!("an answer to another question: {other:?}"),
        }
    }

    /// Everything as this node has it, with the revision at which it stands. In pages, so that
    /// the node has other things to do in between.
    pub(crate) async fn dump_local(&mut self) -> Result<(i64, Vec<KeyValue>), Fault> {
        const PAGE: i64 = 256;
        let mut request = RangeRequest {
            key: Bytes::from_static(&[0]),
            range_end: Bytes::from_static(&[0]),
            serializable: true,
            limit: PAGE,
            ..RangeRequest::default()
        };
        let mut all: Vec<KeyValue> = Vec::new();
        loop {
            let page = self.range(request.clone()).await?;
            if request.revision == 0 {
                request.revision = page.header.expect("every answer has a header").revision;
            }
            all.extend(page.kvs);
            match all.last() {
                Some(last) if page.more => request.key = [&last.key[..], &[0]].concat().into(),
                Some(_) | None => return Ok((request.revision, all)),
            }
        }
    }

    pub(crate) async fn status(&mut self) -> Result<StatusResponse, Fault> {
        self.call(async |channel| MaintenanceClient::new(channel).status(StatusRequest {}).await)
            .await
    }

    async fn range(&mut self, request: RangeRequest) -> Result<RangeResponse, Fault> {
        self.call(async |channel| kv(channel).range(request).await).await
    }

    pub(super) async fn call<T>(
        &mut self,
        ask: impl AsyncFnOnce(Channel) -> Result<tonic::Response<T>, Status>,
    ) -> Result<T, Fault> {
        let channel = match &self.channel {
            Some(channel) => channel.clone(),
            None => {
                let channel = self.endpoint.connect().await;
                channel.map_err(|error| Fault::NotSent(format!("{error:?}")))?
            }
        };
        self.channel = Some(channel.clone());
        let outcome = match timeout(self.answer_max, ask(channel)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(Status::deadline_exceeded("no answer")),
        };
        outcome.map(tonic::Response::into_inner).map_err(|status| match status.code() {
            // A channel connects again in its own time, and does not say whether it sent.
            Code::Unavailable | Code::Unknown | Code::Cancelled | Code::DeadlineExceeded => {
                self.channel = None;
                Fault::Unknown(status)
            }
            // Not the node's word, but that of the connection, which ended.
            Code::Internal if status.source().is_some() => {
                self.channel = None;
                Fault::Unknown(status)
            }
            _ => Fault::Refused(status),
        })
    }
}

fn kv(channel: Channel) -> KvClient<Channel> {
    KvClient::new(channel).max_decoding_message_size(usize::MAX)
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
