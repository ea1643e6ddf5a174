//! `kontiki recover`: when a majority is lost for good, a new cluster of what one node holds.
//! Offline, and never by accident: without the longest of its flags it only tells.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use kontiki::raft_storage::{self, Forced, Report, Verdict, force_new_cluster, inspect};

use super::wal::log_dir;
use super::{Failure, show};

#[derive(Args)]
pub(super) struct RecoverArgs {
    /// Make this node the only member of a new cluster
    #[arg(long, required = true)]
    force_new_cluster: bool,
    /// The data directory of the node, which must be stopped
    #[arg(long, value_name = "DIR")]
    data_dir: PathBuf,
    /// Do it; without this flag it is only told what would be done and what may be lost
    #[arg(long)]
    accept_that_data_may_be_lost: bool,
}

pub(super) fn run(args: RecoverArgs) -> Result<ExitCode, Failure> {
    let dir = log_dir(&args.data_dir);
    if !args.accept_that_data_may_be_lost {
        let report = inspect(&dir).map_err(Failure::new)?;
        show(outlook(&args.data_dir, &report).as_bytes())?;
        return Err(Failure::usage(
            "nothing was changed; if that is what you want, and the lost members are lost for \
             good, say so with --accept-that-data-may-be-lost",
        ));
    }
    // The store needs no snapshot of the log: it keeps its state by itself.
    let state_kept = raft_storage::StateKept::Elsewhere;
    let options = raft_storage::Options { state_kept, ..Default::default() };
    let cluster_id = rand::random_range(1..=u64::MAX);
    let forced = force_new_cluster(&dir, cluster_id, &options).map_err(Failure::new)?;
    show(outcome(&args.data_dir, &forced).as_bytes())
}

/// What would be done, and what may be lost by it.
fn outlook(data_dir: &Path, report: &Report) -> String {
    let others = report.memberships.last().map_or_else(Vec::new, |newest| {
        let ids: BTreeSet<u64> =
            newest.voters.iter().chain(&newest.outgoing).chain(&newest.learners).copied().collect();
        ids.into_iter().filter(|id| *id != report.node_id).map(|id| format!("{id:x}")).collect()
    });
    let (commit, last) = (report.hard_state.commit, report.log.last_index);
    let mut text = format!(
        "{} is of node {:x} of cluster {:x}.\n\
         It would become the only member of a new cluster; these would be no members any more, \
         and be refused should they still live: {}\n",
        data_dir.display(),
        report.node_id,
        report.cluster_id,
        list(&others),
    );
    text += &losses(commit, last);
    text += "Compare the logs of all members that are left (kontiki wal inspect), and take the one \
             of the highest last term, and of these the longest.\n";
    if let Some(claim) = report.claim {
        text += &format!(
            "This log was damaged once: it lacks entries up to {} that it had acknowledged. \
             Take another member; if all are damaged, start one, take a backup of the state that \
             it has (kontiki snapshot save), and restore that.\n",
            claim.index
        );
    }
    if report.verdict != Verdict::Clean {
        text += &format!("The log is not clean: {}\n", super::wal::verdict_line(report));
    }
    text
}

fn losses(commit: u64, last: u64) -> String {
    let between = match last.saturating_sub(commit) {
        0 => String::new(),
        count => format!(
            "Entries {} to {last} ({count}) may or may not have been committed; they would count.\n",
            commit + 1
        ),
    };
    format!(
        "It holds everything that was committed up to entry {commit}.\n{between}Whatever the \
         others committed behind entry {last} is lost, though clients were told that it is safe.\n"
    )
}

fn outcome(data_dir: &Path, forced: &Forced) -> String {
    let dropped: Vec<String> = forced.dropped.iter().map(ToString::to_string).collect();
    format!(
        "{} is of node {}, the only member of the new cluster {:x} (before: {:x}).\n\
         Dropped: {}.\n{}\
         Start it as before, and add members with kontiki member add; the directories of those \
         that were dropped are of no use any more.\n",
        data_dir.display(),
        forced.identity.node_id,
        forced.identity.cluster_id,
        forced.before.cluster_id,
        list(&dropped),
        losses(forced.commit.0, forced.last.index.0).replace("they would count", "they count"),
    )
}

fn list(ids: &[String]) -> String {
    if ids.is_empty() { "nobody".to_owned() } else { ids.join(", ") }
}
