//! The services around: who is there, how a node is, and calls that nobody knows.

use bytes::Bytes;
use kontiki_kv::proto::etcdserverpb::{AlarmRequest, MemberListRequest, StatusRequest};

use crate::call::{Call, Metadata};
use crate::pair::Pair;
use crate::requests::{always, bytes, compact, delete, get, put};

pub async fn play(pair: &mut Pair) {
    pair.scene("services");
    for linearizable in [false, true] {
        pair.ask(MemberListRequest { linearizable }).await;
    }
    pair.ask(StatusRequest {}).await;
    for (member_id, alarm) in [(0, 0), (0, 1), (0, 2), (7, 1)] {
        pair.ask(AlarmRequest { action: 0, member_id, alarm }).await;
    }

    // There is a leader, so that asking for one changes nothing.
    for value in ["true", "false", "maybe"] {
        let metadata = Metadata::HasLeader(value);
        pair.ask_with(metadata, get("a")).await;
        pair.ask_with(metadata, put("a", "1")).await;
        pair.ask_with(metadata, delete("a", "")).await;
        pair.ask_with(metadata, always(vec![])).await;
        pair.ask_with(metadata, compact(-1)).await;
        pair.ask_with(metadata, StatusRequest {}).await;
        pair.ask_with(metadata, MemberListRequest::default()).await;
    }

    pair.scene("health");
    for service in [&b""[..], &b"\x0a\x00"[..], &b"\x0a\x07nothing"[..]] {
        pair.ask(Call::Raw("/grpc.health.v1.Health/Check", bytes(service))).await;
    }

    pair.scene("unknown");
    for path in [
        "/etcdserverpb.KV/Nothing",
        "/etcdserverpb.KV/range",
        "/etcdserverpb.KV/",
        "/etcdserverpb.KV",
        "/etcdserverpb.Cluster/Nothing",
        "/etcdserverpb.Maintenance/Nothing",
        "/etcdserverpb.Nothing/Range",
        "/nothing.Nothing/Nothing",
        "/grpc.health.v1.Health/Nothing",
        "/KV/Range",
        "/a/b/c",
        "/nothing",
        "/",
    ] {
        pair.ask(Call::Raw(path, Bytes::new())).await;
        pair.ask(Call::Raw(path, bytes("something"))).await;
    }

    // The method that came later is not there either.
    pair.ask(Call::Raw("/etcdserverpb.KV/RangeStream", Bytes::new())).await;

    pair.scene("unreadable");
    for path in ["/etcdserverpb.KV/Range", "/etcdserverpb.KV/Put", "/etcdserverpb.KV/Txn"] {
        // A length beyond the end, a tag of nothing, a field of another type, an endless number.
        for message in [&[10, 9, b'a'][..], &[7], &[8, 1], &[0xff; 12]] {
            pair.ask(Call::Raw(path, bytes(message))).await;
        }
    }
    pair.scene("field of the future");
    // It has number 1000, and is passed over: what is missing is the key.
    pair.ask(Call::Raw("/etcdserverpb.KV/Range", bytes([0xc0, 0x3e, 1]))).await;
}
