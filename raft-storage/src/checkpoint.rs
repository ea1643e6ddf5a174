//! The bytes of a [`State`]: what the header of a segment says of everything before it.
//!
//! ```text
//!    0  batch                u64         56  the snapshot: term    u64
//!    8  chain                u32         64  the base: index       u64
//!   12  0                    u32         72  the base: term        u64
//!   16  last index           u64         80  number of runs        u32
//!   24  hard state: term     u64         84  number of memberships u32
//!   32  hard state: vote     u64         88  the runs: first index u64, term u64 each
//!   40  hard state: commit   u64             the memberships: index u64, length u32 and bytes
//!   48  the snapshot: index  u64             each; the first is the one at the snapshot
//! ```
//!
//! A run is a stretch of entries of one term. The runs are those of the whole log, although older
//! segments hold its entries: a later cut may reach into them (scenario B62).

use std::sync::Arc;

use raft_core::{HardState, Index, LogPosition, Membership, NodeId, Term, TermRuns};

use crate::frame::{NUMBER_MAX, is_possible, u32_at, u64_at};
use crate::state::State;

const FIXED_BYTES: usize = 88;

impl State {
    /// Its bytes.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let runs = runs_of(&self.log);
        let position = |position: LogPosition| [position.index.0, position.term.0];
        let HardState { term, vote, commit } = self.hard_state;
        let [snapshot_index, snapshot_term] = position(self.snapshot);
        let [base_index, base_term] = position(self.log.base());
        let mut bytes = Vec::new();
        for number in [
            self.batch,
            u64::from(self.chain),
            self.log.last_index().0,
            term.0,
            vote.map_or(0, NodeId::get),
            commit.0,
            snapshot_index,
            snapshot_term,
            base_index,
            base_term,
        ] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend((runs.len() as u32).to_le_bytes());
        bytes.extend((self.memberships.len() as u32).to_le_bytes());
        for (first, term) in runs {
            bytes.extend([first.0, term.0].into_iter().flat_map(u64::to_le_bytes));
        }
        for (index, membership) in &self.memberships {
            let membership = membership.encode();
            bytes.extend(index.0.to_le_bytes());
            bytes.extend((membership.len() as u32).to_le_bytes());
            bytes.extend(membership);
        }
        bytes
    }

    /// Reads what [`encode`](Self::encode) gave; `None` where nothing would have written it.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (fixed, mut rest) = bytes.split_at_checked(FIXED_BYTES)?;
        let number = |offset| u64_at(fixed, offset);
        let position = |offset: usize| LogPosition {
            index: Index(number(offset)),
            term: Term(number(offset + 8)),
        };
        let vote_offset = 32;
        let is_number = |offset: &usize| *offset != vote_offset;
        if (0..80).step_by(8).filter(is_number).any(|offset| number(offset) > NUMBER_MAX) {
            return None;
        }
        let log = log_of(position(64), Index(number(16)), u32_at(fixed, 80), &mut rest)?;
        let memberships = memberships_of(u32_at(fixed, 84), &mut rest)?;
        if memberships.is_empty() {
            return None;
        }
        Some(Self {
            log,
            hard_state: HardState {
                term: Term(number(24)),
                vote: NodeId::new(number(32)),
                commit: Index(number(40)),
            },
            snapshot: position(48),
            memberships,
            batch: number(0),
            chain: u32_at(fixed, 8),
        })
    }
}

/// The stretches of equal terms, each with its first index.
fn runs_of(log: &TermRuns) -> Vec<(Index, Term)> {
    let mut runs = Vec::new();
    let mut end = log.last_index();
    while end > log.base().index {
        let Some(term) = log.term_at(end) else { break };
        // Terms ascend, so what is older than this one lies before this run.
        let before = log.latest_agreement(end, Term(term.0.saturating_sub(1))).index;
        runs.push((before.next(), term));
        end = before;
    }
    runs.reverse();
    runs
}

fn log_of(base: LogPosition, last: Index, count: u32, rest: &mut &[u8]) -> Option<TermRuns> {
    let mut runs = Vec::new();
    for _ in 0..count {
        let (run, more) = rest.split_at_checked(16)?;
        *rest = more;
        let (index, term) = (Index(u64_at(run, 0)), Term(u64_at(run, 8)));
        runs.push(is_possible(LogPosition { term, index }).then_some((index, term))?);
    }
    let mut log = TermRuns::starting_after(base);
    for (at, &(first, term)) in runs.iter().enumerate() {
        let end = runs.get(at + 1).map_or(last, |(next, _)| next.prev());
        if first != log.last_index().next() || end < first || term < log.last().term {
            return None;
        }
        log.push(first, end, term);
    }
    (log.last_index() == last).then_some(log)
}

fn memberships_of(count: u32, rest: &mut &[u8]) -> Option<Vec<(Index, Arc<Membership>)>> {
    let mut memberships = Vec::new();
    for _ in 0..count {
        let (head, more) = rest.split_at_checked(12)?;
        let (bytes, more) = more.split_at_checked(u32_at(head, 8) as usize)?;
        *rest = more;
        let membership = Membership::decode(bytes).ok()?;
        memberships.push((Index(u64_at(head, 0)), Arc::new(membership)));
    }
    Some(memberships)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(index: u64, term: u64) -> LogPosition {
        LogPosition { term: Term(term), index: Index(index) }
    }

    fn state(base: LogPosition, runs: &[(u64, u64, u64)]) -> State {
        let mut log = TermRuns::starting_after(base);
        for &(first, last, term) in runs {
            log.push(Index(first), Index(last), Term(term));
        }
        let group = |ids: u64| Membership::new((1..=ids).filter_map(NodeId::new));
        let membership = |ids| Arc::new(group(ids).unwrap_or_default());
        State {
            log,
            hard_state: HardState { term: Term(9), vote: NodeId::new(3), commit: Index(7) },
            snapshot: at(5, 2),
            memberships: vec![(Index(2), membership(3)), (Index(6), membership(0))],
            batch: 11,
            chain: 12,
        }
    }

    #[test]
    fn a_state_comes_back_whatever_its_terms() {
        for state in [
            state(at(0, 0), &[]),
            state(at(5, 2), &[]),
            state(at(5, 2), &[(6, 9, 2)]),
            state(at(5, 2), &[(6, 9, 2), (10, 10, 3), (11, 40, 7)]),
            state(at(5, 2), &[(6, 6, 4)]),
        ] {
            let bytes = state.encode();
            assert_eq!(State::decode(&bytes), Some(state));
            for length in 0..bytes.len() {
                assert_eq!(State::decode(&bytes[..length]), None, "{length}");
            }
        }
    }
}
