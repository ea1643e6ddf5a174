//! **One change of the members at a time** (Raft §6, thesis §4): along every log, voters change
//! only through a joint phase; a leader appends the next configuration only when the one before
//! it is committed; and the newest one in snapshot and log is in force, committed or not. Who is to
//! vote holds at least what the log held when it was added (thesis §4.2.1).

use std::collections::BTreeMap;
use std::sync::Arc;

use raft_core::{
    Effect, Entry, Index, Membership, NodeId, Payload, Raft, RoleKind, Snapshot, Standing,
};

use super::{Ledger, Seen, Step};

#[derive(Clone, Debug, Default)]
pub struct Oracle {
    /// Where each learner stands in some log for the first time.
    learners: BTreeMap<NodeId, Index>,
}

impl Oracle {
    pub(super) fn observe(&mut self, step: &Step<'_, impl Seen>) {
        let (raft, log) = (step.raft, step.member().live());
        for effect in step.effects {
            let Effect::Persist(write) = effect else { continue };
            let kept = write.truncate.unwrap_or(log.last_index());
            let (mut before, known) = log.membership_at(kept);
            let mut known = Arc::clone(known);
            for entry in write.entries.iter() {
                let Payload::Membership(membership) = &entry.payload else { continue };
                assert!(
                    follows(&known, membership),
                    "{:?} writes {membership:?} behind {known:?}",
                    step.id
                );
                if raft.role() == RoleKind::Leader {
                    let commit = raft.commit_index();
                    let own = raft.term_at(commit) == Some(raft.term());
                    assert!(before <= commit && own, "{:?} begins two changes at once", step.id);
                    self.observe_learners(step, entry, &known, membership);
                }
                (before, known) = (entry.index, Arc::clone(membership));
            }
        }
    }

    fn observe_learners(
        &mut self,
        step: &Step<'_, impl Seen>,
        entry: &Entry,
        before: &Membership,
        after: &Membership,
    ) {
        for member in after.members() {
            match member.standing {
                Standing::Learner { .. } => {
                    let first = self.learners.entry(member.id).or_insert(entry.index);
                    *first = entry.index.min(*first);
                }
                Standing::Joining if before.is_learner(member.id) => {
                    let (id, needed) = (member.id, self.learners.get(&member.id).copied());
                    let keeps_up = step.members.get(&id).is_some_and(|learner| {
                        let log = learner.durable();
                        Some(log.last_index()) >= needed || log.claim().is_some()
                    });
                    assert!(keeps_up, "{:?} lets {id:?} vote, which lacks {needed:?}", step.id);
                }
                Standing::Joining | Standing::Voter { .. } | Standing::Leaving(_) => {}
            }
        }
    }

    /// What a node has in force is what its disk will hold.
    pub(super) fn after(&self, id: NodeId, raft: &Raft, member: &impl Seen) {
        if raft.deadline().is_none() {
            return; // Its storage has failed.
        }
        let (index, membership) = member.live().membership();
        assert_eq!(raft.membership_index(), index, "{id:?} has another one in force");
        assert_eq!(raft.membership(), membership, "{id:?} has another one in force");
    }

    /// A snapshot says who the members were at its end.
    pub(super) fn on_snapshot(&self, ledger: &Ledger, id: NodeId, snapshot: &Snapshot) {
        let (index, membership) = ledger.membership_at(snapshot.last.index);
        assert_eq!(snapshot.membership_index, index, "{id:?} keeps an older configuration");
        assert_eq!(&snapshot.membership, membership, "{id:?} keeps another configuration");
        let term = ledger.committed_term(snapshot.last.index);
        assert_eq!(term, Some(snapshot.last.term), "{id:?} takes a snapshot of something else");
    }
}

/// Whether `after` may stand behind `before`: voters stay, or a joint phase is entered or left.
fn follows(before: &Membership, after: &Membership) -> bool {
    let voters = |of: &Membership| of.voters().collect::<Vec<_>>();
    let outgoing = |of: &Membership| of.outgoing().collect::<Vec<_>>();
    let gone = |id: &NodeId| before.was_removed(*id);
    let comes_back = after.members().iter().any(|member| gone(&member.id));
    let forgets = before.removed().iter().any(|id| !after.was_removed(*id));
    if comes_back || forgets || after.voters().len() == 0 {
        return false;
    }
    if before.members().is_empty() {
        return true; // Somebody new, who learns who the members are.
    }
    match (before.is_joint(), after.is_joint()) {
        (false, false) => voters(before) == voters(after),
        (false, true) => outgoing(after) == voters(before),
        (true, false) => voters(before) == voters(after),
        (true, true) => false,
    }
}

/// The configuration of `index`, out of those that are committed.
pub(super) fn at(known: &[(Index, Arc<Membership>)], index: Index) -> (Index, &Arc<Membership>) {
    let after = known.partition_point(|(start, _)| *start <= index);
    let (start, membership) = &known[after - 1];
    (*start, membership)
}
