//! What happened, one line for each act.

use std::fmt::Write;

use raft_core::{Entry, Raft, RoleKind};

use super::act::{Act, Machine};
use super::local::{Local, Pace};
use super::space::{Moved, Space, State};

/// What happens to a node, and what it is afterwards.
pub(super) fn line(space: &Space<'_>, state: &State, by: Moved, next: &State) -> String {
    let (before, after) = (space.local_at(state, by.node), space.local_at(next, by.node));
    let mut line = last(space, state, by);
    let news = news(before, after);
    if !news.is_empty() {
        write!(line, "; {news}").expect("text takes text");
    }
    line
}

/// What happens to a node.
pub(super) fn last(space: &Space<'_>, state: &State, by: Moved) -> String {
    let id = space.local_at(state, by.node).id();
    let what = match by.act {
        Act::Receive(packet) => format!("{id:?} hears {}", space.packet(packet)),
        Act::Timeout => format!("{id:?}'s patience ends"),
        Act::Heartbeat => format!("{id:?}'s heartbeat is due"),
        Act::Silence => format!("much time passes at {id:?}"),
        Act::Persisted(count) => format!("{id:?} ends {count} of its writes"),
        Act::Crash { kept, machine } => {
            let machine = match machine {
                Machine::Stays => "",
                Machine::FallsBackToSnapshot => ", its state machine is at its snapshot",
            };
            format!("{id:?} crashes, {kept} of its writes survive, and starts{machine}")
        }
        Act::Damage(last) => format!("{id:?} starts with a log that is damaged behind {last:?}"),
        Act::Propose => format!("{id:?} is asked to append an entry"),
        Act::Read(floor) => format!("{id:?} is read; {floor:?} was committed before"),
        Act::Snapshot => format!("{id:?} takes a snapshot"),
        Act::Change(number) => {
            format!("{id:?} is asked for {:?}", space.bounds.changes[usize::from(number)])
        }
        Act::Transfer(to) => format!("{id:?} is asked to hand over to {to:?}"),
    };
    match by.pace {
        Pace::AtOnce => what,
        Pace::Stalled => format!("{what}, and its disk stalls"),
    }
}

fn news(before: &Local, after: &Local) -> String {
    let mut news = Vec::new();
    let (old, new) = (&before.raft, &after.raft);
    if (old.role(), old.term()) != (new.role(), new.term()) || old.leader() != new.leader() {
        news.push(stands(new));
    }
    if new.vote().is_some() && (old.vote(), old.term()) != (new.vote(), new.term()) {
        news.push(format!("voted for {:?}", new.vote()).replace("Some(", "").replace(')', ""));
    }
    let log =
        |local: &Local| local.store.live().log().iter().map(Entry::position).collect::<Vec<_>>();
    if log(before) != log(after) {
        news.push(format!("log {:?}", log(after)));
    }
    if old.commit_index() != new.commit_index() {
        news.push(format!("committed {:?}", new.commit_index()));
    }
    if old.membership() != new.membership() {
        news.push(format!("members {}", new.membership()));
    }
    if old.durable_index() != new.durable_index() {
        news.push(format!("durable {:?}", new.durable_index()));
    }
    news.join(", ")
}

fn stands(raft: &Raft) -> String {
    let term = raft.term();
    match (raft.role(), raft.leader()) {
        (RoleKind::Leader, _) => format!("leads {term:?}"),
        (RoleKind::Candidate, _) => format!("stands in {term:?}"),
        (RoleKind::PreCandidate, _) => format!("asks who would vote for it after {term:?}"),
        (RoleKind::Follower, Some(leader)) => format!("follows {leader:?} in {term:?}"),
        (RoleKind::Follower, None) => format!("follows nobody in {term:?}"),
    }
}
