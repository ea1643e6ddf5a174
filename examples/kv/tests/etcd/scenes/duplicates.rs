//! A transaction must not write a key twice: every pair of writes, and many triples, through all
//! the ways in which one can lie inside the other.

use kontiki_kv::proto::etcdserverpb::RequestOp;

use crate::pair::Pair;
use crate::requests::{Operation, always, delete, get, put, when};

/// Every so many of the triples is asked.
const STEP: usize = 7;

fn operations() -> Vec<RequestOp> {
    let nested = |success: &[RequestOp], failure: &[RequestOp]| {
        when(vec![], success.to_vec(), failure.to_vec()).op()
    };
    let (k, l) = (|| put("2/k", "x").op(), || put("2/l", "x").op());
    let (no_k, no_l) = (|| delete("2/k", "").op(), || delete("2/l", "").op());
    vec![
        k(),
        l(),
        no_k(),
        delete("2/a", "2/l").op(),
        delete("2/k", "2/z").op(),
        delete("2/l", "2/k").op(),
        delete("2/a", "\0").op(),
        delete("\0", "\0").op(),
        get("2/k").op(),
        nested(&[k()], &[]),
        nested(&[], &[k()]),
        nested(&[k()], &[k()]),
        nested(&[no_k()], &[]),
        nested(&[], &[no_k()]),
        nested(&[k()], &[no_k()]),
        nested(&[l()], &[k()]),
        nested(&[no_l(), k()], &[delete("2/a", "2/z").op()]),
        nested(&[k(), k()], &[]),
        nested(&[nested(&[k()], &[l()])], &[k()]),
        nested(&[nested(&[no_k()], &[])], &[]),
    ]
}

pub async fn play(pair: &mut Pair) {
    pair.scene("duplicates");
    let all = operations();
    for first in &all {
        pair.ask(always(vec![first.clone()])).await;
        for second in &all {
            let operations = vec![first.clone(), second.clone()];
            pair.ask(always(operations.clone())).await;
            // What the way not taken holds counts as well.
            pair.ask(when(vec![], vec![], operations)).await;
        }
        pair.ask(when(vec![], vec![first.clone()], vec![put("2/k", "y").op()])).await;
    }
    pair.dump().await;
    let count = all.len();
    for number in (0..count * count * count).step_by(STEP) {
        let slots = [number / (count * count), number / count % count, number % count];
        pair.ask(always(slots.map(|slot| all[slot].clone()).to_vec())).await;
    }
    pair.dump().await;
    // Many puts, a duplicate among the last.
    let mut many: Vec<_> = (0..100).map(|number| put(format!("2/{number}"), "").op()).collect();
    pair.ask(always(many.clone())).await;
    many.push(put("2/50", "again").op());
    pair.ask(always(many)).await;
}
