//! Requests that are too large, and some that are just not.

use kontiki_kv::proto::etcdserverpb::compare::TargetUnion;
use kontiki_kv::proto::etcdserverpb::{PutRequest, RangeRequest};

use crate::pair::Pair;
use crate::requests::{Operation, always, compare, delete, get, put, range};

const REQUEST: usize = 3 << 19;
const MESSAGE: usize = 2 << 20;

pub async fn play(pair: &mut Pair) {
    pair.scene("limits");
    for (number, len) in
        [REQUEST - 64, REQUEST, REQUEST + 1, MESSAGE - 100, MESSAGE, MESSAGE + 1, 3 * MESSAGE]
            .into_iter()
            .enumerate()
    {
        let value = vec![b'0' + number as u8; len];
        pair.ask(put("l/value", &value)).await;
        pair.ask(always(vec![put("l/txn", &value).op()])).await;
        pair.ask(range("l/", "l0")).await;
        // What is only read is bounded by the message alone.
        pair.ask(get(&value)).await;
        pair.ask(range("l/", &value)).await;
        pair.ask(always(vec![get(&value).op()])).await;
        let union = Some(TargetUnion::Value(value.into()));
        let mut transaction = always(vec![get("l/value").op()]);
        transaction.compare = vec![compare(("l/value", ""), 3, 0, union)];
        pair.ask(transaction).await;
    }
    // Answers have no limit.
    for number in 0..4 {
        pair.ask(put(format!("l/large/{number}"), vec![b'x'; REQUEST - 64])).await;
    }
    pair.ask(range("l/", "l0")).await;
    pair.ask(RangeRequest { keys_only: true, ..range("l/", "l0") }).await;
    keys(pair).await;
    pair.ask(delete("l/", "l0")).await;
    pair.dump().await;
}

/// Keys have a limit of ours; a put that changes nothing shows it.
async fn keys(pair: &mut Pair) {
    let key = |len: usize| vec![b'l'; len];
    pair.ask(put(key(32_760), "longest")).await;
    pair.ask(get(key(32_760))).await;
    pair.ask(range(key(32_759), key(32_761))).await;
    pair.ask(delete(key(100_000), key(200_000))).await;
    pair.ask(delete(key(32_760), "")).await;
    pair.ask(delete(key(32_761), "")).await;
    pair.ask(PutRequest { ignore_value: true, ..put(key(32_760), "") }).await;
    pair.ask(PutRequest { ignore_value: true, ..put(key(32_761), "") }).await;
}
