//! What has happened for good in the whole group, known to nobody in it: who led which term, and
//! what was committed. It is part of a state, for what must never happen later depends on it.

use std::collections::BTreeMap;
use std::sync::Arc;

use raft_core::{Index, LogPosition, Membership, NodeId, Outcome as End, Term};

use super::local::Local;
use super::rules::{Commit, Elected, Facts};

/// The past, as far as it matters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Record {
    leaders: BTreeMap<Term, NodeId>,
    committed: Vec<Committed>,
}

/// A committed entry.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Committed {
    term: Term,
    /// The newest term that could not know it yet: that of the leader who counted.
    within: Term,
    membership: Option<Arc<Membership>>,
}

impl Record {
    /// How far the group has committed.
    pub(super) fn committed(&self) -> Index {
        Index(self.committed.len() as u64)
    }

    fn at(&self, index: Index) -> Option<&Committed> {
        self.committed.get(index.0.checked_sub(1)? as usize)
    }

    /// The record after a step with these facts.
    ///
    /// # Panics
    /// When they contradict it.
    pub(super) fn after(&self, facts: &Facts) -> Self {
        let mut after = self.clone();
        if let Some(Elected { node, term, log }) = &facts.elected {
            let leader = *after.leaders.entry(*term).or_insert(*node);
            assert_eq!(leader, *node, "Election Safety (Raft §5.2): two leaders of {term:?}");
            after.check_complete(*node, *term, log);
        }
        for commit in &facts.commits {
            after.commit(commit);
        }
        for at in &facts.applied {
            let term = after.at(at.index).map(|it| it.term);
            assert_eq!(
                term,
                Some(at.term),
                "State Machine Safety (Raft §5.4.3): {at:?} is applied, which is not committed"
            );
        }
        for (at, end) in &facts.ended {
            after.check_end(*at, *end);
        }
        if let Some(snapshot) = &facts.snapshot {
            let term = after.at(snapshot.last.index).map(|it| it.term);
            assert_eq!(term, Some(snapshot.last.term), "a snapshot of what is not committed");
            let members = after.members_at(snapshot.last.index);
            let known = (snapshot.membership_index, &snapshot.membership);
            assert!(members.is_none_or(|it| it == known), "a snapshot of other members");
        }
        after
    }

    /// The configuration that was committed last, up to `index`; `None` before the first.
    fn members_at(&self, index: Index) -> Option<(Index, &Arc<Membership>)> {
        let known = self.committed.iter().zip(1..).take(index.0 as usize);
        known.filter_map(|(it, index)| Some((Index(index), it.membership.as_ref()?))).last()
    }

    fn check_complete(&self, node: NodeId, term: Term, log: &[LogPosition]) {
        let begins = log.first().map_or(Index::ZERO, |base| base.index);
        for (committed, index) in self.committed.iter().zip((1..).map(Index)) {
            let at = LogPosition { term: committed.term, index };
            let holds = index <= begins || log.contains(&at);
            assert!(
                holds || committed.within >= term,
                "Leader Completeness (Raft §5.4): {node:?} leads {term:?} and lacks {at:?}"
            );
        }
    }

    fn commit(&mut self, commit: &Commit) {
        let Commit { index, term, membership, within, counted } = commit;
        if let Some(known) = self.at(*index) {
            assert!(
                term.is_none_or(|term| term == known.term),
                "State Machine Safety (Raft §5.4.3): {index:?} is committed in two terms"
            );
            return;
        }
        let Some(term) = *term else {
            panic!("{index:?} lies in a snapshot, but was never committed")
        };
        assert!(counted.is_some(), "{index:?} is committed, and no leader has counted");
        assert_eq!(*index, self.committed().next(), "commits leave a gap");
        let membership = membership.clone();
        self.committed.push(Committed { term, within: *within, membership });
    }

    fn check_end(&self, at: LogPosition, end: End) {
        let known = self.at(at.index).map(|it| it.term);
        match end {
            End::Committed { .. } => {
                assert_eq!(known, Some(at.term), "{at:?} is said to be committed");
            }
            End::Superseded => {
                let newer = self.committed.iter().take(at.index.0 as usize);
                let is_gone = newer.clone().any(|it| it.term > at.term)
                    || known.is_some_and(|term| term != at.term);
                assert!(is_gone, "{at:?} is denied, and may be committed yet");
            }
            End::Unknown => {}
        }
    }
}

/// What must hold between the nodes after a step of the node at `moved`.
///
/// # Panics
/// When it does not.
pub(super) fn check_group(nodes: &[&Local], moved: usize, facts: &Facts, known: Index) {
    for commit in facts.commits.iter().filter(|commit| commit.index > known) {
        check_counted(nodes, moved, commit);
    }
    if !facts.wrote {
        return;
    }
    let log = nodes[moved].store.live();
    for (other, local) in nodes.iter().enumerate().filter(|(other, _)| *other != moved) {
        let theirs = local.store.live();
        let mut agrees = false;
        for index in (1..=log.last_index().min(theirs.last_index()).0).rev().map(Index) {
            let (Some(one), Some(other_term)) = (log.term_at(index), theirs.term_at(index)) else {
                break;
            };
            assert!(
                one == other_term || !agrees,
                "Log Matching (Raft §5.3): node {} and node {} agree behind {index:?}, and not there",
                moved + 1,
                other + 1
            );
            agrees |= one == other_term;
        }
    }
}

/// Raft §5.3, §5.4.2: an entry of the leader's own term, durable on a majority; and no newer
/// leader lacks it.
fn check_counted(nodes: &[&Local], moved: usize, commit: &Commit) {
    let Some(membership) = &commit.counted else { return };
    let leader = &nodes[moved].raft;
    let newest = leader.commit_index();
    assert_eq!(
        leader.term_at(newest),
        Some(leader.term()),
        "Raft §5.4.2: {newest:?} of an older term is committed by counting"
    );
    let at = LogPosition { term: commit.term.unwrap_or_default(), index: commit.index };
    let holds = |local: &&&Local| {
        let image = local.store.durable();
        let claims = image.claim().is_some_and(|claim| claim.last >= at);
        image.term_at(at.index) == Some(at.term) || image.base().index > at.index || claims
    };
    let voters = |id| nodes.iter().find(|local| local.id() == id).is_some_and(|it| holds(&it));
    assert!(membership.has_quorum(voters), "{at:?} is committed, and not durable on a majority");
    for local in nodes {
        let newer =
            local.raft.role() == raft_core::RoleKind::Leader && local.raft.term() > commit.within;
        let lacks =
            local.raft.base().index < at.index && local.raft.term_at(at.index) != Some(at.term);
        assert!(
            !(newer && lacks),
            "Leader Completeness (Raft §5.4): {:?} leads {:?} and lacks {at:?}",
            local.id(),
            local.raft.term()
        );
    }
}
