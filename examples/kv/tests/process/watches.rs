//! Watches on real nodes: killed under them, left without a leader, and read by nobody.

use std::time::Duration;

use kontiki_kv::proto::etcdserverpb::watch_client::WatchClient;
use kontiki_kv::proto::etcdserverpb::watch_request::RequestUnion;
use kontiki_kv::proto::etcdserverpb::{WatchCreateRequest, WatchRequest, WatchResponse};
use kontiki_kv::proto::mvccpb::Event;
use tokio::task::JoinSet;
use tokio_stream::{StreamExt, once, pending};
use tonic::transport::Endpoint;
use tonic::{Code, Request, Status, Streaming};

use crate::kit::{Cluster, ELECTION_MS, Load, patiently, rounds, until};

/// What a stream may do at once. Small, so that a client that does not read is noticed early.
const WINDOW_BYTES: u32 = 64 << 10;

/// Opens a stream with one watch of all keys below `prefix`.
async fn watch(
    endpoint: &str,
    prefix: &str,
    start_revision: i64,
    wants_leader: bool,
) -> Result<Streaming<WatchResponse>, Status> {
    let unavailable = |error: tonic::transport::Error| Status::unavailable(error.to_string());
    let endpoint = Endpoint::from_shared(format!("http://{endpoint}")).expect("an address");
    let endpoint = endpoint
        .connect_timeout(Duration::from_secs(2))
        .initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES)
        .http2_keep_alive_interval(Duration::from_secs(1))
        .keep_alive_timeout(Duration::from_secs(2));
    let channel = endpoint.connect().await.map_err(unavailable)?;
    let create = WatchCreateRequest {
        key: prefix.to_owned().into(),
        range_end: format!("{prefix}\u{7f}").into(),
        start_revision,
        ..WatchCreateRequest::default()
    };
    let create = WatchRequest { request_union: Some(RequestUnion::CreateRequest(create)) };
    let mut request = Request::new(once(create).chain(pending()));
    if wants_leader {
        request.metadata_mut().insert("hasleader", "true".parse().expect("it is text"));
    }
    Ok(WatchClient::new(channel).watch(request).await?.into_inner())
}

/// A client that goes on elsewhere when a stream ends, as those of etcd do.
struct Watcher {
    endpoints: Vec<String>,
    at: usize,
    prefix: &'static str,
    next: i64,
    stream: Option<Streaming<WatchResponse>>,
    resumed: usize,
}

impl Watcher {
    fn new(endpoints: Vec<String>, at: usize, prefix: &'static str) -> Self {
        Self { endpoints, at, prefix, next: 1, stream: None, resumed: 0 }
    }

    /// The next events. All revisions up to the last of them are behind it then.
    async fn next(&mut self) -> Vec<Event> {
        loop {
            let Some(stream) = &mut self.stream else {
                let endpoint = &self.endpoints[self.at % self.endpoints.len()];
                match watch(endpoint, self.prefix, self.next, true).await {
                    Ok(stream) => self.stream = Some(stream),
                    Err(_) => {
                        self.at += 1;
                        tokio::time::sleep(Duration::from_millis(20)).await;
                    }
                }
                continue;
            };
            match stream.message().await {
                Ok(Some(message)) => {
                    assert!(!message.canceled, "nothing is compacted: {message:?}");
                    let Some(last) = message.events.last() else { continue };
                    self.next = last.kv.as_ref().expect("a key").mod_revision + 1;
                    return message.events;
                }
                Ok(None) | Err(_) => {
                    (self.stream, self.at) = (None, self.at + 1);
                    self.resumed += 1;
                }
            }
        }
    }
}

fn revisions(events: &[Event]) -> Vec<i64> {
    events.iter().map(|event| event.kv.as_ref().expect("a key").mod_revision).collect()
}

/// Reads until the event of revision `last`, and expects each revision once and in order.
async fn expect_all(watcher: &mut Watcher, first: i64, last: i64) {
    let mut expected = first;
    let reading = async {
        while expected <= last {
            for revision in revisions(&watcher.next().await) {
                assert_eq!(revision, expected, "each revision once, and in order");
                expected += 1;
            }
        }
    };
    patiently(&format!("all events up to {last}"), reading).await;
}

/// ```text
/// writers    ─────────────────── the whole time ───────────────────
/// watchers   one at each node; whose node dies goes on at the next
/// nodes      kill -9 of the leader ── start ── kill -9 of a follower
/// ```
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_watch_goes_on_elsewhere_without_a_gap_and_without_a_repeat() {
    let mut trio = Cluster::start().await;
    let mut first = 2;
    for round in 0..rounds(2) {
        let load = Load::start(&format!("round{round}"), &trio.endpoints(), 4);
        let mut watchers = Vec::new();
        for at in 0..3 {
            let mut watcher = Watcher::new(trio.endpoints(), at, "");
            watcher.next = first;
            let begun = patiently("the first events", watcher.next()).await;
            watchers.push((watcher, begun));
        }
        load.more(50).await;
        let leader = trio.leader().await;
        let victim = if round % 2 == 0 { leader } else { (leader + 1) % 3 };
        let read_on = |(mut watcher, begun): (Watcher, Vec<Event>)| {
            tokio::spawn(async move {
                let mut expected = first;
                let mut events = begun;
                loop {
                    for revision in revisions(&events) {
                        assert_eq!(revision, expected, "each revision once, and in order");
                        expected += 1;
                    }
                    if expected >= first + 60 {
                        return (watcher, expected);
                    }
                    events = watcher.next().await;
                }
            })
        };
        // They read while nodes die.
        let reading: Vec<_> = watchers.into_iter().map(read_on).collect();
        trio.nodes[victim].kill();
        load.more(50).await;
        trio.nodes[victim].start();
        load.more(50).await;
        load.stop().await;
        trio.settled().await;
        let last = trio.client(0).status().await.expect("it runs").header.expect("a header");
        for (at, reading) in reading.into_iter().enumerate() {
            let read = patiently("the watchers read", reading).await;
            let (mut watcher, expected) = read.expect("no watcher panics");
            expect_all(&mut watcher, expected, last.revision).await;
            assert!(watcher.resumed > 0 || at != victim, "the stream of the dead node has ended");
        }
        first = last.revision + 1;
    }
}

/// Two of three are gone. Who asked for a leader is sent away, after a while; who did not stays,
/// and is told what happens when there is a leader again.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn streams_that_asked_for_a_leader_end_without_one() {
    let mut trio = Cluster::start().await;
    let alone = trio.leader().await;
    let endpoint = trio.endpoint(alone);
    let mut careful = watch(&endpoint, "key", 0, true).await.expect("there is a leader");
    let mut patient = watch(&endpoint, "key", 0, false).await.expect("it serves");
    for stream in [&mut careful, &mut patient] {
        let created = stream.message().await.expect("it goes on").expect("an answer");
        assert!(created.created);
    }
    let others = [(alone + 1) % 3, (alone + 2) % 3];
    others.iter().for_each(|other| trio.nodes[*other].kill());
    let ended = patiently("the stream ends", careful.message()).await;
    let status = ended.expect_err("there is no leader");
    assert_eq!((status.code(), status.message()), (Code::Unavailable, "etcdserver: no leader"));
    let refused = watch(&endpoint, "key", 0, true).await.expect_err("there is no leader");
    assert_eq!((refused.code(), refused.message()), (Code::Unavailable, "etcdserver: no leader"));

    let wait = Duration::from_millis(ELECTION_MS);
    let silent = tokio::time::timeout(wait, patient.message()).await;
    assert!(silent.is_err(), "who does not ask for a leader is left alone: {silent:?}");
    others.iter().for_each(|other| trio.nodes[*other].start());
    trio.client(alone).put_surely("key", "again").await;
    let told = patiently("an event", patient.message()).await.expect("it goes on");
    assert_eq!(told.expect("an event").events.len(), 1);
}

/// Clients that do not read: the node holds a bounded part of what they lack, and others notice
/// nothing. When they read, they get all of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn who_does_not_read_costs_little_and_slows_nobody() {
    const SLEEPERS: usize = 40;
    const VALUE_BYTES: usize = 4 << 10;
    const PUTS: usize = 4000;
    const WRITERS: usize = 16;
    let trio = Cluster::start().await;
    let leader = trio.leader().await;
    let endpoint = trio.endpoint(leader);
    let mut sleepers = Vec::new();
    for _ in 0..SLEEPERS {
        sleepers.push(watch(&endpoint, "", 2, false).await.expect("it serves"));
    }
    let before = trio.nodes[leader].peak_kib();
    let mut awake = Watcher::new(vec![endpoint.clone()], 0, "");
    awake.next = 2;
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let mut client = trio.client(leader);
        writers.spawn(async move {
            for number in 0..PUTS / WRITERS {
                let value = vec![b'v'; VALUE_BYTES];
                client.put_surely(&format!("{writer}/{number}"), value).await;
            }
        });
    }
    let last = 1 + (PUTS / WRITERS * WRITERS) as i64;
    expect_all(&mut awake, 2, last).await;
    writers.join_all().await;
    let after = trio.nodes[leader].peak_kib();
    println!(
        "{SLEEPERS} watchers asleep over {} MiB: peak {before:?} → {after:?} KiB",
        (PUTS * VALUE_BYTES) >> 20
    );
    if let (Some(before), Some(after)) = (before, after) {
        // Each may have half a MiB in its queue, and a little in the wires.
        let allowed = (SLEEPERS as u64) * 1024 + (128 << 10);
        assert!(after < before + allowed, "{before} → {after} KiB");
    }
    let mut sleeper = sleepers.swap_remove(0);
    let mut expected = 2;
    let reading = async {
        while expected <= last {
            let message = sleeper.message().await.expect("it goes on").expect("an answer");
            for revision in revisions(&message.events) {
                assert_eq!(revision, expected, "each revision once, and in order");
                expected += 1;
            }
        }
    };
    patiently("a sleeper that wakes up gets all", reading).await;
}

/// A node that stops sends its watchers away.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_node_that_stops_ends_its_streams() {
    let mut trio = Cluster::start().await;
    let leader = trio.leader().await;
    let stream = watch(&trio.endpoint(leader), "key", 0, false).await;
    let mut stream = stream.expect("it serves");
    stream.message().await.expect("it goes on").expect("an answer");
    let ended = tokio::spawn(async move { stream.message().await });
    assert_eq!(trio.nodes[leader].stop(), Some(0));
    let status = patiently("the stream ends", ended).await.expect("no panic");
    let status = status.expect_err("the node stops");
    assert_eq!(
        (status.code(), status.message()),
        (Code::Unavailable, "etcdserver: server stopped")
    );
    until("another one leads", async || {
        (trio.client((leader + 1) % 3).status().await.ok()?.leader != 0).then_some(())
    })
    .await;
}
