//! The log beside a plain vector of terms, through random histories.

use alloc::vec::Vec;

use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::Payload;

/// What can happen to a log.
#[derive(Clone, Debug)]
enum Step {
    /// A leader appends this many entries, in a term this much newer.
    Append {
        count: u64,
        newer: u64,
    },
    /// A follower is sent what another log holds from `back` before its end on: that log shares
    /// all but the last `differs` entries, and goes on with `count` entries of a newer term.
    Extend {
        back: u64,
        differs: u64,
        count: u64,
    },
    /// What was sent comes again, cut short.
    Repeat {
        back: u64,
        count: u64,
    },
    Write,
    Persist {
        writes: usize,
    },
    Evict {
        bytes_max: usize,
    },
    /// A snapshot covers this much of what is durable.
    Compact {
        percent: u64,
    },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (1..5u64, 0..2u64).prop_map(|(count, newer)| Step::Append { count, newer }),
        (0..6u64, 0..6u64, 0..5u64).prop_map(|(back, differs, count)| Step::Extend {
            back,
            differs,
            count
        }),
        (0..6u64, 0..4u64).prop_map(|(back, count)| Step::Repeat { back, count }),
        Just(Step::Write),
        (0..4usize).prop_map(|writes| Step::Persist { writes }),
        (0..400usize).prop_map(|bytes_max| Step::Evict { bytes_max }),
        (0..=100u64).prop_map(|percent| Step::Compact { percent }),
    ]
}

/// The log, its terms as a vector, and what each write under way covers of it.
struct Pair {
    log: Log,
    terms: Vec<Term>,
    writes: Vec<(Ticket, Vec<Term>)>,
    durable: Vec<Term>,
    tickets: Ticket,
    /// What a snapshot has covered.
    base: u64,
}

impl Pair {
    fn new() -> Self {
        Self {
            log: Log::restore(TermRuns::default()),
            terms: Vec::new(),
            writes: Vec::new(),
            durable: Vec::new(),
            tickets: Ticket::ZERO,
            base: 0,
        }
    }

    fn position(&self, index: u64) -> LogPosition {
        let term = index.checked_sub(1).map_or(Term::ZERO, |at| self.terms[at as usize]);
        LogPosition { term, index: Index(index) }
    }

    fn entry(&self, index: u64) -> Entry {
        entry(index, self.position(index).term)
    }

    fn newest(&self) -> Term {
        self.terms.last().copied().unwrap_or_default()
    }

    fn take(&mut self, step: Step) {
        let last = self.terms.len() as u64;
        match step {
            Step::Append { count, newer } => {
                let term = Term(self.newest().0 + newer);
                self.log.append(entries(last + 1, &[term].repeat(count as usize)));
                self.terms.extend([term].repeat(count as usize));
            }
            Step::Extend { back, differs, count } => {
                let kept = last.saturating_sub(differs).max(self.base);
                let mut other: Vec<Term> = self.terms[..kept as usize].to_vec();
                other.extend([self.newest().next()].repeat(count as usize));
                let previous = kept.saturating_sub(back).max(self.base);
                let sent = entries(previous + 1, &other[previous as usize..]);
                let change = self.log.extend(self.position(previous), sent);
                assert!(change.is_some(), "the logs agree at {previous}");
                if count > 0 {
                    self.terms = other; // A true conflict, or something new.
                }
            }
            Step::Repeat { back, count } => {
                let previous = last.saturating_sub(back).max(self.base);
                let end = (previous + count).min(last);
                let sent = entries(previous + 1, &self.terms[previous as usize..end as usize]);
                let change = self.log.extend(self.position(previous), sent);
                assert_eq!(change, Some(Change::default()), "a copy changes nothing");
            }
            Step::Write => {
                self.tickets = self.tickets.next();
                self.log.on_write(self.tickets, Instant(0));
                self.writes.push((self.tickets, self.terms.clone()));
            }
            Step::Persist { writes } => {
                let done = writes.min(self.writes.len());
                if let Some((ticket, image)) = self.writes.drain(..done).next_back() {
                    self.log.on_persisted(ticket);
                    self.durable = image;
                }
            }
            Step::Evict { bytes_max } => self.log.evict(bytes_max),
            Step::Compact { percent } => {
                self.base += (self.log.durable().0 - self.base) * percent / 100;
                self.log.compact(self.position(self.base));
            }
        }
    }

    fn compare(&self) {
        self.log.check();
        assert_eq!(self.log.last(), self.position(self.terms.len() as u64));
        for index in 0..=self.terms.len() as u64 + 1 {
            let known = self.base..=self.terms.len() as u64;
            let term = known.contains(&index).then(|| self.position(index).term);
            assert_eq!(self.log.term_at(Index(index)), term);
        }
        // What the log calls durable, the disk has, and as it is now.
        let durable = self.log.durable().0 as usize;
        assert!(durable <= self.durable.len(), "the disk has {} entries", self.durable.len());
        assert_eq!(self.durable[..durable], self.terms[..durable]);
        let last = self.terms.len() as u64;
        for (first, last) in (1..=last).flat_map(|first| [(first, last), (first, first + 1)]) {
            let three = first..=(first + 2).min(self.terms.len() as u64);
            let exactly = three.map(|at| self.entry(at).size_bytes()).sum();
            for bytes_max in [1, 200, 500, exactly] {
                self.compare_recent(first, last, bytes_max);
            }
        }
        assert_eq!(self.log.recent(Index(last + 1), Index(last), 200), None, "nothing is there");
    }

    /// As many entries as fit, at least one; fewer only where half of what fits is full.
    fn compare_recent(&self, first: u64, last: u64, bytes_max: usize) {
        let sent = self.log.recent(Index(first), Index(last), bytes_max);
        let in_memory = Index(first) >= self.log.recent_first();
        assert_eq!(sent.is_some(), in_memory && last <= self.terms.len() as u64);
        let Some(sent) = sent else { return };
        assert!(sent.len() == 1 || sent.size_bytes() <= bytes_max, "bytes are bounded");
        let wanted = last - first + 1;
        let next = first + sent.len() as u64;
        assert!(sent.len() as u64 <= wanted, "no more than was asked for");
        if next <= last && sent.size_bytes() < bytes_max / 2 {
            let bytes = self.entry(next).size_bytes();
            assert!(sent.size_bytes() + bytes > bytes_max, "it would have fitted");
        }
        for (entry, index) in sent.iter().zip(first..) {
            assert_eq!(entry, &self.entry(index));
        }
    }
}

/// Entries from `first` on, of these terms.
fn entries(first: u64, terms: &[Term]) -> Entries {
    terms.iter().zip(first..).map(|(&term, index)| entry(index, term)).collect()
}

/// No two neighbours are equally long.
fn entry(index: u64, term: Term) -> Entry {
    let bytes = &b"ten bytes."[..((index + term.0) % 11) as usize];
    Entry { index: Index(index), term, payload: Payload::Command(Bytes::from_static(bytes)) }
}

proptest! {
    #[test]
    fn a_log_is_what_was_put_into_it(steps in prop::collection::vec(step(), 1..60)) {
        let mut pair = Pair::new();
        for step in steps {
            pair.take(step);
            pair.compare();
        }
    }
}

fn filled(terms: &[u64]) -> Log {
    let mut log = Log::restore(TermRuns::default());
    log.append(entries(1, &terms.iter().copied().map(Term).collect::<Vec<_>>()));
    log
}

fn at(index: u64, term: u64) -> LogPosition {
    LogPosition { term: Term(term), index: Index(index) }
}

#[test]
fn a_conflict_cuts_the_whole_tail_and_only_from_there() {
    let mut log = filled(&[1, 1, 1, 1, 1]);
    let change = log.extend(at(2, 1), entries(3, &[Term(1), Term(2)]));
    let expected = Change { truncate: Some(Index(3)), entries: entries(4, &[Term(2)]) };
    assert_eq!(change, Some(expected));
    assert_eq!(log.last(), at(4, 2));
}

#[test]
fn a_log_that_differs_is_left_alone() {
    let mut log = filled(&[1, 1, 2]);
    assert_eq!(log.extend(at(3, 1), entries(4, &[Term(3)])), None);
    assert_eq!(log.extend(at(4, 2), entries(5, &[Term(3)])), None);
    assert_eq!(log.last(), at(3, 2));
}

#[test]
fn a_completion_never_vouches_for_what_was_written_later() {
    let mut log = filled(&[1, 1, 1]);
    log.on_write(Ticket(1), Instant(0));
    log.extend(at(1, 1), entries(2, &[Term(2), Term(2), Term(2)]));
    log.on_write(Ticket(2), Instant(0));
    log.on_persisted(Ticket(1));
    assert_eq!(log.durable(), Index(1));
    log.on_persisted(Ticket(2));
    assert_eq!(log.durable(), Index(4));
}

#[test]
fn what_is_not_durable_stays_in_memory() {
    let mut log = filled(&[1, 1]);
    log.append(entries(3, &[Term(1)]));
    log.evict(0);
    assert_eq!(log.recent_first(), Index(1));
    log.on_write(Ticket(1), Instant(0));
    log.on_persisted(Ticket(1));
    let newest = entries(3, &[Term(1)]).size_bytes();
    let all = entries(1, &[Term(1), Term(1)]).size_bytes() + newest;
    log.evict(all);
    assert_eq!(log.recent_first(), Index(1), "as many bytes as there may be");
    log.evict(newest);
    assert_eq!(log.recent_first(), Index(3));
    log.evict(0);
    assert_eq!(log.recent_first(), Index(4), "all of it is durable");
    log.append(entries(4, &[Term(1)]));
    assert_eq!(log.recent(Index(3), Index(4), 1000), None);
}

#[test]
fn one_entry_always_fits() {
    let log = filled(&[1, 1]);
    let sent = log.recent(Index(1), Index(2), 1).expect("it is in memory");
    assert_eq!(sent.len(), 1);
}
