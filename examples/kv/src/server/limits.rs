//! A message that is too large is refused with the code that etcd's clients know.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::{HeaderMap, HeaderValue, Request, Response};
use tonic::{Code, Status};
use tower::{Layer, Service};

/// What tonic says: the code, and how its message begins.
const OUT_OF_RANGE: &str = "11";
const TOO_LARGE: &str = "Error, decoded message length too large: found ";

/// tonic says that a message is out of range; etcd says that a resource is exhausted.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    pub(super) message_bytes_max: usize,
}

#[derive(Clone)]
pub(super) struct Limited<S> {
    limits: Limits,
    inner: S,
}

impl<S> Layer<S> for Limits {
    type Service = Limited<S>;

    fn layer(&self, inner: S) -> Limited<S> {
        Limited { limits: *self, inner }
    }
}

impl<S, B, C> Service<Request<B>> for Limited<S>
where
    S: Service<Request<B>, Response = Response<C>>,
    S::Future: Unpin,
{
    type Response = Response<C>;
    type Error = S::Error;
    type Future = Answering<S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        Answering { inner: self.inner.call(request), limits: self.limits }
    }
}

/// Looks at the answer's head.
pub(super) struct Answering<F> {
    inner: F,
    limits: Limits,
}

impl<F, C, E> Future for Answering<F>
where
    F: Future<Output = Result<Response<C>, E>> + Unpin,
{
    type Output = Result<Response<C>, E>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut answer = ready!(Pin::new(&mut self.inner).poll(context));
        if let Ok(response) = &mut answer {
            self.limits.translate(response.headers_mut());
        }
        Poll::Ready(answer)
    }
}

impl Limits {
    fn translate(self, headers: &mut HeaderMap) {
        // Only a refusal without a body has its status in the head.
        if headers.get("grpc-status").is_none_or(|code| code != OUT_OF_RANGE) {
            return;
        }
        let Some(status) = Status::from_header_map(headers) else { return };
        let found = status.message().strip_prefix(TOO_LARGE);
        let Some(found) = found.and_then(|rest| rest.split_once(' ')).map(|(bytes, _)| bytes)
        else {
            return;
        };
        let max = self.message_bytes_max;
        let message = format!("grpc: received message larger than max ({found} vs. {max})");
        let message = message.replace(' ', "%20");
        if let Ok(message) = HeaderValue::from_str(&message) {
            headers.insert("grpc-status", HeaderValue::from(Code::ResourceExhausted as i32));
            headers.insert("grpc-message", message);
        }
    }
}
