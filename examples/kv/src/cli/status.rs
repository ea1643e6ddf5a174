//! `kontiki status`: how each endpoint is, and how the members are as the leader sees them.

use std::process::ExitCode;

use clap::Args;
use kontiki_client::ClientUrl;
use kontiki_kv::admin::Admin;
use kontiki_kv::proto::etcdserverpb::StatusResponse;
use kontiki_kv::proto::kontiki::{InspectResponse, InspectedMember, Progress};
use serde_json::json;

use super::{Align, Connect, Failure, Table, block_on, show};

#[derive(Args)]
pub(super) struct StatusArgs {
    /// As JSON rather than as a table
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connect: Connect,
}

/// What an endpoint says of itself; `None` where it is none of Kontiki's.
struct Answer {
    endpoint: ClientUrl,
    status: StatusResponse,
    inspected: Option<InspectResponse>,
}

pub(super) fn run(args: StatusArgs) -> Result<ExitCode, Failure> {
    let mut answers = Vec::new();
    let mut failed = false;
    for (endpoint, status) in block_on(args.connect.client().statuses())? {
        match status {
            Ok(status) => {
                let client = args.connect.client_of(endpoint.clone());
                let inspected = block_on(client.inspect())?.ok();
                answers.push(Answer { endpoint, status, inspected });
            }
            Err(error) => {
                failed = true;
                eprintln!("error: {error}");
            }
        }
    }
    if args.json {
        let statuses: Vec<_> = answers.iter().map(answer_json).collect();
        show(format!("{:#}\n", json!(statuses)).as_bytes())?;
    } else if !answers.is_empty() {
        let mut text = status_table(&answers).boxed();
        if let Some(inspected) = best_informed(&answers) {
            text += &member_table(inspected).boxed();
        }
        show(text.as_bytes())?;
    }
    Ok(ExitCode::from(u8::from(failed)))
}

/// The leader of the newest term knows most; any other one knows who is there.
fn best_informed(answers: &[Answer]) -> Option<&InspectResponse> {
    let inspected = answers.iter().filter_map(|answer| answer.inspected.as_ref());
    inspected.max_by_key(|it| (it.leader == it.member_id && it.leader != 0, it.term))
}

fn member_table(inspected: &InspectResponse) -> Table {
    let mut table = Table::new([
        ("MEMBER", Align::Left),
        ("NAME", Align::Left),
        ("STANDING", Align::Left),
        ("PRIORITY", Align::Right),
        ("LIVE", Align::Left),
        ("BEHIND", Align::Right),
        ("CAUGHT UP", Align::Left),
        ("SNAPSHOT", Align::Left),
        ("PEER URLS", Align::Left),
    ]);
    for member in &inspected.members {
        let progress = member.progress.as_ref();
        let is_leader = member.id == inspected.leader;
        let told = |tell: &dyn Fn(&Progress) -> String| progress.map(tell).unwrap_or_default();
        let behind = |it: &Progress| match it.matched {
            // A leader knows nothing of a member that it has not heard yet.
            0 if !it.is_live => "unknown".to_owned(),
            matched => inspected.last.saturating_sub(matched).to_string(),
        };
        table.row([
            format!("{:x}", member.id),
            member.name.clone(),
            if is_leader { "leader".to_owned() } else { member.standing.clone() },
            member.priority.to_string(),
            told(&|it| it.is_live.to_string()),
            told(&behind),
            told(&|it| it.has_caught_up.to_string()),
            told(&snapshot),
            member.peer_urls.join(","),
        ]);
    }
    table
}

/// How far a snapshot has come that a member needs.
fn snapshot(progress: &Progress) -> String {
    match (progress.needs_snapshot, progress.snapshot_len_bytes) {
        (false, _) => String::new(),
        (true, 0) => "needed".to_owned(),
        (true, len) => {
            let signed = |bytes: u64| size(bytes.try_into().unwrap_or(i64::MAX));
            format!("{} of {}", signed(progress.snapshot_sent_bytes), signed(len))
        }
    }
}

fn status_table(answers: &[Answer]) -> Table {
    let mut table = Table::new([
        ("ENDPOINT", Align::Left),
        ("ID", Align::Left),
        ("VERSION", Align::Left),
        ("DB SIZE", Align::Right),
        ("IS LEADER", Align::Left),
        ("IS LEARNER", Align::Left),
        ("RAFT TERM", Align::Right),
        ("RAFT INDEX", Align::Right),
        ("APPLIED", Align::Right),
        ("ERRORS", Align::Left),
    ]);
    for Answer { endpoint, status, .. } in answers {
        let member_id = status.header.as_ref().map_or(0, |header| header.member_id);
        table.row([
            endpoint.to_string(),
            format!("{member_id:x}"),
            status.version.clone(),
            size(status.db_size),
            (status.leader != 0 && status.leader == member_id).to_string(),
            status.is_learner.to_string(),
            status.raft_term.to_string(),
            status.raft_index.to_string(),
            status.raft_applied_index.to_string(),
            status.errors.join("; "),
        ]);
    }
    table
}

fn answer_json(answer: &Answer) -> serde_json::Value {
    let Answer { endpoint, status, inspected } = answer;
    let header = status.header.unwrap_or_default();
    json!({
        "endpoint": endpoint.to_string(),
        "cluster_id": format!("{:x}", header.cluster_id),
        "member_id": format!("{:x}", header.member_id),
        "revision": header.revision,
        "version": status.version,
        "db_size": status.db_size,
        "db_size_in_use": status.db_size_in_use,
        "leader": format!("{:x}", status.leader),
        "is_learner": status.is_learner,
        "raft_term": status.raft_term,
        "raft_index": status.raft_index,
        "raft_applied_index": status.raft_applied_index,
        "errors": status.errors,
        "inspected": inspected.as_ref().map(inspected_json),
    })
}

fn inspected_json(inspected: &InspectResponse) -> serde_json::Value {
    let id = |id: u64| (id != 0).then(|| format!("{id:x}"));
    json!({
        "role": inspected.role,
        "base": inspected.base,
        "last": inspected.last,
        "durable": inspected.durable,
        "snapshot": inspected.snapshot,
        "claim": inspected.claim,
        "is_storage_stalled": inspected.is_storage_stalled,
        "transferring_to": id(inspected.transferring_to),
        "membership_index": inspected.membership_index,
        "members": inspected.members.iter().map(member_json).collect::<Vec<_>>(),
    })
}

fn member_json(member: &InspectedMember) -> serde_json::Value {
    json!({
        "id": format!("{:x}", member.id),
        "name": member.name,
        "peer_urls": member.peer_urls,
        "client_urls": member.client_urls,
        "standing": member.standing,
        "priority": member.priority,
        "incarnation": format!("{:x}", member.incarnation),
        "progress": member.progress.map(|it| json!({
            "matched": it.matched,
            "is_live": it.is_live,
            "has_caught_up": it.has_caught_up,
            "needs_snapshot": it.needs_snapshot,
            "snapshot_sent_bytes": it.snapshot_sent_bytes,
            "snapshot_len_bytes": it.snapshot_len_bytes,
        })),
    })
}

/// Bytes with a unit that leaves three figures or so.
pub(super) fn size(bytes: i64) -> String {
    const UNITS: [&str; 4] = ["kB", "MB", "GB", "TB"];
    if bytes < 1000 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1000.0;
    let mut unit = 0;
    while value >= 1000.0 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_keep_about_three_figures() {
        for (bytes, text) in
            [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (20_480, "20.5 kB"), (2 << 30, "2.1 GB")]
        {
            assert_eq!(size(bytes), text);
        }
    }
}
