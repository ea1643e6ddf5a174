//! Everything that etcd takes is taken, in each of the ways to say it.

use std::collections::BTreeMap;

use clap::{Args, FromArgMatches};

use super::*;
use crate::config::{ConfigError, ServeConfig, Settings};

/// The flags of etcd 3.5, with those that it takes but does not name; each with a value.
const ETCD: &str = include_str!("etcd-3.5.txt");

/// Those that only `kontiki serve` has, beyond the settings.
const OF_THE_COMMAND: [&str; 3] = ["config-file", "help", "version"];

fn command() -> Command {
    Settings::augment_args(Command::new("serve")).no_binary_name(true).args_override_self(true)
}

fn words(args: &[&str]) -> Vec<OsString> {
    args.iter().map(OsString::from).collect()
}

fn in_our_words(args: &[&str]) -> Translated {
    with_variables(args, &[])
}

fn with_variables(args: &[&str], variables: &[(&str, &str)]) -> Translated {
    let variables: BTreeMap<&str, &str> = variables.iter().copied().collect();
    let variable = |name: &str| variables.get(name).map(OsString::from);
    translate(&command(), words(args), variable).unwrap_or_else(|error| panic!("{args:?}: {error}"))
}

fn resolve(args: &[&str]) -> Result<ServeConfig, ConfigError> {
    let translated = in_our_words(args);
    let matches = command().try_get_matches_from(translated.args);
    let matches = matches.unwrap_or_else(|error| panic!("{args:?}: {error}"));
    let settings = Settings::from_arg_matches(&matches).expect("it fits");
    ServeConfig::resolve(Settings { notes: translated.notes, ..settings })
}

#[test]
fn every_flag_of_etcd_is_taken() {
    for line in ETCD.lines() {
        let (name, value) = line.split_once('=').expect("a name and a value");
        let given = format!("--{name}={value}");
        let outcome = match value {
            "" => resolve(&[&format!("--{name}=x")]),
            _ => resolve(&[&given]),
        };
        let config = outcome.unwrap_or_else(|error| panic!("{line}: {error}"));
        assert!(config.notes.len() <= 1, "{line}: one line is enough: {:?}", config.notes);
        let is_noted = config.notes.iter().any(|note| note.contains(&format!("--{name} ")));
        assert!(is_noted || config.notes.is_empty(), "{line}: {:?}", config.notes);
    }
}

#[test]
fn every_flag_that_the_real_etcd_names_is_known() {
    let etcd = std::env::var("KONTIKI_ETCD").unwrap_or_else(|_| "etcd".to_owned());
    let Ok(output) = std::process::Command::new(&etcd).arg("--help").output() else {
        eprintln!("SKIPPED, nothing was compared: there is no {etcd}");
        return;
    };
    let help = [output.stdout, output.stderr].concat();
    let help = String::from_utf8_lossy(&help).into_owned();
    let flags = help.lines().filter_map(|line| line.strip_prefix("  --"));
    let names = flags.map(|line| line.split(' ').next().unwrap_or_default());
    let command = command();
    let (mut count, translation) = (0, Translation::new(&command));
    for name in names.filter(|name| !OF_THE_COMMAND.contains(name)) {
        assert!(translation.needs_value(name).is_some(), "--{name} is not known");
        count += 1;
    }
    assert!(count > 50, "etcd names {count} flags:\n{help}");
}

#[test]
fn flags_are_said_in_any_of_gos_ways() {
    for args in [
        &["--name=x", "--max-txn-ops=5", "--strict-reconfig-check=false"][..],
        &["-name", "x", "-max-txn-ops", "5", "-strict-reconfig-check=F"],
        &["--name", "x", "--max-txn-ops", "5", "--strict-reconfig-check=0"],
        &["--name=y", "-name=x", "--max-txn-ops=5", "--strict-reconfig-check=FALSE"],
    ] {
        let config = resolve(args).expect("it fits");
        assert_eq!((config.name.as_str(), config.max_txn_ops), ("x", 5), "{args:?}");
        assert!(!config.strict_reconfig_check, "{args:?}");
        assert_eq!(config.notes, [""; 0], "{args:?}");
    }
    assert!(resolve(&["-strict-reconfig-check"]).expect("it fits").strict_reconfig_check);
    assert_eq!(resolve(&["--quota-backend-bytes", "-1"]).expect("fits").quota_backend_bytes, None);
    // The word behind a switch is no value of it.
    let translated = in_our_words(&["--pre-vote", "--wal-dir", "--name", "-vv=3", "-v"]);
    assert_eq!(translated.args, [""; 0]);
    assert_eq!(translated.notes.len(), 3, "{:?}", translated.notes);
}

#[test]
fn what_is_meaningless_is_said_once_and_what_is_done_anyway_not_at_all() {
    let args = ["--max-wals=5", "-max-wals", "6", "--unsafe-no-fsync", "--force-new-cluster=false"];
    let notes = in_our_words(&args).notes;
    assert_eq!(
        notes,
        [
            "--max-wals has no meaning here: the log is dropped up to the newest snapshot",
            "--unsafe-no-fsync has no meaning here: what is promised is always synced",
        ]
    );
    let fine = ["--pre-vote=true", "--proxy", "off", "--logger=zap", "--cert-file", ""];
    assert_eq!(in_our_words(&fine), Translated::default());
}

#[test]
fn what_etcd_refuses_is_refused() {
    for (args, expected) in [
        (
            &["--proxy=maybe"][..],
            "--proxy has a value that etcd would refuse too: it is one of off",
        ),
        (&["--discovery-fallback=x"], "it is one of exit, proxy"),
        (&["--pre-vote=often"], "true or false"),
        (&["--max-wals=-1"], "it is a number"),
        (&["--backend-batch-interval=5"], "it is a time, such as 10s"),
        (&["--wal-dir"], "it needs one"),
        (&["--v2-deprecation=x"], "it is one of not-yet"),
    ] {
        let error = translate(&command(), words(args), |_| None).expect_err("etcd refuses it");
        assert!(error.to_string().contains(expected), "{args:?}: {error}");
    }
    for args in [
        &["--nmae=x"][..],
        &["-nmae", "x"],
        &["--auto-compaction-mode=x"],
        &["--strict-reconfig-check=often"],
        &["--initial-cluster-state=x"],
        &["--grpc-keepalive-interval=5"],
        &["stray"],
    ] {
        let translated = in_our_words(args).args;
        let refused = command().try_get_matches_from(translated).expect_err("etcd refuses it");
        assert!(!refused.to_string().contains("unexpected argument '-n'"), "{refused}");
    }
}

#[test]
fn flags_win_over_our_variables_and_those_over_etcds() {
    let variables = [
        ("ETCD_NAME", "of-etcd"),
        ("ETCD_DATA_DIR", "d"),
        ("ETCD_MAX_TXN_OPS", "7"),
        ("KONTIKI_MAX_TXN_OPS", "8"),
        ("ETCD_STRICT_RECONFIG_CHECK", "f"),
        ("ETCD_INITIAL_CLUSTER_TOKEN", ""),
        ("ETCD_WAL_DIR", "w"),
        ("ETCD_PRE_VOTE", "1"),
        ("ETCD_NOTHING", "x"),
    ];
    let translated = with_variables(&["--name=of-flag"], &variables);
    let expected = ["--name=of-flag", "--data-dir=d", "--strict-reconfig-check=false"];
    assert_eq!(translated.args, expected);
    let [note] = &translated.notes[..] else { panic!("{:?}", translated.notes) };
    assert!(note.starts_with("ETCD_WAL_DIR has no meaning here"), "{note}");
    let wrong = |name: &str| (name == "ETCD_PROXY").then(|| OsString::from("x"));
    let error = translate(&command(), [], wrong).expect_err("etcd refuses it").to_string();
    assert!(error.starts_with("ETCD_PROXY has a value"), "{error}");
    assert!(is_foreign_variable("ETCD_WAL_DIR") && !is_foreign_variable("ETCD_NOTHING"));
}

#[test]
fn a_file_of_etcds_says_the_same() {
    let settings = Settings::from_yaml(
        "# This is the configuration file for the etcd server.
name: 'n1'
data-dir: /var/lib/etcd
snapshot-count: 10000
heartbeat-interval: 50
quota-backend-bytes: 0
listen-client-urls: http://127.0.0.1:2379,http://127.0.0.1:2381
strict-reconfig-check: false
max-wals: 7
discovery:
grpc-keepalive-interval: 10000000000
auto-compaction-mode: periodic
auto-compaction-retention: \"5m\"
log-outputs: [stderr, out.log]
client-transport-security:
  cert-file: server.crt
  client-cert-auth: false
peer-transport-security:
  cert-file: peer.crt
self-made: 3
",
    )
    .expect("etcd takes it");
    let config = ServeConfig::resolve(settings).expect("it fits");
    assert_eq!(config.name, "n1");
    assert_eq!(config.snapshot_count, 10_000);
    assert_eq!(config.listen_client_urls.len(), 2);
    assert!(!config.strict_reconfig_check);
    assert_eq!(config.keepalive.map(|(interval, _)| interval.as_secs()), Some(10));
    let five_minutes = std::time::Duration::from_secs(300);
    let expected = crate::config::AutoCompaction::Older(five_minutes);
    assert_eq!(config.auto_compaction, Some(expected));
    assert_eq!(config.log_outputs.len(), 2);
    let begins = ["max-wals has", "cert-file has", "peer-cert-file has", "self-made names"];
    assert_eq!(config.notes.len(), begins.len(), "{:?}", config.notes);
    for (note, begin) in config.notes.iter().zip(begins) {
        assert!(note.starts_with(begin), "{note}");
    }
    for (text, expected) in [
        ("name: [a, {b: c}]", "name is no text"),
        ("proxy: maybe", "proxy has a value that etcd would refuse too"),
        ("max-txn-ops: many", "many"),
        ("just text", "it holds no settings"),
        ("a: b: c", "mapping"),
    ] {
        let error = Settings::from_yaml(text).expect_err(text);
        assert!(error.contains(expected), "{text}: {error}");
    }
}
