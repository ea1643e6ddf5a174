//! One rule each.

use super::*;
use crate::proto::mvccpb::{Event, KeyValue};
use crate::server::watch::queue::{Content, Happening, Previous};
use crate::server::watch::registry::Registry;

/// What the watch with this id was told of, without the revisions of headers.
fn of(told: &[String], id: i64) -> String {
    let mine = told.iter().filter_map(|line| line.strip_prefix(&format!("{id}@")));
    let said = mine.filter_map(|line| line.split_once(' ')).map(|(_, said)| said);
    said.collect::<Vec<_>>().join(" ")
}

/// ```text
/// revisions   2 a   3 b   4 a  | created |  5 a   6 a   7 a and b deleted
/// watch 0     ▲─────────────────────────────────────────▶  a, from 2
/// watch 1           ▲───────────────────────────────────▶  a to c, from 3
/// watch 2                                   ▲───────────▶  a, from now
/// watch 3                                         ▲─────▶  a, from 6
/// ```
#[test]
fn past_now_and_future_are_told_from_where_they_begin() {
    let mut node = Node::new();
    for (key, value) in [("a", "2"), ("b", "3"), ("a", "4")] {
        node.put(key, value);
    }
    let client = node.client(ROOMY);
    node.watch(&client, "a", "", 2);
    node.watch(&client, "a", "c", 3);
    node.watch(&client, "a", "", 0);
    node.watch(&client, "a", "", 6);
    node.put("a", "5");
    node.put("a", "6");
    node.apply(Action::DeleteRange(delete("a", "z")));
    let told = node.told(&client);
    assert_eq!(of(&told, 0), "created 2a=2 4a=4 5a=5 6a=6 7a");
    assert_eq!(of(&told, 1), "created 3b=3 4a=4 5a=5 6a=6 7a 7b");
    assert_eq!(of(&told, 2), "created 5a=5 6a=6 7a");
    assert_eq!(of(&told, 3), "created 6a=6 7a");
    assert_eq!(told[..4], ["0@4 created", "1@4 created", "2@4 created", "3@4 created"]);
}

#[test]
fn ids_are_counted_or_chosen_and_used_ones_are_refused() {
    let node = Node::new();
    let client = node.client(ROOMY);
    let chosen =
        |watch_id| node.hub.create(client.stream, Create { watch_id, ..create("a", "", 0) });
    for id in [0, 2, 0, 0, 2, -7] {
        chosen(id);
    }
    node.watch(&client, "b", "a", 0);
    node.hub.cancel(client.stream, 2);
    node.hub.cancel(client.stream, 99);
    chosen(2);
    let refused = "-1@1 mvcc: duplicate watch ID provided on the WatchStream";
    let told = node.told(&client);
    assert_eq!(
        told,
        [
            "0@1 created",
            "2@1 created",
            "1@1 created",
            "3@1 created",
            refused,
            "-7@1 created",
            "-1@1 mvcc: watcher range is empty",
            "2@1 canceled",
            "2@1 created",
        ]
    );
}

// scenario B88
#[test]
fn a_watch_from_the_compacted_revision_on_misses_nothing_and_below_it_ends() {
    let mut node = Node::new();
    node.put("a", "2");
    node.put("b", "3");
    node.apply(Action::DeleteRange(delete("a", "")));
    node.put("b", "5");
    node.apply(compact(4));
    node.store.flush().expect("the store works");
    let client = node.client(ROOMY);
    node.watch(&client, "a", "c", 4);
    node.watch(&client, "a", "c", 3);
    let mut told = node.told(&client);
    told.sort();
    assert_eq!(told, ["0@5 4a 5b=5", "0@5 created", "1@0 compacted 4", "1@5 created"]);
}

/// A client that does not read is told nothing more; when it reads again it learns of all, or
/// that a compaction was faster. Another one notices nothing of it.
#[test]
fn who_does_not_read_falls_behind_and_is_brought_up_or_ended() {
    let mut node = Node::new();
    let bounds = Bounds { replies: 4, bytes: 1 << 20 };
    let (slow, late, quick) = (node.client(bounds), node.client(bounds), node.client(bounds));
    for client in [&slow, &late, &quick] {
        node.watch(client, "a", "", 0);
        assert_eq!(node.told(client), ["0@1 created"]);
    }
    for round in 0..100 {
        node.put("a", &round.to_string());
        assert_eq!(node.told(&quick), [format!("0@{} {}a={round}", round + 2, round + 2)]);
        assert!(slow.queue.weight().0 <= 4 && late.queue.weight().0 <= 4);
    }
    let told = node.told(&slow);
    let expected: Vec<_> = (0..100).map(|round| format!("{}a={round}", round + 2)).collect();
    assert_eq!(of(&told, 0), expected.join(" "));
    node.apply(compact(50));
    assert_eq!(of(&node.told(&late), 0), expected[..4].join(" ") + " compacted 50");
    node.put("a", "more");
    assert_eq!(node.told(&slow), ["0@102 102a=more"]);
    assert_eq!(node.told(&late), [""; 0]);
}

#[test]
fn a_progress_request_is_answered_behind_all_that_happened_before_it() {
    let mut node = Node::new();
    let client = node.client(Bounds { replies: 2, bytes: 1 << 20 });
    node.hub.ask_progress(client.stream);
    assert_eq!(node.told(&client), ["-1@1 progress"]);
    node.watch(&client, "a", "", 0);
    assert_eq!(node.told(&client), ["0@1 created"]);
    node.put("a", "2");
    node.hub.ask_progress(client.stream);
    assert_eq!(node.told(&client), ["0@2 2a=2", "-1@2 progress"]);
    // Behind: the answer waits until it is brought up.
    for _ in 0..5 {
        node.put("a", "x");
        node.settle();
    }
    node.hub.ask_progress(client.stream);
    let told = node.told(&client);
    assert_eq!(told.last().map(String::as_str), Some("-1@7 progress"), "{told:?}");
    assert_eq!(of(&told, 0), "3a=x 4a=x 5a=x 6a=x 7a=x");
    // One that has not begun yet would take the answer for a beginning.
    node.watch(&client, "a", "", 9);
    node.hub.ask_progress(client.stream);
    assert_eq!(node.told(&client), ["1@7 created"]);
    node.put("b", "8");
    assert_eq!(node.told(&client), ["-1@8 progress"]);
}

#[test]
fn idle_watches_are_told_how_far_they_are_if_they_want() {
    let mut node = Node::new();
    let client = node.client(ROOMY);
    let wants = Wants { progress: true, puts: true, ..Wants::default() };
    for key in ["a", "b"] {
        node.hub.create(client.stream, Create { wants, ..create(key, "", 0) });
    }
    node.watch(&client, "c", "", 0);
    node.hub.create(client.stream, Create { wants, ..create("a", "", 100) });
    node.put("a", "2");
    node.told(&client);
    node.hub.tell_idle(client.stream);
    assert_eq!(node.told(&client), ["1@2 progress"], "a has just been told");
    node.hub.tell_idle(client.stream);
    let mut told = node.told(&client);
    told.sort();
    assert_eq!(told, ["0@2 progress", "1@2 progress"]);
}

#[test]
fn what_a_key_held_before_is_shown_unless_it_is_compacted() {
    let mut node = Node::new();
    node.put("a", "2");
    let client = node.client(ROOMY);
    let wants = Wants { previous: true, puts: true, deletions: true, ..Wants::default() };
    let watch = |start| node.hub.create(client.stream, Create { wants, ..create("a", "", start) });
    watch(0);
    let mut node = node;
    node.put("a", "3");
    node.apply(Action::DeleteRange(delete("a", "")));
    node.put("a", "5");
    node.settle();
    node.apply(compact(3));
    node.hub.create(client.stream, Create { wants, ..create("a", "", 3) });
    node.settle();
    let mut seen = Vec::new();
    while let Some(reply) = node.read(&client) {
        let Content::Events(happenings, _) = reply.content else { continue };
        for it in happenings {
            let before = match &it.previous {
                Previous::Was(kv) => String::from_utf8_lossy(&kv.value).into_owned(),
                Previous::Nothing => "nothing".to_owned(),
                Previous::Unread => "unread".to_owned(),
            };
            seen.push(format!("{} {} {before}", reply.watch_id, it.revision()));
        }
    }
    seen.sort();
    assert_eq!(seen, ["0 3 2", "0 4 3", "0 5 nothing", "1 3 nothing", "1 4 3", "1 5 nothing"]);
}

/// A follower that was away is given a snapshot, and its revision jumps.
#[test]
fn a_snapshot_brings_watches_up_or_ends_them() {
    let mut ahead = Node::new();
    let mut node = Node::new();
    for it in [&mut ahead, &mut node] {
        it.put("a", "2");
    }
    let clients = [node.client(ROOMY), node.client(ROOMY)];
    node.watch(&clients[0], "a", "", 0);
    node.watch(&clients[1], "a", "", 6);
    for client in &clients {
        node.told(client);
    }
    for value in ["3", "4", "5", "6", "7"] {
        ahead.put("a", value);
    }
    let restore = |node: &mut Node, ahead: &Node| {
        let mut snapshot = ahead.store.snapshot().expect("the store works");
        node.applied = ahead.applied;
        node.store.restore(Index(ahead.applied), &mut snapshot).expect("it fits");
    };
    restore(&mut node, &ahead);
    assert_eq!(of(&node.told(&clients[0]), 0), "3a=3 4a=4 5a=5 6a=6 7a=7");
    assert_eq!(of(&node.told(&clients[1]), 0), "6a=6 7a=7");
    for value in ["8", "9", "10"] {
        ahead.put("a", value);
    }
    ahead.apply(compact(9));
    node.watch(&clients[1], "a", "", 9);
    node.watch(&clients[1], "a", "", 12);
    node.told(&clients[1]);
    restore(&mut node, &ahead);
    assert_eq!(node.told(&clients[0]), ["0@0 compacted 9"]);
    node.put("a", "11");
    node.put("a", "12");
    let told = node.told(&clients[1]);
    assert_eq!(of(&told, 0), "compacted 9");
    assert_eq!(of(&told, 1), "9a=9 10a=10 11a=11 12a=12");
    assert_eq!(of(&told, 2), "12a=12");
}

#[test]
fn a_revision_is_told_whole_and_only_to_those_whom_it_concerns() {
    let mut node = Node::new();
    let client = node.client(ROOMY);
    node.watch(&client, "a", "c", 0);
    node.watch(&client, "b", "", 0);
    node.watch(&client, "x", "", 0);
    let wants = Wants { deletions: true, ..Wants::default() };
    node.hub.create(client.stream, Create { wants, ..create("a", "\0", 0) });
    let put = |key| Request::RequestPut(put(key, "v"));
    node.apply(txn(vec![put("c"), put("b"), put("a")]));
    node.apply(txn(vec![put("d"), Request::RequestDeleteRange(delete("a", "c"))]));
    let mut told = node.told(&client);
    told.retain(|line| !line.ends_with("created"));
    told.sort();
    assert_eq!(told, ["0@2 2b=v 2a=v", "0@3 3a 3b", "1@2 2b=v", "1@3 3b", "3@3 3a 3b"]);
}

#[test]
fn after_the_end_nothing_is_told_and_closed_streams_leave_nothing() {
    let mut node = Node::new();
    let (client, other) = (node.client(ROOMY), node.client(ROOMY));
    node.watch(&client, "a", "", 0);
    node.watch(&other, "a", "b", 0);
    node.put("a", "2");
    node.settle();
    node.hub.close(client.stream);
    node.put("a", "3");
    assert_eq!(of(&node.told(&other), 0), "created 2a=2 3a=3");
    node.hub.end();
    let ended = other.queue.poll_next(&mut Context::from_waker(Waker::noop()));
    assert!(
        matches!(ended, Poll::Ready(Some(Next::End(status))) if status.message().ends_with("server stopped"))
    );
}

/// A client that believed in it would go on behind what it was never told.
#[test]
fn who_is_behind_is_not_told_how_far_the_others_are() {
    let mut node = Node::new();
    let client = node.client(ROOMY);
    let wants = Wants { progress: true, puts: true, ..Wants::default() };
    node.watch(&client, "b", "", 0);
    node.put("a", "2");
    node.put("a", "3");
    node.settle();
    node.hub.create(client.stream, Create { wants, ..create("a", "", 2) });
    node.hub.tell_idle(client.stream);
    assert_eq!(node.told(&client), ["0@1 created", "1@3 created", "1@3 2a=2 3a=3"]);
    node.hub.tell_idle(client.stream);
    node.hub.tell_idle(client.stream);
    assert_eq!(node.told(&client), ["1@3 progress"]);
}

#[test]
fn a_canceled_watch_keeps_no_progress_request_waiting() {
    let node = Node::new();
    let client = node.client(ROOMY);
    node.watch(&client, "a", "", 0);
    node.watch(&client, "a", "", 9);
    node.hub.ask_progress(client.stream);
    assert_eq!(node.told(&client), ["0@1 created", "1@1 created"]);
    node.hub.cancel(client.stream, 1);
    assert_eq!(node.told(&client), ["1@1 canceled", "-1@1 progress"]);
}

#[test]
fn a_stream_closes_while_it_is_behind_and_waits_for_an_answer() {
    let mut node = Node::new();
    node.put("a", "2");
    let (client, other) = (node.client(ROOMY), node.client(ROOMY));
    node.watch(&client, "a", "", 2);
    node.hub.ask_progress(client.stream);
    node.watch(&other, "a", "", 0);
    node.hub.close(client.stream);
    node.put("a", "3");
    assert_eq!(node.told(&other), ["0@2 created", "0@3 3a=3"]);
}

/// What was read before a watch came may be handed out after: without what was there before, or
/// once more.
#[test]
fn what_is_handed_out_late_is_told_once_and_never_without_what_is_wanted() {
    let happening = |mod_revision| {
        let kv = KeyValue { key: "a".into(), mod_revision, ..KeyValue::default() };
        let event = Event { kv: Some(kv), ..Event::default() };
        Arc::new(Happening::new(event, Previous::Unread))
    };
    let happenings: Vec<_> = (2..4).map(happening).collect();
    let dispatched = |previous| {
        let (mut registry, queue) = (Registry::new(), Arc::new(Queue::new(ROOMY)));
        let stream = registry.open(Arc::clone(&queue));
        let create = create("a", "", 2);
        let wants = Wants { previous, ..create.wants };
        registry.create(stream, Create { wants, ..create }, 1);
        registry.dispatch(&happenings, 3);
        registry.dispatch(&happenings, 3);
        (queue.weight().0, registry.turn())
    };
    assert_eq!(dispatched(false), (3, None), "created, and two revisions");
    assert_eq!(dispatched(true), (1, Some((2, true))), "it is brought up from history");
}
