//! A list that grows at its end, and never forgets. Reads show all of it, so that hardly a
//! mistake can hide.

use std::collections::{BTreeMap, BTreeSet};

use super::{Call, Model};

/// A list. Each number is best appended once; otherwise the search may be long.
#[derive(Clone, Copy, Debug)]
pub struct ListAppend;

/// What is asked of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// Put it at the end.
    Append(u64),
    /// Show all of it.
    Read,
}

/// What it answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// The list is now this long.
    Appended(u64),
    /// All of it.
    List(Vec<u64>),
}

impl Model for ListAppend {
    type State = Vec<u64>;
    type Input = Input;
    type Output = Output;

    fn step(list: &Vec<u64>, input: &Input, output: Option<&Output>) -> Option<Vec<u64>> {
        match (input, output) {
            (Input::Append(number), None | Some(Output::Appended(_))) => {
                let length = list.len() as u64 + 1;
                let fits = output.is_none_or(|it| *it == Output::Appended(length));
                fits.then(|| list.iter().copied().chain([*number]).collect())
            }
            (Input::Read, Some(Output::List(shown))) => (shown == list).then(|| list.clone()),
            (Input::Read, None) => Some(list.clone()),
            (Input::Append(_), Some(Output::List(_)))
            | (Input::Read, Some(Output::Appended(_))) => None,
        }
    }

    fn is_pure(input: &Input, _output: Option<&Output>) -> bool {
        matches!(input, Input::Read)
    }

    /// The longest list that was read tells of each number in it where it was put, and so of
    /// each append without an answer whether it happened before the end of that read.
    fn settle(calls: &mut Vec<Call<Self>>) {
        let mut times: BTreeMap<u64, usize> = BTreeMap::new();
        for call in calls.iter() {
            if let Input::Append(number) = call.input {
                *times.entry(number).or_default() += 1;
            }
        }
        let (mut seen, mut last_read) = (BTreeMap::new(), None);
        for call in calls.iter() {
            let (Some(end), Some(Output::List(list))) = (call.end, &call.output) else { continue };
            last_read = last_read.max(Some(call.begin));
            for (place, number) in (1..).zip(list) {
                let by = seen.entry(*number).or_insert((end, BTreeSet::new()));
                by.0 = end.min(by.0);
                by.1.insert(place);
            }
        }
        for call in calls.iter_mut().filter(|call| call.end.is_none()) {
            let Input::Append(number) = call.input else { continue };
            if times.get(&number) != Some(&1) {
                continue;
            }
            match seen.get(&number) {
                Some((end, places)) if places.len() == 1 => {
                    call.end = Some(call.begin.max(*end));
                    call.output = places.first().copied().map(Output::Appended);
                }
                Some(_) => {} // Seen in two places: there is no right order.
                None => {
                    // Whoever read after it would have seen it.
                    call.begin = call.begin.max(last_read.unwrap_or(0));
                }
            }
        }
    }
}
