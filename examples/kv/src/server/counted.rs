//! Counts every call: when it begins, how it ends, and what goes to and fro.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body::{Frame, SizeHint};
use tonic::body::Body;
use tonic::{Code, Status};
use tower::{Layer, Service};

use super::metrics::{Call, Calls, Frames};

/// Where calls are counted.
#[derive(Clone)]
pub(super) struct Counting(pub(super) Arc<Calls>);

#[derive(Clone)]
pub(super) struct Counter<S> {
    calls: Arc<Calls>,
    inner: S,
}

impl<S> Layer<S> for Counting {
    type Service = Counter<S>;

    fn layer(&self, inner: S) -> Counter<S> {
        Counter { calls: Arc::clone(&self.0), inner }
    }
}

impl<S> Service<Request<Body>> for Counter<S>
where
    S: Service<Request<Body>, Response = Response<Body>>,
    S::Future: Unpin,
{
    type Response = Response<Counted>;
    type Error = S::Error;
    type Future = Answering<S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let call = self.calls.begin(request.uri().path());
        let request = match &call {
            Some(call) => {
                let frames = call.received();
                request.map(|inner| Body::new(Counted { inner, counts: Some((frames, None)) }))
            }
            None => request,
        };
        Answering { inner: self.inner.call(request), call }
    }
}

/// Waits for the answer's head.
pub(super) struct Answering<F> {
    inner: F,
    call: Option<Call>,
}

impl<F, E> Future for Answering<F>
where
    F: Future<Output = Result<Response<Body>, E>> + Unpin,
{
    type Output = Result<Response<Counted>, E>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let response = ready!(Pin::new(&mut self.inner).poll(context))?;
        let mut call = self.call.take();
        // A refusal without a body has its status in the head.
        if let Some(call) = &mut call
            && let Some(code) = code(response.headers())
        {
            call.end(code);
        }
        let counts = call.map(|call| (call.sent(), Some(call)));
        Poll::Ready(Ok(response.map(|inner| Counted { inner, counts })))
    }
}

/// A body whose messages are counted. At the end of an answer the call ends with it.
pub(super) struct Counted {
    inner: Body,
    counts: Option<(Frames, Option<Call>)>,
}

impl Counted {
    /// The body of an answer that is no call's.
    pub(super) fn no_call(inner: Body) -> Self {
        Self { inner, counts: None }
    }
}

impl http_body::Body for Counted {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let frame = ready!(Pin::new(&mut self.inner).poll_frame(context));
        if let Some((frames, call)) = &mut self.counts {
            let ended = match &frame {
                Some(Ok(frame)) => match (frame.data_ref(), frame.trailers_ref()) {
                    (Some(data), _) => {
                        frames.take(data);
                        None
                    }
                    (None, trailers) => trailers.map(|it| code(it).unwrap_or(Code::Unknown)),
                },
                Some(Err(status)) => Some(status.code()),
                None => Some(Code::Unknown),
            };
            if let (Some(ended), Some(call)) = (ended, call) {
                call.end(ended);
            }
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

fn code(headers: &HeaderMap) -> Option<Code> {
    headers.get("grpc-status").map(|code| Code::from_bytes(code.as_bytes()))
}
