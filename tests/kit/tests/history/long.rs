//! Long histories are decided, and what cannot be decided is said to be so.

use raft_testkit::cluster::Dice;
use raft_testkit::history::{Failure, History, ListAppend, Register, check, check_within};
use raft_testkit::history::{list, register};

const CLIENTS: u64 = 8;

/// Clients that each wait for an answer before they ask again, some of them in vain.
struct Play {
    dice: Dice,
    clock: u64,
}

impl Play {
    fn new(seed: u64) -> Self {
        Self { dice: Dice::new(seed), clock: 0 }
    }

    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }
}

fn registers(calls: u64, keys: u64) -> History<Register, u64> {
    let (mut play, mut history) = (Play::new(7), History::new());
    let mut held = vec![None; keys as usize];
    let mut waiting = Vec::new();
    for number in 0..calls {
        let key = play.dice.below(keys);
        let input = match play.dice.below(4) {
            0 => register::Input::Write(number),
            1 => register::Input::Cas { from: held[key as usize], to: number },
            2 if play.dice.chance(100) => register::Input::Delete,
            _ => register::Input::Read,
        };
        let call = history.call(number % CLIENTS, play.tick(), key, input.clone());
        waiting.push((call, key, input));
        while waiting.len() as u64 >= CLIENTS {
            let (call, key, input) = waiting.remove(play.dice.below(CLIENTS) as usize);
            let held = &mut held[key as usize];
            let output = match input {
                register::Input::Read => register::Output::Value(*held),
                register::Input::Cas { from, .. } if from != *held => register::Output::Kept(*held),
                register::Input::Write(to) | register::Input::Cas { to, .. } => {
                    *held = Some(to);
                    register::Output::Done
                }
                register::Input::Delete => {
                    *held = None;
                    register::Output::Done
                }
            };
            if !play.dice.chance(20) {
                history.ok(call, play.tick(), output);
            }
        }
    }
    history
}

#[test]
fn ten_thousand_calls_on_a_few_registers() {
    let mut history = registers(10_000, 4);
    let checked = check(&history).expect("one copy gave the answers");
    assert_eq!((checked.keys, checked.calls), (4, 10_000));
    assert!(checked.unanswered > 100, "{checked:?}");
    assert!(checked.states < 100_000, "{checked:?}");

    let call = history.call(99, 1_000_000, 2, register::Input::Read);
    history.ok(call, 1_000_001, register::Output::Value(Some(1_000_000)));
    let Err(Failure::Violation(found)) = check(&history) else { panic!("from nowhere") };
    assert_eq!((found.key.as_str(), found.part.len()), ("2", 1), "{found}");
}

/// A read that is too old by one write is found in the middle of much else.
#[test]
fn one_stale_read_in_a_long_history_is_found() {
    let mut history = History::<Register>::new();
    for at in 0..2_000_u64 {
        let key = || "x".to_owned();
        let write = history.call(1, 10 * at, key(), register::Input::Write(at));
        let read = history.call(2, 10 * at + 6, key(), register::Input::Read);
        history.ok(write, 10 * at + 5, register::Output::Done);
        let shown = if at == 1_500 { at - 1 } else { at };
        history.ok(read, 10 * at + 9, register::Output::Value(Some(shown)));
    }
    let Err(Failure::Violation(found)) = check(&history) else { panic!("it is stale") };
    assert_eq!(found.part.len(), 3, "{found}");
    let text = found.to_string();
    assert!(text.contains("Write(1499)") && text.contains("Write(1500)"), "{text}");
    assert!(text.contains("Read → Value(Some(1499))"), "{text}");
}

#[test]
fn ten_thousand_calls_on_a_hundred_lists() {
    let (mut play, mut history) = (Play::new(3), History::<ListAppend, u64>::new());
    let mut lists = vec![Vec::new(); 100];
    let mut waiting = Vec::new();
    for number in 0..10_000 {
        let key = play.dice.below(100);
        let is_read = play.dice.chance(300);
        let input = if is_read { list::Input::Read } else { list::Input::Append(number) };
        waiting.push((history.call(number % CLIENTS, play.tick(), key, input), key, input));
        while waiting.len() as u64 >= CLIENTS {
            let (call, key, input) = waiting.remove(play.dice.below(CLIENTS) as usize);
            let list = &mut lists[key as usize];
            let output = match input {
                list::Input::Read => list::Output::List(list.clone()),
                list::Input::Append(_) if play.dice.chance(20) => continue,
                list::Input::Append(number) => {
                    list.push(number);
                    list::Output::Appended(list.len() as u64)
                }
            };
            if !play.dice.chance(20) {
                history.ok(call, play.tick(), output);
            }
        }
    }
    let checked = check(&history).expect("each list gave the answers");
    assert_eq!((checked.keys, checked.calls), (100, 10_000));
    assert!(checked.states < 20_000, "{checked:?}");
}

/// Nobody saw the writes, and none of them is told from the others: all orders are tried.
#[test]
fn what_takes_too_long_is_not_called_right() {
    let mut history = History::<ListAppend>::new();
    let key = || "x".to_owned();
    for number in 0..12 {
        let _never_answered = history.call(number, 1, key(), list::Input::Append(number % 2));
    }
    let impossible = history.call(99, 2, key(), list::Input::Append(7));
    history.ok(impossible, 3, list::Output::Appended(100));
    let Err(Failure::GaveUp(gave_up)) = check_within(&history, 1_000) else { panic!("too short") };
    assert_eq!((gave_up.calls, gave_up.unanswered), (13, 12));
    assert!(matches!(check(&history), Err(Failure::Violation(_))), "there is time enough");
}
