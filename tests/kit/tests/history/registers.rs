//! Registers: every picture is one history.

use raft_testkit::history::Register;
use raft_testkit::history::register::Input::{Cas, Delete, Read, Write};
use raft_testkit::history::register::Output::{Done, Kept, Value};

use crate::script::End::{Never, Ok};
use crate::script::{Script, right, wrong};

type Calls = Script<Register>;

/// ```text
///   |- write 1 -|   |- write 2 -|   |- read: 1 -|
/// ```
#[test]
fn a_stale_read_is_wrong_and_explained_by_three_calls() {
    let mut calls: Calls = vec![
        (10, Write(1), Ok(20, Done)),
        (30, Write(2), Ok(40, Done)),
        (50, Read, Ok(60, Value(Some(1)))),
    ];
    let found = wrong::<Register>(calls.clone());
    let text = "\
key \"x\": no order of these 3 calls gives these answers
  client 1   |-------|                       Write(1) → Done  [10, 20]
  client 2             |-------|             Write(2) → Done  [30, 40]
  client 3                       |-------|   Read → Value(Some(1))  [50, 60]
the best order of them ends with Some(2)
0 other calls make no difference";
    assert_eq!(found.to_string(), text, "\n{found}");

    // What else happened, before, meanwhile and since, is not shown.
    for at in 0..40 {
        calls.push((at, Write(100 + at), Ok(at + 4, Done)));
        calls.push((70 + at, Write(200 + at), Ok(74 + at, Done)));
    }
    let found = wrong::<Register>(calls);
    assert_eq!((found.part.len(), found.others), (3, 80), "{found}");
}

/// ```text
///   |- write 1 -|  |- read: - -|  |- read: 7 -|      the first wrong answer, not the simplest
///                                 |- read: 1 -|      and 1 was not written too late for this one
/// ```
#[test]
fn the_first_wrong_answer_is_explained() {
    let mut calls: Calls = (1..9).map(|at| (at, Read, Ok(at, Value(None)))).collect();
    calls.extend([
        (10, Write(1), Ok(20, Done)),
        (30, Read, Ok(40, Value(None))),
        (50, Read, Ok(60, Value(Some(7)))),
        (50, Read, Ok(60, Value(Some(1)))),
    ]);
    let found = wrong::<Register>(calls);
    assert_eq!((found.part.len(), found.others), (2, 10), "{found}");
    assert!(found.part[1].contains("Value(None)"), "{found}");
}

/// ```text
///   |- read: 1 -|
/// ```
#[test]
fn a_value_from_nowhere_is_wrong() {
    assert_eq!(wrong::<Register>(vec![(10, Read, Ok(20, Value(Some(1))))]).part.len(), 1);
    right::<Register>(vec![(10, Read, Ok(20, Value(None)))]);
}

/// ```text
///   |---- write 1 ----|
///   |---- write 2 ----|
///                       |- read: 1 -|
///                                     |- read: 2 -|
/// ```
#[test]
fn two_readers_agree_about_the_last_writer() {
    let calls = |second| {
        vec![
            (10, Write(1), Ok(20, Done)),
            (10, Write(2), Ok(20, Done)),
            (30, Read, Ok(40, Value(Some(1)))),
            (50, Read, Ok(60, Value(Some(second)))),
        ]
    };
    right::<Register>(calls(1));
    wrong::<Register>(calls(2));
}

/// ```text
///   |-------- write 1 --------|
///       |- read: 1 -|
///                       |- read: - -|      seen, and then not any more
/// ```
#[test]
fn what_was_seen_stays() {
    let calls = |first, second| {
        vec![
            (10, Write(1), Ok(90, Done)),
            (20, Read, Ok(30, Value(first))),
            (40, Read, Ok(50, Value(second))),
        ]
    };
    right::<Register>(calls(None, Some(1)));
    right::<Register>(calls(None, None));
    wrong::<Register>(calls(Some(1), None));
}

/// ```text
///   |- write 1 -|   |------ cas 1 2: done ------|
///                   |------ cas 1 3: done ------|
/// ```
#[test]
fn only_one_of_two_swaps_succeeds() {
    let calls = |second| {
        let swap = |to| Cas { from: Some(1), to };
        vec![
            (10, Write(1), Ok(20, Done)),
            (30, swap(2), Ok(50, Done)),
            (30, swap(3), Ok(50, second)),
        ]
    };
    wrong::<Register>(calls(Done));
    right::<Register>(calls(Kept(Some(2))));
    wrong::<Register>(calls(Kept(Some(3))));
}

/// ```text
///   |- write 1 -|   |- cas 1 2: kept 1 -|
/// ```
#[test]
fn a_swap_that_fits_must_swap() {
    let calls = |output| {
        vec![(10, Write(1), Ok(20, Done)), (30, Cas { from: Some(1), to: 2 }, Ok(40, output))]
    };
    wrong::<Register>(calls(Kept(Some(1))));
    wrong::<Register>(calls(Kept(None)));
    right::<Register>(calls(Done));
}

/// ```text
///   |- cas - 1 - - - - - - -
///   |- cas 1 2 - - - - - - -
///                              |- read: 2 -|   |- read: 1 -|
/// ```
#[test]
fn swaps_without_an_answer_follow_one_another() {
    let calls = |reads: [u64; 2]| {
        vec![
            (10, Cas { from: None, to: 1 }, Never),
            (10, Cas { from: Some(1), to: 2 }, Never),
            (30, Read, Ok(40, Value(Some(reads[0])))),
            (50, Read, Ok(60, Value(Some(reads[1])))),
        ]
    };
    right::<Register>(calls([1, 2]));
    right::<Register>(calls([2, 2]));
    wrong::<Register>(calls([2, 1]));
}

/// ```text
///   |- write 1 -|   |- delete - - - - - - - - - - - - - -
///                   |- read: - -|   |- write 2 -|  |- read: - -|
/// ```
#[test]
fn a_delete_without_an_answer_happens_once() {
    let calls = |second| {
        vec![
            (10, Write(1), Ok(20, Done)),
            (30, Delete, Never),
            (30, Read, Ok(40, Value(second))),
            (50, Write(2), Ok(60, Done)),
            (70, Read, Ok(80, Value(None))),
        ]
    };
    right::<Register>(calls(Some(1)));
    wrong::<Register>(calls(None));
}

/// A write that changes nothing where it could come first may be needed later.
/// ```text
///   |- write 1 -|   |---- write 1 ----|
///                   |---- write 2 ----|
///                                       |- read: 1 -|
/// ```
#[test]
fn a_write_of_the_same_value_is_a_write() {
    right::<Register>(vec![
        (10, Write(1), Ok(20, Done)),
        (30, Write(1), Ok(40, Done)),
        (30, Write(2), Ok(40, Done)),
        (50, Read, Ok(60, Value(Some(1)))),
    ]);
}
