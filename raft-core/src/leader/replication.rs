//! What a peer is sent: entries as far as its window has room, commit indexes, and a snapshot
//! where the log no longer reaches back far enough.

use crate::node::Node;
use crate::progress::{Pace, Progress};
use crate::{Append, Effect, Entries, Index, LogPosition, Message, NodeId};

pub(super) fn has_room(node: &Node, progress: &Progress) -> bool {
    let config = &node.config;
    match &progress.pace {
        Pace::Probe { waiting } => !waiting,
        Pace::Snapshot => false,
        Pace::Replicate(window) => {
            !window.is_full(config.inflight_appends_max, config.inflight_bytes_max)
        }
    }
}

/// Sends what the peer lacks, as far as its window has room.
pub(super) fn send_appends(node: &mut Node, peer: NodeId, progress: &mut Progress) {
    let last = node.log.last_index();
    while has_room(node, progress) && !progress.loading {
        let probing = matches!(progress.pace, Pace::Probe { .. });
        let (first, bytes_max) = (progress.next, node.config.append_bytes_max);
        if first <= node.log.base().index {
            return send_snapshot(node, peer, progress);
        }
        if first > last {
            if probing {
                send_append(node, peer, progress, Entries::EMPTY);
            }
            return;
        }
        let Some(entries) = node.log.recent(first, last, bytes_max) else {
            progress.loading = true;
            return node.effects.push(Effect::Load { peer, first, last, bytes_max });
        };
        send_append(node, peer, progress, entries);
    }
}

/// The entry that the peer needs next is gone: a snapshot takes the place of the log's beginning
/// (Raft §7). It travels on a stream of its own; until it has arrived, no entries are sent.
fn send_snapshot(node: &mut Node, peer: NodeId, progress: &mut Progress) {
    progress.pace = Pace::Snapshot;
    let (term, at_least) = (node.term, node.log.base());
    node.effects.push(Effect::SendSnapshot { peer, term, at_least });
}

/// What a peer knows of what is committed among the entries it holds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Told {
    Enough,
    Later,
}

/// Tells the peer of a commit index that no append has carried, unless that may wait.
pub(super) fn send_commit(node: &mut Node, peer: NodeId, progress: &mut Progress) -> Told {
    let commit = node.commit.min(progress.matched);
    let waits = progress.commit_sent < progress.forwarded.min(commit);
    if progress.commit_sent < commit && !waits && !node.config.commit_notice_delay.is_zero() {
        return Told::Later;
    }
    notice_commit(node, peer, progress);
    Told::Enough
}

pub(super) fn notice_commit(node: &mut Node, peer: NodeId, progress: &mut Progress) {
    let commit = node.commit.min(progress.matched);
    if progress.commit_sent < commit {
        progress.commit_sent = commit;
        node.send(peer, Message::Commit { commit });
    }
}

/// Sends these entries, which begin at the peer's next index; a snapshot where the log has been
/// cut behind that meanwhile.
pub(super) fn send_append(
    node: &mut Node,
    peer: NodeId,
    progress: &mut Progress,
    entries: Entries,
) {
    let Some(previous) = node.log.position_at(progress.next.prev()) else {
        return send_snapshot(node, peer, progress);
    };
    let commit = node.commit;
    let append = Append { previous, entries, commit };
    let covered = append.last_covered();
    match &mut progress.pace {
        Pace::Probe { waiting } => *waiting = true,
        Pace::Replicate(window) if !append.entries.is_empty() => {
            window.push(covered, append.entries.size_bytes());
            progress.next = covered.next();
        }
        Pace::Replicate(_) => {}
        Pace::Snapshot => unreachable!("it has no room"),
    }
    // The peer commits no further than this message proves.
    progress.commit_sent = commit.min(covered);
    node.send(peer, Message::Append(append));
}

/// The peer's log differs at `rejected.previous`. Where it knows that its log is damaged, what it
/// acknowledged is sent to it again.
pub(super) fn on_reject(
    node: &mut Node,
    peer: NodeId,
    progress: &mut Progress,
    rejected: Rejected,
) {
    let Rejected { previous, hint, repairing } = rejected;
    let current = match &progress.pace {
        Pace::Probe { .. } => previous == progress.next.prev(),
        Pace::Replicate(_) => previous >= progress.matched,
        Pace::Snapshot => false,
    };
    if !current || previous < progress.matched {
        return; // An answer to something older.
    }
    let probing = matches!(progress.pace, Pace::Probe { .. });
    if probing && previous == progress.matched {
        if !repairing {
            // Asked for just this, it has no more what it had, durably. No probe can help, so it
            // is only tried again after the next heartbeat.
            let (acknowledged, holds) = (progress.matched, hint.index);
            node.effects.push(Effect::PeerRegressed { peer, acknowledged, holds });
            progress.pace = Pace::Probe { waiting: true };
            return;
        }
        progress.matched = Index::ZERO;
    }
    // A rejection at `matched` while appends follow one another may be older than what was
    // acknowledged since: a probe there tells.
    let base = node.log.base().index;
    if probing && previous <= base {
        // The logs agree, if anywhere, before ours begins.
        progress.on_reject(Index::ZERO);
    } else {
        let agreed = node.log.latest_agreement(hint.index, hint.term);
        progress.on_reject(agreed.index);
    }
    send_appends(node, peer, progress);
}

/// What a rejection says.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rejected {
    pub(super) previous: Index,
    pub(super) hint: LogPosition,
    pub(super) repairing: bool,
}
