//! `kontiki snapshot`: a backup of a node that runs, what it is worth, and a new cluster of it.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use kontiki_kv::backup::{self, Backup, Restoration};
use kontiki_kv::config::{MemberList, ServeConfig, Settings, UrlList};
use kontiki_kv::store::RevisionBump;
use serde_json::json;

use super::status::size;
use super::{Align, Connect, Failure, Table, block_on, show};

#[derive(Subcommand)]
pub(super) enum SnapshotCommand {
    /// Save what a node has applied to a file; the file counts only once it is whole
    Save(SaveArgs),
    /// Check a file from its first byte to its last, and show what is in it
    Status(StatusArgs),
    /// Make the data directory of a member of a new cluster; to be done for each of them, with
    /// the same file
    Restore(RestoreArgs),
}

#[derive(Args)]
pub(super) struct SaveArgs {
    /// The file; one that is there is replaced
    file: PathBuf,
    #[command(flatten)]
    connect: Connect,
}

#[derive(Args)]
pub(super) struct StatusArgs {
    /// The file
    file: PathBuf,
    /// As JSON rather than as a table
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub(super) struct RestoreArgs {
    /// The file
    file: PathBuf,
    /// The name of the member, unique in the new cluster [default: default]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// The directory to make, which must not be there yet [default: ${name}.kontiki]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// All members of the new cluster, the same text for each: NAME=URL,NAME=URL
    /// [default: this member alone]
    #[arg(long, value_name = "MEMBERS")]
    initial_cluster: Option<MemberList>,
    /// Keeps clusters apart that were made from the same URLs [default: etcd-cluster]
    #[arg(long, value_name = "TEXT")]
    initial_cluster_token: Option<String>,
    /// What the other members dial [default: http://localhost:2380]
    #[arg(long, value_name = "URLS")]
    initial_advertise_peer_urls: Option<UrlList>,
    /// How far revisions are moved on: further than the old cluster went after the backup
    #[arg(long, value_name = "N", default_value_t = RevisionBump::default().by)]
    bump_revision: u64,
    /// Keep the revisions before, so that they can be read; watchers may then miss what the old
    /// cluster did after the backup
    #[arg(long)]
    keep_history: bool,
}

pub(super) fn run(command: SnapshotCommand) -> Result<ExitCode, Failure> {
    match command {
        SnapshotCommand::Save(args) => save(&args),
        SnapshotCommand::Status(args) => status(&args),
        SnapshotCommand::Restore(args) => restore(args),
    }
}

/// Fetches the backup into a file of another name, checks it, and gives it its name.
fn save(args: &SaveArgs) -> Result<ExitCode, Failure> {
    let dir = match args.file.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        Some(_) | None => Path::new("."),
    };
    let failed = |what: &str, error: std::io::Error| {
        Failure::new(format!("cannot {what} {}: {error}", args.file.display()))
    };
    if args.file.symlink_metadata().is_ok_and(|there| !there.is_file()) {
        // A device, or a link, would be replaced by the file.
        let reason = "is there, and no file; give the name of a new one";
        return Err(Failure::usage(format!("{} {reason}", args.file.display())));
    }
    // Readable by its owner alone: it holds everything that the store does.
    let part = tempfile::Builder::new().prefix(".snapshot-").suffix(".part").tempfile_in(dir);
    let mut part = part.map_err(|error| failed("write", error))?;
    block_on(fetch(&args.connect, part.as_file_mut()))??;
    part.as_file().sync_all().map_err(|error| failed("sync", error))?;
    let backup = Backup::open(part.path()).map_err(Failure::new)?;
    part.persist(&args.file).map_err(|error| failed("write", error.error))?;
    let synced = std::fs::File::open(dir).and_then(|dir| dir.sync_all());
    synced.map_err(|error| failed("sync", error))?;
    let bytes = backup.bytes().map_err(Failure::new)?;
    let text = format!(
        "Snapshot saved at {}: revision {}, {} keys, {}\n",
        args.file.display(),
        backup.status.revision,
        backup.status.keys,
        size(bytes.try_into().unwrap_or(i64::MAX))
    );
    show(text.as_bytes())
}

async fn fetch(connect: &Connect, file: &mut impl Write) -> Result<(), Failure> {
    let mut pieces = connect.client().snapshot().await?;
    let broken = |error: &dyn std::fmt::Display| {
        Failure::new(format!("the snapshot did not arrive whole: {error}; try again"))
    };
    loop {
        let piece = tokio::time::timeout(connect.command_timeout, pieces.message()).await;
        let piece = piece.map_err(|_| broken(&"no more came in time"))?;
        match piece.map_err(|status| broken(&status.message()))? {
            None => return Ok(()),
            Some(piece) => {
                let written = file.write_all(&piece.blob);
                written.map_err(|error| Failure::new(format!("cannot write: {error}")))?;
            }
        }
    }
}

fn status(args: &StatusArgs) -> Result<ExitCode, Failure> {
    let backup = Backup::open(&args.file).map_err(Failure::new)?;
    let (status, bytes) = (backup.status, backup.bytes().map_err(Failure::new)?);
    if args.json {
        let status = json!({
            "format": status.format,
            "hash": format!("{:08x}", status.hash),
            "revision": status.revision,
            "compacted": status.compacted,
            "keys": status.keys,
            "changes": status.changes,
            "size": bytes,
        });
        return show(format!("{status:#}\n").as_bytes());
    }
    let mut table = Table::new([
        ("HASH", Align::Left),
        ("REVISION", Align::Right),
        ("COMPACTED", Align::Right),
        ("TOTAL KEYS", Align::Right),
        ("CHANGES", Align::Right),
        ("TOTAL SIZE", Align::Right),
    ]);
    table.row([
        format!("{:08x}", status.hash),
        status.revision.to_string(),
        status.compacted.to_string(),
        status.keys.to_string(),
        status.changes.to_string(),
        size(bytes.try_into().unwrap_or(i64::MAX)),
    ]);
    show(table.boxed().as_bytes())
}

fn restore(args: RestoreArgs) -> Result<ExitCode, Failure> {
    let settings = Settings {
        name: args.name,
        data_dir: args.data_dir,
        initial_cluster: args.initial_cluster,
        initial_cluster_token: args.initial_cluster_token,
        initial_advertise_peer_urls: args.initial_advertise_peer_urls,
        ..Settings::default()
    };
    let config = ServeConfig::resolve(settings)?;
    let member_id = config.initial_id()?;
    let bump = RevisionBump {
        by: args.bump_revision,
        mark_compacted: !args.keep_history,
        ..RevisionBump::default()
    };
    let (data_dir, members) = (config.data_dir.clone(), config.initial_cluster.clone());
    let wanted = Restoration { data_dir, member_id, members, bump };
    let restored = backup::restore(&args.file, &wanted).map_err(Failure::new)?;
    let text = format!(
        "{} holds member {member_id} of cluster {:x}: {} keys, from revision {} moved on to {}\n\
         Start it with --name={} --data-dir={} and where it listens, and the other members, made \
         of the same file.\n",
        config.data_dir.display(),
        restored.cluster_id,
        restored.status.keys,
        restored.status.revision,
        restored.revision,
        config.name,
        config.data_dir.display(),
    );
    show(text.as_bytes())
}
