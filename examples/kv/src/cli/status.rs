//! `kontiki status` and `kontiki member list`.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use kontiki_kv::client::ClientUrl;
use kontiki_kv::proto::etcdserverpb::{Member, StatusResponse};
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

#[derive(Subcommand)]
pub(super) enum MemberCommand {
    /// Show who is in the cluster
    List(MemberListArgs),
}

#[derive(Args)]
pub(super) struct MemberListArgs {
    /// As JSON rather than as text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connect: Connect,
}

pub(super) fn run(args: StatusArgs) -> Result<ExitCode, Failure> {
    let mut answers = Vec::new();
    let mut failed = false;
    for (endpoint, answer) in block_on(args.connect.client().statuses())? {
        match answer {
            Ok(status) => answers.push((endpoint, status)),
            Err(error) => {
                failed = true;
                eprintln!("error: {error}");
            }
        }
    }
    if args.json {
        let statuses: Vec<_> = answers.iter().map(status_json).collect();
        show(format!("{:#}\n", json!(statuses)).as_bytes())?;
    } else if !answers.is_empty() {
        show(status_table(&answers).boxed().as_bytes())?;
    }
    Ok(ExitCode::from(u8::from(failed)))
}

fn status_table(answers: &[(ClientUrl, StatusResponse)]) -> Table {
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
    for (endpoint, status) in answers {
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

fn status_json((endpoint, status): &(ClientUrl, StatusResponse)) -> serde_json::Value {
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
    })
}

/// Bytes with a unit that leaves three figures or so.
fn size(bytes: i64) -> String {
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

pub(super) fn member(command: MemberCommand) -> Result<ExitCode, Failure> {
    let MemberCommand::List(args) = command;
    let response = block_on(args.connect.client().members())??;
    if args.json {
        let members: Vec<_> = response.members.iter().map(member_json).collect();
        show(format!("{:#}\n", json!(members)).as_bytes())
    } else {
        let lines: String = response.members.iter().map(|it| member_line(it) + "\n").collect();
        show(lines.as_bytes())
    }
}

/// As etcdctl: id, status, name, peer URLs, client URLs, learner. Without a name a member was
/// added but has not come up yet.
fn member_line(member: &Member) -> String {
    [
        format!("{:x}", member.id),
        if member.name.is_empty() { "unstarted" } else { "started" }.to_owned(),
        member.name.clone(),
        member.peer_ur_ls.join(","),
        member.client_ur_ls.join(","),
        member.is_learner.to_string(),
    ]
    .join(", ")
}

fn member_json(member: &Member) -> serde_json::Value {
    json!({
        "id": format!("{:x}", member.id),
        "name": member.name,
        "peer_urls": member.peer_ur_ls,
        "client_urls": member.client_ur_ls,
        "is_learner": member.is_learner,
    })
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
