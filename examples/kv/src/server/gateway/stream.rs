//! Several answers on one connection, a line for each: `{"result":…}`, and at last, where it ends
//! as a failure, `{"error":…}`. Where the method takes several requests, they are read from the
//! client's body for as long as it goes on.
//!
//! The head of the answer waits for the first line, so that it tells of a failure. A client that
//! goes away drops the answer, and with it the call.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody};
use prost_reflect::MessageDescriptor;
use serde::Serialize;
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;
use tonic::body::Body;
use tower::Service;

use super::call::{broken, check, collect, frame, send, take_frame, too_large};
use super::json::{self, Split};
use super::routes::Route;
use super::{answered, http_status, passed_on};

/// How many requests of one client wait for the service.
const REQUESTS_AHEAD: usize = 4;

/// Asks, and answers with a line for each message that comes back.
pub(super) async fn answer<S, B>(
    route: &Route,
    headers: &HeaderMap,
    body: Body,
    json_bytes_max: usize,
    services: S,
) -> Result<Response<Body>, Status>
where
    S: Service<Request<Body>, Response = Response<B>, Error: std::fmt::Display>,
    B: http_body::Body<Data = Bytes, Error: std::fmt::Display> + Send + Unpin + 'static,
{
    let messages = if route.takes_many {
        read_on(route, body, json_bytes_max).await?
    } else {
        let message = json::take_message(&mut collect(body, json_bytes_max).await?, &route.input);
        Body::new(Full::new(frame(&message.map_err(Status::invalid_argument)?)))
    };
    let response = match send(route, headers, messages, services).await {
        Ok(response) => response,
        Err(status) => return Ok(failed_at_once(&status)),
    };
    let (output, inner) = (route.output.clone(), Some(response.into_body()));
    let mut lines = Lines { output, frames: BytesMut::new(), inner, first: None };
    match std::future::poll_fn(|context| lines.poll_line(context)).await {
        Some(Ok(line)) => lines.first = Some(line),
        Some(Err(status)) => return Ok(failed_at_once(&status)),
        None => return Ok(answered(StatusCode::OK, Body::empty())),
    }
    Ok(passed_on(Body::new(lines)))
}

/// What a stream says last when it fails, in the order in which etcd writes it.
#[derive(Serialize)]
struct Failure<'a> {
    error: Reason<'a>,
}

#[derive(Serialize)]
struct Reason<'a> {
    grpc_code: i32,
    http_code: u16,
    message: &'a str,
    http_status: &'a str,
}

fn failure(status: &Status) -> Vec<u8> {
    let http = http_status(status.code());
    let error = Reason {
        grpc_code: status.code() as i32,
        http_code: http.as_u16(),
        message: status.message(),
        http_status: http.canonical_reason().unwrap_or_default(),
    };
    serde_json::to_vec(&Failure { error }).unwrap_or_default()
}

fn failed_at_once(status: &Status) -> Response<Body> {
    answered(http_status(status.code()), Body::new(Full::from(failure(status))))
}

/// Passes on the requests of a body that may go on for as long as the call does. Fails if the
/// first is none; what is broken later ends the requests, as etcd has it.
async fn read_on(route: &Route, body: Body, bytes_max: usize) -> Result<Body, Status> {
    let mut incoming =
        Incoming { body, text: BytesMut::new(), bytes_max, input: route.input.clone() };
    let (requests, received) = mpsc::channel(REQUESTS_AHEAD);
    if let Some(first) = incoming.next().await.map_err(Status::unknown)? {
        drop(requests.try_send(first)); // There is room for the first.
        tokio::spawn(async move {
            tokio::select! {
                () = requests.closed() => {}
                () = incoming.pass_on(&requests) => {}
            }
        });
    }
    let frames = ReceiverStream::new(received);
    let frames = frames.map(|message| Ok::<_, Status>(Frame::data(message)));
    Ok(Body::new(StreamBody::new(frames)))
}

/// The requests in a client's body.
struct Incoming {
    body: Body,
    /// What has come and is not read yet.
    text: BytesMut,
    bytes_max: usize,
    input: MessageDescriptor,
}

impl Incoming {
    async fn pass_on(&mut self, requests: &mpsc::Sender<Bytes>) {
        while let Ok(Some(message)) = self.next().await
            && requests.send(message).await.is_ok()
        {}
    }

    /// The next one, framed; `None` at the end.
    async fn next(&mut self) -> Result<Option<Bytes>, String> {
        loop {
            match json::split(&self.text) {
                Split::Whole(_) => {
                    let message = json::take_message(&mut self.text, &self.input)?;
                    return Ok(Some(frame(&message)));
                }
                Split::Broken(reason) => return Err(reason),
                Split::Open if self.text.len() > self.bytes_max => {
                    return Err(too_large().message().to_owned());
                }
                Split::Open | Split::Nothing => {}
            }
            match self.body.frame().await {
                Some(Ok(frame)) => {
                    let data = frame.into_data().unwrap_or_default(); // Trailers say nothing here.
                    self.text.extend_from_slice(&data);
                }
                Some(Err(error)) => return Err(error.to_string()),
                None if self.text.trim_ascii().is_empty() => return Ok(None),
                None => return Err("unexpected EOF".to_owned()),
            }
        }
    }
}

/// The answers of a call as lines.
struct Lines<B> {
    output: MessageDescriptor,
    /// What has come and is no whole message yet.
    frames: BytesMut,
    /// `None` when the end has come.
    inner: Option<B>,
    /// A line that is there already.
    first: Option<Bytes>,
}

impl<B> Lines<B>
where
    B: http_body::Body<Data = Bytes, Error: std::fmt::Display> + Unpin,
{
    fn poll_line(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Status>>> {
        loop {
            if let Some(message) = take_frame(&mut self.frames) {
                return Poll::Ready(Some(self.line(message)));
            }
            let Some(inner) = &mut self.inner else { return Poll::Ready(None) };
            match ready!(Pin::new(inner).poll_frame(context)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.frames.extend_from_slice(&data),
                    Err(frame) => {
                        self.inner = None;
                        if let Err(status) = check(frame.into_trailers().ok().as_ref()) {
                            return Poll::Ready(Some(Err(status)));
                        }
                    }
                },
                Some(Err(error)) => {
                    self.inner = None;
                    return Poll::Ready(Some(Err(broken(error))));
                }
                None => self.inner = None,
            }
        }
    }

    fn line(&self, message: Bytes) -> Result<Bytes, Status> {
        let mut text = br#"{"result":"#.to_vec();
        json::write(message, &self.output, &mut text).map_err(broken)?;
        text.extend_from_slice(b"}\n");
        Ok(text.into())
    }
}

impl<B> http_body::Body for Lines<B>
where
    B: http_body::Body<Data = Bytes, Error: std::fmt::Display> + Unpin,
{
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(Frame::data(first))));
        }
        let line = ready!(self.poll_line(context));
        let line = line.map(|line| line.unwrap_or_else(|status| failure(&status).into()));
        Poll::Ready(line.map(|line| Ok(Frame::data(line))))
    }
}
