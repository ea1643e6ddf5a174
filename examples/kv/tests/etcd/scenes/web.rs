//! The same services by HTTP and JSON, and the pages beside them.

use crate::pair::Pair;
use crate::web::Web;

pub async fn play(pair: &mut Pair) {
    keys(pair).await;
    odd(pair).await;
    around(pair).await;
    streams(pair).await;
    pages(pair).await;
    alarms(pair).await;
}

async fn keys(pair: &mut Pair) {
    pair.scene("web keys");
    for (path, body) in [
        ("kv/put", r#"{"key":"d2Vi","value":"MQ=="}"#),
        ("kv/put", r#"{"key":"d2Vi","value":"Mg==","prev_kv":true}"#),
        ("kv/put", r#"{"key":"d2ViAQ==","value":""}"#),
        ("kv/range", r#"{"key":"d2Vi"}"#),
        ("kv/range", r#"{"key":"d2Vi","range_end":"d2Vj"}"#),
        ("kv/range", r#"{"key":"d2Vi","rangeEnd":"d2Vj","limit":"1"}"#),
        ("kv/range", r#"{"key":"d2Vi","range_end":"d2Vj","sort_order":"DESCEND","limit":1}"#),
        ("kv/range", r#"{"key":"d2Vi","range_end":"d2Vj","sortOrder":2,"sortTarget":"MOD"}"#),
        ("kv/range", r#"{"key":"d2Vi","range_end":"d2Vj","count_only":true}"#),
        ("kv/range", r#"{"key":"d2Vi","range_end":"d2Vj","keys_only":true}"#),
        ("kv/range", r#"{"key":"d2Vi","serializable":true,"nothing":{"a":[1]},"limit":null}"#),
        ("kv/range", r#"{"key":"bm90aGluZw=="}"#),
        ("kv/range", r#"{"key":"d2Vi"} and so on"#),
        ("kv/range", r#"{"key":"d2Vi"}{"key":"bm90aGluZw=="}"#),
        (
            "kv/txn",
            r#"{"compare":[{"target":"VALUE","key":"d2Vi","value":"Mg=="}],
                "success":[{"requestRange":{"key":"d2Vi"}},
                           {"request_put":{"key":"d2ViAg==","value":"Mw=="}}],
                "failure":[{"request_delete_range":{"key":"d2Vi"}}]}"#,
        ),
        (
            "kv/txn",
            r#"{"compare":[{"target":"VERSION","result":"GREATER","key":"d2Vi","version":"7"},
                           {"target":1,"result":3,"key":"d2Vi","createRevision":0}],
                "failure":[{"requestDeleteRange":{"key":"d2ViAg==","prev_kv":true}},
                           {"requestTxn":{"success":[{"requestRange":{"key":"d2Vi"}}]}}]}"#,
        ),
        ("kv/deleterange", r#"{"key":"d2ViAQ==","prev_kv":true}"#),
        ("kv/deleterange", r#"{"key":"d2ViAQ=="}"#),
        ("kv/compaction", r#"{"revision":"1000000000"}"#),
        ("kv/compaction", r#"{"revision":"-1"}"#),
    ] {
        pair.ask_web(Web::post(&format!("/v3/{path}"), body)).await;
    }
    pair.ask_web(Web::post("/v3beta/kv/range", r#"{"key":"d2Vi"}"#)).await;
    pair.dump().await;
}

/// What is refused, and in which way.
async fn odd(pair: &mut Pair) {
    pair.scene("web refused");
    for (path, body) in [
        ("kv/range", ""),
        ("kv/range", "{}"),
        ("kv/range", "null"),
        ("kv/range", r#"{"key":"d2Vi","revision":1000000000}"#),
        ("kv/put", r#"{"value":"MQ=="}"#),
        ("kv/put", r#"{"key":"d2Vi","ignore_value":true,"value":"MQ=="}"#),
        ("kv/put", r#"{"key":"d2Vi","lease":99}"#),
        ("kv/txn", r#"{"success":[{"requestPut":{"key":"YQ=="}},{"requestPut":{"key":"YQ=="}}]}"#),
        ("cluster/member/remove", r#"{"ID":"1"}"#),
    ] {
        pair.ask_web(Web::post(&format!("/v3/{path}"), body)).await;
    }
    pair.scene("web precondition");
    let to_nobody = Web::post("/v3/maintenance/transfer-leadership", r#"{"targetID":"1"}"#);
    pair.ask_web(to_nobody).await;

    pair.scene("web unreadable");
    for body in [
        r#"{"key":"#,
        r#"{"key":"d2Vi","limit":"x"}"#,
        r#"{"key":"d2Vi","limit":1.5}"#,
        r#"{"key":"d2Vi","limit":true}"#,
        r#"{"key":"d2Vi","limit":"9223372036854775808"}"#,
        r#"{"key":"d2Vi","serializable":"x"}"#,
        r#"{"key":"d2Vi","sort_order":"WRONG"}"#,
        r#"{"key":"!"}"#,
        r#"{"key":7}"#,
        r#"{"key":{}}"#,
        "[]",
        "7",
        "key",
    ] {
        pair.ask_web(Web::post("/v3/kv/range", body).code_only()).await;
    }
    for path in ["/v3/watch", "/v3/lease/keepalive"] {
        pair.ask_web(Web::post(path, "{broken").code_only()).await;
    }

    pair.scene("web paths");
    for path in ["/v3/kv/nothing", "/v3/kv/range/", "/v3/kv", "/v3/", "/v3alpha/kv/range"] {
        pair.ask_web(Web::post(path, "{}")).await;
    }
    for path in ["/v3", "/v3beta", "/", "/nothing", "/v2/keys"] {
        pair.ask_web(Web::new("GET", path)).await;
    }
    for method in ["GET", "PUT", "DELETE", "HEAD"] {
        pair.ask_web(Web::new(method, "/v3/kv/range")).await;
    }
}

/// What is said beside a request, and the services around.
async fn around(pair: &mut Pair) {
    pair.scene("web metadata");
    const HEADERS: &[&[(&str, &str)]] = &[
        &[("grpc-metadata-hasleader", "true")],
        &[("grpc-timeout", "1n")],
        &[("grpc-timeout", "5S")],
        &[("grpc-timeout", "soon")],
        &[("content-type", "application/json")],
        &[("content-type", "application/x-www-form-urlencoded")],
        &[("content-type", "application/grpc")],
    ];
    for headers in HEADERS {
        pair.ask_web(Web::post("/v3/kv/range", r#"{"key":"d2Vi"}"#).with(headers)).await;
    }

    pair.scene("web services");
    for (path, body) in [
        ("cluster/member/list", r#"{}"#),
        ("cluster/member/list", r#"{"linearizable":true}"#),
        ("maintenance/status", ""),
        ("maintenance/hash", ""),
        ("maintenance/alarm", "{}"),
    ] {
        pair.ask_web(Web::post(&format!("/v3/{path}"), body)).await;
    }
}

/// Answers that come one after the other, and requests that do.
async fn streams(pair: &mut Pair) {
    pair.scene("web leases");
    let lease = |path: &str, body| Web::post(&format!("/v3/lease/{path}"), body);
    for web in [
        lease("grant", r#"{"TTL":"1000","ID":4711}"#),
        lease("grant", r#"{"TTL":"10000000000"}"#),
        Web::post("/v3/kv/put", r#"{"key":"d2ViL2xlYXNl","value":"MQ==","lease":"4711"}"#),
        lease("timetolive", r#"{"ID":"4711","keys":true}"#),
        lease("timetolive", r#"{"ID":4712}"#),
        Web::post("/v3/kv/lease/timetolive", r#"{"ID":4711}"#),
        lease("leases", "{}"),
        Web::post("/v3/kv/lease/leases", ""),
        lease("keepalive", r#"{"ID":4711}"#),
        lease("keepalive", r#"{"ID":"4711"} {"ID":4712}{"ID":4711}"#),
        lease("keepalive", ""),
        lease("keepalive", r#"{"ID":"x"}"#).code_only(),
        lease("keepalive", r#"{"ID":4711} and so on"#),
        lease("revoke", r#"{"ID":4711}"#),
        Web::post("/v3/kv/lease/revoke", r#"{"ID":4711}"#),
    ] {
        pair.ask_web(web).await;
    }
    pair.scene("web precondition");
    pair.ask_web(lease("grant", r#"{"TTL":"1000","ID":4713}"#)).await;
    pair.ask_web(lease("grant", r#"{"TTL":"1000","ID":4713}"#)).await;
    pair.ask_web(lease("revoke", r#"{"ID":4713}"#)).await;

    pair.scene("web watches");
    for (body, lines) in [
        (r#"{"create_request":{"key":"d2Vi","range_end":"d2Vj","start_revision":1}}"#, 2),
        (r#"{"createRequest":{"key":"d2Vi","startRevision":"1","prevKv":true}}"#, 2),
        (
            r#"{"create_request":{"key":"d2Vi","start_revision":1,"filters":["NOPUT"],
              "watch_id":"7","rangeEnd":"d2Vj"}}"#,
            2,
        ),
        (r#"{"create_request":{"key":"d2Vi"}}"#, 1),
        (r#"{"create_request":{"key":"d2Vi"}} {"cancel_request":{"watch_id":"0"}}"#, 2),
        (r#"{"create_request":{"key":"d2Vi"}}{"create_request":{"key":"eA=="}}"#, 2),
        (
            r#"{"create_request":{"key":"d2Vi"}}
            {"create_request":{"key":"eA==","watch_id":5}}
            {"create_request":{"key":"eQ==","watch_id":5}}"#,
            3,
        ),
    ] {
        pair.ask_web(Web::post("/v3/watch", body).lines(lines)).await;
        pair.ask_web(Web::post("/v3beta/watch", body).lines(lines)).await;
    }
}

/// While there is an alarm, nothing is written, and the node does not call itself healthy.
async fn alarms(pair: &mut Pair) {
    let alarm = |action: &str| {
        let body = format!(r#"{{"action":"{action}","memberID":"1","alarm":"NOSPACE"}}"#);
        Web::post("/v3/maintenance/alarm", &body)
    };
    let put = Web::post("/v3/kv/put", r#"{"key":"d2Vi","value":"MQ=="}"#);
    pair.scene("web services");
    pair.ask_web(alarm("ACTIVATE")).await;
    pair.ask_web(alarm("GET")).await;
    pair.ask_web(put.clone()).await;
    pair.scene("web pages");
    for query in ["", "?serializable=true", "?exclude=CORRUPT", "?exclude=NOSPACE"] {
        pair.ask_web(Web::new("GET", &format!("/health{query}"))).await;
    }
    pair.scene("web services");
    pair.ask_web(alarm("DEACTIVATE")).await;
    pair.ask_web(put).await;
    pair.scene("web pages");
    pair.ask_web(Web::new("GET", "/health")).await;
}

async fn pages(pair: &mut Pair) {
    pair.scene("web pages");
    for path in ["/health", "/health?serializable=true", "/health?exclude=NOSPACE", "/version"] {
        pair.ask_web(Web::new("GET", path)).await;
    }
    for path in ["/health", "/version"] {
        for method in ["POST", "HEAD", "PUT"] {
            pair.ask_web(Web::new(method, path)).await;
        }
    }
}
