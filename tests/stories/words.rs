//! How a story spells roles, messages and times.

use std::time::Duration;

use raft_core::{
    AppendReply, Envelope, Member, Membership, Message, RoleChange, RoleKind, Standing, Term,
    TransferError,
};

pub fn role_name(role: RoleKind) -> &'static str {
    match role {
        RoleKind::Follower => "follower",
        RoleKind::PreCandidate => "pre-candidate",
        RoleKind::Candidate => "candidate",
        RoleKind::Leader => "leader",
    }
}

pub fn role(change: &RoleChange) -> String {
    let of = match (change.role, change.leader) {
        (RoleKind::Follower, Some(leader)) => format!(" of {leader:?}"),
        _ => String::new(),
    };
    format!("{} {:?}{of}", role_name(change.role), change.term)
}

/// Why leadership was not handed over.
pub fn transfer_error(error: TransferError) -> String {
    match error {
        TransferError::UnknownMember(id) => format!("there is no member {id:?}"),
        TransferError::NotVoter(id) => format!("{id:?} does not vote"),
        TransferError::InProgress => "another transfer is under way".into(),
        TransferError::Lags(id) => format!("{id:?} has not caught up"),
        TransferError::NobodyElse => "there is nobody else".into(),
        TransferError::Failed(id) => format!("{id:?} did not take over"),
    }
}

pub fn term_of(word: &str) -> Term {
    let number = word.strip_prefix('t').and_then(|number| number.parse().ok());
    Term(number.unwrap_or_else(|| panic!("`{word}` is not a term")))
}

pub fn span(word: &str) -> Duration {
    let at = word.find(|letter: char| letter.is_alphabetic()).expect("a time has a unit");
    let number: u64 = word[..at].parse().expect("a time is a number and a unit");
    match &word[at..] {
        "ms" => Duration::from_millis(number),
        "s" => Duration::from_secs(number),
        "min" => Duration::from_secs(number * 60),
        "h" => Duration::from_secs(number * 3600),
        unit => panic!("what is `{unit}`?"),
    }
}

/// The name by which a story chooses messages.
pub fn kind(message: &Message) -> &'static str {
    match message {
        Message::PreVote { .. } => "pre-vote",
        Message::PreVoteReply { .. } => "pre-vote-reply",
        Message::Vote { .. } => "vote",
        Message::VoteReply { .. } => "vote-reply",
        Message::Append(_) => "append",
        Message::AppendReply(_) => "append-reply",
        Message::Heartbeat { .. } => "heartbeat",
        Message::HeartbeatReply { .. } => "heartbeat-reply",
        Message::Commit { .. } => "commit",
        Message::TimeoutNow => "timeout-now",
        Message::Read { .. } => "read",
        Message::ReadReply { .. } => "read-reply",
        Message::Propose { .. } => "propose",
        Message::ProposeReply { .. } => "propose-reply",
    }
}

/// Who belongs to a group: `N1 N2 N3-learner`.
pub fn members(membership: &Membership) -> String {
    let member = |member: &Member| match member.standing {
        Standing::Voter { retiring: None } => format!("{:?}", member.id),
        Standing::Voter { retiring: Some(_) } => format!("{:?}-retiring", member.id),
        Standing::Learner { promote: false } => format!("{:?}-learner", member.id),
        Standing::Learner { promote: true } => format!("{:?}-candidate", member.id),
        Standing::Joining => format!("{:?}-joining", member.id),
        Standing::Leaving(_) => format!("{:?}-leaving", member.id),
    };
    membership.members().iter().map(member).collect::<Vec<_>>().join("+")
}

/// One line for a message.
pub fn message(envelope: &Envelope) -> String {
    let Envelope { from, to, term, message } = envelope;
    let yes = |granted: bool| if granted { "yes" } else { "no" };
    let what = match message {
        Message::PreVote { last } => format!("my log ends at {last:?}"),
        Message::Vote { last, transfer: false } => format!("my log ends at {last:?}"),
        Message::Vote { last, transfer: true } => format!("handed over, my log ends at {last:?}"),
        Message::PreVoteReply { granted, .. } => yes(*granted).into(),
        Message::VoteReply { granted } => yes(*granted).into(),
        Message::Append(append) => format!(
            "after {:?}, {} entries, commit {}",
            append.previous,
            append.entries.len(),
            append.commit
        ),
        Message::AppendReply(AppendReply::Accept { matched }) => format!("have {matched}"),
        Message::AppendReply(AppendReply::Reject { previous, hint, repairing }) => {
            let repairing = if *repairing { ", repairing" } else { "" };
            format!("differ at {previous}, perhaps not at {hint:?}{repairing}")
        }
        Message::Heartbeat { commit, round, .. } => format!("commit {commit}, {round:?}"),
        Message::HeartbeatReply { round, .. } => format!("{round:?}"),
        Message::Commit { commit } => format!("{commit}"),
        Message::TimeoutNow => String::new(),
        Message::Read { .. } => String::new(), // The number is drawn by chance.
        Message::ReadReply { index, .. } => format!("at {index}"),
        Message::Propose { requests, .. } => format!("{} entries", requests.count),
        Message::ProposeReply { outcome, .. } => match outcome {
            Ok(first) => format!("from {first} on"),
            Err(reason) => format!("{reason:?}"),
        },
    };
    let line = format!("{from:?}>{to:?} {term:?} {} {what}", kind(message));
    line.trim_end().into()
}
