//! **State Machine Safety** (Raft §5.4.3, figure 3): if a node has applied an entry at an index,
//! no other node ever applies a different entry there.
//!
//! Checked already when an entry is committed. What is applied must be durable here, in order
//! and once; and what a leader commits must be durable on a majority (Raft §5.3, §5.4.2).

use std::collections::BTreeMap;

use raft_core::{Effect, Index, NodeId, RoleKind};

use super::{Ledger, Step};

#[derive(Clone, Debug, Default)]
pub struct Oracle {
    /// How far each node was seen to have committed, in which run.
    seen: BTreeMap<NodeId, (u64, Index)>,
}

impl Oracle {
    pub(super) fn observe_commit(&mut self, ledger: &mut Ledger, step: &Step<'_>) {
        let (raft, run) = (step.raft(), step.member().run());
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
                step.members.get(&voter).is_some_and(|member| {
                    member.store().durable().term_at(commit) == raft.term_at(commit)
                })
            };
            let membership = raft.membership();
            let holders: Vec<_> = membership.voters().filter(|&voter| holds(voter)).collect();
            assert!(
                holders.len() >= membership.quorum(),
                "{:?} commits {commit:?}, which is durable only on {holders:?}",
                step.id
            );
        }
        for index in (from.0 + 1..=commit.0).map(Index) {
            let term = raft.term_at(index).expect("what is committed is here");
            ledger.commit(index, term, raft.term());
        }
    }

    pub(super) fn observe_apply(&mut self, ledger: &Ledger, step: &Step<'_>) {
        let member = step.member();
        let mut next = member.applied().next();
        for effect in step.effects {
            let &Effect::Apply { first, last } = effect else { continue };
            assert_eq!(first, next, "{:?} applies in order, and once", step.id);
            assert!(first <= last, "{:?} applies something", step.id);
            for index in (first.0..=last.0).map(Index) {
                let durable = member.store().durable().term_at(index);
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
