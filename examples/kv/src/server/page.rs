//! Answers in HTTP, as Go's servers word them.

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::Full;
use tonic::body::Body;

/// Plain text.
pub(super) const TEXT: &str = "text/plain; charset=utf-8";
pub(super) const JSON: &str = "application/json";

/// A page that is there.
pub(super) fn page(kind: &'static str, text: impl Into<Bytes>) -> Response<Body> {
    with_status(StatusCode::OK, kind, text.into())
}

/// A page that says what is wrong, in a line.
pub(super) fn error(status: StatusCode, text: &str) -> Response<Body> {
    let mut response = with_status(status, TEXT, format!("{text}\n").into());
    let nosniff = HeaderValue::from_static("nosniff");
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, nosniff);
    response
}

/// There is no such page.
pub(super) fn not_found() -> Response<Body> {
    error(StatusCode::NOT_FOUND, "404 page not found")
}

/// The page can only be read.
pub(super) fn only_get() -> Response<Body> {
    let mut response = error(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed");
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET"));
    response
}

fn with_status(status: StatusCode, kind: &'static str, text: Bytes) -> Response<Body> {
    let mut response = Response::new(Body::new(Full::new(text)));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
