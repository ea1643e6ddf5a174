//! What supervisors and dashboards look at: health with and without a leader, and the metrics.

use std::collections::BTreeMap;
use std::io::{Read, Write};

use crate::kit::{Cluster, ports, until, web};

/// Waits until a page has this status, and gives its text.
async fn page(port: u16, path: &str, expected: u16) -> String {
    until(&format!("{path} is {expected}"), async || {
        let (status, text) = web::get(port, path).ok()?;
        (status == expected).then_some(text)
    })
    .await
}

/// ```text
/// n1  ─ healthy ─┬─ alive, not ready ──┬─ healthy ─
/// n2  ───────────┤ kill -9      start ─┘
/// n3  ───────────┘ kill -9
/// ```
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_node_without_a_leader_is_alive_and_not_ready() {
    let mut trio = Cluster::start().await;
    let port = trio.client_ports()[0];
    let well = r#"{"health":"true","reason":""}"#;
    assert_eq!(page(port, "/health", 200).await, well);
    assert_eq!(page(port, "/readyz", 200).await, "ok\n");
    assert_eq!(
        page(port, "/readyz?verbose", 200).await,
        "[+]data_corruption ok\n[+]serializable_read ok\n[+]linearizable_read ok\nok\n"
    );
    assert_eq!(page(port, "/livez?verbose", 200).await, "[+]serializable_read ok\nok\n");

    trio.nodes[1].kill();
    trio.nodes[2].kill();
    // A read that began before may have failed for it first.
    until("the node knows that nobody leads", async || {
        let expected = "{\"health\":\"false\",\"reason\":\"RAFT NO LEADER\"}\n";
        (page(port, "/health", 503).await == expected).then_some(())
    })
    .await;
    assert_eq!(page(port, "/health?serializable=true", 200).await, well);
    assert_eq!(page(port, "/livez", 200).await, "ok\n");
    let told = page(port, "/readyz", 503).await;
    assert!(told.starts_with("[+]data_corruption ok\n[+]serializable_read ok\n"), "{told}");
    assert!(told.contains("[-]linearizable_read failed: "), "{told}");
    assert_eq!(page(port, "/readyz/serializable_read", 200).await, "ok\n");
    assert_eq!(page(port, "/readyz?exclude=linearizable_read", 200).await, "ok\n");
    let (status, told) = web::post(port, "/v3/kv/range", r#"{"key":"YQ=="}"#).expect("an answer");
    assert_eq!(status, 503, "{told}");

    trio.nodes[1].start();
    assert_eq!(page(port, "/health", 200).await, well);
    page(port, "/readyz/linearizable_read", 200).await;
}

/// What the dashboards and the alerts that come with etcd ask for, and labels that they choose by.
const ASKED_FOR: &[&str] = &[
    "etcd_server_has_leader",
    "etcd_server_is_leader",
    "etcd_server_leader_changes_seen_total",
    "etcd_server_proposals_committed_total",
    "etcd_server_proposals_applied_total",
    "etcd_server_proposals_pending",
    "etcd_server_proposals_failed_total",
    "etcd_server_quota_backend_bytes",
    "etcd_server_version{server_version=",
    "etcd_cluster_version{cluster_version=",
    "etcd_debugging_mvcc_db_total_size_in_bytes",
    "etcd_mvcc_db_total_size_in_bytes",
    "etcd_mvcc_db_total_size_in_use_in_bytes",
    "etcd_disk_wal_fsync_duration_seconds_bucket{le=\"0.001\"}",
    "etcd_disk_wal_fsync_duration_seconds_bucket{le=\"+Inf\"}",
    "etcd_disk_wal_fsync_duration_seconds_sum",
    "etcd_disk_wal_fsync_duration_seconds_count",
    "etcd_disk_backend_commit_duration_seconds_bucket{le=\"0.001\"}",
    "etcd_disk_backend_commit_duration_seconds_bucket{le=\"+Inf\"}",
    "etcd_network_client_grpc_received_bytes_total",
    "etcd_network_client_grpc_sent_bytes_total",
    "etcd_network_peer_received_bytes_total{From=",
    "etcd_network_peer_sent_bytes_total{To=",
    "etcd_network_peer_sent_failures_total{To=",
    "etcd_network_active_peers{Local=",
    "grpc_server_started_total{grpc_method=\"Range\",grpc_service=\"etcdserverpb.KV\",grpc_type=\"unary\"}",
    "grpc_server_started_total{grpc_method=\"Watch\",grpc_service=\"etcdserverpb.Watch\",grpc_type=\"bidi_stream\"}",
    "grpc_server_handled_total{grpc_code=\"Unavailable\",grpc_method=\"Watch\",grpc_service=\"etcdserverpb.Watch\",grpc_type=\"bidi_stream\"}",
    "grpc_server_msg_sent_total{",
    "grpc_server_msg_received_total{",
    "process_resident_memory_bytes",
    "process_cpu_seconds_total",
    "process_open_fds",
    "process_max_fds",
    "process_start_time_seconds",
];

/// The values of a page by their names with labels. What is no such page panics.
fn parse(page: &str) -> BTreeMap<String, f64> {
    let (mut values, mut told) = (BTreeMap::new(), Vec::new());
    for line in page.lines() {
        if let Some(comment) = line.strip_prefix("# ") {
            let mut words = comment.split(' ');
            let (kind, name) = (words.next().expect("a word"), words.next().expect("a name"));
            assert!(["HELP", "TYPE"].contains(&kind), "{line}");
            if kind == "TYPE" {
                assert!(!told.contains(&name), "{name} comes twice");
                told.push(name);
            }
            continue;
        }
        let (name, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line}"));
        let family = name.split('{').next().expect("a name");
        let is_told = ["", "_bucket", "_sum", "_count"]
            .iter()
            .any(|end| family.strip_suffix(end).is_some_and(|family| told.last() == Some(&family)));
        assert!(is_told, "{name} is of no type");
        let value = value.parse().unwrap_or_else(|_| panic!("{line}"));
        assert!(values.insert(name.to_owned(), value).is_none(), "{name} comes twice");
    }
    values
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_dashboard_made_for_etcd_finds_what_it_asks_for() {
    const PUTS: u32 = 7;
    let trio = Cluster::start().await;
    let metrics = async |at: usize| parse(&page(trio.client_ports()[at], "/metrics", 200).await);
    let before = metrics(0).await;
    let leader = trio.leader().await;
    for number in 0..PUTS {
        trio.client(0).put_surely(&format!("key{number}"), "value").await;
    }
    for at in 0..3 {
        let values = metrics(at).await;
        for name in ASKED_FOR {
            let is_there = values.keys().any(|found| found.starts_with(name));
            assert!(is_there, "{name} is missing");
        }
        assert_eq!(values["etcd_server_has_leader"], 1.0);
        assert_eq!(values["etcd_server_is_leader"], f64::from(u8::from(at == leader)));
        assert!(values["etcd_server_leader_changes_seen_total"] >= 1.0);
        assert!(values["etcd_server_proposals_committed_total"] >= f64::from(PUTS));
        let syncs = "etcd_disk_wal_fsync_duration_seconds";
        assert!(values[&format!("{syncs}_count")] > 0.0 && values[&format!("{syncs}_sum")] > 0.0);
        let all = values[&format!("{syncs}_bucket{{le=\"+Inf\"}}")];
        assert_eq!(all, values[&format!("{syncs}_count")]);
        let peers = |name: &str| {
            let sums = values.iter().filter(|(found, _)| found.starts_with(name));
            sums.map(|(_, value)| *value).collect::<Vec<_>>()
        };
        assert_eq!(peers("etcd_network_active_peers{"), [1.0, 1.0]);
        for name in ["etcd_network_peer_sent_bytes_total", "etcd_network_peer_received_bytes_total"]
        {
            let bytes = peers(name);
            assert!(bytes.len() == 2 && bytes.iter().sum::<f64>() > 0.0, "{name}: {bytes:?}");
        }
        // Everybody applies what is written anywhere, in time.
        until("the puts are counted", async || {
            let counted = metrics(at).await["etcd_mvcc_put_total"];
            (counted == f64::from(PUTS)).then_some(())
        })
        .await;
    }
    let after = metrics(0).await;
    let put = "grpc_method=\"Put\",grpc_service=\"etcdserverpb.KV\",grpc_type=\"unary\"}";
    let grew = |name: String| after[&name] - before[&name];
    assert_eq!(grew(format!("grpc_server_handled_total{{grpc_code=\"OK\",{put}")), 7.0);
    for name in ["started", "msg_received", "msg_sent"] {
        assert_eq!(grew(format!("grpc_server_{name}_total{{{put}")), 7.0, "{name}");
    }
    // Field, length and text of each.
    let bytes = grew("etcd_network_client_grpc_received_bytes_total".to_owned());
    assert!(bytes >= f64::from(PUTS * 13), "{bytes}");
    assert_eq!(after["etcd_server_proposals_pending"], 0.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn metrics_can_have_a_port_of_their_own_and_more_detail() {
    let own = ports(1)[0];
    let mut trio = Cluster::plan("trio");
    trio.nodes[0].serve.more =
        vec![format!("--listen-metrics-urls=http://127.0.0.1:{own}"), "--metrics=extensive".into()];
    trio.start_all();
    trio.leader().await;
    trio.client(0).put_surely("a", "b").await;
    let values = parse(&page(own, "/metrics", 200).await);
    let latency = "grpc_server_handling_seconds_count{grpc_method=\"Put\",\
                   grpc_service=\"etcdserverpb.KV\",grpc_type=\"unary\"}";
    assert!(values[latency] >= 1.0);
    assert_eq!(page(own, "/health", 200).await, r#"{"health":"true","reason":""}"#);
    assert_eq!(web::post(own, "/v3/kv/range", "{}").expect("an answer").0, 404);
    let others = parse(&page(trio.client_ports()[1], "/metrics", 200).await);
    assert!(!others.contains_key(latency), "nobody has asked for it");
}

/// A watch by JSON ends when its client goes; the count of canceled calls says so.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_client_of_the_gateway_that_hangs_up_ends_its_stream() {
    let trio = Cluster::start().await;
    let port = trio.client_ports()[0];
    let canceled = async || {
        let name = "grpc_server_handled_total{grpc_code=\"Canceled\",grpc_method=\"Watch\",\
                    grpc_service=\"etcdserverpb.Watch\",grpc_type=\"bidi_stream\"}";
        parse(&page(port, "/metrics", 200).await)[name]
    };
    let mut connection = web::connect(port).expect("a connection");
    let watch = web::request("/v3/watch", r#"{"create_request":{"key":"YQ=="}}"#, "keep-alive");
    connection.write_all(watch.as_bytes()).expect("it is sent");
    let mut answer = String::new();
    while !answer.contains("\"created\":true") {
        let mut some = [0; 512];
        let read = connection.read(&mut some).expect("the answer goes on");
        assert!(read > 0, "it has ended: {answer}");
        answer.push_str(&String::from_utf8_lossy(&some[..read]));
    }
    assert_eq!(canceled().await, 0.0);
    drop(connection);
    until("the stream has ended", async || (canceled().await == 1.0).then_some(())).await;

    // Several requests on one connection, one after the other.
    let mut connection = web::connect(port).expect("a connection");
    for _ in 0..3 {
        let range = web::request("/v3/kv/range", r#"{"key":"YQ=="}"#, "keep-alive");
        connection.write_all(range.as_bytes()).expect("it is sent");
        let mut answer = String::new();
        while !answer.contains("\"raft_term\"") {
            let mut some = [0; 512];
            let read = connection.read(&mut some).expect("there is an answer");
            assert!(read > 0, "it has ended: {answer}");
            answer.push_str(&String::from_utf8_lossy(&some[..read]));
        }
        assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    }
}
