//! What must hold of every step of one node, looked at before any of it is done; and the facts
//! that concern the others, which [`super::record`] judges. A broken rule is a panic.
//!
//! What one node has promised in its life is judged here by induction over its disk: the term
//! there never falls, a vote there never changes within a term, and nothing is promised that is
//! not there.

use std::sync::Arc;

use raft_core::{
    AppendReply, Effect, Envelope, Index, LogPosition, Membership, Message, NodeId, Outcome as End,
    Payload, Requests, RoleKind, Snapshot, Term,
};

use super::local::{Local, Open, Outcome};

/// What a step shows that others have to fit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Facts {
    pub(super) elected: Option<Elected>,
    pub(super) commits: Vec<Commit>,
    /// What was applied, by its place and term.
    pub(super) applied: Vec<LogPosition>,
    /// Proposals that ended: where each stood, and how.
    pub(super) ended: Vec<(LogPosition, End)>,
    /// A snapshot that was taken.
    pub(super) snapshot: Option<Snapshot>,
    /// The log changed, so that it may not fit the others' any more.
    pub(super) wrote: bool,
}

/// A node has been elected.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Elected {
    pub(super) node: NodeId,
    pub(super) term: Term,
    /// Its log.
    pub(super) log: Vec<LogPosition>,
}

/// An index is committed, as one node sees it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Commit {
    pub(super) index: Index,
    /// `None` where a snapshot covers it.
    pub(super) term: Option<Term>,
    pub(super) membership: Option<Arc<Membership>>,
    /// The term of the node that says so.
    pub(super) within: Term,
    /// Whether it is the leader who counted, under this configuration.
    pub(super) counted: Option<Arc<Membership>>,
}

/// A node before it is told something.
pub(super) struct Before {
    term: Term,
    vote: Option<NodeId>,
    role: RoleKind,
    commit: Index,
    applied: Index,
}

impl Before {
    pub(super) fn of(local: &Local) -> Self {
        let raft = &local.raft;
        Self {
            term: raft.term(),
            vote: raft.vote(),
            role: raft.role(),
            commit: raft.commit_index(),
            applied: raft.applied_index(),
        }
    }
}

/// Looks at what the core wants done, before it is done.
pub(super) fn observe(before: &Before, local: &mut Local, effects: &[Effect], facts: &mut Facts) {
    grows(before, local);
    leads(before, local, facts);
    commits(before, local, facts);
    let mut next = local.machine.next();
    for effect in effects {
        match effect {
            Effect::Send(envelope) => promises(local, envelope),
            Effect::Persist(write) => {
                facts.wrote |= write.truncate.is_some() || !write.entries.is_empty();
                configurations(local, write);
            }
            Effect::Apply { first, last } => {
                assert_eq!(*first, next, "what is applied is applied in order, and once");
                next = last.next();
                for index in (first.0..=last.0).map(Index) {
                    let term = local.store.durable().term_at(index);
                    let term = term.expect("what is applied is durable");
                    facts.applied.push(LogPosition { term, index });
                }
            }
            Effect::Install { last } => {
                let durable = local.store.durable().snapshot().last;
                assert_eq!(durable, *last, "what is installed is marked");
                assert!(last.index >= next, "a state machine never goes back");
                next = last.index.next();
            }
            Effect::ReadReady { requests, index, .. } => {
                let end = close(local, *requests);
                let Some(Open::Read(floor)) = end else { panic!("only a read is answered") };
                assert!(*index >= floor, "a stale read: {index:?}, when {floor:?} was committed");
            }
            Effect::Resolve { requests, outcome } => resolve(local, *requests, *outcome, facts),
            Effect::Refuse { requests, .. } => drop(close(local, *requests)),
            Effect::Transferred { request, .. } => {
                let end = close(local, Requests::one(*request));
                assert_eq!(end, Some(Open::Transfer), "only leadership is handed over");
            }
            Effect::SendSnapshot { .. }
            | Effect::CancelSnapshots
            | Effect::Load { .. }
            | Effect::PeerRegressed { .. } // An answer that comes late looks like it.
            | Effect::MembershipChanged { .. }
            | Effect::RoleChanged(_) => {}
        }
    }
}

/// Raft figure 2: terms and commit indexes only grow, and a vote stays.
fn grows(before: &Before, local: &Local) {
    let raft = &local.raft;
    assert!(raft.term() >= before.term, "a term falls");
    assert!(raft.commit_index() >= before.commit, "a commit is taken back");
    assert!(raft.applied_index() >= before.applied, "what is applied is taken back");
    let kept = raft.vote() == before.vote || before.vote.is_none();
    assert!(raft.term() > before.term || kept, "a vote changes within {:?}", before.term);
}

fn leads(before: &Before, local: &Local, facts: &mut Facts) {
    let raft = &local.raft;
    if raft.role() != RoleKind::Leader {
        return;
    }
    voted(local, raft.id(), "leads");
    if before.role == RoleKind::Leader && before.term == raft.term() {
        return;
    }
    let indexes = (raft.base().index.0..=raft.last().index.0).map(Index);
    let at = |index| Some(LogPosition { term: raft.term_at(index)?, index });
    let log = indexes.filter_map(at).collect();
    facts.elected = Some(Elected { node: raft.id(), term: raft.term(), log });
}

fn commits(before: &Before, local: &Local, facts: &mut Facts) {
    let raft = &local.raft;
    let counted =
        (raft.role() == RoleKind::Leader).then(|| Arc::clone(local.store.live().membership().1));
    for index in (before.commit.0 + 1..=raft.commit_index().0).map(Index) {
        let entry = raft.recent_entries(index, index, usize::MAX);
        let entry = entry.and_then(|entries| entries.first().cloned());
        let entry = entry.or_else(|| local.store.live().entry(index).cloned());
        let membership = match entry.map(|entry| entry.payload) {
            Some(Payload::Membership(membership)) => Some(membership),
            Some(Payload::Empty | Payload::Command(_)) | None => None,
        };
        // The position before the log has a term, but its entry is gone.
        let term = raft.term_at(index).filter(|_| index > raft.base().index);
        let (within, counted) = (raft.term(), counted.clone());
        facts.commits.push(Commit { index, term, membership, within, counted });
    }
}

/// Raft figure 2: persistent state is updated before responding.
fn promises(local: &Local, envelope: &Envelope) {
    let (raft, image) = (&local.raft, local.store.durable());
    match &envelope.message {
        Message::VoteReply { granted: true } => voted(local, envelope.to, "grants"),
        Message::Vote { last, .. } => {
            voted(local, raft.id(), "stands");
            let durable = image.term_at(last.index);
            assert_eq!(durable, Some(last.term), "{:?} stands with a log it may lose", raft.id());
        }
        Message::AppendReply(AppendReply::Accept { matched }) => {
            assert_eq!(envelope.term, raft.term(), "an acknowledgement of an older term");
            if *matched < image.base().index {
                return; // A snapshot covers it.
            }
            let durable = image.term_at(*matched);
            assert!(durable.is_some(), "{:?} acknowledges what it may lose", raft.id());
            let held = raft.term_at(*matched).or(durable);
            assert_eq!(durable, held, "{:?} acknowledges a log that is gone", raft.id());
        }
        _ => {}
    }
}

/// One vote a term, for life (Raft §5.2).
fn voted(local: &Local, candidate: NodeId, verb: &str) {
    let durable = local.store.durable().hard_state;
    let (id, term) = (local.raft.id(), local.raft.term());
    assert_eq!(
        (durable.term, durable.vote),
        (term, Some(candidate)),
        "{id:?} {verb} in {term:?} before it is durable"
    );
}

/// One change at a time, and voters change only through a joint phase (Raft §6, thesis §4).
fn configurations(local: &Local, write: &raft_core::Write) {
    let (raft, log) = (&local.raft, local.store.live());
    let kept = write.truncate.unwrap_or(log.last_index());
    let (mut before, known) = log.membership_at(kept);
    let mut known = Arc::clone(known);
    for entry in write.entries.iter() {
        let Payload::Membership(membership) = &entry.payload else { continue };
        assert!(follows(&known, membership), "{membership} stands behind {known}");
        if raft.role() == RoleKind::Leader {
            let commit = raft.commit_index();
            let own = raft.term_at(commit) == Some(raft.term());
            assert!(before <= commit && own, "two changes at once");
        }
        (before, known) = (entry.index, Arc::clone(membership));
    }
}

fn follows(before: &Membership, after: &Membership) -> bool {
    let voters = |of: &Membership| of.voters().collect::<Vec<_>>();
    let comes_back = after.members().iter().any(|member| before.was_removed(member.id));
    let forgets = before.removed().iter().any(|id| !after.was_removed(*id));
    if comes_back || forgets || after.voters().len() == 0 {
        return false;
    }
    match (before.is_joint(), after.is_joint()) {
        _ if before.members().is_empty() => true, // Somebody new, who learns who they are.
        (false, true) => after.outgoing().eq(before.voters()),
        (true, true) => false,
        (_, false) => voters(before) == voters(after),
    }
}

/// Every request ends once.
fn close(local: &mut Local, requests: Requests) -> Option<Open> {
    assert!(requests.count > 0, "nothing ends");
    let mut last = None;
    for number in requests.first.0..requests.end().0 {
        let open = local.open.remove(&raft_core::RequestId(number));
        last = Some(open.unwrap_or_else(|| panic!("request {number} ends twice")));
    }
    last
}

fn resolve(local: &mut Local, requests: Requests, end: End, facts: &mut Facts) {
    match (close(local, requests), end) {
        (Some(Open::Proposal(index, term)), End::Committed { first }) => {
            assert_eq!(index, first, "a proposal is committed where it does not stand");
            facts.ended.push((LogPosition { term, index }, end));
        }
        (Some(Open::Proposal(index, term)), _) => {
            facts.ended.push((LogPosition { term, index }, end));
        }
        (Some(Open::Change), End::Committed { .. } | End::Unknown) => {}
        (open, end) => panic!("{open:?} ends as {end:?}"),
    }
}

/// Looks at a node that has done what it wanted done.
pub(super) fn settled(before: &Local, step: &mut Outcome) {
    let (raft, image) = (&step.local.raft, step.local.store.live());
    assert_eq!(raft.membership_index(), image.membership().0, "another configuration in force");
    assert_eq!(raft.membership(), image.membership().1, "another configuration in force");
    let (old, new) = (before.store.durable().hard_state, step.local.store.durable().hard_state);
    assert!(new.term >= old.term, "a disk forgets its term");
    // A vote that is gone is what the wrong disks do: what follows from it is to be found.
    let kept = new.vote == old.vote || new.vote.is_none() || old.vote.is_none();
    assert!(new.term > old.term || kept, "a vote on disk changes within {:?}", old.term);
    let (old, new) = (&before.store, &step.local.store);
    step.facts.wrote |= old.live().log().len() != new.live().log().len();
}
