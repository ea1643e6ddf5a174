//! A client of one node, for programs that send many requests: it keeps its connection, and tells
//! what surely did not happen from what may have.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::timeout;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Response, Status};

use super::{ClientUrl, channel, kv, root_cause};
use crate::proto::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use crate::proto::etcdserverpb::request_op::Request;
use crate::proto::etcdserverpb::{
    Compare, PutRequest, PutResponse, RangeRequest, RangeResponse, RequestOp, StatusResponse,
    TxnRequest, TxnResponse,
};
use crate::proto::kontiki::admin_client::AdminClient;
use crate::proto::kontiki::{InspectRequest, InspectResponse};

/// Why there is no answer.
#[derive(Debug)]
pub enum Fault {
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

/// Talks to one node, and connects again where it has to.
#[derive(Debug)]
pub struct NodeClient {
    endpoint: Endpoint,
    channel: Option<Channel>,
    answer_max: Duration,
}

impl NodeClient {
    /// A client of the node that serves clients there.
    ///
    /// # Errors
    /// When the URL cannot be dialled.
    pub fn new(at: &ClientUrl, timeouts: super::Timeouts) -> Result<Self, String> {
        let endpoint = channel(at, timeouts)?;
        Ok(Self { endpoint, channel: None, answer_max: timeouts.command })
    }

    /// The same, giving up on an answer after this time.
    pub fn within(self, answer_max: Duration) -> Self {
        Self { answer_max, ..self }
    }

    /// Writes a key.
    ///
    /// # Errors
    /// As [`call`](Self::call).
    pub async fn put(&mut self, request: PutRequest) -> Result<PutResponse, Fault> {
        self.call(async |channel| kv(channel).put(request).await).await
    }

    /// Reads keys.
    ///
    /// # Errors
    /// As [`call`](Self::call).
    pub async fn range(&mut self, request: RangeRequest) -> Result<RangeResponse, Fault> {
        self.call(async |channel| kv(channel).range(request).await).await
    }

    /// Does what a transaction says.
    ///
    /// # Errors
    /// As [`call`](Self::call).
    pub async fn txn(&mut self, request: TxnRequest) -> Result<TxnResponse, Fault> {
        self.call(async |channel| kv(channel).txn(request).await).await
    }

    /// What the node says of itself, as etcd's would.
    ///
    /// # Errors
    /// As [`call`](Self::call).
    pub async fn status(&mut self) -> Result<StatusResponse, Fault> {
        self.call(super::status).await
    }

    /// How the node is, and the others as far as it knows.
    ///
    /// # Errors
    /// As [`call`](Self::call).
    pub async fn inspect(&mut self) -> Result<InspectResponse, Fault> {
        self.call(async |channel| AdminClient::new(channel).inspect(InspectRequest {}).await).await
    }

    /// Asks whatever there is to ask.
    ///
    /// # Errors
    /// Nothing was sent, the node refused, or nobody knows what became of it.
    pub async fn call<T>(
        &mut self,
        ask: impl AsyncFnOnce(Channel) -> Result<Response<T>, Status>,
    ) -> Result<T, Fault> {
        let channel = match &self.channel {
            Some(channel) => channel.clone(),
            None => {
                let channel = self.endpoint.connect().await;
                channel.map_err(|error| Fault::NotSent(root_cause(&error)))?
            }
        };
        self.channel = Some(channel.clone());
        let outcome = match timeout(self.answer_max, ask(channel)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(Status::deadline_exceeded("no answer")),
        };
        outcome.map(Response::into_inner).map_err(|status| match status.code() {
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

/// Writes `new` where the key holds `old`, absent for `None`; reads it where it does not.
pub fn swap(key: &Bytes, old: Option<Bytes>, new: Bytes) -> TxnRequest {
    let (target, value) = match old {
        Some(old) => (CompareTarget::Value, TargetUnion::Value(old)),
        None => (CompareTarget::Create, TargetUnion::CreateRevision(0)),
    };
    let compare = Compare {
        result: CompareResult::Equal.into(),
        target: target.into(),
        key: key.clone(),
        range_end: Bytes::new(),
        target_union: Some(value),
    };
    let put = PutRequest { key: key.clone(), value: new, ..PutRequest::default() };
    let read = RangeRequest { key: key.clone(), ..RangeRequest::default() };
    TxnRequest {
        compare: vec![compare],
        success: vec![RequestOp { request: Some(Request::RequestPut(put)) }],
        failure: vec![RequestOp { request: Some(Request::RequestRange(read)) }],
    }
}
