//! Every flag of a put with every other, on keys that are there and on others.

use kontiki_kv::proto::etcdserverpb::PutRequest;

use crate::pair::Pair;
use crate::requests::{Operation, always, delete, get, put};

pub async fn play(pair: &mut Pair) {
    pair.scene("put");
    for (key, value) in [("", ""), ("", "x"), ("p/empty", ""), ("p/a", "1"), ("p/a", "2")] {
        pair.ask(put(key, value)).await;
    }
    pair.ask(put([0], "zero")).await;
    pair.ask(put([0, 0], [0, 0xff])).await;
    pair.ask(put([0xc3, 0x28], [0xc3, 0x28])).await;
    pair.ask(put("p/long", vec![b'v'; 10_000])).await;
    let requests = all();
    for request in &requests {
        pair.ask(request.clone()).await;
    }
    pair.dump().await;
    for request in requests {
        pair.ask(always(vec![request.clone().op()])).await;
        pair.ask(always(vec![get("p/a").op(), request.op(), get("p/a").op()])).await;
    }
    pair.dump().await;

    // A key begins anew after it was deleted.
    pair.ask(delete("p/a", "")).await;
    pair.ask(PutRequest { prev_kv: true, ..put("p/a", "again") }).await;
    pair.ask(PutRequest { prev_kv: true, ..put("p/a", "and again") }).await;
    pair.dump().await;
}

/// Every combination.
fn all() -> Vec<PutRequest> {
    let mut all = Vec::new();
    for key in ["p/a", "p/absent", "p/empty", ""] {
        for value in ["", "x"] {
            for lease in [0, 77, -1, i64::MAX] {
                for flags in 0..8 {
                    all.push(PutRequest {
                        lease,
                        prev_kv: flags & 1 != 0,
                        ignore_value: flags & 2 != 0,
                        ignore_lease: flags & 4 != 0,
                        ..put(key, value)
                    });
                }
            }
        }
    }
    all
}
