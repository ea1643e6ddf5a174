//! A call that nobody serves is refused with the code and the words of grpc-go's servers, which
//! say what it is that they do not know. tonic says nothing.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::{HeaderMap, HeaderValue, Request, Response};
use tonic::{Code, Status};
use tower::{Layer, Service};

/// The services that are there.
#[derive(Clone, Copy)]
pub(super) struct Unknown {
    pub(super) services: &'static [&'static str],
}

#[derive(Clone)]
pub(super) struct Named<S> {
    unknown: Unknown,
    inner: S,
}

impl<S> Layer<S> for Unknown {
    type Service = Named<S>;

    fn layer(&self, inner: S) -> Named<S> {
        Named { unknown: *self, inner }
    }
}

impl<S, B, C> Service<Request<B>> for Named<S>
where
    S: Service<Request<B>, Response = Response<C>>,
    S::Future: Unpin,
{
    type Response = Response<C>;
    type Error = S::Error;
    type Future = Naming<S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        // A clone of the address counts a reference; it copies nothing.
        let uri = request.uri().clone();
        Naming { inner: self.inner.call(request), unknown: self.unknown, uri }
    }
}

/// Looks at the answer's head.
pub(super) struct Naming<F> {
    inner: F,
    unknown: Unknown,
    uri: http::Uri,
}

impl<F, C, E> Future for Naming<F>
where
    F: Future<Output = Result<Response<C>, E>> + Unpin,
{
    type Output = Result<Response<C>, E>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut answer = ready!(Pin::new(&mut self.inner).poll(context));
        if let Ok(response) = &mut answer
            && is_silent(response.headers())
        {
            let status = self.unknown.status(self.uri.path());
            // The words are the path's, which holds nothing that a header cannot.
            drop(status.add_header(response.headers_mut()));
        }
        Poll::Ready(answer)
    }
}

/// Whether an answer is tonic's to a path that it does not know: unimplemented, without a word.
fn is_silent(headers: &HeaderMap) -> bool {
    let unimplemented = HeaderValue::from(Code::Unimplemented as i32);
    headers.get("grpc-status") == Some(&unimplemented) && !headers.contains_key("grpc-message")
}

impl Unknown {
    fn status(self, path: &str) -> Status {
        let name = path.strip_prefix('/').unwrap_or(path);
        match name.rsplit_once('/') {
            None => Status::resource_exhausted(format!("malformed method name: {path:?}")),
            Some((service, method)) if self.services.contains(&service) => {
                Status::unimplemented(format!("unknown method {method} for service {service}"))
            }
            Some((service, _)) => Status::unimplemented(format!("unknown service {service}")),
        }
    }
}
