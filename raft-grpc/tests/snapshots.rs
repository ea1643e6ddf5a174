//! Snapshots between two transports: whole, resumed, replaced, given up, paced.

mod common;

use std::sync::Arc;
use std::time::{Duration, Instant};

use common::proxy::Proxy;
use common::store::{Source, Store, snapshot};
use common::{Node, PATIENCE, Serving, heartbeat, id, identity, listen, receive};
use raft_core::{NodeId, Snapshot, Term};
use raft_grpc::{Config, PeerEvent, SnapshotSendError as Failed, SnapshotSending};
use tokio::time::timeout;

/// One chunk.
const CHUNK: u64 = 256 << 10;

/// A leader 1 that can reach a follower 2 with this store, and the follower.
async fn nodes(config: Config, store: &Store) -> (Node, Node) {
    let ((first, first_address), (second, second_address)) = (listen().await, listen().await);
    let leader = Node::start(identity(1), config.clone(), &[(2, second_address)]);
    let store = Arc::new(store.clone());
    let follower = Node::with_store(identity(2), config, &[(1, first_address)], store);
    leader.serve(first);
    follower.serve(second);
    leader.until(2, "connection", |peer| peer.connected).await;
    (leader, follower)
}

fn send(leader: &Node, source: Source) -> SnapshotSending {
    leader.transport.send_snapshot(id(2), Term(4), Arc::new(source))
}

async fn end<T>(sending: impl Future<Output = T>) -> T {
    timeout(PATIENCE, sending).await.expect("ends in time")
}

fn received(event: &PeerEvent) -> Option<(NodeId, Term, Snapshot)> {
    match event {
        PeerEvent::SnapshotReceived { from, term, snapshot } => {
            Some((*from, *term, snapshot.clone()))
        }
        _ => None,
    }
}

/// Waits until the store has taken so many bytes.
async fn written(store: &Store, bytes: u64) {
    let deadline = Instant::now() + PATIENCE;
    while store.lock().written < bytes {
        assert!(Instant::now() < deadline, "only {} bytes", store.lock().written);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn a_snapshot_arrives_whole_and_is_told_of_once_it_is_durable() {
    let store = Store::default();
    let (leader, mut follower) = nodes(Config::default(), &store).await;
    let len = 5 * CHUNK + 17;
    assert_eq!(end(send(&leader, Source::new(90, len))).await, Ok(snapshot(90).last));
    // The event comes before the sender's receipt.
    let events = std::iter::from_fn(|| follower.events.try_recv().ok());
    let told: Vec<_> = events.filter_map(|event| received(&event)).collect();
    assert_eq!(told, [(id(1), Term(4), snapshot(90))]);
    let kept = store.lock();
    let offer = &kept.published[0];
    assert_eq!((offer.from, offer.term, offer.len_bytes, offer.check), (id(1), Term(4), len, 77));
    assert_eq!((&offer.snapshot, kept.written), (&snapshot(90), len));
}

#[tokio::test]
async fn an_empty_snapshot_is_one_too() {
    let store = Store::default();
    let (leader, _follower) = nodes(Config::default(), &store).await;
    assert_eq!(end(send(&leader, Source::new(90, 0))).await, Ok(snapshot(90).last));
    assert_eq!(store.lock().published.len(), 1);
}

/// B57: 72 MiB to a slow disk, on one single thread: neither heartbeats nor memory notice.
#[tokio::test]
async fn heartbeats_flow_beside_a_large_snapshot_that_takes_little_memory() {
    let store = Store::slow(Duration::from_millis(5));
    let (leader, mut follower) = nodes(Config::default(), &store).await;
    let source = Source::new(90, 72 << 20);
    store.lock().source = Some(Arc::clone(&source.read));
    let begun = Instant::now();
    let mut sending = std::pin::pin!(send(&leader, source));
    let (mut rounds, mut slowest) = (0, Duration::ZERO);
    let ended = loop {
        tokio::select! {
            biased;
            ended = &mut sending => break ended,
            () = tokio::time::sleep(Duration::from_millis(10)) => {}
        }
        rounds += 1;
        let sent = Instant::now();
        leader.send([heartbeat(1, 2, rounds)]);
        assert_eq!(receive(&mut follower.control, 1).await, [heartbeat(1, 2, rounds)]);
        slowest = slowest.max(sent.elapsed());
    };
    assert_eq!(ended, Ok(snapshot(90).last));
    let ahead = store.lock().ahead_max;
    println!("{:?}, {rounds} heartbeats, slowest {slowest:?}, {ahead} ahead", begun.elapsed());
    assert!(rounds > 20, "{rounds} heartbeats only");
    // Waiting behind the whole snapshot would take seconds. Generous: the machine may be busy.
    assert!(slowest < Duration::from_millis(500), "{slowest:?}");
    assert!(ahead <= 3 * CHUNK, "{ahead} bytes were read ahead of the receiver's disk");
}

#[tokio::test]
async fn a_slow_disk_holds_up_nothing_else_on_its_thread() {
    let store = Store::slow(Duration::from_millis(700));
    let (leader, mut follower) = nodes(Config::default(), &store).await;
    let _sending = send(&leader, Source::new(90, 64 * CHUNK));
    leader.until(2, "first chunk", |peer| peer.sending.is_some_and(|it| it.bytes > 0)).await;
    for round in 1..=20 {
        let sent = Instant::now();
        leader.send([heartbeat(1, 2, round)]);
        receive(&mut follower.control, 1).await;
        assert!(sent.elapsed() < Duration::from_millis(350), "{:?}", sent.elapsed());
    }
}

#[tokio::test]
async fn a_broken_connection_is_resumed_where_the_receiver_is() {
    let store = Store::slow(Duration::from_millis(3));
    let (listener, address) = listen().await;
    let (_, nobody) = listen().await;
    let (proxy, front) = Proxy::start(address).await;
    let config = Config::for_timing(Duration::from_millis(50), Duration::from_millis(500));
    let shared = Arc::new(store.clone());
    let follower = Node::with_store(identity(2), config.clone(), &[(1, nobody)], shared);
    follower.serve(listener);
    let leader = Node::start(identity(1), config, &[(2, front)]);
    let len = 60 * CHUNK;
    let sending = send(&leader, Source::new(90, len));
    written(&store, 10 * CHUNK).await;
    proxy.silence_all();
    assert_eq!(end(sending).await, Ok(snapshot(90).last));

    let kept = store.lock();
    assert_eq!(kept.written, len, "no byte was written twice");
    let [(before, 0), (after, resumed)] = kept.begun.as_slice() else {
        panic!("begun once, resumed once: {:?}", kept.begun)
    };
    assert_eq!(before, after, "the same transfer");
    assert!(*resumed >= 10 * CHUNK, "{resumed}");
    assert_eq!(kept.published.len(), 1);
}

async fn serve_follower(store: &Store, at: &str) -> (Node, Serving, String) {
    let listener = tokio::net::TcpListener::bind(at).await.expect("loopback");
    let address = listener.local_addr().expect("bound").to_string();
    let (_, nobody) = listen().await;
    let store = Arc::new(store.clone());
    let follower = Node::with_store(identity(2), Config::default(), &[(1, nobody)], store);
    let serving = follower.serve(listener);
    (follower, serving, address)
}

/// B56: the receiver starts again mid-way and has lost what it had; the sender must not go on
/// at its old offset.
#[tokio::test]
async fn a_receiver_that_starts_again_is_sent_what_it_lacks() {
    let before = Store::slow(Duration::from_millis(3));
    let (follower, serving, address) = serve_follower(&before, "127.0.0.1:0").await;
    let leader = Node::start(identity(1), Config::default(), &[]);
    leader.transport.set_peer(id(2), &address).expect("valid");
    let sending = send(&leader, Source::new(90, 40 * CHUNK));
    written(&before, 10 * CHUNK).await;
    serving.stop().await; // It does not wait for the rest of the snapshot.
    drop(follower);

    let after = Store::default();
    let (mut follower, _serving, _) = serve_follower(&after, &address).await;
    assert_eq!(end(sending).await, Ok(snapshot(90).last));
    assert_eq!(follower.event("snapshot", received).await.2, snapshot(90));
    assert_eq!(after.lock().written, 40 * CHUNK);
    assert!(before.lock().published.is_empty());
}

#[tokio::test]
async fn what_does_not_add_up_is_sent_anew_as_another_transfer_a_few_times() {
    let store = Store::default();
    store.lock().spoiled = 1;
    let (leader, mut follower) = nodes(Config::default(), &store).await;
    assert_eq!(end(send(&leader, Source::new(90, 3 * CHUNK))).await, Ok(snapshot(90).last));
    follower.event("snapshot", received).await;
    {
        let kept = store.lock();
        let [(first, 0), (second, 0)] = kept.begun.as_slice() else { panic!("{:?}", kept.begun) };
        assert_ne!(first.transfer, second.transfer);
    }

    store.lock().spoiled = 1000;
    let ended = end(send(&leader, Source::new(91, CHUNK))).await;
    assert_eq!(ended, Err(Failed::Spoiled("the bytes do not add up".to_owned())));
    assert_eq!(store.lock().begun.len(), 2 + 3);
    assert!(follower.events.try_recv().is_err(), "nothing was received");
}

#[tokio::test]
async fn a_source_that_ends_early_is_reported() {
    let store = Store::default();
    let (leader, _follower) = nodes(Config::default(), &store).await;
    let source = Source { ends_at: CHUNK + 5, ..Source::new(90, 3 * CHUNK) };
    let Err(Failed::Source(reason)) = end(send(&leader, source)).await else { panic!("fails") };
    assert!(reason.contains("it ends at byte 262149"), "{reason}");
    assert!(store.lock().published.is_empty());
}

/// B56: two transfers to one target.
#[tokio::test]
async fn a_newer_transfer_replaces_the_older_one() {
    let store = Store::slow(Duration::from_millis(5));
    let (leader, mut follower) = nodes(Config::default(), &store).await;
    let first = send(&leader, Source::new(90, 200 * CHUNK));
    written(&store, 2 * CHUNK).await;
    let second = send(&leader, Source::new(91, 4 * CHUNK));
    assert_eq!(end(first).await, Err(Failed::Replaced));
    assert_eq!(end(second).await, Ok(snapshot(91).last));
    assert_eq!(follower.event("snapshot", received).await.2, snapshot(91));
    assert_eq!(store.lock().published.len(), 1);
}

#[tokio::test]
async fn transfers_are_seen_and_cancelled() {
    let store = Store::slow(Duration::from_millis(5));
    let (leader, follower) = nodes(Config::default(), &store).await;
    let sending = send(&leader, Source::new(90, 400 * CHUNK));
    written(&store, 4 * CHUNK).await;
    let out = leader.stats(2).sending.expect("under way");
    assert_eq!((out.last, out.bytes_total), (snapshot(90).last, 400 * CHUNK));
    assert!(out.bytes > 0 && out.bytes < out.bytes_total && out.bytes_per_second > 0, "{out:?}");
    let (from, incoming) = follower.transport.receiving().expect("under way");
    assert_eq!((from, incoming.bytes_total), (id(1), 400 * CHUNK));
    assert!(incoming.bytes >= 3 * CHUNK, "{incoming:?}");

    leader.transport.cancel_snapshots();
    assert_eq!(end(sending).await, Err(Failed::Cancelled));
    assert_eq!(leader.stats(2).sending, None);
    let deadline = Instant::now() + PATIENCE;
    while follower.transport.receiving().is_some() {
        assert!(Instant::now() < deadline, "the receiver goes on");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let removed = send(&leader, Source::new(91, 400 * CHUNK));
    leader.transport.remove_peer(id(2));
    assert_eq!(end(removed).await, Err(Failed::Cancelled));
    assert_eq!(end(send(&leader, Source::new(90, 1))).await, Err(Failed::NotAPeer(id(2))));
}

#[tokio::test]
async fn a_transfer_without_progress_is_given_up() {
    let (_listener, nobody) = listen().await;
    let patience = Duration::from_millis(400);
    let config = Config { snapshot_patience: patience, ..Config::default() };
    let leader = Node::start(identity(1), config.clone(), &[(2, nobody)]);
    let begun = Instant::now();
    let ended = end(send(&leader, Source::new(90, CHUNK))).await;
    let Err(Failed::NoProgress { bytes: 0, last_error }) = ended else { panic!("{ended:?}") };
    assert!(last_error.contains("greeting was not answered"), "{last_error}");
    assert!(begun.elapsed() >= patience, "{:?}", begun.elapsed());

    // Nor is a receiver waited for whose disk hangs.
    let store = Store::slow(Duration::from_secs(2));
    let (leader, _follower) = nodes(config, &store).await;
    let ended = end(send(&leader, Source::new(90, CHUNK))).await;
    assert!(matches!(ended, Err(Failed::NoProgress { .. })), "{ended:?}");
}

#[tokio::test]
async fn a_removed_leader_gives_up_at_once() {
    let store = Store::default();
    let (leader, follower) = nodes(Config::default(), &store).await;
    follower.transport.mark_removed(id(1));
    let ended = end(send(&leader, Source::new(90, CHUNK))).await;
    let Err(Failed::Refused { reason: raft_grpc::Refused::Removed, .. }) = ended else {
        panic!("{ended:?}")
    };
}

#[tokio::test]
async fn snapshots_go_no_faster_than_allowed() {
    let store = Store::default();
    let config = Config { snapshot_bytes_per_second: Some(2 << 20), ..Config::default() };
    let (leader, _follower) = nodes(config, &store).await;
    let begun = Instant::now();
    assert_eq!(end(send(&leader, Source::new(90, 1 << 20))).await, Ok(snapshot(90).last));
    // All but the last eighth of a second has to be waited for.
    assert!(begun.elapsed() >= Duration::from_millis(350), "{:?}", begun.elapsed());
}
