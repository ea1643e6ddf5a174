//! Precedence and every refusal, as tables.

use super::*;

fn settings(toml: &str) -> Settings {
    Settings::from_toml(toml).unwrap_or_else(|error| panic!("{toml}: {error}"))
}

fn resolve(toml: &str) -> Result<ServeConfig, ConfigError> {
    ServeConfig::resolve(settings(toml))
}

#[test]
fn without_any_setting_there_is_a_cluster_of_one() {
    let config = resolve("").expect("defaults fit");
    assert_eq!(config.name, "default");
    assert_eq!(config.data_dir, PathBuf::from("default.kontiki"));
    assert_eq!(config.listen_client_urls, [HttpUrl::localhost(2379)]);
    assert_eq!(config.advertise_client_urls, [HttpUrl::localhost(2379)]);
    assert_eq!(config.listen_peer_urls, [HttpUrl::localhost(2380)]);
    assert_eq!(config.initial_advertise_peer_urls, [HttpUrl::localhost(2380)]);
    assert_eq!(config.initial_cluster.len(), 1);
    assert_eq!(config.initial_id(), Ok(config.initial_cluster[0].id));
    assert!(config.strict_reconfig_check && config.lease_reads.is_none());
    assert_eq!(config.disk_stall_timeout, Duration::from_secs(3));
    assert_eq!(config.heartbeat_interval, Duration::from_millis(100));
    assert_eq!(config.election_timeout, Duration::from_millis(1000));
    assert_eq!(config.max_request_bytes, 1_572_864);
    assert_eq!(config.max_txn_ops, 128);
    assert_eq!(config.quota_backend_bytes, Some(2 << 30));
}

#[test]
fn what_is_stated_wins_over_what_lies_below() {
    let top = settings("name = 'top'\nheartbeat-interval = 10");
    let below = settings("name = 'below'\nelection-timeout = 700\nlog-format = 'json'");
    let config = ServeConfig::resolve(top.over(below)).expect("fits");
    assert_eq!(config.name, "top");
    assert_eq!(config.data_dir, PathBuf::from("top.kontiki"));
    assert_eq!(config.heartbeat_interval, Duration::from_millis(10));
    assert_eq!(config.election_timeout, Duration::from_millis(700));
    assert_eq!(config.log_format, LogFormat::Json);
    assert_eq!(config.max_txn_ops, 128);
}

#[test]
fn a_configuration_survives_being_written_and_read() {
    let config = resolve(
        "name = 'n2'
         listen-client-urls = ['http://0.0.0.0:2379', 'http://[::1]:2378']
         advertise-client-urls = 'http://n2:2379'
         listen-peer-urls = 'http://0.0.0.0:2380'
         initial-advertise-peer-urls = 'http://n2:2380'
         initial-cluster = 'n1=http://n1:2380,n2=http://n2:2380,n3=http://n3:2380'
         initial-cluster-state = 'existing'
         strict-reconfig-check = false
         lease-reads = true
         lease-margin = 7
         priority = 3
         disk-stall-timeout = 900
         snapshot-bytes = 5
         snapshot-bytes-per-second = 6
         snapshot-catchup-entries = 0
         quota-backend-bytes = 0
         log-level = 'info,raft_grpc=debug'",
    )
    .expect("fits");
    let text = toml::to_string(&config.to_settings()).expect("settings are TOML");
    assert_eq!(resolve(&text), Ok(config));
}

#[test]
fn every_node_computes_the_same_ids() {
    let cluster = "n1=http://a:1,n2=http://b:1,n3=http://c:1";
    let turned = "n3=http://c:1,n1=http://a:1,n2=http://b:1";
    let node = |name: &str, host: &str, cluster: &str| {
        resolve(&format!(
            "name = '{name}'\ninitial-cluster = '{cluster}'\n\
             initial-advertise-peer-urls = 'http://{host}:1'"
        ))
        .expect("fits")
    };
    let [one, two] = [node("n1", "a", cluster), node("n2", "b", turned)];
    assert_eq!(one.initial_cluster, two.initial_cluster);
    assert_eq!(one.initial_cluster_id, two.initial_cluster_id);
    assert_ne!(one.initial_id(), two.initial_id());
}

#[test]
fn every_refusal_says_what_to_do() {
    for (toml, expected) in [
        ("name = ''", "name is empty"),
        ("name = 'a,b'", "the name \"a,b\" contains ','"),
        ("name = '../a'", "the name \"../a\" contains '/'"),
        ("data-dir = ''", "data-dir is empty"),
        ("listen-client-urls = ''", "listen-client-urls is empty"),
        ("listen-peer-urls = []", "listen-peer-urls is empty"),
        ("initial-cluster-token = ''", "initial-cluster-token is empty"),
        ("log-level = ''", "log-level is empty"),
        ("log-level = 'info,=x'", "is not a level (error, warn, info, debug, trace) or a filter"),
        (
            "listen-client-urls = 'http://localhost:1,http://localhost:1'",
            "listen-client-urls has http://localhost:1 twice",
        ),
        (
            "listen-client-urls = 'http://example.com:1'",
            "give an IP address of this machine or localhost",
        ),
        (
            "listen-client-urls = 'http://localhost:7'\nlisten-peer-urls = 'http://127.0.0.1:7'",
            "which is the same port; change one",
        ),
        (
            "listen-client-urls = 'http://0.0.0.0:2379'",
            "say in --advertise-client-urls which one the others shall dial",
        ),
        (
            "listen-peer-urls = 'http://[::]:2380'",
            "say in --initial-advertise-peer-urls which one the others shall dial",
        ),
        ("initial-advertise-peer-urls = 'http://0.0.0.0:2380'", "which nobody can dial"),
        (
            "initial-cluster = 'default=http://localhost:2380,b=http://localhost:2380'",
            "http://localhost:2380 for both default and b",
        ),
        ("heartbeat-interval = 0", "heartbeat-interval is zero"),
        ("election-timeout = 0", "election-timeout is zero"),
        ("election-timeout = 499", "make it at least 500 ms or lower heartbeat-interval"),
        ("election-timeout = 50001", "election-timeout is 50001, and 50000 is the most"),
        ("disk-stall-timeout = 0", "disk-stall-timeout is zero"),
        ("disk-stall-timeout = 199", "less than two heartbeats of 100 ms"),
        ("lease-reads = true\nlease-margin = 998", "take up the whole election-timeout of 1000 ms"),
        ("lease-reads = true\nlease-clock-error = 500000", "so that no lease is left"),
        ("snapshot-bytes = 0", "snapshot-bytes is zero"),
        ("snapshot-bytes-per-second = 0", "snapshot-bytes-per-second is zero"),
        ("max-request-bytes = 0", "max-request-bytes is zero"),
        ("max-txn-ops = 0", "max-txn-ops is zero"),
    ] {
        let error = resolve(toml).expect_err(toml).to_string();
        assert!(error.contains(expected), "{toml}\n  gives   {error}\n  not     {expected}");
    }
}

#[test]
fn who_this_node_is_counts_only_while_it_has_no_log() {
    for (toml, expected) in [
        (
            "initial-cluster = 'a=http://localhost:2380,b=http://b:2380'",
            "set --name to one of them or add default=URL",
        ),
        ("initial-cluster = ''", "the name default is not in initial-cluster"),
        (
            "initial-cluster = 'default=http://a:2380'",
            "initial-advertise-peer-urls is http://localhost:2380; make them the same",
        ),
        (
            "initial-cluster = 'default=http://a:1'\n\
             initial-advertise-peer-urls = 'http://a:1,http://b:1'",
            "initial-advertise-peer-urls is http://a:1,http://b:1; make them the same",
        ),
        ("initial-cluster-state = 'existing'", "as kontiki member add has printed them"),
    ] {
        let config = resolve(toml).expect("it does for a node that has a log");
        let error = config.initial_id().expect_err(toml).to_string();
        assert!(error.contains(expected), "{toml}\n  gives   {error}\n  not     {expected}");
    }
}

#[test]
fn a_member_may_have_several_urls_in_any_order() {
    let config = resolve(
        "initial-cluster = 'default=http://b:1,c=http://c:1,default=http://a:1'
         initial-advertise-peer-urls = 'http://b:1,http://a:1'",
    )
    .expect("fits");
    let urls = [HttpUrl::new("a", 1), HttpUrl::new("b", 1)];
    let own = config.initial_id().expect("a member");
    assert_eq!(own, member_id("etcd-cluster", &urls));
    let member = config.initial_cluster.iter().find(|it| it.id == own).expect("a member");
    assert_eq!(member.peer_urls, urls);
}

#[test]
fn a_file_with_an_unknown_key_or_value_is_refused_by_name() {
    for (toml, expected) in [
        ("nmae = 'a'", "unknown field `nmae`"),
        ("listen_client_urls = 'http://a:1'", "unknown field `listen_client_urls`"),
        ("[serve]\nname = 'a'", "unknown field `serve`"),
        ("heartbeat-interval = 'soon'", "invalid type: string \"soon\", expected u64"),
        ("heartbeat-interval = -1", "invalid value: integer `-1`"),
        ("priority = 256", "invalid value: integer `256`"),
        ("lease-reads = 'often'", "expected a boolean"),
        ("initial-cluster-state = 'old'", "unknown variant `old`, expected `new` or `existing`"),
        ("listen-client-urls = 7", "expected a text, or an array of texts"),
        ("listen-client-urls = 'https://a:1'", "https is not supported yet"),
        ("initial-cluster = 'http://a:1'", "write each member as NAME=http://HOST:PORT"),
        ("initial-cluster = 'a=http://a:1,'", "write each member as NAME=http://HOST:PORT"),
        ("initial-cluster = 'a=b:1'", "a=b:1: write it as http://HOST:PORT"),
        ("name = ", "string values must be quoted"),
    ] {
        let error = Settings::from_toml(toml).expect_err(toml).to_string();
        assert!(error.contains(expected), "{toml}\n  gives   {error}\n  not     {expected}");
    }
}
