//! Histories written down in a few words.

use std::fmt::Debug;

use raft_testkit::history::{Checked, Failure, History, Model, Violation, check};

/// How a call ends.
#[derive(Clone, Debug)]
pub(crate) enum End<O> {
    /// Answered then.
    Ok(u64, O),
    Never,
    Refused,
}

/// A client's number is its place in the list; each makes one call.
pub(crate) type Script<M> = Vec<(u64, <M as Model>::Input, End<<M as Model>::Output>)>;

pub(crate) fn history<M: Model>(script: &Script<M>) -> History<M> {
    let mut history = History::new();
    for (client, (begin, input, end)) in (1..).zip(script) {
        let call = history.call(client, *begin, "x".to_owned(), input.clone());
        match end {
            End::Ok(end, output) => history.ok(call, *end, output.clone()),
            End::Never => {}
            End::Refused => history.refused(call),
        }
    }
    history
}

pub(crate) fn right<M: Model>(script: Script<M>) -> Checked {
    check(&history::<M>(&script)).unwrap_or_else(|wrong| panic!("{script:?}\n{wrong}"))
}

pub(crate) fn wrong<M: Model>(script: Script<M>) -> Violation {
    match check(&history::<M>(&script)) {
        Err(Failure::Violation(violation)) => violation,
        other => panic!("{script:?}\n{other:?}"),
    }
}
