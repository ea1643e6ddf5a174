//! Transactions: what their operations see, what refuses the whole, and where revisions stand.

use kontiki_kv::proto::etcdserverpb::{
    DeleteRangeRequest, PutRequest, RangeRequest, RequestOp, TxnRequest,
};

use crate::pair::Pair;
use crate::requests::{Operation, always, compact, delete, exists, get, put, range, when};

pub async fn play(pair: &mut Pair) {
    pair.scene("txn");
    for key in ["a", "b", "c"] {
        pair.ask(put(format!("t/{key}"), "old")).await;
    }
    steps(pair).await;
    refusals(pair).await;
    revisions(pair).await;
    pair.dump_history(30).await;

    pair.scene("txn size");
    sizes(pair).await;
}

fn put_prev(key: &str, value: &str) -> RequestOp {
    PutRequest { prev_kv: true, ..put(key, value) }.op()
}

/// What comes later sees what came before, and headers stand at the step's revision.
async fn steps(pair: &mut Pair) {
    let all = || range("t/", "t0").op();
    for operations in [
        vec![],
        vec![get("t/a").op()],
        vec![put_prev("t/a", "new"), all(), put_prev("t/d", "new"), all()],
        vec![all(), delete("t/a", "").op(), all(), put_prev("t/b", "newer"), all()],
        vec![delete("t/none", "").op()],
        vec![delete("t/none", "").op(), all(), delete("t/none", "t/z").op()],
        vec![delete("t/b", "").op(), delete("t/b", "").op(), delete("t/", "t0").op(), all()],
        vec![put("t/a", "1").op(), put("t/b", "2").op(), put("t/c", "3").op()],
        vec![always(vec![put_prev("t/a", "in")]).op(), all(), always(vec![all()]).op()],
        vec![always(vec![always(vec![]).op()]).op()],
        vec![always(vec![]).op(), put_prev("t/x", "1"), always(vec![get("t/x").op()]).op()],
        vec![RangeRequest { count_only: true, ..range("t/", "\0") }.op(), put_prev("t/y", "1")],
        vec![DeleteRangeRequest { prev_kv: false, ..delete("t/a", "t/c") }.op(), all()],
        vec![always(vec![delete("t/", "t0").op(), all()]).op(), all()],
    ] {
        pair.ask(always(operations.clone())).await;
        pair.dump().await;
        pair.ask(when(vec![exists("t/none")], vec![], operations)).await;
        pair.dump().await;
    }
}

/// One bad operation refuses all of them, on whichever way it stands: or only on the one taken,
/// where it takes the store to see that it is bad.
async fn refusals(pair: &mut Pair) {
    let bad: Vec<(&str, RequestOp)> = vec![
        ("nothing", RequestOp { request: None }),
        ("range without a key", get("").op()),
        ("put without a key", put("", "x").op()),
        ("delete without a key", delete("", "x").op()),
        ("value", PutRequest { ignore_value: true, ..put("t/a", "x") }.op()),
        ("lease", PutRequest { ignore_lease: true, lease: 7, ..put("t/a", "x") }.op()),
        ("absent", PutRequest { ignore_value: true, ..put("t/none", "") }.op()),
        ("absent for its lease", PutRequest { ignore_lease: true, ..put("t/none", "x") }.op()),
        ("no such lease", PutRequest { lease: 7, ..put("t/q", "x") }.op()),
        ("absent, no lease", PutRequest { ignore_value: true, lease: 7, ..put("t/n", "") }.op()),
        ("negative", RangeRequest { revision: -7, ..get("t/a") }.op()),
        ("future", RangeRequest { revision: pair.revision + 1000, ..get("t/a") }.op()),
        ("nested compare", when(vec![exists("")], vec![], vec![]).op()),
    ];
    for (_, first) in &bad {
        for transaction in around(first) {
            pair.ask(transaction).await;
        }
        // Which of two is it that is told?
        for (_, second) in &bad {
            pair.ask(always(vec![first.clone(), second.clone()])).await;
            pair.ask(always(vec![always(vec![first.clone()]).op(), second.clone()])).await;
            pair.ask(when(vec![], vec![first.clone()], vec![second.clone()])).await;
        }
        pair.dump().await;
    }
    for compare in [exists("")] {
        pair.ask(when(vec![compare], vec![get("").op()], vec![])).await;
    }
}

/// Transactions with the operation in every place.
fn around(bad: &RequestOp) -> Vec<TxnRequest> {
    let (bad, good) = (|| bad.clone(), |key: &str| put(key, "changed").op());
    let no = || vec![exists("t/none")];
    vec![
        always(vec![bad()]),
        always(vec![good("t/g"), bad()]),
        always(vec![bad(), good("t/h")]),
        when(no(), vec![bad()], vec![good("t/i")]),
        when(no(), vec![good("t/j")], vec![bad()]),
        always(vec![good("t/k"), always(vec![bad()]).op()]),
        always(vec![when(no(), vec![bad()], vec![good("t/l")]).op()]),
        always(vec![when(no(), vec![good("t/m")], vec![bad(), good("t/n")]).op()]),
        always(vec![bad(), get("t/a").op()]),
    ]
}

/// Ranges of a transaction in the past, in the future, and around the compacted revision.
async fn revisions(pair: &mut Pair) {
    pair.ask(put("t/a", "now")).await;
    let now = pair.revision;
    pair.ask(compact(now - 3)).await;
    for revision in [now - 5, now - 4, now - 3, now - 2, now, now + 1, now + 2, 0, -1, i64::MIN] {
        let at = RangeRequest { revision, ..range("t/", "t0") };
        pair.ask(at.clone()).await;
        pair.ask(always(vec![at.clone().op()])).await;
        pair.ask(always(vec![at.clone().op(), get("t/a").op()])).await;
        pair.ask(always(vec![put_prev("t/r", "1"), at.clone().op()])).await;
        pair.ask(always(vec![at.clone().op(), always(vec![at.clone().op()]).op()])).await;
        pair.ask(when(vec![exists("t/none")], vec![at.op()], vec![])).await;
    }
    pair.dump().await;
}

/// At most 128 of each list, and the nested ones have what is left.
async fn sizes(pair: &mut Pair) {
    let puts = |count: usize| -> Vec<RequestOp> {
        (0..count).map(|number| put(format!("t/many/{number:03}"), "").op()).collect()
    };
    let gets = |count: usize| vec![get("t/a").op(); count];
    let compares = |count: usize| vec![exists("t/a"); count];
    for count in [127, 128, 129, 300] {
        pair.ask(always(gets(count))).await;
        pair.ask(always(puts(count))).await;
        pair.ask(when(vec![], vec![], gets(count))).await;
        pair.ask(when(compares(count), vec![], vec![])).await;
        pair.ask(when(compares(count), gets(128), gets(count))).await;
        pair.ask(when(compares(128), gets(128), gets(128))).await;
        let mut nested = gets(1);
        nested.push(always(gets(count - 2)).op());
        pair.ask(always(nested)).await;
        pair.ask(when(compares(2), vec![always(gets(count - 2)).op()], vec![])).await;
        pair.ask(always(vec![when(compares(count - 1), vec![], vec![]).op()])).await;
        let both = vec![always(gets(count / 2)).op(), always(gets(count / 2)).op()];
        pair.ask(always(both)).await;
    }
    // Too many is told before what is wrong with one of them.
    pair.ask(always(vec![get("").op(); 129])).await;
    pair.ask(when(vec![exists(""); 129], vec![], vec![])).await;
    pair.ask(when(vec![exists("")], vec![get("").op(); 129], vec![])).await;
    for depth in [5, 20, 31, 32] {
        pair.ask(nested(depth, put("t/deep", "x").op())).await;
    }
    pair.dump().await;

    pair.scene("deep txn");
    for depth in [33, 49] {
        pair.ask(nested(depth, get("t/deep").op())).await;
    }
}

/// A transaction in a transaction, and so on, so many of them, around an operation.
fn nested(depth: usize, operation: RequestOp) -> TxnRequest {
    let innermost = always(vec![operation]);
    (1..depth).fold(innermost, |nested, _| always(vec![nested.op()]))
}
