//! Whether one register could have answered as clients saw it (linearizability, Herlihy & Wing).
//!
//! The search is Wing and Gong's, with Lowe's memory of what was tried: place an operation that
//! nothing unplaced precedes, see whether the register answers so, go on; go back when stuck.
//!
//! Every written value is written once, which settles operations without an answer beforehand:
//! if anybody saw the value, the write happened, before the first of those answers; if nobody
//! did, leaving it out changes nothing, because failed swaps say what they found.

use std::collections::{HashMap, HashSet};

/// A value, never written twice; `None` is an absent key.
pub(crate) type Value = Option<String>;

/// What was asked, and what was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Read(Value),
    Write(String),
    /// Swapped `old` for the value.
    Swapped(Value, String),
    /// Did not swap because it found something else than `wanted`.
    Kept {
        wanted: Value,
        found: Value,
    },
}

/// One operation. `end` is `None` where there was no answer: it may have happened, then or later.
#[derive(Clone, Debug)]
pub(crate) struct Operation {
    pub(crate) client: usize,
    pub(crate) begin: u64,
    pub(crate) end: Option<u64>,
    pub(crate) action: Action,
}

impl Action {
    fn seen(&self) -> Option<&String> {
        match self {
            Self::Read(value) | Self::Swapped(value, _) | Self::Kept { found: value, .. } => {
                value.as_ref()
            }
            Self::Write(_) => None,
        }
    }

    fn written(&self) -> Option<&String> {
        match self {
            Self::Write(value) | Self::Swapped(_, value) => Some(value),
            Self::Read(_) | Self::Kept { .. } => None,
        }
    }

    /// The register after this action, if it answers so.
    fn apply(&self, register: &Value) -> Option<Value> {
        match self {
            Self::Read(value) => (value == register).then(|| register.clone()),
            Self::Write(value) => Some(Some(value.clone())),
            Self::Swapped(old, new) => (old == register).then(|| Some(new.clone())),
            Self::Kept { wanted, found } => {
                (found == register && wanted != register).then(|| register.clone())
            }
        }
    }
}

/// Why no register answers so: how far it goes at best, and what then does not fit.
#[derive(Debug)]
pub(crate) struct Violation {
    placed: usize,
    stuck: Vec<Operation>,
}

/// Checks the history of one key, which is absent at first.
pub(crate) fn check(history: Vec<Operation>) -> Result<(), Violation> {
    let mut operations = history;
    operations.sort_by_key(|operation| operation.begin);
    assert_one_at_a_time(&operations);
    let operations = settle(operations);
    let count = operations.len();
    let mut placed = vec![false; count];
    let mut register: Value = None;
    // What was placed, from what register, and where the search goes on after taking it back.
    let mut path: Vec<(usize, Value)> = Vec::new();
    let mut tried: HashSet<(Vec<u64>, Value)> = HashSet::new();
    let (mut best, mut from) = ((0, Vec::new()), 0);
    while path.len() < count {
        let candidates = candidates(&operations, &placed);
        if path.len() >= best.0 {
            best = (path.len(), candidates.clone());
        }
        let next = candidates.iter().filter(|at| **at >= from).find_map(|&at| {
            let after = operations[at].action.apply(&register)?;
            placed[at] = true;
            let is_new = tried.insert((bits(&placed), after.clone()));
            placed[at] = is_new;
            is_new.then_some((at, after))
        });
        if let Some((at, after)) = next {
            path.push((at, std::mem::replace(&mut register, after)));
            from = 0;
        } else if let Some((at, before)) = path.pop() {
            (placed[at], register, from) = (false, before, at + 1);
        } else {
            let stuck = best.1.iter().map(|at| operations[*at].clone()).collect();
            return Err(Violation { placed: best.0, stuck });
        }
    }
    Ok(())
}

/// A client that asked twice at once was noted down wrongly.
fn assert_one_at_a_time(operations: &[Operation]) {
    let mut ends: HashMap<usize, u64> = HashMap::new();
    for Operation { client, begin, end, .. } in operations {
        let before = ends.insert(*client, end.unwrap_or(*begin));
        assert!(before.is_none_or(|before| before < *begin), "client {client} at {begin}");
    }
}

/// The operations that may come next: none that is unplaced ended before they began.
fn candidates(operations: &[Operation], placed: &[bool]) -> Vec<usize> {
    let mut first_end = u64::MAX;
    let mut candidates = Vec::new();
    let start = placed.iter().position(|placed| !placed).unwrap_or(placed.len());
    for at in (start..operations.len()).filter(|at| !placed[*at]) {
        if operations[at].begin > first_end {
            break;
        }
        first_end = first_end.min(operations[at].end.unwrap_or(u64::MAX));
        candidates.push(at);
    }
    // One that began early may have been found before one that ended early.
    candidates.retain(|at| operations[*at].begin <= first_end);
    candidates
}

fn bits(placed: &[bool]) -> Vec<u64> {
    let word = |chunk: &[bool]| chunk.iter().rev().fold(0, |word, bit| word << 1 | u64::from(*bit));
    placed.chunks(64).map(word).collect()
}

/// Gives every operation an end, or leaves it out; see above.
fn settle(history: Vec<Operation>) -> Vec<Operation> {
    let mut first_seen: HashMap<String, u64> = HashMap::new();
    let mut writers: HashSet<String> = HashSet::new();
    for operation in &history {
        if let Some(value) = operation.action.written() {
            assert!(writers.insert(value.clone()), "{value} is written twice");
        }
        if let (Some(value), Some(end)) = (operation.action.seen(), operation.end) {
            let seen = first_seen.entry(value.clone()).or_insert(end);
            *seen = end.min(*seen);
        }
    }
    let settled = history.into_iter().filter_map(|mut operation| {
        let seen = operation.action.written().and_then(|value| first_seen.get(value)).copied();
        operation.end = operation.end.or(seen);
        operation.end.is_some().then_some(operation)
    });
    settled.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(operations: &[(u64, u64, Action)]) -> Vec<Operation> {
        let operation = |(client, (begin, end, action)): (usize, &(u64, u64, Action))| {
            let end = (*end > 0).then_some(*end);
            Operation { client, begin: *begin, end, action: action.clone() }
        };
        operations.iter().enumerate().map(operation).collect()
    }

    fn some(value: &str) -> Value {
        Some(value.to_owned())
    }

    fn write(value: &str) -> Action {
        Action::Write(value.to_owned())
    }

    fn read(value: &str) -> Action {
        Action::Read(some(value))
    }

    #[test]
    fn what_a_register_could_have_answered_is_accepted() {
        let kept = Action::Kept { wanted: some("a"), found: some("b") };
        for good in [
            vec![],
            vec![(1, 2, Action::Read(None)), (3, 4, write("a")), (5, 6, read("a"))],
            // Two writes at once: either order will do, but then for everybody.
            vec![(1, 9, write("a")), (1, 9, write("b")), (10, 11, read("a")), (12, 13, read("a"))],
            // A read beside a write may see it or not, and later ones do.
            vec![(1, 9, write("a")), (2, 3, Action::Read(None)), (4, 5, read("a"))],
            vec![(1, 2, write("a")), (3, 4, Action::Swapped(some("a"), "b".into())), (5, 6, kept)],
            // No answer: it happens late, or never.
            vec![(1, 0, write("a")), (2, 3, Action::Read(None)), (4, 5, read("a"))],
            vec![(1, 0, write("a")), (2, 3, Action::Read(None)), (9, 10, Action::Read(None))],
            vec![(1, 0, Action::Swapped(some("never"), "a".into())), (2, 3, Action::Read(None))],
        ] {
            check(history(&good)).unwrap_or_else(|found| panic!("{good:?}: {found:?}"));
        }
    }

    #[test]
    fn what_no_register_could_have_answered_is_found() {
        let kept = Action::Kept { wanted: some("a"), found: some("a") };
        let swapped = |old, new: &str| Action::Swapped(some(old), new.to_owned());
        for bad in [
            // Stale, lost, and from nowhere.
            vec![(1, 2, write("a")), (3, 4, Action::Read(None))],
            vec![(1, 2, write("a")), (3, 4, write("b")), (5, 6, read("a"))],
            vec![(1, 2, read("a"))],
            // Two readers disagree about the order of two writes.
            vec![(1, 9, write("a")), (1, 9, write("b")), (10, 11, read("a")), (12, 13, read("b"))],
            // Seen, and then not any more.
            vec![(1, 9, write("a")), (2, 3, read("a")), (4, 5, Action::Read(None))],
            vec![(1, 0, write("a")), (2, 3, read("a")), (4, 5, Action::Read(None))],
            // Both swaps of the same value succeed.
            vec![(1, 2, write("a")), (3, 9, swapped("a", "b")), (3, 9, swapped("a", "c"))],
            vec![(1, 2, write("a")), (3, 4, kept)],
            // Seen before it was asked for.
            vec![(1, 2, read("a")), (3, 4, write("a"))],
        ] {
            assert!(check(history(&bad)).is_err(), "{bad:?}");
        }
    }

    /// Each write overlaps with two others, and the search has to try all orders to its end.
    #[test]
    fn a_long_history_is_decided() {
        let mut long = Vec::new();
        for at in 0..300_u64 {
            let (begin, value) = (10 * at + 1, format!("v{at}"));
            let found = Action::Kept { wanted: None, found: some(&value) };
            long.push((begin, begin + 25, write(&value)));
            long.push((begin + 26, begin + 27, found));
        }
        check(history(&long)).expect("each is found just after it was written");
        long.push((5000, 5001, read("v297")));
        let found = check(history(&long)).expect_err("two were written since");
        assert_eq!((found.placed, found.stuck.len()), (600, 1), "{found:?}");
    }
}
