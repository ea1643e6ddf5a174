//! Watches: where they begin, what they are told, and how they end.

use kontiki_kv::proto::etcdserverpb::WatchCreateRequest;

use crate::pair::Pair;
use crate::requests::{Operation, always, bytes, compact, delete, put};
use crate::watching::Watching;

fn keys(key: &str, range_end: &str, start_revision: i64) -> WatchCreateRequest {
    let (key, range_end) = (bytes(key), bytes(range_end));
    WatchCreateRequest { key, range_end, start_revision, ..WatchCreateRequest::default() }
}

pub async fn play(pair: &mut Pair) {
    pair.scene("watch");
    begins(pair).await;
    ids(pair).await;
    tells(pair).await;
    compacted(pair).await;
    fragments(pair).await;
}

async fn begins(pair: &mut Pair) {
    for value in ["1", "2", "3"] {
        pair.ask(put("watch/a", value)).await;
    }
    let first = pair.revision - 2;
    let watching = Watching::open(pair).await;
    watching.ask_progress();
    watching.compare(pair, "progress of a stream without a watch").await;
    for (key, end) in
        [("watch/a", ""), ("watch/", "watch0"), ("watch/", "\0"), ("", "\0"), ("", "")]
    {
        for start in [0, first, first + 1, pair.revision, pair.revision + 1, pair.revision + 3] {
            watching.create(keys(key, end, start));
            watching.compare(pair, &format!("watch {key:?} {end:?} from {start}")).await;
        }
    }
    for (key, end) in [("b", "a"), ("b", "b"), ("", "\u{1}")] {
        watching.create(keys(key, end, 0));
        watching.compare(pair, &format!("watch {key:?} {end:?}")).await;
    }
    watching.create(keys("watch/a", "", -5));
    watching.compare(pair, "watch from a negative revision").await;
    for key in ["watch/a", "elsewhere", "watch/b", "watch/a", "watch/a"] {
        pair.ask(put(key, "later")).await;
        watching.compare(pair, &format!("put {key}")).await;
    }
}

async fn ids(pair: &mut Pair) {
    let mut watching = Watching::open(pair).await;
    for watch_id in [0, 0, 1, 3, 0, 0, -1, -9, 3, 100, 0] {
        watching.create(WatchCreateRequest { watch_id, ..keys("watch/id", "", 0) });
        watching.compare(pair, &format!("watch with id {watch_id}")).await;
    }
    for watch_id in [3, -9, 0] {
        watching.cancel(watch_id);
        watching.compare(pair, &format!("cancel {watch_id}")).await;
    }
    for watch_id in [3, 77] {
        watching.cancel(watch_id);
        watching.still(pair, &format!("cancel {watch_id}, which is not there")).await;
    }
    watching.create(WatchCreateRequest { watch_id: 3, ..keys("watch/id", "", 0) });
    watching.create(keys("watch/id", "", 0));
    watching.compare(pair, "ids that were given up, and new ones").await;
    pair.ask(put("watch/id", "1")).await;
    watching.compare(pair, "put").await;
    watching.half_close();
    pair.ask(put("watch/id", "2")).await;
    watching.compare(pair, "put after the client has closed its half").await;
}

async fn tells(pair: &mut Pair) {
    let from = pair.revision + 1;
    let watching = Watching::open(pair).await;
    let kinds = |start| {
        let mut all = Vec::new();
        for filters in [vec![], vec![0], vec![1], vec![0, 1], vec![1, 7]] {
            for prev_kv in [false, true] {
                let filters = filters.clone();
                all.push(WatchCreateRequest {
                    filters,
                    prev_kv,
                    ..keys("watch/t", "watch/u", start)
                });
            }
        }
        all
    };
    kinds(0).into_iter().for_each(|create| watching.create(create));
    watching.compare(pair, "watches of all kinds").await;
    pair.ask(put("watch/t1", "1")).await;
    watching.compare(pair, "put of a new key").await;
    pair.ask(put("watch/t1", "2")).await;
    watching.compare(pair, "put of an old key").await;
    pair.ask(delete("watch/t1", "")).await;
    watching.compare(pair, "deletion").await;
    pair.ask(put("watch/t1", "3")).await;
    watching.compare(pair, "put of a key that was deleted").await;
    pair.ask(always(vec![
        put("watch/t3", "1").op(),
        put("watch/t1", "4").op(),
        put("watch/none", "1").op(),
        put("watch/t2", "1").op(),
    ]))
    .await;
    watching.compare(pair, "several puts at once").await;
    pair.ask(always(vec![put("watch/t4", "1").op(), delete("watch/t1", "watch/t3").op()])).await;
    watching.compare(pair, "puts and deletions at once").await;
    watching.ask_progress();
    watching.compare(pair, "progress").await;
    pair.ask(delete("watch/absent", "")).await;
    watching.still(pair, "nothing happened").await;

    let again = Watching::open(pair).await;
    kinds(from).into_iter().for_each(|create| again.create(create));
    again.compare(pair, "all of it again, from history").await;

    let idle = Watching::open(pair).await;
    idle.create(WatchCreateRequest { progress_notify: true, ..keys("watch/idle", "", 0) });
    idle.create(WatchCreateRequest { progress_notify: true, ..keys("watch/t", "watch/u", from) });
    idle.compare(pair, "idle watches").await;
    tokio::time::sleep(std::time::Duration::from_millis(2500)).await;
    idle.compare(pair, "idle watches are told how far they are").await;
}

async fn compacted(pair: &mut Pair) {
    pair.ask(put("watch/c", "1")).await;
    pair.ask(delete("watch/c", "")).await;
    let at = pair.revision;
    pair.ask(put("watch/d", "1")).await;
    let waiting = Watching::open(pair).await;
    waiting.create(keys("watch/d", "", 0));
    waiting.compare(pair, "a watch before the compaction").await;
    pair.ask(compact(at)).await;
    let watching = Watching::open(pair).await;
    // From the compacted revision itself etcd shows the deletion there or not, as its sweep has
    // come by already or not; ours always does (scenario B88).
    for start in [at - 1, 1, at + 1] {
        let create = WatchCreateRequest { prev_kv: true, ..keys("watch/c", "watch/e", start) };
        watching.create(create);
        watching.compare(pair, &format!("watch from {start}, compacted at {at}")).await;
    }
    pair.ask(put("watch/d", "2")).await;
    watching.compare(pair, "put after the compaction").await;
    waiting.compare(pair, "a compaction ends no watch that needs nothing of it").await;
}

async fn fragments(pair: &mut Pair) {
    let large = "v".repeat(400_000);
    let watching = Watching::open(pair).await;
    for fragment in [false, true] {
        watching.create(WatchCreateRequest {
            fragment,
            prev_kv: true,
            ..keys("watch/f", "watch/g", 0)
        });
    }
    watching.compare(pair, "watches with and without fragments").await;
    for _ in 0..2 {
        let puts = ["watch/f1", "watch/f2", "watch/f3"].map(|key| put(key, &large).op());
        pair.ask(always(puts.to_vec())).await;
        watching.compare(pair, "large puts at once").await;
    }
    pair.ask(delete("watch/f", "watch/g")).await;
    watching.compare(pair, "deletion of large values").await;
}
