//! Every option of a range, alone and together with others, over every way to write a span.

use kontiki_kv::proto::etcdserverpb::RangeRequest;

use crate::pair::Pair;
use crate::requests::{Operation, always, delete, put, range};

/// A way to change a request.
type Option = fn(&mut RangeRequest, i64);

/// `now` is the newest revision; the scene begins less than thirty revisions before.
const OPTIONS: &[Option] = &[
    |_, _| {},
    |range, _| range.serializable = true,
    |range, _| range.limit = 1,
    |range, _| range.limit = 3,
    |range, _| range.limit = 100,
    |range, _| range.limit = -1,
    |range, _| range.limit = i64::MIN,
    |range, _| range.limit = i64::MAX,
    |range, _| range.keys_only = true,
    |range, _| range.count_only = true,
    |range, _| (range.count_only, range.limit) = (true, 1),
    |range, _| (range.count_only, range.keys_only) = (true, true),
    |range, now| (range.count_only, range.max_mod_revision) = (true, now - 3),
    |range, _| (range.keys_only, range.limit) = (true, 2),
    |range, now| range.revision = now,
    |range, now| range.revision = now - 1,
    |range, now| range.revision = now - 6,
    |range, now| (range.revision, range.limit) = (now - 9, 2),
    |range, now| (range.revision, range.count_only) = (now - 9, true),
    |range, now| (range.revision, range.keys_only) = (now - 9, true),
    |range, _| range.revision = 1,
    |range, _| range.revision = -1,
    |range, _| range.revision = i64::MIN,
    |range, now| range.revision = now + 1,
    |range, now| (range.revision, range.count_only) = (now + 1, true),
    |range, _| range.revision = i64::MAX,
    |range, now| range.min_mod_revision = now - 4,
    |range, now| range.max_mod_revision = now - 4,
    |range, now| range.min_create_revision = now - 8,
    |range, now| range.max_create_revision = now - 8,
    |range, now| (range.min_mod_revision, range.limit) = (now - 8, 2),
    |range, now| (range.max_create_revision, range.limit) = (now - 4, 1),
    |range, now| (range.min_mod_revision, range.max_mod_revision) = (now - 8, now - 3),
    |range, now| (range.min_mod_revision, range.max_mod_revision) = (now, now - 5),
    |range, now| (range.min_create_revision, range.max_mod_revision) = (now - 9, now - 2),
    |range, _| range.min_mod_revision = -1,
    |range, _| range.max_mod_revision = -1,
    |range, _| range.min_create_revision = i64::MIN,
    |range, _| range.max_create_revision = i64::MIN,
    |range, now| (range.max_mod_revision, range.revision) = (now - 6, now - 4),
    |range, _| range.sort_order = 2,
    |range, _| (range.sort_order, range.limit) = (2, 1),
];

const SPANS: &[(&str, &str)] = &[
    ("r/a", ""),
    ("r/c", ""),
    ("r/none", ""),
    ("r/a", "r/b"),
    ("r/", "r0"),
    ("r/b", "\0"),
    ("\0", "\0"),
    ("\0", ""),
    ("r/b", "r/a"),
    ("r/b", "r/b"),
    ("r/b", "\0\0"),
    ("r/a", "r/a\0"),
    ("zz", "\0"),
    ("", ""),
    ("", "r/b"),
    ("", "\0"),
];

pub async fn play(pair: &mut Pair) {
    pair.scene("range");
    history(pair).await;
    let now = pair.revision;
    for (key, range_end) in SPANS {
        for change in OPTIONS {
            let mut request = range(key, range_end);
            change(&mut request, now);
            pair.ask(request.clone()).await;
            pair.ask(always(vec![request.op()])).await;
        }
    }
    pair.ask(range([0xff], "")).await;
    pair.ask(range([0xff], [0])).await;
    pair.ask(range([0xff], [0xff, 0xff])).await;
    pair.ask(range("r/", [0xff])).await;
    pair.dump_history(30).await;

    pair.scene("sort");
    sorts(pair, now).await;
    pair.scene("unknown order");
    for sort_order in [3, -1, i32::MAX] {
        pair.ask(RangeRequest { sort_order, ..range("s/", "s0") }).await;
        pair.ask(RangeRequest { sort_order, ..range("", "s0") }).await;
        pair.ask(always(vec![RangeRequest { sort_order, ..range("s/", "s0") }.op()])).await;
    }
}

/// Keys with several versions, deleted ones, some that came again, and some odd ones.
async fn history(pair: &mut Pair) {
    for (key, value) in [("a", "1"), ("b", "2"), ("c", "3"), ("d", "4"), ("b", "20"), ("e", "")] {
        pair.ask(put(format!("r/{key}"), value)).await;
    }
    pair.ask(delete("r/c", "")).await;
    pair.ask(delete("r/d", "")).await;
    pair.ask(put("r/c", "30")).await;
    pair.ask(put("r/a\0", "zero behind")).await;
    pair.ask(put("r/b", "200")).await;
    pair.ask(put([0xff], "all ones")).await;
    pair.ask(put([0xff, 0xff], "twice")).await;
    // Six to sort: no two have the same target, but for their versions.
    for (key, value) in [("a", "z"), ("b", "y"), ("c", ""), ("d", "w"), ("e", "v"), ("f", "zz")] {
        pair.ask(put(format!("s/{key}"), value)).await;
    }
    pair.ask(put("s/d", "x")).await;
    pair.ask(put("s/b", "m")).await;
    pair.ask(put("s/d", "aa")).await;
}

/// Each order with each target.
async fn sorts(pair: &mut Pair, now: i64) {
    let options: &[Option] = &[
        |_, _| {},
        |range, _| range.limit = 2,
        |range, _| (range.limit, range.keys_only) = (3, true),
        |range, _| range.count_only = true,
        |range, now| range.revision = now - 2,
        |range, now| (range.max_mod_revision, range.limit) = (now - 2, 2),
        |range, now| (range.min_create_revision, range.serializable) = (now - 6, true),
        |range, _| (range.range_end, range.limit) = ("s/d".into(), 6),
        |range, _| range.range_end.clear(),
        |range, _| range.key.clear(),
    ];
    for sort_order in 0..3 {
        // Without targets that do not exist: an etcd before 3.5.2 dies of them.
        for sort_target in 0..5 {
            for change in options {
                let mut request = RangeRequest { sort_order, sort_target, ..range("s/", "s0") };
                change(&mut request, now);
                pair.ask(request.clone()).await;
                pair.ask(always(vec![request.op()])).await;
            }
        }
    }
}
