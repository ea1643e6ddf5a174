//! A client of one node that speaks in texts, and asks again where it has to.

use std::time::Duration;

use bytes::Bytes;
use kontiki_client::{ClientError, Timeouts};
use kontiki_kv::proto::etcdserverpb::response_op::Response;
use kontiki_kv::proto::etcdserverpb::{
    PutRequest, RangeRequest, RangeResponse, StatusResponse, TxnRequest,
};
use kontiki_kv::proto::mvccpb::KeyValue;
use tokio::time::sleep;

use super::patiently;

/// Longer than a node takes to give up.
const ANSWER_MAX: Duration = Duration::from_secs(15);
const CONNECT_MAX: Duration = Duration::from_secs(2);
/// How long to wait before asking a node again.
pub(super) const PAUSE: Duration = Duration::from_millis(20);

/// What a compare-and-swap did.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Swap {
    Done,
    /// It found this instead, and changed nothing.
    Found(Option<String>),
}

/// Talks to one node as the tests want it: in texts, each request once.
pub(crate) struct Client(pub(crate) kontiki_client::Client);

impl Client {
    /// A client of a node of this machine.
    pub(crate) fn new(port: u16) -> Self {
        Self::to(&format!("127.0.0.1:{port}"))
    }

    /// A client of the node at this host and port.
    pub(crate) fn to(endpoint: &str) -> Self {
        let timeouts = Timeouts { dial: CONNECT_MAX, command: ANSWER_MAX };
        let endpoint = endpoint.parse().expect("an address");
        Self(kontiki_client::Client::new(vec![endpoint], timeouts).asking_once())
    }

    /// Gives up on an answer after this time.
    pub(crate) fn within(self, answer_max: Duration) -> Self {
        Self(self.0.within(answer_max))
    }

    pub(crate) async fn put(
        &mut self,
        key: &str,
        value: impl Into<Bytes>,
    ) -> Result<i64, ClientError> {
        let value = value.into();
        let request = PutRequest { key: key.to_owned().into(), value, ..PutRequest::default() };
        let answer = self.0.put(request).await?;
        Ok(answer.header.expect("every answer has a header").revision)
    }

    /// The value of a key, confirmed by a majority.
    pub(crate) async fn get(&mut self, key: &str) -> Result<Option<String>, ClientError> {
        let request = RangeRequest { key: key.to_owned().into(), ..RangeRequest::default() };
        Ok(self.range(request).await?.kvs.into_iter().next().map(|kv| text(&kv.value)))
    }

    /// The value of a key as this node has it.
    pub(crate) async fn get_local(&mut self, key: &str) -> Result<Option<String>, ClientError> {
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
                    Err(ClientError::Refused(status)) => panic!("a put was refused: {status}"),
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
                    Err(ClientError::Refused(status)) => panic!("a read was refused: {status}"),
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
    ) -> Result<Swap, ClientError> {
        let bytes = |text: &str| Bytes::copy_from_slice(text.as_bytes());
        let request = TxnRequest::swap(&bytes(key), old.map(bytes), bytes(new));
        let answer = self.0.txn(request).await?;
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
    pub(crate) async fn dump_local(&mut self) -> Result<(i64, Vec<KeyValue>), ClientError> {
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

    pub(crate) async fn status(&mut self) -> Result<StatusResponse, ClientError> {
        self.0.status().await
    }

    async fn range(&mut self, request: RangeRequest) -> Result<RangeResponse, ClientError> {
        self.0.range(request).await
    }
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
