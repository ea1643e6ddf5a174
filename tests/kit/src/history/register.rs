//! One value that is written, read, swapped and deleted.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::hash::Hash;
use std::marker::PhantomData;

use super::{Call, Model};

/// A register. Each value is best written once; otherwise the search may be long.
#[derive(Clone, Copy, Debug)]
pub struct Register<V = u64>(PhantomData<V>);

/// What is asked of a register.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input<V = u64> {
    /// Show the value.
    Read,
    /// Replace it.
    Write(V),
    /// Have none.
    Delete,
    /// Replace it if it is this one.
    Cas {
        /// What it has to be.
        from: Option<V>,
        /// What it is to be.
        to: V,
    },
}

/// What it answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output<V = u64> {
    /// The value, if there is one.
    Value(Option<V>),
    /// Written, deleted or swapped.
    Done,
    /// Not swapped, because this was found.
    Kept(Option<V>),
}

impl<V: Clone + Debug + Ord + Hash> Model for Register<V> {
    type State = Option<V>;
    type Input = Input<V>;
    type Output = Output<V>;

    fn step(held: &Option<V>, input: &Input<V>, output: Option<&Output<V>>) -> Option<Option<V>> {
        let (answer, after) = match input {
            Input::Read => (Output::Value(held.clone()), held.clone()),
            Input::Write(value) => (Output::Done, Some(value.clone())),
            Input::Delete => (Output::Done, None),
            Input::Cas { from, to } if from == held => (Output::Done, Some(to.clone())),
            Input::Cas { .. } => (Output::Kept(held.clone()), held.clone()),
        };
        output.is_none_or(|output| *output == answer).then_some(after)
    }

    fn is_pure(input: &Input<V>, output: Option<&Output<V>>) -> bool {
        matches!(input, Input::Read) || matches!(output, Some(Output::Kept(_)))
    }

    /// A value that one call alone can have written, and that somebody saw, was written before
    /// the end of whoever saw it first. If nobody saw it, its call explains nothing: every
    /// answer says what it found.
    fn settle(calls: &mut Vec<Call<Self>>) {
        let mut writers: BTreeMap<V, usize> = BTreeMap::new();
        for value in calls.iter().filter_map(|call| written(&call.input)) {
            *writers.entry(value.clone()).or_default() += 1;
        }
        loop {
            let seen = first_seen(calls);
            let mut has_changed = false;
            for call in calls.iter_mut().filter(|call| call.end.is_none()) {
                let Some(value) = written(&call.input) else { continue };
                let (Some(end), Some(1)) = (seen.get(value), writers.get(value)) else { continue };
                // Closing a swap shows that somebody saw what it replaced.
                (call.end, call.output) = (Some(call.begin.max(*end)), Some(Output::Done));
                has_changed = true;
            }
            if !has_changed {
                break;
            }
        }
        calls.retain(|call| {
            let alone = written(&call.input).and_then(|value| writers.get(value)) == Some(&1);
            call.end.is_some() || !alone
        });
    }
}

fn written<V>(input: &Input<V>) -> Option<&V> {
    match input {
        Input::Write(value) | Input::Cas { to: value, .. } => Some(value),
        Input::Read | Input::Delete => None,
    }
}

/// When each value had surely been seen by somebody.
fn first_seen<V: Clone + Debug + Ord + Hash>(calls: &[Call<Register<V>>]) -> BTreeMap<V, u64> {
    let mut first: BTreeMap<V, u64> = BTreeMap::new();
    for call in calls {
        let value = match (&call.input, &call.output) {
            (_, Some(Output::Value(value) | Output::Kept(value))) => value,
            (Input::Cas { from, .. }, Some(Output::Done)) => from,
            _ => &None, // Nobody saw anything.
        };
        if let (Some(value), Some(end)) = (value, call.end) {
            let seen = first.entry(value.clone()).or_insert(end);
            *seen = end.min(*seen);
        }
    }
    first
}
