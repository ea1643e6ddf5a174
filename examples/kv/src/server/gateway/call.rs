//! One request, one answer; and what all calls have in common: frames, deadlines, the status.

use std::future::Future;
use std::time::{Duration, Instant};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Method, Request, Response, Version, header};
use http_body_util::{BodyExt, Full, Limited};
use tonic::body::Body;
use tonic::{Code, Status};
use tower::{Service, ServiceExt};

use super::routes::Route;
use super::{json, metadata, passed_on};

/// What is before each message on the wire of gRPC: whether it is compressed, and its length.
const HEAD: usize = 5;

/// Asks, and answers with the one message that comes back.
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
    let message = json::take_message(&mut collect(body, json_bytes_max).await?, &route.input);
    let message = frame(&message.map_err(Status::invalid_argument)?);
    let mut response = send(route, headers, Body::new(Full::new(message)), services).await?;
    let (mut frames, mut trailers) = (BytesMut::new(), None);
    while let Some(frame) = response.body_mut().frame().await {
        match frame.map_err(broken)?.into_data() {
            Ok(data) => frames.extend_from_slice(&data),
            Err(frame) => trailers = frame.into_trailers().ok(),
        }
    }
    check(trailers.as_ref())?;
    let message = take_frame(&mut frames).ok_or_else(|| broken("there is no answer"))?;
    let mut text = Vec::new();
    json::write(message, &route.output, &mut text).map_err(broken)?;
    Ok(passed_on(Body::new(Full::from(text))))
}

/// The whole of a body that is not too large.
pub(super) async fn collect(body: Body, bytes_max: usize) -> Result<BytesMut, Status> {
    match Limited::new(body, bytes_max).collect().await {
        Ok(collected) => {
            let mut bytes = BytesMut::new();
            bytes.put(collected.aggregate());
            Ok(bytes)
        }
        Err(error) if error.is::<http_body_util::LengthLimitError>() => Err(too_large()),
        Err(error) => Err(Status::invalid_argument(error.to_string())),
    }
}

pub(super) fn too_large() -> Status {
    Status::invalid_argument("etcdserver: request is too large")
}

/// Sends messages to a method. An answer that is an error and nothing else is one here too.
pub(super) async fn send<S, B>(
    route: &Route,
    headers: &HeaderMap,
    messages: Body,
    services: S,
) -> Result<Response<B>, Status>
where
    S: Service<Request<Body>, Response = Response<B>, Error: std::fmt::Display>,
{
    let mut request = Request::new(messages);
    *request.method_mut() = Method::POST;
    *request.version_mut() = Version::HTTP_2;
    *request.uri_mut() = route.path.clone().into();
    *request.headers_mut() = metadata(headers);
    let grpc = HeaderValue::from_static("application/grpc");
    request.headers_mut().insert(header::CONTENT_TYPE, grpc);
    request.headers_mut().insert(header::TE, HeaderValue::from_static("trailers"));
    let response = services.oneshot(request).await.map_err(broken)?;
    check_head(response.headers())?;
    Ok(response)
}

/// Fails where the answer is over with its head.
fn check_head(headers: &HeaderMap) -> Result<(), Status> {
    match Status::from_header_map(headers) {
        Some(status) if status.code() != Code::Ok => Err(status),
        Some(_) | None => Ok(()),
    }
}

/// Fails where the answer has ended as a failure.
pub(super) fn check(trailers: Option<&HeaderMap>) -> Result<(), Status> {
    trailers.map_or(Ok(()), check_head)
}

/// Something that only a fault of this program can cause.
pub(super) fn broken(error: impl std::fmt::Display) -> Status {
    Status::internal(error.to_string())
}

/// A message as it is on the wire.
pub(super) fn frame(message: &[u8]) -> Bytes {
    let mut frame = BytesMut::with_capacity(HEAD + message.len());
    frame.put_u8(0);
    // What came in is bounded far below.
    frame.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX));
    frame.put_slice(message);
    frame.freeze()
}

/// The first message of these bytes, when all of it is there.
pub(super) fn take_frame(bytes: &mut BytesMut) -> Option<Bytes> {
    let len = u32::from_be_bytes(*bytes.get(1..HEAD)?.first_chunk()?) as usize;
    if bytes.len() - HEAD < len {
        return None;
    }
    bytes.advance(HEAD);
    Some(bytes.split_to(len).freeze())
}

/// Gives up when the client wants it: `Grpc-Timeout`, as gRPC writes it.
pub(super) async fn with_timeout<T>(
    headers: &HeaderMap,
    answering: impl Future<Output = Result<T, Status>>,
) -> Result<T, Status> {
    let Some(text) = headers.get("grpc-timeout").map(|value| value.to_str().unwrap_or_default())
    else {
        return answering.await;
    };
    let Some(timeout) = parse_timeout(text) else {
        return Err(Status::invalid_argument(format!("invalid grpc-timeout: {text}")));
    };
    let began = Instant::now();
    match tokio::time::timeout(timeout, answering).await {
        // A timer is late, and an answer that comes before it may be too late already.
        Ok(answered) if began.elapsed() <= timeout => answered,
        Ok(_) | Err(_) => Err(Status::deadline_exceeded("context deadline exceeded")),
    }
}

fn parse_timeout(text: &str) -> Option<Duration> {
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let number: u64 = number.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(number.checked_mul(3600)?),
        "M" => Duration::from_secs(number.checked_mul(60)?),
        "S" => Duration::from_secs(number),
        "m" => Duration::from_millis(number),
        "u" => Duration::from_micros(number),
        "n" => Duration::from_nanos(number),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_taken_when_it_is_whole() {
        let mut bytes = BytesMut::from(&frame(b"abc")[..]);
        bytes.extend_from_slice(&frame(b""));
        let whole = bytes.clone();
        assert_eq!(take_frame(&mut bytes), Some(Bytes::from_static(b"abc")));
        assert_eq!(take_frame(&mut bytes), Some(Bytes::new()));
        assert_eq!(take_frame(&mut bytes), None);
        for len in 0..HEAD + 3 {
            let mut part = BytesMut::from(&whole[..len]);
            assert_eq!(take_frame(&mut part), None);
            assert_eq!(part.len(), len, "nothing is lost");
        }
    }

    #[test]
    fn a_timeout_is_read_as_grpc_writes_it() {
        for (text, expected) in [
            ("1n", Some(Duration::from_nanos(1))),
            ("20m", Some(Duration::from_millis(20))),
            ("3S", Some(Duration::from_secs(3))),
            ("1H", Some(Duration::from_secs(3600))),
            ("x", None),
            ("", None),
            ("5", None),
            ("-1S", None),
            ("1é", None),
        ] {
            assert_eq!(parse_timeout(text), expected, "{text}");
        }
    }
}
