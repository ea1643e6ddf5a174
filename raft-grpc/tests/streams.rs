//! Two transports on loopback: order, bounds, and what happens when one goes.

mod common;

use std::time::{Duration, Instant};

use common::{PATIENCE, append, appended, disk, heartbeat, id, identity, listen, pair, receive};
use raft_core::{Index, LogPosition, Payload, Term};
use raft_grpc::Config;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_arrive_in_order_on_each_lane_and_from_both_sides() {
    let (mut a, mut b) = pair(Config::default()).await;
    for round in 0..500 {
        a.send([append(1, 2, round + 1, &[64]), heartbeat(1, 2, round)]);
        b.send([heartbeat(2, 1, round)]);
    }
    let appends = receive(&mut b.bulk, 500).await;
    let expected: Vec<_> = (1..=500).map(|first| append(1, 2, first, &[64])).collect();
    assert_eq!(appends, expected);
    let rounds = |from, to| (0..500).map(|round| heartbeat(from, to, round)).collect::<Vec<_>>();
    assert_eq!(receive(&mut b.control, 500).await, rounds(1, 2));
    assert_eq!(receive(&mut a.control, 500).await, rounds(2, 1));

    let (sent, received) = (a.stats(2), b.stats(1));
    assert_eq!((sent.bulk.sent_messages, sent.bulk.dropped_messages), (500, 0));
    assert_eq!((sent.bulk.queued_messages, sent.bulk.queued_bytes), (0, 0));
    assert_eq!(received.bulk.received_messages, 500);
    assert!(sent.bulk.sent_bytes > 500 * 64);
    assert_eq!(received.bulk.received_bytes, sent.bulk.sent_bytes);
    assert_eq!(received.incarnation, Some(disk(1001)));
    assert!(received.control.reading && received.bulk.reading);
}

/// B40: 64 entries of 100 KB, over a limit of 4 MB, were the same batch retried for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_append_over_the_message_limit_arrives_in_parts() {
    let config = Config { message_bytes_max: 4 << 20, ..Config::default() };
    let (a, mut b) = pair(config.clone()).await;
    a.send([append(1, 2, 1, &[100_000; 64]), append(1, 2, 65, &[10])]);

    let (mut previous, mut parts) = (LogPosition { term: Term(5), index: Index(0) }, 0);
    while previous.index < Index(65) {
        for part in receive(&mut b.bulk, 1).await {
            let part = appended(&part);
            assert_eq!(part.previous, previous, "each part begins where the last one ended");
            assert!(part.entries.size_bytes() <= config.batch_bytes_max);
            previous = part.entries.last().expect("no part is empty").position();
            parts += 1;
        }
    }
    assert_eq!((previous.index, parts), (Index(65), 33)); // Two of 100 KB in each, and the last.
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_entry_larger_than_a_batch_goes_alone_and_one_too_large_spares_the_others() {
    let config = Config { message_bytes_max: 2 << 20, ..Config::default() };
    let (a, mut b) = pair(config).await;
    a.send([
        append(1, 2, 1, &[10, 1 << 20, 10]),
        append(1, 2, 4, &[3 << 20]),
        append(1, 2, 5, &[10]),
    ]);
    let parts = receive(&mut b.bulk, 4).await;
    let sizes: Vec<Vec<_>> = parts
        .iter()
        .map(|part| appended(part).entries.iter().map(|it| it.payload.len()).collect())
        .collect();
    assert_eq!(sizes, [vec![10], vec![1 << 20], vec![10], vec![10]]);
    assert_eq!(a.stats(2).bulk.too_large_messages, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_receiver_that_takes_no_entries_still_gets_heartbeats_and_the_sender_never_blocks() {
    let config = Config { bulk_bytes_max: 8 << 20, ..Config::default() };
    let ((first, first_address), (second, second_address)) = (listen().await, listen().await);
    let a = common::Node::start(identity(1), config.clone(), &[(2, second_address)]);
    let mut b = common::Node::with_capacity(identity(2), config, &[(1, first_address)], 1);
    let _servers = (a.serve(first), b.serve(second));
    a.until(2, "connection", |peer| peer.connected).await;

    // Nobody reads `b.bulk`: the channel, the windows, the sockets and the queue fill up.
    let (mut first, begun) = (1, Instant::now());
    while a.stats(2).bulk.dropped_messages == 0 {
        assert!(begun.elapsed() < PATIENCE, "the queue is bounded: {:#?}", a.stats(2));
        a.send((first..first + 10).map(|first| append(1, 2, first, &[64 << 10])));
        assert!(a.stats(2).bulk.queued_bytes <= 8 << 20);
        first += 10;
        tokio::task::yield_now().await;
    }
    // Read rounds overtake all of it.
    for round in 1..=20 {
        a.send([heartbeat(1, 2, round)]);
        assert_eq!(receive(&mut b.control, 1).await, [heartbeat(1, 2, round)]);
    }
    // And once it is read, what was not dropped is there, in order.
    let all = receive(&mut b.bulk, 100).await;
    let firsts: Vec<_> = all.iter().map(|it| appended(it).previous.index.0 + 1).collect();
    assert!(firsts.iter().copied().eq(1..=firsts.len() as u64), "{firsts:?}");
}

#[tokio::test]
async fn a_full_queue_without_a_connection_drops_and_never_blocks() {
    let (_listener, nobody) = listen().await; // Accepts nothing: never answers the greeting.
    let long = Duration::from_secs(3600);
    let config = Config { queue_messages_max: 100, stale_after: long, ..Config::default() };
    let a = common::Node::start(identity(1), config, &[(2, nobody)]);
    a.send((0..1000).map(|round| heartbeat(1, 2, round)));
    a.send((1..=2).map(|first| append(1, 2, first, &[20 << 20])));
    let stats = a.stats(2);
    assert_eq!((stats.control.queued_messages, stats.control.dropped_messages), (100, 900));
    assert_eq!((stats.bulk.queued_messages, stats.bulk.dropped_messages), (1, 1));

    a.send([heartbeat(1, 9, 0), heartbeat(3, 2, 0)]);
    assert_eq!(a.transport.misdirected(), 2, "to nobody, and from somebody else");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_restart_of_the_peer_it_reconnects_and_replays_nothing_old() {
    let (mut listener, address) = listen().await;
    let stale_after = Duration::from_millis(5);
    let config = Config { stale_after, ..Config::default() };
    let a = common::Node::start(identity(1), config, &[(2, address)]);
    let (_, nobody) = listen().await;
    for life in 1..=3 {
        let mut b = common::Node::start(identity(2), Config::default(), &[(1, nobody)]);
        let serving = b.serve(listener);
        a.until(2, "connection", |peer| peer.connected).await;
        a.send([heartbeat(1, 2, life)]);
        assert_eq!(receive(&mut b.control, 1).await, [heartbeat(1, 2, life)]);

        serving.stop().await;
        a.until(2, "loss", |peer| !peer.control.connected && !peer.bulk.connected).await;
        assert!(a.stats(2).control.last_error.is_some());
        a.send([heartbeat(1, 2, 900 + life)]);
        tokio::time::sleep(stale_after * 2).await;
        listener = tokio::net::TcpListener::bind(address).await.expect("the port is free again");
    }
    let control = a.stats(2).control;
    assert_eq!(control.dropped_messages, 2, "what was sent while the peer was dead");
    assert_eq!(control.queued_messages, 1, "the last one may still be in time");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_vote_request_is_not_lost_to_the_first_connect() {
    let (listener, address) = listen().await;
    let (_, nobody) = listen().await;
    let config = Config { stale_after: PATIENCE, ..Config::default() };
    let a = common::Node::start(identity(1), config, &[(2, address)]);
    a.send([heartbeat(1, 2, 1)]);
    let mut b = common::Node::start(identity(2), Config::default(), &[(1, nobody)]);
    b.serve(listener);
    assert_eq!(receive(&mut b.control, 1).await, [heartbeat(1, 2, 1)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn peers_come_move_and_go() {
    let (a, mut b) = pair(Config::default()).await;
    let (listener, address) = listen().await;
    let _other_door = b.serve(listener);
    a.transport.set_peer(id(2), &address.to_string()).expect("valid");
    let moved = |peer: &raft_grpc::PeerStats| peer.connected && peer.control.connects >= 2;
    a.until(2, "connection", moved).await;
    a.send([heartbeat(1, 2, 1)]);
    assert_eq!(receive(&mut b.control, 1).await, [heartbeat(1, 2, 1)]);

    b.transport.remove_peer(id(1));
    assert!(b.transport.stats().is_empty());
    let refused =
        |error: &Option<String>| error.as_ref().is_some_and(|it| it.contains("not a member"));
    a.until(2, "refusal", |peer| refused(&peer.control.last_error)).await;
    assert!(a.transport.set_peer(id(3), "nowhere").is_err());

    a.transport.shutdown();
    assert!(a.transport.stats().is_empty());
    a.send([heartbeat(1, 2, 2)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn empty_entries_and_empty_commands_stay_apart() {
    let (a, mut b) = pair(Config::default()).await;
    let mut sent = append(1, 2, 1, &[0, 3]);
    if let raft_core::Message::Append(append) = &mut sent.message {
        let mut entries = append.entries.to_vec();
        entries[1].payload = Payload::Empty;
        append.entries = entries.into();
    }
    a.send([sent.clone()]);
    assert_eq!(receive(&mut b.bulk, 1).await, [sent]);
}
