//! Unary gRPC calls over HTTP/2, and nothing else.
//!
//! A generated client would cost several times as much per request: it decodes answers, and its
//! channels pass every request through a queue. Here a request is a frame of bytes, an answer is
//! its status and whether it held a key.

use std::fmt;
use std::future::poll_fn;

use bytes::{Buf, Bytes};
use h2::client::SendRequest;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue, TE, USER_AGENT};
use http::{Method, Request, Uri, Version};
use kontiki_client::ClientUrl;
use tokio::net::TcpStream;

/// Large enough that the receiver never has to announce more in the middle of an answer.
const STREAM_WINDOW_BYTES: u32 = 1 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 1 << 30;

/// Why a call brought no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CallError {
    /// The connection broke, or never stood.
    Connection(String),
    /// The store answered with this code.
    Status { code: u32, message: String },
}

impl CallError {
    /// What it is counted as.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Connection(_) => "connection".to_owned(),
            Self::Status { code, .. } => {
                format!("{:?}", tonic::Code::from_i32(i32::try_from(*code).unwrap_or(2)))
            }
        }
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connection(reason) => f.write_str(reason),
            Self::Status { message, .. } => f.write_str(message),
        }
    }
}

impl From<h2::Error> for CallError {
    fn from(error: h2::Error) -> Self {
        Self::Connection(error.to_string())
    }
}

/// What is kept of a good answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    /// Whether a range found anything.
    pub(super) has_keys: bool,
}

/// The two calls that are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rpc {
    Put,
    Range,
}

/// A connection that many clients share; clones are cheap.
#[derive(Clone)]
pub(super) struct Connection {
    sender: SendRequest<Bytes>,
    put: Request<()>,
    range: Request<()>,
}

impl Connection {
    /// Connects, and keeps the connection going in a task of its own until the last clone is
    /// gone.
    pub(super) async fn open(endpoint: &ClientUrl) -> Result<Self, CallError> {
        let authority = endpoint.0.authority();
        let refused = |error: std::io::Error| CallError::Connection(error.to_string());
        let socket = TcpStream::connect(&authority).await.map_err(refused)?;
        socket.set_nodelay(true).map_err(refused)?;
        let (sender, connection) = h2::client::Builder::new()
            .initial_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .enable_push(false)
            .handshake(socket)
            .await?;
        // How it ends, every call on it learns.
        tokio::spawn(async move { connection.await.ok() });
        Ok(Self {
            sender,
            put: request(&authority, "/etcdserverpb.KV/Put")?,
            range: request(&authority, "/etcdserverpb.KV/Range")?,
        })
    }

    /// Sends one frame and waits for the whole answer.
    pub(super) async fn call(&mut self, rpc: Rpc, frame: Bytes) -> Result<Answer, CallError> {
        let request = match rpc {
            Rpc::Put => self.put.clone(),
            Rpc::Range => self.range.clone(),
        };
        poll_fn(|context| self.sender.poll_ready(context)).await?;
        let (response, mut body) = self.sender.send_request(request, false)?;
        body.send_data(frame, true)?;

        let (head, mut body) = response.await?.into_parts();
        if head.status != http::StatusCode::OK {
            return Err(CallError::Connection(format!("HTTP status {}", head.status)));
        }
        let mut has_keys = false;
        let mut is_first = true;
        while let Some(chunk) = body.data().await {
            let chunk = chunk?;
            body.flow_control().release_capacity(chunk.len())?;
            if is_first {
                has_keys = starts_with_keys(chunk);
                is_first = false;
            }
        }
        // An answer without a body has its status in the head.
        match body.trailers().await? {
            Some(trailers) => check_status(&trailers)?,
            None => check_status(&head.headers)?,
        }
        Ok(Answer { has_keys })
    }
}

fn request(authority: &str, path: &str) -> Result<Request<()>, CallError> {
    let unusable = |error: http::Error| CallError::Connection(error.to_string());
    let uri = Uri::builder().scheme("http").authority(authority).path_and_query(path).build();
    let mut request = Request::new(());
    *request.method_mut() = Method::POST;
    *request.version_mut() = Version::HTTP_2;
    *request.uri_mut() = uri.map_err(unusable)?;
    let headers = request.headers_mut();
    headers.insert(TE, HeaderValue::from_static("trailers"));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    headers.insert(USER_AGENT, HeaderValue::from_static("kontiki-bench"));
    Ok(request)
}

fn check_status(headers: &HeaderMap) -> Result<(), CallError> {
    let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    match text("grpc-status").and_then(|code| code.parse().ok()) {
        Some(0) => Ok(()),
        Some(code) => {
            let message = text("grpc-message").unwrap_or_default().replace("%20", " ");
            Err(CallError::Status { code, message })
        }
        None => Err(CallError::Connection("the answer has no gRPC status".to_owned())),
    }
}

/// Whether a frame with a `RangeResponse` has keys. Every writer of protobuf puts the fields in
/// order, so that they follow the header, which is always there and always short.
fn starts_with_keys(mut frame: Bytes) -> bool {
    const PREFIX_BYTES: usize = 5;
    const HEADER_TAG: u8 = 0x0a;
    const KVS_TAG: u8 = 0x12;
    if frame.len() < PREFIX_BYTES + 2 {
        return false;
    }
    frame.advance(PREFIX_BYTES);
    if frame.get_u8() != HEADER_TAG {
        return false;
    }
    let header_bytes = usize::from(frame.get_u8());
    frame.get(header_bytes) == Some(&KVS_TAG)
}

#[cfg(test)]
mod tests {
    use super::super::requests::frame;
    use super::*;
    use kontiki_kv::proto::etcdserverpb::{RangeResponse, ResponseHeader};
    use kontiki_kv::proto::mvccpb::KeyValue;

    #[test]
    fn an_answer_shows_whether_it_has_keys() {
        let header = ResponseHeader {
            cluster_id: u64::MAX,
            member_id: u64::MAX,
            revision: i64::MAX,
            raft_term: u64::MAX,
        };
        let mut answer = RangeResponse { header: Some(header), count: 1, ..Default::default() };
        assert!(!starts_with_keys(frame(&answer)));
        answer.kvs.push(KeyValue { key: "k".into(), ..Default::default() });
        assert!(starts_with_keys(frame(&answer)));
        assert!(!starts_with_keys(Bytes::new()));
    }

    #[test]
    fn a_status_is_read_from_headers() {
        let mut headers = HeaderMap::new();
        assert!(matches!(check_status(&headers), Err(CallError::Connection(_))));
        headers.insert("grpc-status", HeaderValue::from_static("0"));
        assert_eq!(check_status(&headers), Ok(()));
        headers.insert("grpc-status", HeaderValue::from_static("14"));
        headers.insert("grpc-message", HeaderValue::from_static("no%20leader"));
        let error = check_status(&headers).expect_err("not zero");
        assert_eq!(
            (error.name().as_str(), error.to_string().as_str()),
            ("Unavailable", "no leader")
        );
    }
}
