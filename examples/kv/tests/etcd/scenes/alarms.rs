//! Alarms: how they are raised, listed and put down, and what they forbid meanwhile.

use kontiki_kv::proto::etcdserverpb::alarm_request::AlarmAction::{
    self, Activate, Deactivate, Get,
};
use kontiki_kv::proto::etcdserverpb::{
    AlarmRequest, DowngradeRequest, HashKvRequest, RangeRequest, StatusRequest,
};

use crate::call::{Call, encode};
use crate::pair::Pair;
use crate::requests::{Operation, always, compact, delete, get, put, range, when};

const NOSPACE: i32 = 1;
const CORRUPT: i32 = 2;

pub async fn play(pair: &mut Pair) {
    pair.scene("alarms");
    pair.ask(put("alarm/a", "1")).await;
    pair.ask(put("alarm/b", "2")).await;
    alarm(pair, Deactivate, NOSPACE, 7).await;
    for kind in [NOSPACE, CORRUPT] {
        alarm(pair, Activate, kind, 7).await;
        alarm(pair, Activate, kind, 7).await;
        for listed in [0, NOSPACE, CORRUPT, 9] {
            alarm(pair, Get, listed, 0).await;
        }
        pair.ask(StatusRequest {}).await;
        around(pair).await;
        // One of two is put down: the other goes on. (etcd lists two in no order.)
        alarm(pair, Activate, kind, 3).await;
        alarm(pair, Deactivate, kind, 7).await;
        alarm(pair, Deactivate, kind, 7).await;
        alarm(pair, Deactivate, kind, 99).await;
        alarm(pair, Get, kind, 0).await;
        around(pair).await;
        alarm(pair, Deactivate, kind, 3).await;
        pair.ask(put("alarm/a", "after")).await;
    }
    pair.ask(delete("alarm/", "alarm0")).await;
    pair.dump().await;

    pair.scene("maintenance");
    pair.ask(Call::Raw("/etcdserverpb.Maintenance/Defragment", bytes::Bytes::new())).await;
    pair.dump().await;
    for revision in [i64::MAX, pair.revision + 1] {
        let request = encode(&HashKvRequest { revision });
        pair.ask(Call::Raw("/etcdserverpb.Maintenance/HashKV", request)).await;
    }

    pair.scene("downgrade");
    for (action, version) in [
        (0, ""),
        (0, "x"),
        (0, "3"),
        (0, "3.4.x"),
        (0, "3.4.0.0"),
        (0, "3.9"),
        (0, "2.3.0"),
        (1, "3.9"),
        (1, "v3.4"),
        (2, ""),
        (2, "3.4"),
        (3, "3.4"),
    ] {
        let request = encode(&DowngradeRequest { action, version: version.to_owned() });
        pair.ask(Call::Raw("/etcdserverpb.Maintenance/Downgrade", request)).await;
    }
}

async fn alarm(pair: &mut Pair, action: AlarmAction, alarm: i32, member_id: u64) {
    pair.ask(AlarmRequest { action: action.into(), member_id, alarm }).await;
}

/// Everything that an alarm may forbid.
async fn around(pair: &mut Pair) {
    pair.ask(put("alarm/a", "3")).await;
    pair.ask(put("", "no key")).await;
    pair.ask(always(vec![put("alarm/a", "4").op()])).await;
    pair.ask(when(vec![], vec![get("alarm/a").op()], vec![put("alarm/a", "5").op()])).await;
    pair.ask(always(vec![get("alarm/a").op()])).await;
    pair.ask(always(vec![delete("alarm/none", "").op()])).await;
    pair.ask(get("alarm/a")).await;
    pair.ask(RangeRequest { serializable: true, ..range("alarm/", "alarm0") }).await;
    pair.ask(delete("alarm/none", "")).await;
    pair.ask(compact(i64::MAX)).await;
}
