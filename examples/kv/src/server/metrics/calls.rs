//! Calls by service, method and code, as etcd's servers count them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use kontiki_client::proto::DESCRIPTORS;
use prometheus::{Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, Opts};
use prost_reflect::DescriptorPool;
use tonic::Code;

use super::{Metrics, counter};
use crate::config::MetricsDetail;

const SERVICE: [&str; 3] = ["grpc_type", "grpc_service", "grpc_method"];
const SERVICE_AND_CODE: [&str; 4] = ["grpc_type", "grpc_service", "grpc_method", "grpc_code"];

/// The codes in order of their numbers, as Go names them.
const CODES: [&str; 17] = [
    "OK",
    "Canceled",
    "Unknown",
    "InvalidArgument",
    "DeadlineExceeded",
    "NotFound",
    "AlreadyExists",
    "PermissionDenied",
    "ResourceExhausted",
    "FailedPrecondition",
    "Aborted",
    "OutOfRange",
    "Unimplemented",
    "Internal",
    "Unavailable",
    "DataLoss",
    "Unauthenticated",
];

/// Methods that are in no descriptor.
const HEALTH: (&str, [(&str, &str); 2]) =
    ("grpc.health.v1.Health", [("Check", "unary"), ("Watch", "server_stream")]);

/// All methods that are counted. Others are never: anybody could make up names.
pub(in crate::server) struct Calls {
    methods: HashMap<String, Arc<Method>>,
    families: Families,
}

struct Families {
    started: IntCounterVec,
    handled: IntCounterVec,
    received: IntCounterVec,
    sent: IntCounterVec,
    /// How long calls take; only where somebody wants to know it.
    seconds: Option<HistogramVec>,
    received_bytes: IntCounter,
    sent_bytes: IntCounter,
}

/// The counters of one method.
struct Method {
    started: IntCounter,
    handled: [IntCounter; CODES.len()],
    received: IntCounter,
    sent: IntCounter,
    seconds: Option<Histogram>,
    received_bytes: IntCounter,
    sent_bytes: IntCounter,
}

impl Calls {
    pub(super) fn new(services: &[&'static str], detail: MetricsDetail) -> Self {
        let families = Families::new(detail);
        let mut methods = HashMap::new();
        let mut add = |service: &str, name: &str, kind: &str| {
            let method = families.method(kind, service, name);
            methods.insert(format!("/{service}/{name}"), Arc::new(method));
        };
        let pool = DescriptorPool::decode(DESCRIPTORS).expect("the build made the descriptors");
        for service in pool.services().filter(|service| services.contains(&service.full_name())) {
            for method in service.methods() {
                let kind = match (method.is_client_streaming(), method.is_server_streaming()) {
                    (false, false) => "unary",
                    (false, true) => "server_stream",
                    (true, false) => "client_stream",
                    (true, true) => "bidi_stream",
                };
                add(service.full_name(), method.name(), kind);
            }
        }
        let (health, methods_of_health) = HEALTH;
        for (name, kind) in methods_of_health {
            add(health, name, kind);
        }
        Self { methods, families }
    }

    pub(super) fn register(&self, metrics: &Metrics) {
        let Families { started, handled, received, sent, seconds, received_bytes, sent_bytes } =
            &self.families;
        for counters in [started, handled, received, sent] {
            metrics.register(counters.clone());
        }
        if let Some(seconds) = seconds {
            metrics.register(seconds.clone());
        }
        metrics.register(received_bytes.clone());
        metrics.register(sent_bytes.clone());
    }

    /// A call begins, where the path is a method's.
    pub(in crate::server) fn begin(&self, path: &str) -> Option<Call> {
        let method = self.methods.get(path)?;
        method.started.inc();
        let began = method.seconds.as_ref().map(|_| Instant::now());
        Some(Call { method: Arc::clone(method), began, is_over: false })
    }
}

impl Families {
    fn new(detail: MetricsDetail) -> Self {
        let counters = |name: &str, help: &str, labels: &[&str]| {
            IntCounterVec::new(Opts::new(name, help), labels).expect("it is well formed")
        };
        let seconds = || {
            let name = "grpc_server_handling_seconds";
            let help = "Response latency (seconds) of gRPC that had been handled by the server.";
            HistogramVec::new(HistogramOpts::new(name, help), &SERVICE).expect("it is well formed")
        };
        Self {
            started: counters(
                "grpc_server_started_total",
                "Total number of RPCs started on the server.",
                &SERVICE,
            ),
            handled: counters(
                "grpc_server_handled_total",
                "Total number of RPCs completed on the server, regardless of success or failure.",
                &SERVICE_AND_CODE,
            ),
            received: counters(
                "grpc_server_msg_received_total",
                "Total number of RPC stream messages received on the server.",
                &SERVICE,
            ),
            sent: counters(
                "grpc_server_msg_sent_total",
                "Total number of gRPC stream messages sent by the server.",
                &SERVICE,
            ),
            seconds: (detail == MetricsDetail::Extensive).then(seconds),
            received_bytes: counter(
                "etcd_network_client_grpc_received_bytes_total",
                "The total number of bytes received from grpc clients.",
            ),
            sent_bytes: counter(
                "etcd_network_client_grpc_sent_bytes_total",
                "The total number of bytes sent to grpc clients.",
            ),
        }
    }

    fn method(&self, kind: &str, service: &str, method: &str) -> Method {
        let labels = [kind, service, method];
        Method {
            started: self.started.with_label_values(&labels),
            handled: CODES
                .map(|code| self.handled.with_label_values(&[kind, service, method, code])),
            received: self.received.with_label_values(&labels),
            sent: self.sent.with_label_values(&labels),
            seconds: self.seconds.as_ref().map(|seconds| seconds.with_label_values(&labels)),
            received_bytes: self.received_bytes.clone(),
            sent_bytes: self.sent_bytes.clone(),
        }
    }
}

/// One call. Dropped before its end, it counts as canceled: the client has gone.
pub(in crate::server) struct Call {
    method: Arc<Method>,
    began: Option<Instant>,
    is_over: bool,
}

impl Call {
    /// Counts what the client sends.
    pub(in crate::server) fn received(&self) -> Frames {
        Frames::new(&self.method.received, &self.method.received_bytes)
    }

    /// Counts what is sent to it.
    pub(in crate::server) fn sent(&self) -> Frames {
        Frames::new(&self.method.sent, &self.method.sent_bytes)
    }

    /// It has ended; only the first time counts.
    pub(in crate::server) fn end(&mut self, code: Code) {
        if std::mem::replace(&mut self.is_over, true) {
            return;
        }
        self.method.handled[code as usize].inc();
        if let (Some(seconds), Some(began)) = (&self.method.seconds, self.began) {
            seconds.observe(began.elapsed().as_secs_f64());
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.end(Code::Cancelled);
    }
}

/// Counts messages, and their bytes without what is around them, in the bytes of a stream.
pub(in crate::server) struct Frames {
    messages: IntCounter,
    bytes: IntCounter,
    /// The head of the next message, as far as it has come.
    head: [u8; HEAD],
    head_len: usize,
    /// So much of a message is still to come.
    left: usize,
}

/// What is before each message: whether it is compressed, and its length.
const HEAD: usize = 5;

impl Frames {
    fn new(messages: &IntCounter, bytes: &IntCounter) -> Self {
        let (messages, bytes) = (messages.clone(), bytes.clone());
        Self { messages, bytes, head: [0; HEAD], head_len: 0, left: 0 }
    }

    /// Takes the next bytes. A message counts when its head has come.
    pub(in crate::server) fn take(&mut self, mut data: &[u8]) {
        let (mut messages, mut bytes) = (0, 0);
        while !data.is_empty() {
            if self.left > 0 {
                let passed = self.left.min(data.len());
                self.left -= passed;
                bytes += passed;
                data = &data[passed..];
                continue;
            }
            let taken = (HEAD - self.head_len).min(data.len());
            self.head[self.head_len..self.head_len + taken].copy_from_slice(&data[..taken]);
            self.head_len += taken;
            data = &data[taken..];
            if self.head_len == HEAD {
                let [_, length @ ..] = self.head;
                (self.left, self.head_len) = (u32::from_be_bytes(length) as usize, 0);
                messages += 1;
            }
        }
        self.messages.inc_by(messages);
        self.bytes.inc_by(bytes as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_counted_however_the_bytes_come() {
        let stream = [&[0, 0, 0, 0, 3][..], b"abc", &[0, 0, 0, 0, 0], &[1, 0, 0, 1, 0], &[7; 256]];
        let stream = stream.concat();
        for piece in [1, 2, 3, 7, 64, stream.len()] {
            let [messages, bytes] = ["messages", "bytes"].map(|name| counter(name, "of a test"));
            let mut frames = Frames::new(&messages, &bytes);
            stream.chunks(piece).for_each(|piece| frames.take(piece));
            assert_eq!((messages.get(), bytes.get()), (3, 259), "in pieces of {piece}");
        }
    }

    #[test]
    fn a_call_ends_once_and_one_that_is_dropped_is_canceled() {
        let calls = Calls::new(&["etcdserverpb.KV"], MetricsDetail::Extensive);
        let path = "/etcdserverpb.KV/Range";
        let mut call = calls.begin(path).expect("a method");
        call.end(Code::NotFound);
        call.end(Code::Ok);
        drop(call);
        drop(calls.begin(path));
        let method = &calls.methods[path];
        let handled: Vec<u64> = method.handled.iter().map(IntCounter::get).collect();
        assert_eq!(handled, [0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(method.started.get(), 2);
        let seconds = method.seconds.as_ref().expect("they are wanted");
        assert_eq!(seconds.get_sample_count(), 2);
        assert!(calls.begin("/etcdserverpb.Lease/LeaseGrant").is_none(), "it is not offered");
        assert!(calls.begin("/grpc.health.v1.Health/Check").is_some());
    }
}
