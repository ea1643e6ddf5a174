//! **State Machine Safety** (Raft §5.4.3, figure 3): if a node has applied an entry at an index,
//! no other node ever applies a different entry there.
//!
//! Checked already when an entry is committed. What is applied must be durable here, in order
//! and once; and what a leader commits must be durable on a majority (Raft §5.3, §5.4.2).

use std::collections::BTreeMap;

use raft_core::{Effect, Index, LogPosition, NodeId, Raft, RoleKind};

use super::{Ledger, Seen, Step, has_quorum};
use crate::cluster::Image;

#[derive(Clone, Debug, Default)]
pub struct Oracle {
    /// How far each node was seen to have committed, in which run.
    seen: BTreeMap<NodeId, (u64, Index)>,
    installed: u64,
}

impl Oracle {
    pub(super) fn installed(&self) -> u64 {
        self.installed
    }

    pub(super) fn observe_commit(&mut self, ledger: &mut Ledger, step: &Step<'_, impl Seen>) {
        let (raft, run) = (step.raft, step.member().run());
        let (commit, mut from) = (raft.commit_index(), Index::ZERO);
        if let Some(&(known, seen)) = self.seen.get(&step.id)
            && known == run
        {
            from = seen;
        }
        if commit <= from {
            return;
        }
        self.seen.insert(step.id, (run, commit));
        if raft.role() == RoleKind::Leader && commit > ledger.committed() {
            assert_eq!(
                raft.term_at(commit),
                Some(raft.term()),
                "Raft §5.4.2: only an entry of the leader's own term is committed by counting"
            );
            let holds = |voter: NodeId| {
                step.members.get(&voter).is_some_and(|member| holds(member, raft, commit))
            };
            // The configuration in force when this step began: what it appends counts later.
            let (_, membership) = step.member().live().membership();
            assert!(
                has_quorum(membership, holds),
                "{:?} commits {commit:?}, which is not durable on a majority of {membership:?}",
                step.id
            );
        }
        for index in (from.0 + 1..=commit.0).map(Index) {
            match raft.term_at(index) {
                Some(term) => ledger.commit(index, term, raft.term()),
                None => {
                    let covered = index < raft.base().index && index <= ledger.committed();
                    assert!(covered, "{:?} lacks {index:?}, which is committed", step.id);
                }
            }
        }
    }

    pub(super) fn observe_apply(&mut self, ledger: &Ledger, step: &Step<'_, impl Seen>) {
        let member = step.member();
        let mut next = member.applied().next();
        for effect in step.effects {
            if let &Effect::Install { last } = effect {
                let durable = member.durable().snapshot().last;
                assert_eq!(durable, last, "{:?} installs what is not marked", step.id);
                assert!(last.index >= next, "{:?} applies in order, and once", step.id);
                next = last.index.next();
                self.installed += 1;
            }
            let &Effect::Apply { first, last } = effect else { continue };
            assert_eq!(first, next, "{:?} applies in order, and once", step.id);
            assert!(first <= last, "{:?} applies something", step.id);
            for index in (first.0..=last.0).map(Index) {
                let durable = member.durable().term_at(index);
                assert_eq!(
                    durable,
                    ledger.committed_term(index),
                    "{:?} applies {index:?} before it is durable or committed",
                    step.id
                );
            }
            next = last.next();
        }
    }
}

/// Whether a member holds the entry at `index` durably; or says that it did before its log was
/// damaged: it then votes for nobody who does not; or did, on a disk that is lost: then nobody
/// takes it for the voter that it was.
fn holds(member: &impl Seen, raft: &Raft, index: Index) -> bool {
    let (image, term) = (member.durable(), raft.term_at(index));
    let claims = image
        .claim()
        .is_some_and(|claim| term.is_some_and(|term| claim.last >= LogPosition { term, index }));
    let is_in = |image: &Image| image.term_at(index) == term || image.base().index > index;
    is_in(image) || claims || member.lost().is_some_and(is_in)
}
