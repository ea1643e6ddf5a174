//! The JSON gateway: the services of gRPC for clients that speak HTTP and JSON, under `/v3/` and
//! `/v3beta/` as etcd has it.
//!
//! ```text
//!   JSON ─▶ message ─▶ frame ─▶ the services, as any gRPC client reaches them
//!   JSON ◀─ message ◀─ frame ◀─┘
//! ```
//! It knows the services by their descriptors alone: a new one is a line in the table of routes.
//! It never looks into a message.

mod call;
mod json;
mod routes;
mod stream;

use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use serde::Serialize;
use tonic::body::Body;
use tonic::{Code, Status};
use tower::Service;

use super::page;
use routes::Routes;

/// JSON is larger than the message that it stands for: base64 alone takes a third more.
const JSON_PER_MESSAGE: usize = 2;

/// Answers what comes under `/v3/`.
pub(super) struct Gateway {
    routes: Routes,
    json_bytes_max: usize,
}

impl Gateway {
    /// A gateway to services that take messages of this size.
    pub(super) fn new(message_bytes_max: usize) -> Self {
        let json_bytes_max = message_bytes_max.saturating_mul(JSON_PER_MESSAGE);
        Self { routes: Routes::read(), json_bytes_max }
    }

    /// Whether a path is one of the gateway's.
    pub(super) fn has(path: &str) -> bool {
        routes::name(path).is_some()
    }

    /// Asks `services` what the request asks.
    pub(super) async fn answer<S, B>(&self, request: Request<Body>, services: S) -> Response<Body>
    where
        S: Service<Request<Body>, Response = Response<B>, Error: std::fmt::Display>,
        B: http_body::Body<Data = bytes::Bytes, Error: std::fmt::Display> + Send + Unpin + 'static,
    {
        let route = routes::name(request.uri().path()).and_then(|name| self.routes.find(name));
        let Some(route) = route else { return page::error(StatusCode::NOT_FOUND, "Not Found") };
        if request.method() != Method::POST {
            return page::error(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed");
        }
        let (head, body) = request.into_parts();
        let answered = call::with_timeout(&head.headers, async {
            if route.is_stream() {
                stream::answer(route, &head.headers, body, self.json_bytes_max, services).await
            } else {
                call::answer(route, &head.headers, body, self.json_bytes_max, services).await
            }
        });
        answered.await.unwrap_or_else(|status| refused(&status))
    }
}

/// What is said beside a request: `Grpc-Metadata-…`, and who asks.
fn metadata(headers: &HeaderMap) -> HeaderMap {
    let mut metadata = HeaderMap::new();
    for (name, value) in headers {
        let name = name.as_str();
        let name =
            name.strip_prefix("grpc-metadata-").or((name == "authorization").then_some(name));
        if let Some(Ok(name)) = name.map(http::HeaderName::try_from) {
            metadata.append(name, value.clone());
        }
    }
    metadata
}

/// JSON, in the order in which etcd writes it.
#[derive(Serialize)]
struct Refusal<'a> {
    error: &'a str,
    code: i32,
    message: &'a str,
}

/// An error instead of an answer.
fn refused(status: &Status) -> Response<Body> {
    let (code, message) = (status.code() as i32, status.message());
    let refusal = Refusal { error: message, code, message };
    let text = serde_json::to_vec(&refusal).unwrap_or_default();
    answered(http_status(status.code()), Body::new(http_body_util::Full::from(text)))
}

fn answered(status: StatusCode, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}

/// An answer that came by gRPC.
fn passed_on(body: Body) -> Response<Body> {
    let mut response = answered(StatusCode::OK, body);
    let grpc = HeaderValue::from_static("application/grpc");
    response.headers_mut().insert("grpc-metadata-content-type", grpc);
    response
}

/// The HTTP status that etcd 3.5 gives a code.
fn http_status(code: Code) -> StatusCode {
    match code {
        Code::Ok => StatusCode::OK,
        Code::Cancelled => StatusCode::REQUEST_TIMEOUT,
        Code::InvalidArgument | Code::FailedPrecondition | Code::OutOfRange => {
            StatusCode::BAD_REQUEST
        }
        Code::DeadlineExceeded => StatusCode::GATEWAY_TIMEOUT,
        Code::NotFound => StatusCode::NOT_FOUND,
        Code::AlreadyExists | Code::Aborted => StatusCode::CONFLICT,
        Code::PermissionDenied => StatusCode::FORBIDDEN,
        Code::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
        Code::Unimplemented => StatusCode::NOT_IMPLEMENTED,
        Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        Code::Unauthenticated => StatusCode::UNAUTHORIZED,
        Code::Unknown | Code::Internal | Code::DataLoss => StatusCode::INTERNAL_SERVER_ERROR,
    }
}
