//! Leases: which are granted, what is told of them, and what goes with them.

use kontiki_kv::proto::etcdserverpb::PutRequest;

use crate::call::Metadata::HasLeader;
use crate::lease_call::LeaseCall::{Grant, KeepAlive, Leases, Revoke, TimeToLive};
use crate::pair::Pair;
use crate::requests::{Operation, always, delete, put, range};

const TTL_MAX: i64 = 9_000_000_000;
/// Longer than any test runs.
const LONG: i64 = 100_000;

fn with(key: &str, lease: i64) -> PutRequest {
    PutRequest { lease, ..put(key, "v") }
}

async fn tell(pair: &mut Pair, id: i64) {
    pair.ask(TimeToLive { id, keys: true }).await;
    pair.ask(TimeToLive { id, keys: false }).await;
}

pub async fn play(pair: &mut Pair) {
    pair.scene("no lease");
    pair.ask(Leases).await;
    for id in [0, 1, -1, i64::MAX] {
        tell(pair, id).await;
        pair.ask(Revoke(id)).await;
        pair.ask(KeepAlive(vec![id])).await;
        pair.ask(with("l/none", id)).await;
    }

    pair.scene("grants");
    for ttl in [0, -1, i64::MIN, 1, 2, 3, TTL_MAX, TTL_MAX + 1, i64::MAX] {
        pair.ask(Grant { id: 0, ttl }).await;
    }
    for (id, ttl) in [
        (7, LONG),
        (7, LONG),
        (7, TTL_MAX + 1),
        (8, 1),
        (9, TTL_MAX),
        (10, LONG),
        (-5, LONG),
        (i64::MIN, LONG),
        (11, i64::MAX),
    ] {
        pair.ask(Grant { id, ttl }).await;
    }
    pair.ask_with(HasLeader("true"), Grant { id: 12, ttl: LONG }).await;
    for id in [7, 9, -5, 11, 12] {
        tell(pair, id).await;
    }

    pair.scene("keys of a lease");
    for key in ["l/c", "l/a", "l/b", "l/d"] {
        pair.ask(with(key, 7)).await;
    }
    tell(pair, 7).await;
    pair.ask(put("l/c", "without")).await;
    pair.ask(PutRequest { ignore_lease: true, ..put("l/b", "still") }).await;
    pair.ask(PutRequest { ignore_value: true, ..put("l/d", "") }).await;
    pair.ask(with("l/a", 9)).await;
    tell(pair, 7).await;
    tell(pair, 9).await;
    pair.ask(always(vec![with("l/t", 7).op(), with("l/u", 404).op()])).await;
    pair.ask(always(vec![with("l/t", 7).op(), with("l/u", 9).op()])).await;
    pair.ask(always(vec![
        delete("l/u", "").op(),
        with("l/e", 10).op(),
        PutRequest { prev_kv: true, ..with("l/b", 10) }.op(),
    ]))
    .await;
    for id in [7, 9, 10] {
        tell(pair, id).await;
    }
    pair.ask(range("l/", "l0")).await;

    pair.scene("keep-alives");
    pair.ask(KeepAlive(vec![])).await;
    pair.ask(KeepAlive(vec![7, 404, 9, 7, 0, -5])).await;
    tell(pair, 7).await;

    pair.scene("revocations");
    pair.ask(delete("l/e", "")).await;
    for id in [7, 7, 10, 12] {
        pair.ask(Revoke(id)).await;
        pair.ask(range("l/", "l0")).await;
    }
    tell(pair, 7).await;
    pair.ask(KeepAlive(vec![7, 9])).await;
    pair.ask(Grant { id: 7, ttl: LONG }).await;
    tell(pair, 7).await;
    pair.ask(with("l/again", 7)).await;
    pair.dump().await;
}

/// What was granted is there after a crash, with its keys.
pub async fn after(pair: &mut Pair) {
    for id in [7, 9, -5, 404] {
        tell(pair, id).await;
    }
    pair.ask(Revoke(9)).await;
    pair.ask(range("l/", "l0")).await;
}
