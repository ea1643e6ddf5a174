//! Deletions of every span, with and without what was there.

use kontiki_kv::proto::etcdserverpb::DeleteRangeRequest;

use crate::pair::Pair;
use crate::requests::{Operation, always, delete, put};

const SPANS: &[(&str, &str)] = &[
    ("d/a", ""),
    ("d/none", ""),
    ("d/a", "d/c"),
    ("d/", "d0"),
    ("d/b", "d/a"),
    ("d/b", "d/b"),
    ("d/b", "\0\0"),
    ("d/c", "\0"),
    ("\0", "\0"),
    ("\0", ""),
    ("", ""),
    ("", "d/b"),
    ("", "\0"),
];

pub async fn play(pair: &mut Pair) {
    pair.scene("delete");
    for (key, range_end) in SPANS {
        for prev_kv in [false, true] {
            let request = DeleteRangeRequest { prev_kv, ..delete(key, range_end) };
            fill(pair).await;
            pair.ask(request.clone()).await;
            pair.ask(request.clone()).await;
            pair.dump().await;
            fill(pair).await;
            pair.ask(always(vec![request.clone().op()])).await;
            pair.ask(always(vec![request.op()])).await;
            pair.dump().await;
        }
    }
    pair.dump_history(60).await;
}

async fn fill(pair: &mut Pair) {
    for key in ["d/a", "d/b", "d/b", "d/c", "d0"] {
        pair.ask(put(key, "there")).await;
    }
}
