//! Random small histories: the checker says what trying everything says.

use std::cell::Cell;
use std::fmt::Debug;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use raft_testkit::history::{Checked, Failure, History, ListAppend, Model, Register, check};
use raft_testkit::history::{list, register};

use crate::brute::is_linearizable;
use crate::script::{End, Script, history};

const CASES: u32 = 2_000;
const CALLS_MAX: usize = 6;

/// One that may be right: when it was asked, when it took effect if it did, and when it was
/// answered; and then perhaps what was answered instead.
#[derive(Clone, Debug)]
struct Draft<I, O> {
    begin: u64,
    takes_effect: u64,
    ends: u64,
    input: I,
    fate: Fate<O>,
}

#[derive(Clone, Debug)]
enum Fate<O> {
    True,
    False(O),
    Open,
    OpenAndNever,
    Refused,
    /// Refused, but it happened.
    RefusedWrongly,
}

fn draft<I, O>(
    input: impl Strategy<Value = I>,
    output: impl Strategy<Value = O>,
) -> impl Strategy<Value = Draft<I, O>>
where
    I: Clone + Debug,
    O: Clone + Debug,
{
    let fate = prop_oneof![
        7 => Just(0_u8),
        2 => Just(1),
        3 => Just(2),
        2 => Just(3),
        1 => Just(4),
        2 => Just(5),
    ];
    (0..12_u64, 0..4_u64, 0..4_u64, input, fate, output).prop_map(
        |(begin, delay, more, input, fate, output)| Draft {
            begin,
            takes_effect: begin + delay,
            ends: begin + delay + more,
            input,
            fate: match fate {
                0 => Fate::True,
                1 => Fate::False(output),
                2 => Fate::Open,
                3 => Fate::OpenAndNever,
                4 => Fate::Refused,
                _ => Fate::RefusedWrongly,
            },
        },
    )
}

/// Plays the drafts on one copy of the data, in the order in which they take effect.
fn play<M: Model>(
    drafts: Vec<Draft<M::Input, M::Output>>,
    answer: impl Fn(&M::State, &M::Input) -> M::Output,
) -> Script<M> {
    let mut order: Vec<usize> = (0..drafts.len()).collect();
    order.sort_by_key(|at| drafts[*at].takes_effect);
    let mut state = M::State::default();
    let mut script: Vec<Option<End<M::Output>>> = vec![None; drafts.len()];
    for at in order {
        let Draft { ends, input, fate, .. } = &drafts[at];
        let output = answer(&state, input);
        if !matches!(fate, Fate::OpenAndNever | Fate::Refused) {
            state = M::step(&state, input, Some(&output)).expect("its own answer");
        }
        script[at] = Some(match fate {
            Fate::True => End::Ok(*ends, output),
            Fate::False(other) => End::Ok(*ends, other.clone()),
            Fate::Open | Fate::OpenAndNever => End::Never,
            Fate::Refused | Fate::RefusedWrongly => End::Refused,
        });
    }
    let ends = script.into_iter().flatten();
    drafts.into_iter().zip(ends).map(|(draft, end)| (draft.begin, draft.input, end)).collect()
}

/// Both verdicts have to be frequent, or little is shown.
fn compare<M: Model, S>(scripts: S)
where
    S: Strategy<Value = Script<M>>,
    M::Input: Debug,
{
    let config = Config { cases: CASES, failure_persistence: None, ..Config::default() };
    let random = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(config, random);
    let (rights, wrongs) = (Cell::new(0), Cell::new(0));
    let result = runner.run(&scripts, |script| {
        let history: History<M> = history(&script);
        let calls = history.keys().next().map(|(_, calls)| calls).unwrap_or_default();
        match check(&history) {
            Ok(Checked { .. }) => {
                prop_assert!(is_linearizable(&calls), "called right: {calls:#?}");
                rights.set(rights.get() + 1);
            }
            Err(Failure::Violation(found)) => {
                prop_assert!(!is_linearizable(&calls), "called wrong: {calls:#?}\n{found}");
                prop_assert_eq!(found.part.len() + found.others, calls.len());
                let part: Vec<_> = calls
                    .iter()
                    .filter(|call| found.part.contains(&format!("{call:?}")))
                    .cloned()
                    .collect();
                prop_assert!(!is_linearizable(&part), "a part that is right: {found}");
                wrongs.set(wrongs.get() + 1);
            }
            Err(Failure::GaveUp(gave_up)) => prop_assert!(false, "{gave_up:?}"),
        }
        Ok(())
    });
    if let Err(error) = result {
        panic!("{error}");
    }
    let (rights, wrongs) = (rights.get(), wrongs.get());
    assert!(rights > CASES / 5 && wrongs > CASES / 5, "{rights} right, {wrongs} wrong");
}

fn lists(numbers: u64) -> impl Strategy<Value = Script<ListAppend>> {
    let input = prop_oneof![(0..numbers).prop_map(list::Input::Append), Just(list::Input::Read),];
    let output = prop_oneof![
        (0..3_u64).prop_map(list::Output::Appended),
        prop::collection::vec(0..numbers, 0..3).prop_map(list::Output::List),
    ];
    let drafts = prop::collection::vec(draft(input, output), 0..=CALLS_MAX);
    drafts.prop_map(|drafts| {
        play::<ListAppend>(drafts, |list, input| match input {
            list::Input::Append(_) => list::Output::Appended(list.len() as u64 + 1),
            list::Input::Read => list::Output::List(list.clone()),
        })
    })
}

fn registers(values: u64) -> impl Strategy<Value = Script<Register>> {
    let held = move || prop::option::of(0..values);
    let input = prop_oneof![
        3 => Just(register::Input::Read),
        3 => (0..values).prop_map(register::Input::Write),
        1 => Just(register::Input::Delete),
        3 => (held(), 0..values).prop_map(|(from, to)| register::Input::Cas { from, to }),
    ];
    let output = prop_oneof![
        held().prop_map(register::Output::Value),
        Just(register::Output::Done),
        held().prop_map(register::Output::Kept),
    ];
    let drafts = prop::collection::vec(draft(input, output), 0..=CALLS_MAX);
    drafts.prop_map(|drafts| {
        play::<Register>(drafts, |held, input| match input {
            register::Input::Read => register::Output::Value(*held),
            register::Input::Cas { from, .. } if from != held => register::Output::Kept(*held),
            register::Input::Write(_) | register::Input::Delete | register::Input::Cas { .. } => {
                register::Output::Done
            }
        })
    })
}

#[test]
fn lists_whose_numbers_are_mostly_unique() {
    compare::<ListAppend, _>(lists(20));
}

#[test]
fn lists_whose_numbers_come_again() {
    compare::<ListAppend, _>(lists(2));
}

#[test]
fn registers_whose_values_are_mostly_unique() {
    compare::<Register, _>(registers(20));
}

#[test]
fn registers_whose_values_come_again() {
    compare::<Register, _>(registers(3));
}
