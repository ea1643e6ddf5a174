//! The verdict over a whole history.

use std::fmt::{self, Debug, Display};

use super::explain::{Violation, explain};
use super::search::{Found, search};
use super::{Call, History, Model};

/// How many steps the search for one key may take before it gives up.
pub const STEPS_MAX: u64 = 20_000_000;

/// One copy of the data could have answered so; and what it took to know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Keys.
    pub keys: usize,
    /// Calls, without those that were refused.
    pub calls: usize,
    /// Those of them that were not answered.
    pub unanswered: usize,
    /// States that the search went through.
    pub states: u64,
}

/// It is not known to be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// No order of the calls gives these answers.
    Violation(Violation),
    /// Nobody knows: the search was too long.
    GaveUp(GaveUp),
}

/// The search for this key was too long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GaveUp {
    /// The key.
    pub key: String,
    /// Its calls.
    pub calls: usize,
    /// Those of them that were not answered.
    pub unanswered: usize,
    /// The steps taken.
    pub steps: u64,
}

impl Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Violation(violation) => Display::fmt(violation, f),
            Self::GaveUp(GaveUp { key, calls, unanswered, steps }) => write!(
                f,
                "key {key}: no verdict over {calls} calls, {unanswered} of them unanswered, \
                 after {steps} steps"
            ),
        }
    }
}

impl std::error::Error for Failure {}

/// Whether one copy of each key's data could have answered so.
///
/// # Errors
/// When none could, or when nobody knows within [`STEPS_MAX`].
pub fn check<M: Model, K: Ord + Clone + Debug>(
    history: &History<M, K>,
) -> Result<Checked, Failure> {
    check_within(history, STEPS_MAX)
}

/// As [`check`], with another bound of the steps for each key.
///
/// # Errors
/// When no copy could have answered so, or when nobody knows within `steps_max`.
pub fn check_within<M: Model, K: Ord + Clone + Debug>(
    history: &History<M, K>,
    steps_max: u64,
) -> Result<Checked, Failure> {
    let mut checked = Checked::default();
    for (key, calls) in history.keys() {
        let unanswered = calls.iter().filter(|call| call.end.is_none()).count();
        checked.keys += 1;
        checked.calls += calls.len();
        checked.unanswered += unanswered;
        checked.states += check_key(key, calls, unanswered, steps_max)?;
    }
    Ok(checked)
}

fn check_key<M: Model>(
    key: &impl Debug,
    calls: Vec<Call<M>>,
    unanswered: usize,
    steps_max: u64,
) -> Result<u64, Failure> {
    let outcome = search(calls.clone(), steps_max);
    match outcome.found {
        Found::Order => Ok(outcome.states),
        Found::Nothing(_) => Err(Failure::Violation(explain(format!("{key:?}"), calls))),
        Found::GaveUp => {
            let (key, calls, steps) = (format!("{key:?}"), calls.len(), outcome.steps);
            Err(Failure::GaveUp(GaveUp { key, calls, unanswered, steps }))
        }
    }
}
