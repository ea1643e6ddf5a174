//! Compaction: what may be asked for, and what can still be read.

use kontiki_kv::proto::etcdserverpb::{CompactionRequest, RangeRequest};

use crate::pair::Pair;
use crate::requests::{Operation, always, compact, delete, put, range};

pub async fn play(pair: &mut Pair) {
    pair.scene("compact");
    history(pair).await;
    let end = pair.revision;
    let start = end - 12;
    for revision in [
        i64::MIN,
        -1,
        0,
        1,
        start,
        start,
        start - 1,
        end + 1,
        i64::MAX,
        start + 3,
        start + 4,
        start + 5,
        start + 6,
        start + 9,
        end - 1,
    ] {
        for physical in [false, true] {
            pair.ask(CompactionRequest { revision, physical }).await;
            around(pair).await;
        }
    }
    pair.ask(CompactionRequest { revision: end, physical: true }).await;
    around(pair).await;
    pair.ask(compact(end)).await;
    pair.ask(compact(end + 1)).await;
    pair.ask(put("k/a", "behind")).await;
    pair.ask(compact(end + 1)).await;
    around(pair).await;
    pair.ask(always(vec![range("k/", "k0").op(), put("k/z", "1").op()])).await;
}

/// Puts and deletions, so that every step gives up something else.
async fn history(pair: &mut Pair) {
    pair.ask(delete("\0", "\0")).await;
    for number in 0..4 {
        pair.ask(put("k/a", format!("{number}"))).await;
        pair.ask(put("k/b", format!("{number}"))).await;
        pair.ask(delete("k/b", "")).await;
    }
    pair.ask(always(vec![put("k/c", "1").op(), put("k/d", "1").op(), delete("k/a", "").op()]))
        .await;
}

/// Compares what each of the newest revisions shows, the compacted ones too.
pub async fn around(pair: &mut Pair) {
    for back in -2..16 {
        let revision = pair.revision - back;
        let all = range("\0", "\0");
        pair.ask(RangeRequest { revision, ..all.clone() }).await;
        pair.ask(always(vec![RangeRequest { revision, ..all }.op()])).await;
    }
    let revision = pair.revision - 14;
    pair.ask(RangeRequest { revision, ..range("k/none", "") }).await;
    pair.ask(RangeRequest { revision, count_only: true, ..range("k/b", "k/a") }).await;
}
