//! Every target of a compare with every result, every kind of value, and every span.

use kontiki_kv::proto::etcdserverpb::compare::TargetUnion;
use kontiki_kv::proto::etcdserverpb::{Compare, TxnRequest};

use crate::pair::Pair;
use crate::requests::{Operation, compare, exists, get, put, when};

/// One key, absent, several, none in the range, everything, backwards, no key.
const SPANS: &[(&str, &str)] = &[
    ("c/a", ""),
    ("c/none", ""),
    ("c/a", "c/d"),
    ("c/x", "c/y"),
    ("c/", "\0"),
    ("c/d", "c/a"),
    ("", ""),
];

pub async fn play(pair: &mut Pair) {
    pair.scene("compare");
    for (key, value) in [("a", "x"), ("b", "x"), ("c", "y"), ("b", "x"), ("e", "")] {
        pair.ask(put(format!("c/{key}"), value)).await;
    }
    let revision = pair.revision - 4;
    let unions = [
        None,
        Some(TargetUnion::Version(0)),
        Some(TargetUnion::Version(1)),
        Some(TargetUnion::CreateRevision(0)),
        Some(TargetUnion::CreateRevision(revision)),
        Some(TargetUnion::ModRevision(revision)),
        Some(TargetUnion::Value("x".into())),
        Some(TargetUnion::Value("".into())),
        Some(TargetUnion::Lease(0)),
        Some(TargetUnion::Lease(-1)),
    ];
    for span in SPANS {
        for target in [0, 1, 2, 3, 4, 5] {
            for result in [0, 1, 2, 3, 4] {
                for union in &unions {
                    let compare = compare(*span, target, result, union.clone());
                    pair.ask(branches(vec![compare])).await;
                }
            }
        }
    }
    several(pair).await;
}

fn branches(compares: Vec<Compare>) -> TxnRequest {
    when(compares, vec![get("c/a").op()], vec![get("c/none").op()])
}

async fn several(pair: &mut Pair) {
    let (yes, no) = (exists("c/a"), exists("c/none"));
    for compares in [
        vec![yes.clone(), yes.clone()],
        vec![yes.clone(), no.clone()],
        vec![no.clone(), yes.clone()],
        vec![no.clone(), no.clone()],
        vec![yes.clone(), exists("")],
        vec![exists(""), no.clone()],
    ] {
        pair.ask(branches(compares)).await;
    }
    // Compares come before all writes: the inner one too sees the key as it was.
    let absent = || compare(("c/new", ""), 0, 0, Some(TargetUnion::Version(0)));
    let inner = |value| {
        when(vec![absent()], vec![get("c/new").op()], vec![put("c/other", value).op()]).op()
    };
    for _ in 0..2 {
        let outer = vec![put("c/new", "1").op(), inner("then"), get("c/new").op()];
        pair.ask(when(vec![absent()], outer, vec![inner("else")])).await;
        pair.dump().await;
    }
    // Nested ones go their own ways.
    for (first, second) in [(&yes, &yes), (&yes, &no), (&no, &yes), (&no, &no)] {
        let nested = |compare: &Compare, name: &str| {
            let (then, other) = (format!("c/{name}/then"), format!("c/{name}/else"));
            when(vec![compare.clone()], vec![put(then, "").op()], vec![put(other, "").op()]).op()
        };
        let way = |name: &str| vec![nested(second, name), get("c/a").op()];
        pair.ask(when(vec![first.clone()], way("success"), way("failure"))).await;
    }
    pair.dump().await;
}
