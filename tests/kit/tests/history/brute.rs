//! The definition, tried out to its end: every order of every subset that leaves out only calls
//! without an answer.

use raft_testkit::history::{Call, Model};

/// Whether any order of the calls gives their answers.
pub(crate) fn is_linearizable<M: Model>(calls: &[Call<M>]) -> bool {
    extend(calls, &mut vec![false; calls.len()], &M::State::default())
}

fn extend<M: Model>(calls: &[Call<M>], placed: &mut [bool], state: &M::State) -> bool {
    if (0..calls.len()).all(|at| placed[at] || calls[at].end.is_none()) {
        return true;
    }
    for next in 0..calls.len() {
        let is_early = (0..calls.len())
            .all(|at| placed[at] || calls[at].end.is_none_or(|end| end >= calls[next].begin));
        if placed[next] || !is_early {
            continue;
        }
        let call = &calls[next];
        if let Some(after) = M::step(state, &call.input, call.output.as_ref()) {
            placed[next] = true;
            if extend(calls, placed, &after) {
                return true;
            }
            placed[next] = false;
        }
    }
    false
}
