//! `kontiki wal inspect` and `verify`: what the log of a node holds, and whether it is whole.
//!
//! Both only read, and take no lock: they can be used beside a node that runs.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use kontiki::raft_storage::{EntryReport, OpenError, Report, SegmentReport, Verdict, inspect};
use serde_json::{Value, json};

use super::{Align, Failure, Table, show};

/// A log that is whole, and the two ways in which it may not be.
const CLEAN: u8 = 0;
const TORN_TAIL: u8 = 1;
const CORRUPT: u8 = 2;
/// Nothing can be said: there is no log, or it cannot be read.
const UNREADABLE: u8 = 3;

#[derive(Subcommand)]
pub(super) enum WalCommand {
    /// Show segments, ranges, terms and the hard state, and the verdict; exit codes as verify's
    Inspect(WalArgs),
    /// Check every byte: exit code 0 clean, 1 torn tail, 2 corrupt, 3 not readable
    Verify(WalArgs),
}

#[derive(Args)]
pub(super) struct WalArgs {
    /// The data directory of a node, or the directory of a log
    dir: PathBuf,
    /// As JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(command: WalCommand) -> Result<ExitCode, Failure> {
    let (WalCommand::Inspect(args) | WalCommand::Verify(args)) = &command;
    let report = inspect(&log_dir(&args.dir)).map_err(|error| {
        let lost = matches!(error, OpenError::Corrupt(_) | OpenError::IdentityLost { .. });
        Failure::new(error).with_code(if lost { CORRUPT } else { UNREADABLE })
    })?;
    let text = match &command {
        WalCommand::Inspect(WalArgs { json: true, .. }) => format!("{:#}\n", report_json(&report)),
        WalCommand::Verify(WalArgs { json: true, .. }) => format!("{:#}\n", verdict_json(&report)),
        WalCommand::Inspect(_) => report_text(&report),
        WalCommand::Verify(_) => format!("{}\n", verdict_line(&report)),
    };
    show(text.as_bytes())?;
    Ok(ExitCode::from(match report.verdict {
        Verdict::Clean => CLEAN,
        Verdict::TornTail { .. } => TORN_TAIL,
        Verdict::Corrupt { .. } => CORRUPT,
    }))
}

/// Where a node keeps its log, below its data directory.
pub(super) fn log_dir(dir: &Path) -> PathBuf {
    let inner = dir.join("raft");
    if inner.is_dir() { inner } else { dir.to_owned() }
}

fn report_text(report: &Report) -> String {
    let hex = |ids: &[u64]| ids.iter().map(|id| format!("{id:x}")).collect::<Vec<_>>().join(", ");
    let at = |entry: Option<EntryReport>| {
        entry.map_or("none".to_owned(), |entry| {
            format!("entry {}, term {}", entry.index, entry.term)
        })
    };
    let members = report.memberships.iter().map(|it| {
        let parts = [("voters", &it.voters), ("before", &it.outgoing), ("learners", &it.learners)];
        let parts = parts.iter().filter(|(_, ids)| !ids.is_empty());
        let parts: Vec<String> = parts.map(|(name, ids)| format!("{name} {}", hex(ids))).collect();
        format!("members      from entry {}: {}\n", it.index, parts.join("; "))
    });
    let members: String = members.collect();
    let snapshots = report.snapshots.iter().map(|it| {
        let bytes = it.bytes.map_or(String::new(), |bytes| format!(", {bytes} bytes"));
        format!("             {} {}{bytes}\n", it.file, it.state)
    });
    let snapshots: String = snapshots.collect();
    let claim = report.claim.map_or(String::new(), |claim| {
        format!("claim        {} was held before the log was damaged\n", at(Some(claim)))
    });
    let copies: Vec<String> =
        report.meta_copies.iter().map(|copy| format!("{} {}", copy.file, copy.state)).collect();
    let (state, log) = (report.hard_state, report.log);
    let vote = state.vote.map_or("nobody".to_owned(), |id| format!("{id:x}"));
    let mut segments = Table::new([
        ("SEGMENT", Align::Left),
        ("BYTES", Align::Right),
        ("USED", Align::Right),
        ("BATCHES", Align::Right),
        ("ENTRIES", Align::Right),
        ("FIRST INDEX", Align::Right),
        ("LAST INDEX", Align::Right),
        ("TERMS", Align::Left),
    ]);
    for segment in &report.segments {
        segments.row(segment_row(segment));
    }
    format!(
        "directory    {}\n\
         cluster      {:x}\n\
         node         {:x}, disk {:x}, format {}\n\
         founders     {}\n\
         meta         {}\n\
         hard state   term {}, vote {vote}, commit {}\n\
         log          {} to {}, last term {}\n\
         {members}\
         snapshot     {}\n\
         {snapshots}{claim}\
         batches      {}, known to be synced {}\n\
         {}\
         {}\n",
        report.dir,
        report.cluster_id,
        report.node_id,
        report.incarnation,
        report.format,
        hex(&report.voters),
        copies.join(", "),
        state.term,
        state.commit,
        log.first_index,
        log.last_index,
        log.last_term,
        at(report.snapshot),
        report.last_batch,
        report.synced_batch,
        segments.boxed(),
        verdict_line(report)
    )
}

fn segment_row(segment: &SegmentReport) -> [String; 8] {
    let index =
        |entry: Option<EntryReport>| entry.map_or(String::new(), |entry| entry.index.to_string());
    let terms = match (segment.first, segment.last) {
        (Some(first), Some(last)) if first.term == last.term => first.term.to_string(),
        (Some(first), Some(last)) => format!("{}-{}", first.term, last.term),
        _ => String::new(),
    };
    [
        segment.file.clone(),
        segment.bytes.to_string(),
        segment.used_bytes.to_string(),
        segment.batches.to_string(),
        segment.entries.to_string(),
        index(segment.first),
        index(segment.last),
        terms,
    ]
}

pub(super) fn verdict_line(report: &Report) -> String {
    match &report.verdict {
        Verdict::Clean => "clean".to_owned(),
        Verdict::TornTail { file, offset } => format!(
            "torn tail: {file} from byte {offset} on; it was never acknowledged, and the node \
             cuts it when it starts"
        ),
        Verdict::Corrupt { file, offset, reason } => {
            format!("corrupt: {file} at byte {offset}: {reason}")
        }
    }
}

fn verdict_json(report: &Report) -> Value {
    match &report.verdict {
        Verdict::Clean => json!({ "verdict": "clean" }),
        Verdict::TornTail { file, offset } => {
            json!({ "verdict": "torn_tail", "file": file, "offset": offset })
        }
        Verdict::Corrupt { file, offset, reason } => {
            json!({ "verdict": "corrupt", "file": file, "offset": offset, "reason": reason })
        }
    }
}

/// Ids in hexadecimal, as everywhere: a JSON number cannot hold them all.
fn report_json(report: &Report) -> Value {
    let id = |id: u64| format!("{id:x}");
    let entry = |entry: EntryReport| json!({ "index": entry.index, "term": entry.term });
    let copies = report.meta_copies.iter();
    let segments = report.segments.iter();
    json!({
        "dir": report.dir,
        "format": report.format,
        "cluster_id": id(report.cluster_id),
        "node_id": id(report.node_id),
        "incarnation": id(report.incarnation),
        "voters": report.voters.iter().copied().map(id).collect::<Vec<_>>(),
        "meta_copies": copies.map(|copy| json!({
            "file": copy.file,
            "generation": copy.generation,
            "state": copy.state,
        })).collect::<Vec<_>>(),
        "segments": segments.map(|segment| json!({
            "file": segment.file,
            "bytes": segment.bytes,
            "used_bytes": segment.used_bytes,
            "batches": segment.batches,
            "entries": segment.entries,
            "first": segment.first.map(entry),
            "last": segment.last.map(entry),
        })).collect::<Vec<_>>(),
        "hard_state": {
            "term": report.hard_state.term,
            "vote": report.hard_state.vote.map(id),
            "commit": report.hard_state.commit,
        },
        "log": {
            "first_index": report.log.first_index,
            "last_index": report.log.last_index,
            "last_term": report.log.last_term,
        },
        "memberships": report.memberships.iter().map(|it| json!({
            "index": it.index,
            "voters": it.voters.iter().copied().map(id).collect::<Vec<_>>(),
            "outgoing": it.outgoing.iter().copied().map(id).collect::<Vec<_>>(),
            "learners": it.learners.iter().copied().map(id).collect::<Vec<_>>(),
        })).collect::<Vec<_>>(),
        "snapshot": report.snapshot.map(entry),
        "snapshots": report.snapshots.iter().map(|it| json!({
            "file": it.file,
            "last": entry(it.last),
            "bytes": it.bytes,
            "state": it.state,
        })).collect::<Vec<_>>(),
        "claim": report.claim.map(entry),
        "set_aside": report.set_aside,
        "last_batch": report.last_batch,
        "synced_batch": report.synced_batch,
        "verdict": verdict_json(report),
    })
}
