//! Lists: every picture is one history.

use raft_testkit::history::ListAppend;
use raft_testkit::history::list::Input::{Append, Read};
use raft_testkit::history::list::Output::{self, Appended, List};

use crate::script::End::{self, Never, Ok, Refused};
use crate::script::{right, wrong};

fn shows(at: u64, numbers: &[u64]) -> End<Output> {
    Ok(at, List(numbers.to_vec()))
}

/// ```text
///   |- append 1 -|
///                  |- append 2 -|
///                                 |- read: 1 2 -|
/// ```
#[test]
fn one_after_the_other() {
    let checked = right::<ListAppend>(vec![
        (10, Append(1), Ok(20, Appended(1))),
        (30, Append(2), Ok(40, Appended(2))),
        (50, Read, shows(60, &[1, 2])),
    ]);
    assert_eq!((checked.keys, checked.calls, checked.unanswered), (1, 3, 0));
}

/// ```text
///   |--- append 1 ---|
///   |--- append 2 ---|
///                      |- read: 2 1 -|
///                      |- read: 1 2 -|     the order is free, but one for all
/// ```
#[test]
fn two_at_once_stand_in_one_order_for_everybody() {
    let both = |reads: [&[u64]; 2]| {
        vec![
            (
                10,
                Append(1),
                Ok(
                    20,
                    Appended(reads[0].iter().position(|it| *it == 1).map_or(0, |at| at as u64 + 1)),
                ),
            ),
            (
                10,
                Append(2),
                Ok(
                    20,
                    Appended(reads[0].iter().position(|it| *it == 2).map_or(0, |at| at as u64 + 1)),
                ),
            ),
            (30, Read, shows(40, reads[0])),
            (30, Read, shows(40, reads[1])),
        ]
    };
    right::<ListAppend>(both([&[2, 1], &[2, 1]]));
    right::<ListAppend>(both([&[1, 2], &[1, 2]]));
    wrong::<ListAppend>(both([&[2, 1], &[1, 2]]));
}

/// ```text
///   |- append 1 -|
///                  |- append 2 -|
///                                 |- read: 1 -|
/// ```
#[test]
fn a_stale_read_is_wrong() {
    let found = wrong::<ListAppend>(vec![
        (10, Append(1), Ok(20, Appended(1))),
        (30, Append(2), Ok(40, Appended(2))),
        (50, Read, shows(60, &[1])),
    ]);
    // That the first was answered makes no difference, but it belongs to the story.
    assert_eq!((found.key.as_str(), found.part.len()), ("\"x\"", 3), "{found}");
    assert_eq!(found.state, "[1, 2]");
}

/// ```text
///   |- append 1 -|
///   |- append 2 -|
///                  |- read: 2 -|         1 was acknowledged
/// ```
#[test]
fn a_lost_update_is_wrong() {
    wrong::<ListAppend>(vec![
        (10, Append(1), Ok(20, Appended(1))),
        (10, Append(2), Ok(20, Appended(1))),
        (30, Read, shows(40, &[2])),
    ]);
}

/// ```text
///   |- append 1: refused -|
///                            |- read: 1 -|
/// ```
#[test]
fn an_aborted_read_is_wrong() {
    let script = |numbers: &[u64]| vec![(10, Append(1), Refused), (30, Read, shows(40, numbers))];
    wrong::<ListAppend>(script(&[1]));
    assert_eq!(right::<ListAppend>(script(&[])).calls, 1);
}

/// ```text
///   |- append 1 - - - - - - - - - - - - - - -
///                |- read: -|   |- read: 1 -|
/// ```
#[test]
fn what_was_not_answered_may_take_effect_late_but_not_be_undone() {
    let script = |first: &[u64], second: &[u64]| {
        vec![(10, Append(1), Never), (20, Read, shows(30, first)), (40, Read, shows(50, second))]
    };
    right::<ListAppend>(script(&[], &[1]));
    right::<ListAppend>(script(&[], &[]));
    right::<ListAppend>(script(&[1], &[1]));
    wrong::<ListAppend>(script(&[1], &[]));
    assert_eq!(right::<ListAppend>(script(&[], &[])).unanswered, 1);
}

/// ```text
///   |- append 1 - - - - - - -
///   |- append 2: length 2 -|       only with 1 before it
/// ```
#[test]
fn what_was_not_answered_may_be_needed_to_explain_a_length() {
    let script = |length| vec![(10, Append(1), Never), (10, Append(2), Ok(20, Appended(length)))];
    right::<ListAppend>(script(2));
    right::<ListAppend>(script(1));
    wrong::<ListAppend>(script(3));
}

/// ```text
///   |- append 1 -|   |- read: 1 1 -|
/// ```
#[test]
fn an_append_that_happened_twice_is_wrong() {
    wrong::<ListAppend>(vec![(10, Append(1), Ok(20, Appended(1))), (30, Read, shows(40, &[1, 1]))]);
    wrong::<ListAppend>(vec![(10, Append(1), Never), (30, Read, shows(40, &[1, 1]))]);
    // Unless it was asked for twice.
    right::<ListAppend>(vec![
        (10, Append(1), Never),
        (10, Append(1), Never),
        (30, Read, shows(40, &[1, 1])),
    ]);
}

/// ```text
///                     |- append 1 - - - -
///   |- read: 1 -|                          seen before it was asked for
/// ```
#[test]
fn nobody_sees_the_future() {
    wrong::<ListAppend>(vec![(10, Read, shows(20, &[1])), (30, Append(1), Never)]);
    right::<ListAppend>(vec![(10, Read, shows(30, &[1])), (30, Append(1), Never)]);
}

/// ```text
///   client 1  |- append 1 -|
///   client 2                 |- append 2 -|
///   client 3                                |- read: 2 1 -|
/// ```
#[test]
fn real_time_orders_the_calls_of_different_clients() {
    wrong::<ListAppend>(vec![
        (10, Append(1), Ok(20, Appended(2))),
        (30, Append(2), Ok(40, Appended(1))),
        (50, Read, shows(60, &[2, 1])),
    ]);
}

#[test]
fn an_answer_to_another_question_is_wrong() {
    wrong::<ListAppend>(vec![(10, Append(1), shows(20, &[1]))]);
    wrong::<ListAppend>(vec![(10, Read, Ok(20, Appended(0)))]);
}
