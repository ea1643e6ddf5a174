//! Records in a few words, for people.

use super::{Outcome, Persist, Position, Record, Role, Said, What};

impl std::fmt::Display for InWords<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&words(&self.0.what))
    }
}

/// A record in a few words, without its node and its time.
#[derive(Clone, Copy, Debug)]
pub struct InWords<'a>(pub &'a Record);

fn at(position: &Position) -> String {
    format!("{}:{}", position.1, position.0)
}

fn words(what: &What) -> String {
    match what {
        What::Start(start) => format!(
            "starts in term {}, log up to {}, applied {}",
            start.hard_state.term,
            at(&start.last),
            start.applied
        ),
        What::Stop => "stops".into(),
        What::Crash => "crashes".into(),
        What::Gap { records } => format!("{records} records are missing"),
        What::Timer => "its timer is due".into(),
        What::Receive { from, term, says } => {
            format!("hears from N{from}, t{term}: {}", said(says))
        }
        What::Send { to, term, says } => format!("says to N{to}, t{term}: {}", said(says)),
        What::Propose { count } => format!("{count} proposed here"),
        What::Read { count, lease: true } => format!("{count} want to read under a lease"),
        What::Read { count, lease: false } => format!("{count} want to read"),
        What::ChangeMembership { changes } => format!("{changes} changes of the members wanted"),
        What::TransferLeadership { to: Some(to) } => format!("N{to} is to lead"),
        What::TransferLeadership { to: None } => "another is to lead".into(),
        What::Identified { peer, .. } => format!("N{peer} shows its disk"),
        What::Persisted { ticket } => format!("write {ticket} is durable"),
        What::StorageFailed => "storage has failed".into(),
        What::Loaded { peer, count } => format!("{count} entries read for N{peer}"),
        What::Applied { index } => format!("applied up to {index}"),
        What::SnapshotTaken { last } => format!("took a snapshot up to {}", at(last)),
        What::SnapshotReceived { from, last, .. } => {
            format!("a snapshot up to {} from N{from}", at(last))
        }
        What::SnapshotSent { peer, last: Some(last) } => {
            format!("N{peer} has a snapshot up to {}", at(last))
        }
        What::SnapshotSent { peer, last: None } => format!("N{peer} could not be sent a snapshot"),
        What::Role { term, role, leader, .. } => match (role, leader) {
            (Role::Leader, _) => format!("leads term {term}"),
            (Role::Candidate, _) => format!("stands in term {term}"),
            (Role::PreCandidate, _) => format!("asks whether it would win, t{term}"),
            (Role::Follower, Some(leader)) => format!("follows N{leader} in term {term}"),
            (Role::Follower, None) => format!("waits in term {term}"),
        },
        What::Members(members) => {
            let joint = if members.outgoing.is_empty() { "" } else { " (joint)" };
            format!("voters are {:?}{joint}", members.voters)
        }
        What::Persist(write) => format!("write {}:{}", write.ticket, written(write)),
        What::Commit { index } => format!("committed up to {index}"),
        What::Apply { first, last } => format!("apply {first} to {last}"),
        What::Install { last } => format!("install the snapshot up to {}", at(last)),
        What::SendSnapshot { peer, at_least } => {
            format!("send N{peer} a snapshot, at least up to {}", at(at_least))
        }
        What::CancelSnapshots => "send no snapshots any more".into(),
        What::Load { peer, first, last } => format!("read {first} to {last} for N{peer}"),
        What::ReadReady { count, index, lease } => {
            let lease = if *lease { " under a lease" } else { "" };
            format!("{count} may read at {index}{lease}")
        }
        What::Transferred { leader } => format!("N{leader} leads now"),
        What::Resolve { count, outcome: Outcome::Committed(first) } => {
            format!("{count} committed from {first} on")
        }
        What::Resolve { count, outcome: Outcome::Superseded } => format!("{count} superseded"),
        What::Resolve { count, outcome: Outcome::Unknown } => format!("{count} end unknown"),
        What::Refuse { count, reason } => format!("{count} refused: {reason}"),
        What::PeerRegressed { peer, acknowledged, holds } => {
            format!("N{peer} had acknowledged {acknowledged} and holds {holds}")
        }
    }
}

fn written(write: &Persist) -> String {
    let mut text = String::new();
    if let Some(last) = write.truncate {
        text.push_str(&format!(" cut behind {last},"));
    }
    if let (Some(first), Some(last)) = (write.entries.first(), write.entries.last()) {
        text.push_str(&format!(" entries {}:{} to {}:{},", first.0, first.1, last.0, last.1));
    }
    if let Some(state) = write.hard_state {
        let vote = state.vote.map_or("nobody".to_owned(), |vote| format!("N{vote}"));
        text.push_str(&format!(" term {}, vote {vote}, commit {},", state.term, state.commit));
    }
    if let Some(note) = write.snapshot {
        text.push_str(&format!(" snapshot up to {},", at(&note.last)));
    }
    text.trim_end_matches(',').to_owned()
}

fn said(says: &Said) -> String {
    match says {
        Said::PreVote { last } => format!("would you vote for me? log up to {}", at(last)),
        Said::PreVoteReply { granted: true, .. } => "I would".into(),
        Said::PreVoteReply { granted: false, .. } => "I would not".into(),
        Said::Vote { last, .. } => format!("vote for me, log up to {}", at(last)),
        Said::VoteReply { granted: true } => "you have my vote".into(),
        Said::VoteReply { granted: false } => "no vote".into(),
        Said::Append { previous, count, commit } => {
            format!("append {count} behind {}, commit {commit}", at(previous))
        }
        Said::Accept { matched } => format!("accepted up to {matched}"),
        Said::Reject { previous, hint } => format!("not behind {previous}; perhaps {}", at(hint)),
        Said::Heartbeat { commit, .. } => format!("I lead, commit {commit}"),
        Said::HeartbeatReply { .. } => "I hear you".into(),
        Said::TimeoutNow => "stand at once".into(),
        Said::Commit { commit } => format!("commit {commit}"),
        Said::Read { .. } => "from where may I read?".into(),
        Said::ReadReply { index, .. } => format!("read at {index}"),
        Said::Propose { count, .. } => format!("take {count} proposals"),
        Said::ProposeReply { index: Some(index), .. } => format!("they stand at {index}"),
        Said::ProposeReply { index: None, .. } => "not taken".into(),
    }
}
