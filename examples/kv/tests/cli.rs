//! The built binary as a user meets it: settings from everywhere, refusals, exit codes.

use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Runs `kontiki` in `dir`, without any `KONTIKI_…` but those given.
fn kontiki(dir: &Path, args: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kontiki"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("KONTIKI_") {
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
    let variables = [("KONTIKI_ELECTION_TIMEOUT", "soon")];
    refused(dir.path(), &["serve"], &variables, 2, "'--election-timeout <MS>'");
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
        &["status"],
    ] {
        refused(dir.path(), args, &variables, 1, &format!("no endpoint answered:\n  {endpoint}: "));
    }
    let refuse = |args: &[&str], expected: &str| refused(dir.path(), args, &[], 2, expected);
    refuse(&["get"], "required arguments were not provided");
    refuse(&["get", "a", "b", "--prefix"], "cannot be used with");
    refuse(&["get", "a", "--consistency", "x"], "possible values: l, s");
    refuse(&["get", "a", "--endpoints", "nowhere"], "the port is missing");
    refuse(&["bench", "put", "--clients", "0"], "give a whole number above zero");
    refuse(&["bench", "put", "--duration", "0"], "give a number of seconds above zero");
}
