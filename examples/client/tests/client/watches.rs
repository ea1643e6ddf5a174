//! Every event once and in order, whatever becomes of streams and members.

use std::time::Duration;

use kontiki_client::proto::etcdserverpb::watch_request::RequestUnion;
use kontiki_client::proto::etcdserverpb::{
    CompactionRequest, PutRequest, ResponseHeader, WatchCreateRequest, WatchResponse,
};
use kontiki_client::proto::mvccpb::{Event, KeyValue};
use kontiki_client::{ClientError, WatchError, Watcher};
use tonic::Status;

use crate::etcd::Etcd;
use crate::fake::{Answer, Fake};
use crate::proxy::Proxy;
use crate::{PATIENCE, client};

fn header(revision: i64) -> Option<ResponseHeader> {
    Some(ResponseHeader { revision, ..ResponseHeader::default() })
}

fn created(revision: i64) -> WatchResponse {
    WatchResponse { header: header(revision), created: true, ..WatchResponse::default() }
}

fn progress(watch_id: i64, revision: i64) -> WatchResponse {
    WatchResponse { header: header(revision), watch_id, ..WatchResponse::default() }
}

fn events(revisions: &[i64]) -> WatchResponse {
    let event = |&mod_revision: &i64| Event {
        kv: Some(KeyValue { mod_revision, ..KeyValue::default() }),
        ..Event::default()
    };
    WatchResponse {
        header: header(1000),
        events: revisions.iter().map(event).collect(),
        ..WatchResponse::default()
    }
}

fn revisions(changes: &kontiki_client::Changes) -> Vec<i64> {
    changes.events.iter().map(|event| event.kv.as_ref().map_or(0, |kv| kv.mod_revision)).collect()
}

async fn next(watcher: &mut Watcher) -> Result<Vec<i64>, WatchError> {
    let next = tokio::time::timeout(PATIENCE, watcher.next()).await.expect("something in time");
    next.map(|changes| revisions(&changes))
}

fn starts(fake: &Fake) -> Vec<i64> {
    let watches = fake.watches.lock().expect("not poisoned");
    let start = |(request, has_leader): &(_, bool)| {
        assert!(has_leader, "a member without a leader must not serve it");
        let kontiki_client::proto::etcdserverpb::WatchRequest { request_union } = request;
        match request_union {
            Some(RequestUnion::CreateRequest(create)) => create.start_revision,
            other => panic!("{other:?}"),
        }
    };
    watches.iter().map(start).collect()
}

#[tokio::test]
async fn a_watch_goes_on_behind_the_last_revision_that_it_has_seen_as_a_whole() {
    let (fake, port) = Fake::start(Answer::Good).await;
    let script = fake.expect_watch();
    script.try_send(Ok(created(4))).expect("room");
    let mut watcher =
        client(&[port], PATIENCE).watch(WatchCreateRequest::key("k")).await.expect("open");
    script.try_send(Ok(events(&[5, 7, 7]))).expect("room");
    assert_eq!(next(&mut watcher).await.expect("events"), [5, 7, 7]);

    // A part of revision 9 is no revision: all of it comes again.
    let part = WatchResponse { fragment: true, ..events(&[9]) };
    script.try_send(Ok(part.clone())).expect("room");
    let again = fake.expect_watch();
    again.try_send(Ok(created(9))).expect("room");
    again.try_send(Ok(part)).expect("room");
    again.try_send(Ok(events(&[9, 9]))).expect("room");
    drop(script);
    assert_eq!(next(&mut watcher).await.expect("events"), [9, 9, 9]);

    // Progress of the watch itself counts, that of the stream does not.
    again.try_send(Ok(progress(0, 20))).expect("room");
    assert_eq!(next(&mut watcher).await.expect("progress"), []);
    again.try_send(Ok(progress(-1, 30))).expect("room");
    assert_eq!(next(&mut watcher).await.expect("progress"), []);
    let last = fake.expect_watch();
    last.try_send(Ok(created(30))).expect("room");
    // What was seen is not told twice, even if it is sent twice.
    last.try_send(Ok(events(&[19, 20]))).expect("room");
    last.try_send(Ok(events(&[20, 21]))).expect("room");
    again.try_send(Err(Status::unavailable("etcdserver: no leader"))).expect("room");
    assert_eq!(next(&mut watcher).await.expect("events"), [21]);
    assert_eq!(starts(&fake), [0, 8, 21]);
    assert_eq!(watcher.next_revision(), 22);
}

#[tokio::test]
async fn a_watch_that_is_refused_or_cancelled_ends_with_the_reason() {
    let (fake, port) = Fake::start(Answer::Good).await;
    let client = client(&[port], Duration::from_millis(300));
    // Without a leader, nobody serves it.
    let error = client.watch(WatchCreateRequest::key("k")).await.expect_err("no leader");
    assert!(matches!(error, ClientError::Unreachable(_)), "{error}");

    let script = fake.expect_watch();
    let cancelled = WatchResponse {
        canceled: true,
        cancel_reason: "etcdserver: permission denied".into(),
        ..created(4)
    };
    script.try_send(Ok(cancelled)).expect("room");
    let mut watcher = client.watch(WatchCreateRequest::key("k")).await.expect("an answer");
    for _ in 0..2 {
        let error = next(&mut watcher).await.expect_err("it is over");
        assert_eq!(error.to_string(), "the watch was cancelled: etcdserver: permission denied");
    }
}

#[tokio::test]
async fn a_compacted_watch_says_so_against_etcd() {
    let Some(etcd) = Etcd::start(1).await else { return };
    let client = client(&etcd.ports, PATIENCE);
    let mut revision = 0;
    for _ in 0..5 {
        let put = client.put(PutRequest::new("k", "v")).await.expect("written");
        revision = put.header.expect("a header").revision;
    }
    client.compact(CompactionRequest { revision, physical: false }).await.expect("compacted");
    let watch = WatchCreateRequest::key("k").from_revision(2);
    let mut watcher = client.watch(watch).await.expect("open");
    let error = next(&mut watcher).await.expect_err("compacted");
    assert!(matches!(error, WatchError::Compacted { revision: at } if at == revision), "{error:?}");
}

/// Writes `count` keys one after the other, and tells their revisions.
async fn write(client: kontiki_client::Client, count: usize) -> Vec<i64> {
    let mut revisions = Vec::new();
    for number in 0..count {
        let put = client.put(PutRequest::new("w/k", number.to_string())).await.expect("written");
        revisions.push(put.header.expect("a header").revision);
    }
    revisions
}

#[tokio::test]
async fn a_watch_whose_connection_is_cut_again_and_again_misses_nothing_and_repeats_nothing() {
    const WRITES: usize = 1500;
    let Some(etcd) = Etcd::start(1).await else { return };
    let proxy = Proxy::before(etcd.ports[0]).await;
    let watching = client(&[proxy.port], PATIENCE);
    let mut watcher = watching.watch(WatchCreateRequest::prefix("w/")).await.expect("open");
    let cutter = proxy.cut_every(Duration::from_millis(130));
    let writer = tokio::spawn(write(client(&etcd.ports, PATIENCE), WRITES));
    let mut seen = Vec::new();
    while seen.len() < WRITES {
        seen.extend(next(&mut watcher).await.expect("events"));
    }
    cutter.abort();
    assert_eq!(seen, writer.await.expect("no panic"));
}

#[tokio::test]
async fn a_watch_outlives_every_member_that_it_was_opened_on() {
    let Some(mut etcd) = Etcd::start(3).await else { return };
    let mut watcher = client(&etcd.ports, Duration::from_secs(6))
        .watch(WatchCreateRequest::prefix("w/"))
        .await
        .expect("open");
    let (mut seen, mut written) = (Vec::new(), Vec::new());
    for node in 0..3 {
        // The first of the list is asked first, and then the next: the one that is killed.
        etcd.kill(node).await;
        etcd.until_written().await;
        let alive = [etcd.ports[(node + 1) % 3]];
        written.extend(write(client(&alive, PATIENCE), 20).await);
        while seen.len() < written.len() {
            seen.extend(next(&mut watcher).await.expect("events"));
        }
        etcd.run(node);
        etcd.until_written().await;
    }
    assert_eq!(seen, written);
}
