//! Histories of what clients asked and were answered, and whether one copy of the data could have
//! answered so (linearizability, Herlihy & Wing 1990).
//!
//! ```text
//!   client 1   |--- write 1 ---|
//!   client 2        |--- read: nothing ---|          fine: the read came first
//!   client 3                             |- read: 1 -|
//!   client 4                        |--- write 2 -- - - -     no answer: later, or never
//! ```
//! A call that was answered took effect at one moment between its two ends. One that was never
//! answered stays open: it takes effect at any moment after its start, however late, or never.
//! One that was refused surely did nothing, and leaves the history.
//!
//! Keys do not touch one another, so each is searched by itself.
//!
//! ```
//! use raft_testkit::history::{History, ListAppend, list, check};
//!
//! let mut history: History<ListAppend> = History::new();
//! let append = history.call(1, 10, "x".into(), list::Input::Append(7));
//! let read = history.call(2, 20, "x".into(), list::Input::Read);
//! history.ok(append, 30, list::Output::Appended(1));
//! history.ok(read, 40, list::Output::List(vec![7]));
//! assert_eq!(check(&history).expect("one list answers so").calls, 2);
//!
//! let stale = history.call(2, 50, "x".into(), list::Input::Read);
//! history.ok(stale, 60, list::Output::List(vec![]));
//! println!("{}", check(&history).expect_err("7 was there before"));
//! ```

mod check;
mod explain;
mod line;
pub mod list;
mod picture;
pub mod register;
mod search;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::hash::Hash;

pub use check::{Checked, Failure, GaveUp, STEPS_MAX, check, check_within};
pub use explain::Violation;
pub use list::ListAppend;
pub use register::Register;

/// The data of one key as it would be if there were one copy, and one call at a time.
pub trait Model: Sized {
    /// What is held; the default is what a key starts with.
    type State: Clone + Debug + Eq + Hash + Default;
    /// What is asked.
    type Input: Clone + Debug + PartialEq;
    /// What is answered.
    type Output: Clone + Debug + PartialEq;

    /// The state after `input`, if `output` is what it would answer. Without an output any answer
    /// will do.
    fn step(
        state: &Self::State,
        input: &Self::Input,
        output: Option<&Self::Output>,
    ) -> Option<Self::State>;

    /// Whether this call changes no state whatever, whenever it happens. Saying so makes the
    /// search faster; `false` is always right.
    fn is_pure(_input: &Self::Input, _output: Option<&Self::Output>) -> bool {
        false
    }

    /// May close calls that were left open where the other answers show that they took effect by
    /// some time, start them later where they surely had not, or take them out where they explain
    /// nothing. It changes how long the search takes, and never its verdict.
    fn settle(_calls: &mut Vec<Call<Self>>) {}
}

/// One call: what was asked when, and what was answered when.
///
/// Invariant: `begin <= end`.
pub struct Call<M: Model> {
    /// Its number.
    pub id: CallId,
    /// Who asked.
    pub client: u64,
    /// When.
    pub begin: u64,
    /// When it was answered; `None` if never.
    pub end: Option<u64>,
    /// What was asked.
    pub input: M::Input,
    /// What was answered, where that is known.
    pub output: Option<M::Output>,
}

impl<M: Model> Clone for Call<M> {
    fn clone(&self) -> Self {
        let Self { id, client, begin, end, input, output } = self;
        let (input, output) = (input.clone(), output.clone());
        Self { id: *id, client: *client, begin: *begin, end: *end, input, output }
    }
}

impl<M: Model> Debug for Call<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "client {} at {}: {:?}", self.client, self.begin, self.input)?;
        match (&self.output, self.end) {
            (Some(output), Some(end)) => write!(f, " → {output:?} at {end}"),
            (_, Some(end)) => write!(f, " → done by {end}"),
            (_, None) => write!(f, " → no answer"),
        }
    }
}

/// The number of a call in its history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CallId(u64);

/// What clients saw, key by key.
///
/// Invariant: every call of `keys` that can still be answered stands in `open`.
#[derive(Debug)]
pub struct History<M: Model, K = String> {
    keys: BTreeMap<K, BTreeMap<CallId, Call<M>>>,
    open: BTreeMap<CallId, K>,
    calls: u64,
}

impl<M: Model, K: Ord + Clone> Default for History<M, K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<M: Model, K: Ord + Clone> History<M, K> {
    /// Nobody has asked anything.
    pub fn new() -> Self {
        Self { keys: BTreeMap::new(), open: BTreeMap::new(), calls: 0 }
    }

    /// `client` asks for `input` on `key`.
    pub fn call(&mut self, client: u64, at_nanos: u64, key: K, input: M::Input) -> CallId {
        self.calls += 1;
        let id = CallId(self.calls);
        let call = Call { id, client, begin: at_nanos, end: None, input, output: None };
        self.keys.entry(key.clone()).or_default().insert(id, call);
        self.open.insert(id, key);
        id
    }

    /// It was answered.
    ///
    /// # Panics
    /// When it has ended already, or would have ended before it began.
    pub fn ok(&mut self, id: CallId, at_nanos: u64, output: M::Output) {
        let key = self.open.remove(&id).expect("a call ends once");
        let call = self.keys.get_mut(&key).and_then(|calls| calls.get_mut(&id));
        let call = call.expect("an open call stands in its key");
        assert!(call.begin <= at_nanos, "time passes while a call is made");
        (call.end, call.output) = (Some(at_nanos), Some(output));
    }

    /// It was refused: surely not executed.
    ///
    /// # Panics
    /// When it has ended already.
    pub fn refused(&mut self, id: CallId) {
        let key = self.open.remove(&id).expect("a call ends once");
        let calls = self.keys.get_mut(&key).expect("an open call stands in its key");
        calls.remove(&id);
    }

    /// How many calls there are, without those that were refused.
    pub fn len(&self) -> usize {
        self.keys.values().map(BTreeMap::len).sum()
    }

    /// Whether there is no call.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many calls were not answered.
    pub fn unanswered(&self) -> usize {
        self.open.len()
    }

    /// The calls of each key, in the order in which they were made.
    pub fn keys(&self) -> impl Iterator<Item = (&K, Vec<Call<M>>)> {
        self.keys.iter().map(|(key, calls)| (key, calls.values().cloned().collect()))
    }
}
