//! The shortest part of a wrong history that is wrong by itself.
//!
//! First what came after the first wrong answer is left out. Then answers are withheld, many at
//! once and then one by one, as long as the rest stays wrong: a call without an answer allows
//! more, so whatever is still wrong is wrong whether those calls happened or not. Those that the
//! best order makes use of are shown all the same.

use std::collections::BTreeSet;
use std::fmt::{self, Display};

use super::picture::picture;
use super::search::{Found, search};
use super::{Call, Model};

/// How many steps one trial of a smaller part may take; a longer one counts as failed.
const TRIAL_STEPS_MAX: u64 = 20_000;
/// How many steps all trials may take: a part that is not the smallest explains as well.
const TRIALS_STEPS_MAX: u64 = 2_000_000;

/// No order of these calls gives these answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The key.
    pub key: String,
    /// The calls that cannot all have been answered so.
    pub part: Vec<String>,
    /// How many calls make no difference, whether they happened or not.
    pub others: usize,
    /// The state in which the best order of them ends.
    pub state: String,
    picture: String,
}

impl Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, part, others, state, picture } = self;
        writeln!(f, "key {key}: no order of these {} calls gives these answers", part.len())?;
        f.write_str(picture)?;
        writeln!(f, "the best order of them ends with {state}")?;
        write!(f, "{others} other calls make no difference")
    }
}

impl std::error::Error for Violation {}

/// Explains a history that is known to be wrong.
pub(super) fn explain<M: Model>(key: String, calls: Vec<Call<M>>) -> Violation {
    let mut part = Part { calls: calls.clone(), steps: 0 };
    part.cut_after_the_first_wrong_answer();
    part.withhold_answers(|call| M::is_pure(&call.input, call.output.as_ref()));
    part.withhold_answers(|_| true);
    let needed = part.calls.iter().filter(|call| call.end.is_some()).map(|call| call.id);
    let mut shown: BTreeSet<_> = needed.collect();
    let stuck = match search(part.calls, u64::MAX).found {
        Found::Nothing(stuck) => Some(stuck),
        Found::Order | Found::GaveUp => None,
    };
    shown.extend(stuck.iter().flat_map(|stuck| stuck.placed.iter().copied()));
    let all = calls.len();
    let mut calls = calls;
    calls.retain(|call| shown.contains(&call.id));
    calls.sort_by_key(|call| call.begin);
    Violation {
        key,
        part: calls.iter().map(|call| format!("{call:?}")).collect(),
        others: all - calls.len(),
        state: stuck.map_or_else(String::new, |stuck| format!("{:?}", stuck.state)),
        picture: picture(&calls),
    }
}

/// Invariant: no order gives these answers.
struct Part<M: Model> {
    calls: Vec<Call<M>>,
    /// What it took to make it so small.
    steps: u64,
}

impl<M: Model> Part<M> {
    /// Takes `calls` instead if they are wrong too.
    fn try_instead(&mut self, calls: Vec<Call<M>>) -> bool {
        let outcome = search(calls.clone(), TRIAL_STEPS_MAX + calls.len() as u64);
        self.steps += outcome.steps;
        let is_wrong = matches!(outcome.found, Found::Nothing(_));
        if is_wrong {
            self.calls = calls;
        }
        is_wrong
    }

    /// Answers that come later do not make a history right that was wrong before: the shortest
    /// wrong beginning can be halved down to.
    fn cut_after_the_first_wrong_answer(&mut self) {
        let mut ends: Vec<u64> = self.calls.iter().filter_map(|call| call.end).collect();
        ends.sort_unstable();
        let all = self.calls.clone();
        let (mut right, mut wrong) = (0, ends.len());
        while right < wrong {
            let middle = (right + wrong) / 2;
            if self.try_instead(beginning(&all, ends[middle])) {
                wrong = middle;
            } else {
                right = middle + 1;
            }
        }
    }

    fn withhold_answers(&mut self, of: impl Fn(&Call<M>) -> bool) {
        let mut size = self.calls.len().next_power_of_two();
        while size > 0 {
            for start in (0..self.calls.len()).step_by(size) {
                let end = (start + size).min(self.calls.len());
                let mut fewer = self.calls.clone();
                let answered = fewer[start..end].iter_mut().filter(|call| call.end.is_some());
                let withheld = answered.filter(|call| of(call)).map(withhold).count();
                if withheld > 0 && self.steps < TRIALS_STEPS_MAX {
                    self.try_instead(fewer);
                }
            }
            size /= 2;
        }
    }
}

fn withhold<M: Model>(call: &mut Call<M>) {
    (call.end, call.output) = (None, None);
}

/// The history as it stood at this time.
fn beginning<M: Model>(calls: &[Call<M>], until: u64) -> Vec<Call<M>> {
    let begun = calls.iter().filter(|call| call.begin <= until).cloned();
    begun
        .map(|mut call| {
            if call.end.is_some_and(|end| end > until) {
                withhold(&mut call);
            }
            call
        })
        .collect()
}
