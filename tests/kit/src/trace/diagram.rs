//! A trace as one page of HTML that needs nothing else: a lane for each node, messages as arrows,
//! lost ones ending in a cross, terms as colours; elections, crashes, commits; and where a rule
//! broke.
//!
//! Messages carry no numbers. One that is received is drawn from the newest send of the same
//! words that was not received yet; two copies of one message come from the same send.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{InWords, Line, Record, Role, Said, Violation, What};

const PAGE: &str = include_str!("diagram/page.html");
const STYLE: &str = include_str!("diagram/page.css");
const SCRIPT: &str = include_str!("diagram/page.js");
const DRAWING: &str = include_str!("diagram/draw.js");

/// What is drawn.
#[derive(Debug)]
pub struct Drawing<'a> {
    /// What stands above it.
    pub title: &'a str,
    /// The records, by time.
    pub records: &'a [(Line, Record)],
    /// The rule that was broken.
    pub broken: Option<&'a Violation>,
    /// What nodes are called, where it is not their number.
    pub names: BTreeMap<u64, String>,
}

/// The page.
pub fn page(drawing: &Drawing<'_>) -> String {
    let data = data(drawing).to_string().replace("</", "<\\/");
    // The data come last: they may hold any of the other words.
    PAGE.replace("/*STYLE*/", STYLE)
        .replace("/*DRAWING*/", DRAWING)
        .replace("/*SCRIPT*/", SCRIPT)
        .replace("<!--TITLE-->", &escaped(drawing.title))
        .replace("/*TRACE*/", &data)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn data(drawing: &Drawing<'_>) -> Value {
    let records = drawing.records;
    let began_at = records.iter().map(|(_, record)| record.at).min().unwrap_or(0);
    let ended_at = records.iter().map(|(_, record)| record.at).max().unwrap_or(0);
    let micros = |at: u64| at.saturating_sub(began_at) as f64 / 1e3;
    let mut nodes: Vec<u64> = records.iter().map(|(_, record)| record.node).collect();
    nodes.sort_unstable();
    nodes.dedup();
    let name = |node: &u64| match drawing.names.get(node) {
        Some(name) => name.clone(),
        None => format!("N{node}"),
    };
    let words = |record: &Record| {
        let words = InWords(record).to_string();
        let named = drawing.names.iter();
        named.fold(words, |words, (node, name)| words.replace(&format!("N{node}"), name))
    };
    let item = |(_, record): &(Line, Record)| {
        let lane = nodes.binary_search(&record.node).unwrap_or_default();
        let term = match &record.what {
            What::Receive { term, .. } | What::Send { term, .. } | What::Role { term, .. } => *term,
            What::Start(start) => start.hard_state.term,
            _ => 0, // The lane has it.
        };
        json!([
            micros(record.at),
            lane,
            group(&record.what),
            term,
            words(record),
            u8::from(record.what.is_event()),
            serde_json::to_string(&record.what).unwrap_or_default(),
            record.run,
        ])
    };
    json!({
        "nodes": nodes.iter().map(name).collect::<Vec<_>>(),
        "micros": micros(ended_at),
        "records": records.iter().map(item).collect::<Vec<_>>(),
        "links": links(records),
        "spans": spans(records, &nodes, &micros),
        "broken": drawing.broken.map(|it| json!({
            "rule": it.rule,
            "what": it.what,
            "record": records.iter().position(|(line, _)| *line == it.line),
        })),
    })
}

/// By what the page filters and colours.
fn group(what: &What) -> &'static str {
    match what {
        What::Receive { says, .. } | What::Send { says, .. } => match says {
            Said::PreVote { .. }
            | Said::PreVoteReply { .. }
            | Said::Vote { .. }
            | Said::VoteReply { .. }
            | Said::TimeoutNow => "vote",
            Said::Append { .. } | Said::Accept { .. } | Said::Commit { .. } => "append",
            Said::Reject { .. } => "reject",
            Said::Heartbeat { .. } | Said::HeartbeatReply { .. } => "heartbeat",
            Said::Read { .. } | Said::ReadReply { .. } => "read",
            Said::Propose { .. } | Said::ProposeReply { .. } => "propose",
        },
        What::Start(_) => "start",
        What::Stop => "stop",
        What::Crash => "crash",
        What::StorageFailed => "failed",
        What::Role { role: Role::Leader, .. } => "leader",
        What::Role { .. } => "role",
        What::Members(_) | What::ChangeMembership { .. } | What::TransferLeadership { .. } => {
            "members"
        }
        What::Persist(_) | What::Persisted { .. } => "disk",
        What::Commit { .. } => "commit",
        What::Apply { .. } | What::Applied { .. } => "apply",
        What::SnapshotTaken { .. }
        | What::SnapshotReceived { .. }
        | What::SnapshotSent { .. }
        | What::SendSnapshot { .. }
        | What::CancelSnapshots
        | What::Install { .. } => "snapshot",
        What::Propose { .. } | What::Resolve { .. } | What::Refuse { .. } => "propose",
        What::Read { .. } | What::ReadReady { .. } => "read",
        What::Gap { .. }
        | What::Timer
        | What::Identified { .. }
        | What::Loaded { .. }
        | What::Load { .. }
        | What::Transferred { .. }
        | What::PeerRegressed { .. } => "other",
    }
}

/// Pairs of a send and its receipt; of a lost message there is no receipt.
fn links(records: &[(Line, Record)]) -> Vec<Value> {
    let mut sends: BTreeMap<String, Vec<(usize, bool)>> = BTreeMap::new();
    for (at, (_, record)) in records.iter().enumerate() {
        if let Some(words) = sent(record) {
            sends.entry(words).or_default().push((at, false));
        }
    }
    let mut links = Vec::new();
    for (at, (_, record)) in records.iter().enumerate() {
        let Some(copies) = received(record).and_then(|words| sends.get_mut(&words)) else {
            continue;
        };
        let is_before = |send: usize| records[send].1.at <= record.at;
        let fresh = copies.iter().rposition(|(send, is_taken)| !is_taken && is_before(*send));
        let copy = fresh.or_else(|| copies.iter().rposition(|(send, _)| is_before(*send)));
        let copy = copy.unwrap_or(0); // Clocks disagree.
        copies[copy].1 = true;
        links.push((copies[copy].0, Some(at)));
    }
    let lost = sends.into_values().flatten().filter(|(_, is_taken)| !is_taken);
    links.extend(lost.map(|(send, _)| (send, None)));
    links.sort_unstable();
    let peers: BTreeMap<u64, ()> = records.iter().map(|(_, record)| (record.node, ())).collect();
    let is_drawn =
        |send: usize| recipient(&records[send].1).is_some_and(|to| peers.contains_key(&to));
    links.retain(|(send, receipt)| receipt.is_some() || is_drawn(*send));
    let to = |send: usize| {
        recipient(&records[send].1).and_then(|to| peers.keys().position(|it| *it == to))
    };
    links.into_iter().map(|(send, receipt)| json!([send, receipt, to(send)])).collect()
}

fn recipient(record: &Record) -> Option<u64> {
    match &record.what {
        What::Send { to, .. } | What::SendSnapshot { peer: to, .. } => Some(*to),
        _ => None, // Nothing is sent.
    }
}

fn sent(record: &Record) -> Option<String> {
    let from = record.node;
    match &record.what {
        What::Send { to, term, says } => Some(format!("{from} {to} {term} {says:?}")),
        What::SendSnapshot { peer, .. } => Some(format!("{from} {peer} snapshot")),
        _ => None, // Nothing is sent.
    }
}

fn received(record: &Record) -> Option<String> {
    let to = record.node;
    match &record.what {
        What::Receive { from, term, says } => Some(format!("{from} {to} {term} {says:?}")),
        What::SnapshotReceived { from, .. } => Some(format!("{from} {to} snapshot")),
        _ => None, // Nothing arrives.
    }
}

/// Stretches of a lane in one role and term: lane, from, to, term, role.
fn spans(records: &[(Line, Record)], nodes: &[u64], micros: &impl Fn(u64) -> f64) -> Vec<Value> {
    let mut spans = Vec::new();
    let end = records.iter().map(|(_, record)| record.at).max().unwrap_or(0);
    for (lane, node) in nodes.iter().enumerate() {
        // Since when it has been in which term and role; and when it was last heard of.
        let mut now: Option<(u64, u64, &str)> = None;
        let mut heard_at = 0;
        let mut close = |now: &mut Option<(u64, u64, &str)>, until: u64| {
            if let Some((since, term, role)) = now.take() {
                spans.push(json!([lane, micros(since), micros(until), term, role]));
            }
        };
        for record in records.iter().map(|(_, record)| record).filter(|it| it.node == *node) {
            match &record.what {
                What::Start(start) => {
                    // What was killed was up as long as it was heard of.
                    close(&mut now, heard_at);
                    now = Some((record.at, start.hard_state.term, "follower"));
                }
                What::Role { term, role, .. } => {
                    close(&mut now, record.at);
                    now = Some((record.at, *term, role_name(*role)));
                }
                What::Stop | What::Crash => close(&mut now, record.at),
                _ if now.is_none() => now = Some((record.at, 0, "follower")),
                _ => {} // It stays what it is.
            }
            heard_at = record.at;
        }
        close(&mut now, end);
    }
    spans
}

fn role_name(role: Role) -> &'static str {
    match role {
        Role::Follower => "follower",
        Role::PreCandidate => "pre_candidate",
        Role::Candidate => "candidate",
        Role::Leader => "leader",
    }
}
