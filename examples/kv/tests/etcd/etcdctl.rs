//! The real client at both servers: every command prints the same and ends with the same code.
//!
//! What names the server (address, ids, version, sizes, times) is replaced before; tables are
//! compared without their lines, whose length depends on it.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::pair::{Pair, Side};
use crate::text::difference;

/// A command, and what is written to its standard input.
type Step = (&'static str, &'static str);

/// A line of fewer cells is no row of a table, but a key or a value.
const CELLS_MIN: usize = 4;

/// Shorter ids are as good as never drawn.
const ID_DIGITS_MIN: usize = 11;

/// In order, from fresh stores.
const STEPS: &[Step] = &[
    ("put a 1", ""),
    ("put a 2 --prev-kv", ""),
    ("put b 3 -w json", ""),
    ("put b 4 --prev-kv -w json", ""),
    ("put b 5 --prev-kv -w fields", ""),
    ("put b 6", ""),
    ("put c", "from standard input"),
    ("put dir/a 1", ""),
    ("put dir/b 2", ""),
    ("put dir/c 3", ""),
    ("put dirt 4", ""),
    ("put dir/b --ignore-value --prev-kv", ""),
    ("put absent --ignore-value", ""),
    ("put dir/b 22 --ignore-lease", ""),
    ("put absent 1 --ignore-lease", ""),
    ("put a 1 --lease 4d", ""),
    ("get a", ""),
    ("get absent", ""),
    ("get a -w json", ""),
    ("get a -w fields", ""),
    ("get a -w simple", ""),
    ("get a --print-value-only", ""),
    ("get a -w json --hex", ""),
    ("get a --hex", ""),
    ("get a c", ""),
    ("get c a", ""),
    ("get dir/ --prefix", ""),
    ("get dir/ --prefix -w json", ""),
    ("get dir/ --prefix -w fields", ""),
    ("get dir/ --prefix --keys-only", ""),
    ("get dir/ --prefix --keys-only -w json", ""),
    ("get dir/ --prefix --limit 2", ""),
    ("get dir/ --prefix --limit 2 -w json", ""),
    ("get dir/ --prefix --limit 2 -w fields", ""),
    ("get dir/ --prefix --order DESCEND", ""),
    ("get dir/ --prefix --order DESCEND --sort-by MODIFY", ""),
    ("get dir/ --prefix --order ASCEND --sort-by VALUE", ""),
    ("get dir/ --prefix --sort-by VERSION --order DESCEND --limit 1", ""),
    ("get dir/ --prefix --sort-by CREATE", ""),
    ("get dir/ --prefix --rev 9", ""),
    ("get dir/ --prefix --rev 9 -w json", ""),
    ("get a --rev 2", ""),
    ("get a --rev 1000", ""),
    ("get b --from-key", ""),
    ("get b --from-key --limit 2 -w json", ""),
    ("get --prefix --keys-only -- ", ""),
    ("get --from-key --keys-only -- ", ""),
    ("get a --consistency s -w json", ""),
    ("get a --consistency l", ""),
    ("get dir/ --prefix --count-only", ""),
    ("get dir/ --prefix --count-only -w json", ""),
    ("get dir/ --prefix --count-only -w fields", ""),
    ("txn", "val(\"a\") = \"2\"\n\nput a 20\nget a\n\nget absent\n\n"),
    ("txn -w json", "val(\"a\") = \"2\"\n\nput a 20\n\nget a\ndel dir/a\n\n"),
    ("txn -w fields", "mod(\"b\") > \"1\"\nver(\"b\") > \"2\"\n\nget b\nput b 7\ndel c\n\n\n"),
    ("txn", "create(\"none\") = \"0\"\n\ndel dir/ --prefix --prev-kv\n\n\n"),
    ("txn", "value(\"b\") != \"0\"\n\n\n\n"),
    ("txn", "\nput a 1\nput a 2\n\n\n"),
    ("txn --interactive=false", "\nget b --rev 5000\n\n\n"),
    ("del absent", ""),
    ("del a", ""),
    ("del a b -w json", ""),
    ("put dir/a 1", ""),
    ("put dir/b 2", ""),
    ("put e 5", ""),
    ("del dir/ --prefix --prev-kv", ""),
    ("put f 6", ""),
    ("del e --prev-kv -w json", ""),
    ("del e --from-key --prev-kv -w fields", ""),
    ("compaction 5", ""),
    ("compaction 5", ""),
    ("compaction 5000", ""),
    ("compaction 8 --physical", ""),
    ("compaction 0", ""),
    ("get a --rev 3", ""),
    ("get a --rev 8 -w json", ""),
    ("get --prefix -w json -- ", ""),
    ("del --from-key -w json -- ", ""),
    ("lease list", ""),
    ("lease grant 0", ""),
    ("lease grant 9000000001", ""),
    ("lease grant nothing", ""),
    ("lease timetolive 4d2", ""),
    ("lease timetolive 4d2 --keys -w json", ""),
    ("lease timetolive 4d2 -w fields", ""),
    ("lease keep-alive 4d2", ""),
    ("lease keep-alive --once 4d2", ""),
    ("lease revoke 4d2", ""),
    ("put a 1 --lease 4d2", ""),
    ("alarm list", ""),
    ("member list", ""),
    ("member list -w json", ""),
    ("member list -w fields", ""),
    ("member list -w table", ""),
    ("endpoint health", ""),
    ("endpoint health -w json", ""),
    ("endpoint health -w table", ""),
    ("endpoint health --cluster", ""),
    ("endpoint status", ""),
    ("endpoint status -w json", ""),
    ("endpoint status -w fields", ""),
    ("endpoint status -w table", ""),
    ("endpoint status --cluster", ""),
    ("member add", ""),
    ("member add x", ""),
    ("member add x --peer-urls=nothing", ""),
    ("member add x --learner --peer-urls=http://127.0.0.2:1,http://127.0.0.3:1", ""),
    ("member add y --peer-urls=http://127.0.0.3:1", ""),
    ("member list", ""),
    ("member list -w table", ""),
    ("member promote NEWEST", ""),
    ("move-leader NEWEST", ""),
    ("move-leader 4d2", ""),
    ("move-leader OWN", ""),
    ("member promote OWN", ""),
    ("member remove OWN", ""),
    ("member remove 4d2", ""),
    ("member remove nothing", ""),
    // In etcd's list it votes from here on: see `known.rs`.
    ("member update NEWEST --peer-urls=http://127.0.0.4:1", ""),
    ("member update NEWEST", ""),
    ("member remove NEWEST", ""),
    ("member list", ""),
];

/// Runs every command at both.
pub fn compare(etcdctl: &Path, pair: &Pair) {
    let mut differences = Vec::new();
    for step in STEPS {
        let etcd = run(etcdctl, &pair.etcd, *step);
        let ours = run(etcdctl, &pair.ours, *step);
        if etcd != ours {
            differences.push(format!("etcdctl {}\n{}", step.0, difference(&etcd, &ours)));
        }
    }
    eprintln!("{} commands of {} compared", STEPS.len(), etcdctl.display());
    differences.iter().for_each(|difference| eprintln!("\n{difference}"));
    assert!(differences.is_empty(), "{} outputs differ", differences.len());
}

/// What the command prints, and how it ends.
fn run(etcdctl: &Path, side: &Side, (arguments, input): Step) -> String {
    let mut command = Command::new(etcdctl);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("ETCDCTL_") {
            command.env_remove(name);
        }
    }
    command
        .env("ETCDCTL_API", "3")
        .args(["--endpoints", &side.server.place.client])
        // Behind a space at the end comes an empty one.
        .args(named(etcdctl, side, arguments).split(' '))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("etcdctl starts");
    let mut stdin = child.stdin.take().expect("it is a pipe");
    // It may end without reading.
    drop(stdin.write_all(input.as_bytes()));
    drop(stdin);
    let output = child.wait_with_output().expect("etcdctl ends");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let stdout = anonymous(&text(&output.stdout), side);
    let stderr = anonymous(&text(&output.stderr), side);
    format!("{stdout}\n{stderr}\nexit code {:?}", output.status.code())
}

/// The command with ids in the place of words: the member's own, or of the one that was added.
fn named(etcdctl: &Path, side: &Side, arguments: &str) -> String {
    let arguments = arguments.replace("OWN", &format!("{:x}", side.ids.member));
    if !arguments.contains("NEWEST") {
        return arguments;
    }
    let mut list = Command::new(etcdctl);
    list.env("ETCDCTL_API", "3").args(["--endpoints", &side.server.place.client, "member", "list"]);
    let list = list.output().expect("etcdctl runs").stdout;
    let list = String::from_utf8_lossy(&list).into_owned();
    let newest = list.lines().find(|line| line.contains("unstarted")).expect("one was added");
    arguments.replace("NEWEST", newest.split(',').next().expect("a line has a beginning"))
}

/// The text without anything that is the server's own.
fn anonymous(text: &str, side: &Side) -> String {
    let (ids, place) = (side.ids, &side.server.place);
    let mut text = text.to_owned();
    for (own, name) in [
        (place.client.clone(), "CLIENT"),
        (place.peer.clone(), "PEER"),
        (format!("{:x}", ids.member), "MEMBER"),
        // Numbers, so that JSON stays what it is.
        (ids.member.to_string(), "1"),
        (ids.cluster.to_string(), "2"),
    ] {
        text = text.replace(&own, name);
    }
    let lines = text.lines().filter(|line| {
        // Its own log, and the frame of a table.
        !line.starts_with("{\"level\"") && !line.starts_with("+-")
    });
    let mut lines: Vec<String> =
        lines.map(without_moments).map(|line| without_ids(&line)).collect();
    if text.contains("unstarted") {
        // Ids are drawn, and members stand in their order.
        lines.sort();
    }
    lines.join("\n")
}

/// A line without the ids of others than this member, and without an order that comes from them.
fn without_ids(line: &str) -> String {
    if let Some(members) = line.strip_prefix("ETCD_INITIAL_CLUSTER=\"") {
        let mut members: Vec<&str> = members.trim_end_matches('"').split(',').collect();
        members.sort_unstable();
        return members.join(",");
    }
    let word = |word: &str| {
        let is_id = word.len() >= ID_DIGITS_MIN && word.bytes().all(|it| it.is_ascii_hexdigit());
        if is_id { "ID".to_owned() } else { word.to_owned() }
    };
    let words = line.split(' ').filter(|word| !word.is_empty());
    words
        .map(|text| match text.strip_suffix(',') {
            Some(text) => word(text) + ",",
            None => word(text),
        })
        .collect::<Vec<_>>()
        .join(" ")
}

/// A line without sizes, terms, positions in the log, versions and times.
fn without_moments(line: &str) -> String {
    let is_own = |name: &str| {
        let own = ["raft", "dbsize", "version\"", "took", "term", "storage"];
        let name = name.to_lowercase();
        // A key's version is none of the server's.
        own.iter().any(|own| name.contains(own)) && !name.contains("\"version\" : ")
    };
    if let Some((name, value)) = line.split_once("\" : ") {
        let is_version = name == "\"Version" && value.starts_with('"');
        return if is_own(name) || is_version { format!("{name} …") } else { line.to_owned() };
    }
    if line.starts_with(['{', '[']) {
        return match serde_json::from_str(line) {
            Ok(value) => neutral(value, &is_own).to_string(),
            Err(_) => line.to_owned(),
        };
    }
    let separator = if line.starts_with('|') { '|' } else { ',' };
    let cells: Vec<_> = line.split(separator).map(str::trim).collect();
    if cells.len() >= CELLS_MIN {
        let cells = cells.into_iter().map(|cell| if is_moment(cell) { "…" } else { cell });
        return cells.collect::<Vec<_>>().join(", ");
    }
    match line.split_once("took = ") {
        Some((line, _)) => format!("{line}took"),
        None => line.to_owned(),
    }
}

/// Numbers in lists of cells are terms and positions; the rest has a unit or is a version.
fn is_moment(cell: &str) -> bool {
    let is_number = cell.chars().next().is_some_and(|first| first.is_ascii_digit());
    let units = ["B", "ms", "µs"];
    let has_unit = units.iter().any(|unit| cell.ends_with(unit));
    let is_version = cell.split('.').count() == 3;
    is_number && (has_unit || is_version || cell.parse::<u64>().is_ok())
}

fn neutral(value: serde_json::Value, is_own: &impl Fn(&str) -> bool) -> serde_json::Value {
    use serde_json::Value;
    match value {
        Value::Object(fields) => {
            let field = |(name, value): (String, Value)| {
                let is_version = name == "version" && value.is_string();
                let hide = is_own(&name) || is_version;
                let value = if hide { "…".into() } else { neutral(value, is_own) };
                (name, value)
            };
            Value::Object(fields.into_iter().map(field).collect())
        }
        Value::Array(values) => values.into_iter().map(|value| neutral(value, is_own)).collect(),
        other => other,
    }
}
