//! Runs of terms beside the terms themselves, one by one.

use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;

/// Terms that never fall, and the base they stand on.
fn terms() -> impl Strategy<Value = (LogPosition, Vec<Term>)> {
    (0..5u64, 0..3u64, prop::collection::vec(0..3u64, 0..40)).prop_map(|(index, term, grows)| {
        let term = if index == 0 { 0 } else { term };
        let base = LogPosition { term: Term(term), index: Index(index) };
        let mut newest = base.term;
        let grow = |by| {
            newest = Term(newest.0 + by);
            newest
        };
        (base, grows.into_iter().map(grow).collect())
    })
}

fn runs_of(base: LogPosition, terms: &[Term]) -> TermRuns {
    let mut runs = TermRuns::starting_after(base);
    for (&term, index) in terms.iter().zip(base.index.0 + 1..) {
        runs.push(Index(index), Index(index), term);
    }
    runs
}

proptest! {
    #[test]
    fn runs_answer_as_the_terms_would((base, terms) in terms(), cut in 0..50usize) {
        let mut runs = runs_of(base, &terms);
        let cut = cut.min(terms.len());
        runs.truncate(Index(base.index.0 + cut as u64));
        // The same as if the rest had never been there.
        prop_assert_eq!(&runs, &runs_of(base, &terms[..cut]));
        for index in 0..60 {
            let expected = match index.cmp(&base.index.0) {
                core::cmp::Ordering::Less => None,
                core::cmp::Ordering::Equal => Some(base.term),
                core::cmp::Ordering::Greater => {
                    terms[..cut].get((index - base.index.0 - 1) as usize).copied()
                }
            };
            prop_assert_eq!(runs.term_at(Index(index)), expected);
        }
    }

    #[test]
    fn the_latest_agreement_is_the_last_entry_that_is_old_enough(
        (base, terms) in terms(),
        limit in 0..50u64,
        term in 0..60u64,
    ) {
        let runs = runs_of(base, &terms);
        let candidates = terms.iter().zip(base.index.0 + 1..);
        let expected = candidates
            .filter(|&(&known, index)| index <= limit && known.0 <= term)
            .map(|(&term, index)| LogPosition { term, index: Index(index) })
            .last();
        prop_assert_eq!(runs.latest_agreement(Index(limit), Term(term)), expected.unwrap_or(base));
    }
}

#[test]
fn an_empty_log_ends_where_its_snapshot_does() {
    let base = LogPosition { term: Term(7), index: Index(100) };
    let runs = TermRuns::starting_after(base);
    assert_eq!(runs.last(), base);
    assert_eq!(runs.term_at(Index(100)), Some(Term(7)));
    assert_eq!(runs.term_at(Index(99)), None);
}

#[test]
#[should_panic = "a log has no gaps"]
fn a_gap_is_refused() {
    TermRuns::default().push(Index(2), Index(2), Term(1));
}

#[test]
#[should_panic = "terms never fall along a log"]
fn a_falling_term_is_refused() {
    let mut runs = TermRuns::default();
    runs.push(Index(1), Index(3), Term(2));
    runs.push(Index(4), Index(4), Term(1));
}

proptest! {
    /// What is left is what there would be, had the log begun there.
    #[test]
    fn a_compacted_log_begins_at_its_base((base, terms) in terms(), covered in 0..50usize) {
        let covered = covered.min(terms.len());
        let mut runs = runs_of(base, &terms);
        let term = covered.checked_sub(1).map_or(base.term, |at| terms[at]);
        let base = LogPosition { term, index: Index(base.index.0 + covered as u64) };
        runs.compact(base);
        prop_assert_eq!(&runs, &runs_of(base, &terms[covered..]));
    }
}
