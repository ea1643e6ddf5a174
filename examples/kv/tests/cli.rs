//! The built binary as a user meets it: settings from everywhere, refusals, exit codes.

use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Runs `kontiki` in `dir`, without any `KONTIKI_…` and `ETCD_…` but those given.
fn kontiki(dir: &Path, args: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kontiki"));
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("KONTIKI_") || text.starts_with("ETCD_") {
            command.env_remove(name);
        }
    }
    command
        .args(args)
        .envs(variables.iter().copied())
        .current_dir(dir)
        .stdin(Stdio::null())
        .output()
        .expect("the binary runs")
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Expects a refusal with this code that says this, and says nothing else.
fn refused(dir: &Path, args: &[&str], variables: &[(&str, &str)], code: i32, expected: &str) {
    let output = kontiki(dir, args, variables);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{args:?}: {stderr}");
    assert!(stderr.contains(expected), "{args:?}\n  gives   {stderr}\n  not     {expected}");
    assert_eq!(stdout(&output), "", "{args:?}");
}

fn directory() -> tempfile::TempDir {
    tempfile::tempdir().expect("a directory")
}

#[test]
fn a_flag_wins_over_the_environment_and_that_over_the_file() {
    let dir = directory();
    std::fs::write(
        dir.path().join("node.toml"),
        "name = 'of-file'\nmax-txn-ops = 1\nheartbeat-interval = 11\nelection-timeout = 111\n",
    )
    .expect("written");
    let variables = [
        ("KONTIKI_CONFIG_FILE", "node.toml"),
        ("KONTIKI_NAME", "of-environment"),
        ("KONTIKI_HEARTBEAT_INTERVAL", "12"),
        ("KONTIKI_LISTEN_CLIENT_URLS", "http://127.0.0.1:1,http://127.0.0.1:2"),
    ];
    let args = ["serve", "--print-config", "--name", "of-flag"];
    let output = kontiki(dir.path(), &args, &variables);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let shown = stdout(&output);
    for line in [
        "name = \"of-flag\"",
        "data-dir = \"of-flag.kontiki\"",
        "heartbeat-interval = 12",
        "election-timeout = 111",
        "max-txn-ops = 1",
        "max-request-bytes = 1572864",
        "advertise-client-urls = \"http://127.0.0.1:1,http://127.0.0.1:2\"",
        "initial-cluster = \"of-flag=http://localhost:2380\"",
    ] {
        assert!(shown.lines().any(|shown| shown == line), "no line {line} in\n{shown}");
    }
    assert!(std::fs::read_dir(dir.path()).expect("read").count() == 1, "nothing was written");
}

#[test]
fn what_serve_refuses() {
    let dir = directory();
    std::fs::write(dir.path().join("bad.toml"), "nmae = 'a'\n").expect("written");
    let refuse = |args: &[&str], expected: &str| {
        let args = [&["serve"], args].concat();
        refused(dir.path(), &args, &[], 2, expected);
    };
    refuse(&["--nmae=a"], "unexpected argument '--nmae'");
    refuse(&["--listen-client-urls=localhost:2379"], "write it as http://HOST:PORT");
    refuse(&["--listen-peer-urls=https://localhost:2380"], "https is not supported yet");
    refuse(&["--initial-cluster=a"], "write each member as NAME=http://HOST:PORT");
    refuse(&["--initial-cluster-state=old"], "possible values: new, existing");
    refuse(&["--heartbeat-interval=soon"], "invalid digit found in string");
    refuse(&["--log-format=xml"], "possible values: human, json");
    refuse(&["--name=a", "--initial-cluster=b=http://localhost:2380"], "or add a=URL");
    refuse(&["--election-timeout=400"], "make it at least 500 ms");
    refuse(&["--listen-client-urls=http://0.0.0.0:2379"], "--advertise-client-urls");
    refuse(&["--config-file=bad.toml"], "unknown field `nmae`");
    refuse(&["--config-file=absent.toml"], "cannot read the configuration file absent.toml");
    refuse(&["--initial-cluster-state=existing"], "as kontiki member add has printed them");
    refuse(&["--priority=256"], "256 is not in 0..=255");
    refuse(&["--lease-reads=often"], "possible values: true, false");
    refuse(&["--lease-reads", "--lease-margin=1000"], "so that no lease is left");
    refuse(&["--disk-stall-timeout=100"], "less than two heartbeats");
    refuse(&["--snapshot-bytes=0"], "snapshot-bytes is zero");
    // As etcd refuses it.
    refuse(&["-nmae", "a"], "unexpected argument '--nmae'");
    refuse(&["--proxy=maybe"], "--proxy has a value that etcd would refuse too");
    refuse(&["--auto-compaction-retention=soon"], "is neither a number nor a time such as 5m");
    std::fs::write(dir.path().join("bad.yaml"), "proxy: maybe\n").expect("written");
    refuse(&["--config-file=bad.yaml"], "proxy has a value that etcd would refuse too");
    let variables = [("KONTIKI_ELECTION_TIMEOUT", "soon")];
    refused(dir.path(), &["serve"], &variables, 2, "'--election-timeout <MS>'");
}

#[test]
fn what_starts_an_etcd_starts_a_node() {
    let dir = directory();
    let file = "max-txn-ops: 9\nname: of-file\nmax-wals: 5\nlisten-peer-urls: http://[::1]:7\n";
    std::fs::write(dir.path().join("etcd.conf"), file).expect("written");
    let variables = [("ETCD_NAME", "of-etcd"), ("ETCD_SNAPSHOT_COUNT", "77"), ("ETCD_PROXY", "on")];
    let args = [
        "serve",
        "-config-file",
        "etcd.conf",
        "--pre-vote",
        "-quota-backend-bytes",
        "-1",
        "--strict-reconfig-check=0",
        "--print-config",
    ];
    let output = kontiki(dir.path(), &args, &variables);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let shown = stdout(&output);
    for line in [
        "name = \"of-etcd\"",
        "snapshot-count = 77",
        "max-txn-ops = 9",
        "listen-peer-urls = \"http://[::1]:7\"",
        "quota-backend-bytes = -1",
        "strict-reconfig-check = false",
    ] {
        assert!(shown.lines().any(|shown| shown == line), "no line {line} in\n{shown}");
    }
}

#[test]
fn what_cluster_refuses_before_it_starts_anything() {
    let dir = directory();
    let refuse = |args: &[&str], code, expected: &str| {
        let args = [&["cluster", "--data-dir=cluster"], args].concat();
        refused(dir.path(), &args, &[], code, expected);
        assert!(!dir.path().join("cluster").exists(), "{args:?} left something behind");
    };
    refuse(&["--nodes=0"], 2, "give 1 to 9");
    refuse(&["--base-port=65535"], 2, "leaves no room");
    refuse(&["--election-timeout=400"], 2, "make it at least 500 ms");

    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = taken.local_addr().expect("bound").port();
    let flag = format!("--base-port={port}");
    refuse(&["--nodes=1", &flag], 1, &format!("cannot listen on port {port}"));
}

#[test]
fn what_torture_refuses_before_it_starts_anything() {
    let dir = directory();
    let refuse = |args: &[&str], expected: &str| {
        refused(dir.path(), &[&["torture"], args].concat(), &[], 2, expected);
    };
    refuse(&["--seed=soon"], "'--seed <N>'");
    refuse(&["--duration=0s"], "give a time above zero, as 90s, 5m or 1h");
    refuse(&["--duration=1d"], "give a time above zero, as 90s, 5m or 1h");
    refuse(&["--cycles=0"], "'--cycles <N>'");
    refuse(&["--cycles=5", "--duration=5s"], "cannot be used with");
    refuse(&["--cycles=5", "--faults=stop"], "--cycles counts kills, and --faults names none");
    refuse(&["--nodes=4"], "give 3 or 5");
    refuse(&["--faults=earthquake"], "'--faults <FAULT,…>'");
    refuse(&["--clients=0"], "give a number from 1 to 32");
    refuse(&["--snapshot-count=1"], "give a number from 10 on");
    std::fs::write(dir.path().join("mine"), "mine").expect("written");
    let dir_flag = format!("--dir={}", dir.path().display());
    refuse(&[&dir_flag], "is not empty; give a new directory");
    assert_eq!(std::fs::read_dir(dir.path()).expect("read").count(), 1, "something was started");
}

#[test]
fn a_cluster_directory_is_not_bent_to_other_flags() {
    let dir = directory();
    std::fs::write(dir.path().join("cluster.toml"), "nodes = 5\nbase-port = 4000\n")
        .expect("written");
    let data_dir = format!("--data-dir={}", dir.path().display());
    let refuse = |flag: &str, expected: &str| {
        refused(dir.path(), &["cluster", &data_dir, flag], &[], 2, expected);
    };
    refuse("--nodes=3", "holds a cluster with --nodes 5; leave --nodes out to continue it");
    refuse("--base-port=2379", "holds a cluster with --base-port 4000");
}

#[test]
fn client_commands_fail_with_a_reason() {
    let dir = directory();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let endpoint = listener.local_addr().expect("bound").to_string();
    drop(listener);
    let variables = [("KONTIKI_ENDPOINTS", endpoint.as_str())];
    for args in [
        &["put", "key", "value"][..],
        &["get", "key"],
        &["del", "--prefix", "key"],
        &["member", "list"],
        &["member", "add", "n2", "--peer-urls=http://127.0.0.1:1"],
        &["member", "remove", "a1"],
        &["member", "replace", "a1", "n2", "--peer-urls=http://127.0.0.1:1"],
        &["member", "move-leader"],
        &["snapshot", "save", "file"],
        &["status"],
    ] {
        refused(dir.path(), args, &variables, 1, &format!("no endpoint answered:\n  {endpoint}: "));
    }
    let refuse = |args: &[&str], expected: &str| refused(dir.path(), args, &[], 2, expected);
    refuse(&["get"], "required arguments were not provided");
    refuse(&["get", "a", "b", "--prefix"], "cannot be used with");
    refuse(&["get", "a", "--consistency", "x"], "possible values: l, s");
    refuse(&["get", "a", "--endpoints", "nowhere"], "the port is missing");
    refuse(&["member", "add", "n2"], "--peer-urls <URLS>");
    refuse(&["member", "add", "n2", "--peer-urls=n2:2380"], "write it as http://HOST:PORT");
    refuse(&["member", "remove", "n2"], "give the id of a member as kontiki member list shows it");
    refuse(&["member", "promote", "0"], "give the id of a member");
    refuse(&["bench", "put", "--clients", "0"], "give a whole number above zero");
    refuse(&["bench", "put", "--duration", "0"], "give a number of seconds above zero");
    refuse(&["bench", "sessions", "--systems", "null"], "the null server keeps no sessions");
    refuse(&["bench", "leases", "--leases", "0"], "give a whole number above zero");
    refuse(&["bench", "watch", "--systems", "null"], "the null server keeps no sessions");
}

#[test]
fn a_node_that_joins_nobody_says_so_and_leaves_nothing_behind() {
    let dir = directory();
    let [client, own, other] = [(), (), ()].map(|()| {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        format!("http://{}", listener.local_addr().expect("bound"))
    });
    let cluster = format!("--initial-cluster=n1={own},n2={other}");
    let args = [
        "serve",
        "--name=n1",
        "--log-level=off",
        "--initial-cluster-state=existing",
        &format!("--listen-client-urls={client}"),
        &format!("--listen-peer-urls={own}"),
        &cluster,
    ];
    let output = kontiki(dir.path(), &args, &[]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains(&format!("no member of the cluster answers: {other}")), "{stderr}");
    assert!(stderr.contains("give in --initial-cluster the members that run"), "{stderr}");
    assert!(!dir.path().join("n1.kontiki/raft").exists(), "a log was made");
}

#[test]
fn backups_that_are_none_are_refused_and_nothing_is_made() {
    let dir = directory();
    std::fs::write(dir.path().join("foreign"), vec![0xed; 20_512]).expect("written");
    std::fs::write(dir.path().join("short"), "KONTIKIV").expect("written");
    std::fs::create_dir(dir.path().join("there")).expect("made");
    for (file, expected) in [
        ("foreign", "foreign: this is no snapshot of the key-value store"),
        ("short", "short: the snapshot is cut off after 8 bytes"),
        ("absent", "cannot read absent: No such file or directory"),
    ] {
        refused(dir.path(), &["snapshot", "status", file], &[], 1, expected);
        let restore = ["snapshot", "restore", file, "--data-dir=made"];
        refused(dir.path(), &restore, &[], 1, expected);
    }
    let restore = ["snapshot", "restore", "foreign", "--data-dir=there"];
    refused(dir.path(), &restore, &[], 1, "there is there already");
    let restore = ["snapshot", "restore", "foreign", "--name=a", "--initial-cluster=b=http://b:1"];
    refused(dir.path(), &restore, &[], 2, "or add a=URL");
    assert_eq!(std::fs::read_dir(dir.path()).expect("read").count(), 3, "something was made");
}

#[test]
fn nothing_is_recovered_by_accident() {
    let dir = directory();
    let recover = ["recover", "--data-dir=absent"];
    refused(dir.path(), &recover, &[], 2, "--force-new-cluster");
    for more in
        [&["--force-new-cluster"][..], &["--force-new-cluster", "--accept-that-data-may-be-lost"]]
    {
        let args = [&recover, more].concat();
        refused(dir.path(), &args, &[], 1, "absent holds no log");
    }
    assert_eq!(std::fs::read_dir(dir.path()).expect("read").count(), 0, "something was made");
}
