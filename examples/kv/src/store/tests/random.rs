//! Random requests to the store and to the model, with crashes and flushes between them.

use proptest::collection::vec;
use proptest::prelude::*;

use super::model::Model;
use super::requests::{Asked, action, range, read_txn};
use super::{Fixture, eager, lazy, most};
use crate::proto::etcdserverpb::{RangeRequest, TxnRequest};
use crate::proto::kontiki::command::Action;
use crate::proto::mvccpb::Event;
use crate::store::{
    Failure, KvError, Options, StoreReader, validate_delete_range, validate_put, validate_txn,
};

#[derive(Clone, Debug)]
enum Step {
    Apply(Vec<Action>),
    Range(RangeRequest),
    Txn(TxnRequest),
    Events(i64),
    Flush,
    Crash,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => vec(action(Asked::Model), 1..6).prop_map(Step::Apply),
        6 => range().prop_map(Step::Range),
        2 => read_txn().prop_map(Step::Txn),
        1 => (0i64..40).prop_map(Step::Events),
        1 => Just(Step::Flush),
        1 => Just(Step::Crash),
    ]
}

pub(super) fn is_valid(action: &Action) -> bool {
    match action {
        Action::Put(request) => validate_put(request).is_ok(),
        Action::DeleteRange(request) => validate_delete_range(request).is_ok(),
        Action::Txn(request) => validate_txn(request, 128).is_ok(),
        Action::LeaseGrant(_) | Action::LeaseRevoke(_) | Action::LeaseCheckpoint(_) => true,
        Action::Compact(_) | Action::Alarm(_) | Action::SetMember(_) => true,
    }
}

pub(super) fn refused<T>(result: Result<T, Failure>) -> Result<T, KvError> {
    result.map_err(|failure| match failure {
        Failure::Refused(error) => error,
        Failure::Store(error) => panic!("the store failed: {error}"),
    })
}

/// All events, asked for a few at a time.
pub(super) fn events(reader: &StoreReader, mut from: i64) -> Result<Vec<Event>, KvError> {
    let mut all: Vec<Event> = Vec::new();
    loop {
        let some = refused(reader.events(from, most(3)))?;
        let Some(last) = some.events.last().and_then(|event| event.kv.as_ref()) else {
            return Ok(all);
        };
        assert_eq!(some.until.max(last.mod_revision), some.until, "what is read counts");
        from = some.until + 1;
        all.extend(some.events);
    }
}

/// Whether the store has the leases of the model, each with its keys.
pub(super) fn has_the_leases(reader: &StoreReader, model: &Model) -> Result<(), TestCaseError> {
    let leases = reader.leases();
    let flat = leases.iter().map(|(id, it)| (*id, it.ttl, it.remaining, it.granted_at.0));
    prop_assert_eq!(flat.collect::<Vec<_>>(), model.leases());
    for id in -1..5 {
        let expected = if leases.contains_key(&id) { model.lease_keys(id) } else { vec![] };
        prop_assert_eq!(reader.lease_keys(id), expected);
    }
    Ok(())
}

fn run(options: Options, steps: Vec<Step>) -> Result<(), TestCaseError> {
    let mut model = Model::new();
    let mut fixture = Fixture::new(options);
    for step in steps {
        match step {
            Step::Apply(mut actions) => {
                actions.retain(is_valid);
                let expected: Vec<_> = actions.iter().map(|action| model.apply(action)).collect();
                prop_assert_eq!(fixture.apply(actions), expected);
            }
            Step::Range(request) => {
                let answer = refused(fixture.reader().range(&request));
                prop_assert_eq!(answer, model.range(&request));
            }
            Step::Txn(request) => {
                let answer = refused(fixture.reader().txn(request.clone()));
                prop_assert_eq!(answer, model.read_txn(&request));
            }
            Step::Events(from) => {
                prop_assert_eq!(events(fixture.reader(), from), model.events(from));
            }
            Step::Flush => {
                fixture.store().flush().expect("the store works");
            }
            Step::Crash => fixture.crash(),
        }
        prop_assert_eq!(fixture.reader().revision(), model.revision());
        has_the_leases(fixture.reader(), &model)?;
    }
    // A store that never crashed, flushed or swept keeps the same.
    let hash = refused(fixture.reader().hash(None));
    let mut other = Fixture::new(lazy());
    let mut responses = Vec::new();
    other.store().apply(&fixture.log, &mut responses).expect("the store works");
    prop_assert_eq!(responses, fixture.answers);
    prop_assert_eq!(refused(other.reader().hash(None)), hash);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn the_store_answers_as_the_model_does(steps in vec(step(), 1..40)) {
        run(eager(), steps)?;
    }

    #[test]
    fn so_does_one_that_flushes_only_when_told(steps in vec(step(), 1..40)) {
        run(lazy(), steps)?;
    }
}
