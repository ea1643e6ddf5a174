//! What happens to the log of a follower: entries are cut only for those of a later term, as Raft
//! does it.

use raft_core::{Entry, HardState, Index, LogPosition, Write};
use rand::{Rng, RngExt};

use crate::conformance::Model;
use crate::conformance::writes::{command, entries, hard, mark};

/// An entry that takes a sector or two, and like which there is no other.
pub fn filler(index: u64, term: u64) -> Entry {
    command(index, term, format!("{index} of {term}, ").repeat(40).as_bytes())
}

/// Where a log ends.
pub fn end_of(model: &Model) -> LogPosition {
    model.entries.last().map_or(model.base, |entry| entry.position())
}

/// What happens next to a follower that holds this.
pub fn next(model: &Model, random: &mut impl Rng) -> Vec<Write> {
    let HardState { term, vote, commit } = model.hard_state;
    let last = model.last();
    match random.random_range(0..10) {
        0 => vec![hard(term.0 + 1, Some(random.random_range(1..4)), commit.0)],
        1 => {
            // A new leader, whose log is another one behind this place.
            let keep = random.random_range(commit.max(model.snapshot.index).0..=last);
            let more = (1..=random.random_range(1..6)).map(|more| filler(keep + more, term.0 + 1));
            let write = Write { truncate: Some(Index(keep)), ..entries(more) };
            vec![hard(term.0 + 1, None, commit.0), write]
        }
        2 => {
            let commit = random.random_range(commit.0..=last);
            vec![hard(term.0, vote.map(|vote| vote.get()), commit)]
        }
        3 if commit > model.snapshot.index => {
            let position = |index| {
                let found = model.entries.iter().find(|entry| entry.index == index);
                found.map_or(model.base, |entry| entry.position())
            };
            let base = Index(random.random_range(model.base.index.0..=commit.0));
            vec![mark(position(commit), position(base), model.members_at(commit))]
        }
        _ if term.0 == 0 => vec![hard(1, None, 0)],
        _ => {
            let term = end_of(model).term.max(term);
            vec![entries([filler(last + 1, term.0)])]
        }
    }
}
