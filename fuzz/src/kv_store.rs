//! The store beside the model that its own tests have: puts, deletions, transactions, compactions,
//! ranges of the past, flushes, and crashes after which the log is applied again.

#[path = "../../examples/kv/src/store/tests/model.rs"]
mod model;
mod requests;

use std::time::Duration;

use kontiki::{Entry, Index, Payload, Term};
use raft_testkit::fuzz::Input;
use tempfile::TempDir;

use crate::proto::kontiki::command::Action;
use crate::proto::mvccpb::Event;
use crate::store::{
    Failure, KvError, Most, Options, Response, Store, StoreReader, encode, validate_delete_range,
    validate_put, validate_txn,
};
use model::Model;

const STEPS_MAX: usize = 48;
const OPERATIONS_MAX: usize = 128;

/// Asks both, as the bytes say.
///
/// # Panics
/// When the store answers something else than the model.
pub fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let mut beside = Beside::new(input.flag());
    for _ in 0..STEPS_MAX {
        if input.is_empty() {
            break;
        }
        beside.step(&mut input);
        assert_eq!(beside.reader().revision(), beside.model.revision());
        for (id, ..) in beside.model.leases() {
            assert_eq!(beside.reader().lease_keys(id), beside.model.lease_keys(id));
        }
    }
}

/// A store in a directory of its own, with the model beside it.
struct Beside {
    directory: TempDir,
    options: Options,
    /// Open, but for the moment of a crash.
    open: Option<(Store, StoreReader)>,
    model: Model,
    log: Vec<Entry>,
    answers: Vec<Response>,
}

impl Beside {
    /// An eager store flushes by itself, as often as it can.
    fn new(is_eager: bool) -> Self {
        // In memory where there is such a file system: nothing here is about the disk.
        let memory = tempfile::tempdir_in("/dev/shm");
        let directory = memory.or_else(|_| tempfile::tempdir()).expect("a directory");
        let flush_bytes = if is_eager { 2 << 10 } else { 64 << 20 };
        let flush_interval = Duration::from_secs(3600);
        let options = Options { flush_bytes, flush_interval, cache_bytes: 1 << 20 };
        let open = Some(Store::open(directory.path(), &options).expect("a fresh store"));
        let (log, answers) = (Vec::new(), Vec::new());
        Self { directory, options, open, model: Model::new(), log, answers }
    }

    fn store(&mut self) -> &mut Store {
        &mut self.open.as_mut().expect("it is open").0
    }

    fn reader(&self) -> &StoreReader {
        &self.open.as_ref().expect("it is open").1
    }

    fn step(&mut self, input: &mut Input<'_>) {
        match input.below(16) {
            0..9 => {
                let actions = (0..=input.below(4)).map(|_| requests::action(input));
                self.apply(actions.filter(is_valid).collect());
            }
            9..13 => {
                let request = requests::range(input);
                let answer = refused(self.reader().range(&request));
                assert_eq!(answer, self.model.range(&request), "{request:?}");
            }
            13 => {
                let request = requests::read_txn(input);
                let answer = refused(self.reader().txn(request.clone()));
                assert_eq!(answer, self.model.read_txn(&request), "{request:?}");
            }
            14 => {
                let from = input.below(48) as i64;
                let answer = events(self.reader(), from, 1 + input.place(5));
                assert_eq!(answer, self.model.events(from), "from {from}");
            }
            _ if input.flag() => self.store().flush().expect("the store works"),
            _ => self.crash(),
        }
    }

    fn apply(&mut self, actions: Vec<Action>) {
        let first = self.log.len();
        let mut expected = Vec::new();
        for action in actions {
            expected.push(self.model.apply(&action));
            let index = Index(self.log.len() as u64 + 1);
            let payload = Payload::Command(encode(action));
            self.log.push(Entry { index, term: Term(1), payload });
        }
        let mut answers = Vec::new();
        let (store, _) = self.open.as_mut().expect("it is open");
        store.apply(&self.log[first..], &mut answers).expect("the store works");
        assert_eq!(answers, expected, "{:?}", &self.log[first..]);
        self.answers.extend(answers);
    }

    /// The disk is left as a crash leaves it; what the store has lost is applied again.
    fn crash(&mut self) {
        self.open = None;
        let opened = Store::open(self.directory.path(), &self.options);
        let (mut store, reader) = opened.expect("it opens again");
        let applied = usize::try_from(store.applied().0).expect("small");
        let mut again = Vec::new();
        store.apply(&self.log[applied..], &mut again).expect("the store works");
        assert_eq!(again[..], self.answers[applied..], "entries do the same when applied again");
        self.open = Some((store, reader));
    }
}

/// All events, asked for so many at a time.
fn events(reader: &StoreReader, mut from: i64, most: usize) -> Result<Vec<Event>, KvError> {
    let mut all: Vec<Event> = Vec::new();
    loop {
        let some = refused(reader.events(from, Most { events: most, bytes: usize::MAX }))?;
        if some.events.is_empty() {
            return Ok(all);
        }
        from = some.until + 1;
        all.extend(some.events);
    }
}

fn is_valid(action: &Action) -> bool {
    match action {
        Action::Put(request) => validate_put(request).is_ok(),
        Action::DeleteRange(request) => validate_delete_range(request).is_ok(),
        Action::Txn(request) => validate_txn(request, OPERATIONS_MAX).is_ok(),
        Action::LeaseGrant(_) | Action::LeaseRevoke(_) | Action::LeaseCheckpoint(_) => true,
        Action::Compact(_) | Action::Alarm(_) | Action::SetMember(_) => true,
    }
}

fn refused<T>(result: Result<T, Failure>) -> Result<T, KvError> {
    result.map_err(|failure| match failure {
        Failure::Refused(error) => error,
        Failure::Store(error) => panic!("the store failed: {error}"),
    })
}
