//! The door of the client port: gRPC goes straight on, and what comes by plain HTTP is answered
//! here, by the JSON gateway or with a page.
//!
//! ```text
//!   HTTP/2, application/grpc ───────────────▶ services
//!   /v3/…, /v3beta/… ─▶ gateway ────────────▶ services
//!   /metrics, /health, /livez, /readyz, /version ─▶ pages, which can have ports of their own too
//! ```

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, Version, header};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tonic::body::Body;
use tonic::transport::Server;
use tower::{Layer, Service};

use super::backend::Backend;
use super::connections;
use super::counted::Counted;
use super::gateway::Gateway;
use super::health;
use super::maintenance::API_VERSION;
use super::metrics;
use super::page::{self, JSON, page};

/// What scripts of other sites may do, which is what etcd allows by default.
const CROSS_ORIGIN: [(header::HeaderName, &str); 3] = [
    (header::ACCESS_CONTROL_ALLOW_HEADERS, "accept, content-type, authorization"),
    (header::ACCESS_CONTROL_ALLOW_METHODS, "POST, GET, OPTIONS, PUT, DELETE"),
    (header::ACCESS_CONTROL_ALLOW_ORIGIN, "*"),
];

/// Everything that is answered in HTTP.
#[derive(Clone)]
pub(super) struct Front(Arc<Shared>);

struct Shared {
    backend: Backend,
    gateway: Gateway,
}

impl Front {
    pub(super) fn new(backend: Backend) -> Self {
        let gateway = Gateway::new(backend.message_bytes_max());
        Self(Arc::new(Shared { backend, gateway }))
    }
}

/// Serves the pages alone, until `ended` changes.
pub(super) async fn serve_pages(
    backend: Backend,
    listeners: Vec<TcpListener>,
    mut ended: watch::Receiver<()>,
) {
    if listeners.is_empty() {
        return;
    }
    let front = Front::new(backend);
    let pages = tower::service_fn(move |request: Request<Body>| {
        let front = front.clone();
        async move { Ok::<_, Infallible>(front.0.page(request.method(), request.uri()).await) }
    });
    let ended = async move { drop(ended.changed().await) };
    let server = Server::builder().accept_http1(true);
    let served = server.serve_with_incoming_shutdown(pages, connections(listeners), ended);
    if let Err(error) = served.await {
        tracing::error!(%error, "metrics are no longer served");
    }
}

impl<S> Layer<S> for Front {
    type Service = Door<S>;

    fn layer(&self, inner: S) -> Door<S> {
        Door { front: self.clone(), inner }
    }
}

#[derive(Clone)]
pub(super) struct Door<S> {
    front: Front,
    inner: S,
}

impl<S> Service<Request<Body>> for Door<S>
where
    S: Service<Request<Body>, Response = Response<Counted>, Error: std::fmt::Display>
        + Clone
        + Send
        + 'static,
    S::Future: Send + Unpin,
{
    type Response = Response<Counted>;
    type Error = S::Error;
    type Future = Answering<S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        if is_grpc(&request) {
            return Answering::Grpc(self.inner.call(request));
        }
        let (front, services) = (self.front.clone(), self.inner.clone());
        Answering::Http(Box::pin(async move { front.0.answer(request, services).await }))
    }
}

/// As etcd's server, which has gRPC by HTTP/2 alone.
fn is_grpc<B>(request: &Request<B>) -> bool {
    let kind = request.headers().get(header::CONTENT_TYPE);
    request.version() == Version::HTTP_2
        && kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"))
}

/// An answer on its way. Only that of HTTP has a place of its own.
pub(super) enum Answering<F> {
    Grpc(F),
    Http(Pin<Box<dyn Future<Output = Response<Body>> + Send>>),
}

impl<F, E> Future for Answering<F>
where
    F: Future<Output = Result<Response<Counted>, E>> + Unpin,
{
    type Output = Result<Response<Counted>, E>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut *self {
            Self::Grpc(answering) => Pin::new(answering).poll(context),
            Self::Http(answering) => {
                let response = ready!(answering.as_mut().poll(context));
                Poll::Ready(Ok(response.map(Counted::no_call)))
            }
        }
    }
}

impl Shared {
    async fn answer<S, B>(&self, request: Request<Body>, services: S) -> Response<Body>
    where
        S: Service<Request<Body>, Response = Response<B>, Error: std::fmt::Display>,
        B: http_body::Body<Data = Bytes, Error: std::fmt::Display> + Send + Unpin + 'static,
    {
        let mut response = if request.method() == Method::OPTIONS {
            Response::default()
        } else if Gateway::has(request.uri().path()) {
            self.gateway.answer(request, services).await
        } else {
            self.page(request.method(), request.uri()).await
        };
        for (name, value) in CROSS_ORIGIN {
            response.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        response
    }

    async fn page(&self, method: &Method, uri: &http::Uri) -> Response<Body> {
        let (backend, query) = (&self.backend, uri.query().unwrap_or_default());
        let path = uri.path();
        if path == "/v3" {
            return moved("/v3/");
        }
        if !is_page(path) {
            return page::not_found();
        }
        // As etcd, whose page of metrics does not look at the method.
        if method != Method::GET && path != "/metrics" {
            return page::only_get();
        }
        match path {
            "/metrics" => match backend.metrics.page(backend) {
                Ok(text) => page(metrics::KIND, text),
                Err(error) => page::error(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
            },
            "/version" => page(JSON, version()),
            "/health" => health::health(backend, query).await,
            path => match checks(path) {
                Some(checks) => health::checked(backend, checks, query).await,
                None => page::not_found(),
            },
        }
    }
}

fn is_page(path: &str) -> bool {
    matches!(path, "/version" | "/health" | "/metrics") || checks(path).is_some()
}

/// The checks of a path: all of a kind, or one of them by its name.
fn checks(path: &str) -> Option<&'static [health::Check]> {
    let (kind, name) = match path.strip_prefix('/')?.split_once('/') {
        Some((kind, name)) => (kind, Some(name)),
        None => (path.strip_prefix('/')?, None),
    };
    let checks = match kind {
        "livez" => health::LIVE,
        "readyz" => health::READY,
        _ => return None,
    };
    let Some(name) = name else { return Some(checks) };
    checks.chunks(1).find(|one| one[0].name() == name)
}

/// The versions that programs ask for.
fn version() -> String {
    let minor = API_VERSION.rsplit_once('.').map_or(API_VERSION, |(minor, _)| minor);
    format!(r#"{{"etcdserver":"{API_VERSION}","etcdcluster":"{minor}.0"}}"#)
}

fn moved(to: &'static str) -> Response<Body> {
    let mut response =
        page("text/html; charset=utf-8", format!("<a href=\"{to}\">Moved Permanently</a>.\n\n"));
    *response.status_mut() = StatusCode::MOVED_PERMANENTLY;
    response.headers_mut().insert(header::LOCATION, HeaderValue::from_static(to));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grpc_is_what_comes_by_http_2_and_says_so() {
        let request = |version, kind: &str| {
            let request = Request::post("/etcdserverpb.KV/Range").version(version);
            request.header("content-type", kind).body(()).expect("a request")
        };
        for (version, kind, expected) in [
            (Version::HTTP_2, "application/grpc", true),
            (Version::HTTP_2, "application/grpc+proto", true),
            (Version::HTTP_2, "application/json", false),
            (Version::HTTP_11, "application/grpc", false),
        ] {
            assert_eq!(is_grpc(&request(version, kind)), expected, "{version:?} {kind}");
        }
    }

    #[test]
    fn every_check_has_a_path() {
        let names = |path| checks(path).map(|all| all.iter().map(|one| one.name()).collect());
        assert_eq!(names("/livez"), Some(vec!["serializable_read"]));
        assert_eq!(names("/readyz/linearizable_read"), Some(vec!["linearizable_read"]));
        let all = vec!["data_corruption", "serializable_read", "linearizable_read"];
        assert_eq!(names("/readyz"), Some(all));
        for path in ["/livez/linearizable_read", "/readyz/", "/readyz/x", "/health", "/"] {
            assert_eq!(names(path), None, "{path}");
        }
    }

    #[test]
    fn the_versions_fit_each_other() {
        assert_eq!(version(), r#"{"etcdserver":"3.5.21","etcdcluster":"3.5.0"}"#);
    }
}
