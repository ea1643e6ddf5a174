//! `kontiki member`: who is in the cluster and who leads it. Output is etcdctl's where they mean
//! the same.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use kontiki_kv::admin::Admin;
use kontiki_kv::config::{HttpUrl, UrlList};
use kontiki_kv::proto::etcdserverpb::{Member, MemberAddRequest};
use kontiki_kv::proto::kontiki::member_change::Change;
use kontiki_kv::proto::kontiki::{
    ChangeMembersRequest, MemberChange, NewAddress, NewMember, NewPriority,
};
use serde_json::json;

use super::{Connect, Failure, block_on, show};

#[derive(Subcommand)]
pub(super) enum MemberCommand {
    /// Show who is in the cluster
    List(ListArgs),
    /// Add a member, which joins as a learner and votes as soon as it has caught up
    Add(AddArgs),
    /// Remove a member for ever
    Remove(RemoveArgs),
    /// Move a member to other peer URLs
    Update(UpdateArgs),
    /// Make a voter of a learner that has caught up
    Promote(OneArgs),
    /// Make a learner of a voter
    Demote(OneArgs),
    /// Put a new member in the place of another, which leaves when the new one votes
    Replace(ReplaceArgs),
    /// Give up what is pending: promotions, and replacements whose new member does not come
    Cancel(CancelArgs),
    /// Say who is to lead among those that live and have caught up: the highest priority
    SetPriority(PriorityArgs),
    /// Hand leadership over, to a member or to the best there is
    MoveLeader(MoveArgs),
}

#[derive(Args)]
pub(super) struct ListArgs {
    /// As JSON rather than as text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connect: Connect,
}

#[derive(Args)]
pub(super) struct AddArgs {
    /// The --name that it will be started with
    name: String,
    /// Where the others will reach it, separated by commas
    #[arg(long, value_name = "URLS")]
    peer_urls: UrlList,
    /// It stays a learner until it is promoted
    #[arg(long)]
    learner: bool,
    #[command(flatten)]
    connect: Connect,
}

#[derive(Args)]
pub(super) struct OneArgs {
    /// The member, as the list shows it
    #[arg(value_parser = id)]
    id: u64,
    #[command(flatten)]
    connect: Connect,
}

#[derive(Args)]
pub(super) struct RemoveArgs {
    /// The member, as the list shows it
    #[arg(value_parser = id)]
    id: u64,
    /// Even where too few of those that stay are alive
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    connect: Connect,
}

#[derive(Args)]
pub(super) struct UpdateArgs {
    /// The member, as the list shows it
    #[arg(value_parser = id)]
    id: u64,
    /// Where the others reach it from now on, separated by commas
    #[arg(long, value_name = "URLS")]
    peer_urls: UrlList,
    #[command(flatten)]
    connect: Connect,
}

#[derive(Args)]
pub(super) struct ReplaceArgs {
    /// The member that leaves, as the list shows it
    #[arg(value_parser = id)]
    id: u64,
    /// The --name that the new one will be started with
    name: String,
    /// Where the others will reach the new one, separated by commas
    #[arg(long, value_name = "URLS")]
    peer_urls: UrlList,
    /// Even where too few of the members are alive
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    connect: Connect,
}

#[derive(Args)]
pub(super) struct CancelArgs {
    #[command(flatten)]
    connect: Connect,
}

#[derive(Args)]
pub(super) struct PriorityArgs {
    /// The member, as the list shows it
    #[arg(value_parser = id)]
    id: u64,
    /// 0 to 255
    priority: u8,
    #[command(flatten)]
    connect: Connect,
}

#[derive(Args)]
pub(super) struct MoveArgs {
    /// The member that is to lead [default: the best there is]
    #[arg(value_parser = id)]
    id: Option<u64>,
    #[command(flatten)]
    connect: Connect,
}

pub(super) fn run(command: MemberCommand) -> Result<ExitCode, Failure> {
    match command {
        MemberCommand::List(args) => list(&args),
        MemberCommand::Add(args) => add(args),
        MemberCommand::Remove(RemoveArgs { id, force, connect }) => {
            change(&connect, vec![Change::Remove(id)], force)?;
            show(format!("Member {id:x} removed\n").as_bytes())
        }
        MemberCommand::Update(UpdateArgs { id, peer_urls, connect }) => {
            let address = NewAddress { id, peer_urls: texts(&peer_urls.0) };
            change(&connect, vec![Change::SetAddress(address)], false)?;
            show(format!("Member {id:x} moved to {peer_urls}\n").as_bytes())
        }
        MemberCommand::Promote(OneArgs { id, connect }) => {
            change(&connect, vec![Change::Promote(id)], false)?;
            show(format!("Member {id:x} votes\n").as_bytes())
        }
        MemberCommand::Demote(OneArgs { id, connect }) => {
            change(&connect, vec![Change::Demote(id)], false)?;
            show(format!("Member {id:x} is a learner\n").as_bytes())
        }
        MemberCommand::Replace(args) => replace(args),
        MemberCommand::Cancel(CancelArgs { connect }) => {
            change(&connect, vec![Change::Cancel(true)], false)?;
            show(b"Nothing is pending any more\n")
        }
        MemberCommand::SetPriority(PriorityArgs { id, priority, connect }) => {
            let new = NewPriority { id, priority: priority.into() };
            change(&connect, vec![Change::SetPriority(new)], false)?;
            show(format!("Member {id:x} has priority {priority}\n").as_bytes())
        }
        MemberCommand::MoveLeader(MoveArgs { id, connect }) => {
            let client = connect.client();
            let leader = block_on(client.transfer_leadership(id.unwrap_or(0)))??.leader;
            show(format!("Member {leader:x} leads\n").as_bytes())
        }
    }
}

/// An id as it is shown: in hexadecimal.
fn id(text: &str) -> Result<u64, String> {
    match u64::from_str_radix(text, 16) {
        Ok(id) if id != 0 => Ok(id),
        _ => Err("give the id of a member as kontiki member list shows it".to_owned()),
    }
}

fn change(connect: &Connect, changes: Vec<Change>, force: bool) -> Result<(), Failure> {
    let change = |change| MemberChange { change: Some(change) };
    let changes = changes.into_iter().map(change).collect();
    let request = ChangeMembersRequest { changes, expected: None, force };
    block_on(connect.client().change_members(request))??;
    Ok(())
}

fn list(args: &ListArgs) -> Result<ExitCode, Failure> {
    let response = block_on(args.connect.client().members())??;
    if args.json {
        let members: Vec<_> = response.members.iter().map(member_json).collect();
        show(format!("{:#}\n", json!(members)).as_bytes())
    } else {
        let lines: String = response.members.iter().map(|it| member_line(it) + "\n").collect();
        show(lines.as_bytes())
    }
}

fn add(args: AddArgs) -> Result<ExitCode, Failure> {
    let AddArgs { name, peer_urls, learner, connect } = args;
    let request = MemberAddRequest { peer_ur_ls: texts(&peer_urls.0), is_learner: learner };
    let response = block_on(connect.client().add_member(request))??;
    let (id, cluster) =
        (response.member.map_or(0, |it| it.id), response.header.map_or(0, |it| it.cluster_id));
    let head = format!("Member {id:x} added to cluster {cluster:x}\n");
    show((head + &settings_of(id, &name, &peer_urls, &response.members)).as_bytes())
}

fn replace(args: ReplaceArgs) -> Result<ExitCode, Failure> {
    let ReplaceArgs { id: old, name, peer_urls, force, connect } = args;
    let new = NewMember { id: 0, peer_urls: texts(&peer_urls.0) };
    change(&connect, vec![Change::AddVoter(new), Change::Remove(old)], force)?;
    let members = block_on(connect.client().members())??.members;
    let is_new = |member: &&Member| {
        let mut found = member.peer_ur_ls.clone();
        let mut wanted = texts(&peer_urls.0);
        found.sort();
        wanted.sort();
        found == wanted
    };
    let id = members.iter().find(is_new).map_or(0, |member| member.id);
    let head =
        format!("Member {id:x} added; member {old:x} leaves as soon as {name} has caught up\n");
    let others: Vec<Member> = members.into_iter().filter(|member| member.id != old).collect();
    show((head + &settings_of(id, &name, &peer_urls, &others)).as_bytes())
}

/// What a new member is to be started with, as the environment has it.
fn settings_of(id: u64, name: &str, peer_urls: &UrlList, members: &[Member]) -> String {
    let of = |member: &Member| {
        let name = if member.id == id { name } else { &member.name }.to_owned();
        // A member that has not come up yet has no name; any will do to join.
        let name = if name.is_empty() { format!("{:x}", member.id) } else { name };
        let urls = member.peer_ur_ls.iter().map(move |url| format!("{name}={url}"));
        urls.collect::<Vec<_>>()
    };
    let cluster: Vec<String> = members.iter().flat_map(of).collect();
    format!(
        "\nKONTIKI_NAME=\"{name}\"\nKONTIKI_INITIAL_CLUSTER=\"{}\"\n\
         KONTIKI_INITIAL_ADVERTISE_PEER_URLS=\"{peer_urls}\"\n\
         KONTIKI_INITIAL_CLUSTER_STATE=\"existing\"\n",
        cluster.join(",")
    )
}

fn texts(urls: &[HttpUrl]) -> Vec<String> {
    urls.iter().map(ToString::to_string).collect()
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
    fn an_id_is_what_the_list_shows() {
        assert_eq!(id("ff"), Ok(255));
        assert_eq!(id("e523799dd04a89ff"), Ok(0xe523_799d_d04a_89ff));
        for text in ["", "0", "n1", "0x7", "-1", "1e523799dd04a89ff"] {
            assert!(id(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_new_member_is_told_of_all_others_under_its_own_name() {
        let member = |id, name: &str, urls: &[&str]| Member {
            id,
            name: name.to_owned(),
            peer_ur_ls: urls.iter().map(|&url| url.to_owned()).collect(),
            ..Member::default()
        };
        let members = [
            member(1, "n1", &["http://a:1", "http://a:2"]),
            member(2, "", &["http://b:1"]),
            member(0x1f, "", &["http://c:1"]),
        ];
        let text = settings_of(2, "n2", &"http://b:1".parse().expect("URLs"), &members);
        let expected = "KONTIKI_INITIAL_CLUSTER=\"n1=http://a:1,n1=http://a:2,n2=http://b:1,\
                        1f=http://c:1\"\n";
        assert!(text.contains(expected), "{text}");
    }
}
