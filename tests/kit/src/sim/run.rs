//! One run of a plan, and what came of it.

use core::time::Duration;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

use raft_driver::StateMachine;
use raft_driver::sessions::SessionMachine;
use raft_driver::trace::Sink;

use super::machine::Lists;
use super::workload::{ListClients, ListMachine};
use super::{Cluster, Marks, Plan};

/// What a run came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// How much virtual time has passed.
    pub time: Duration,
    /// How many things happened.
    pub steps: u64,
    /// A number that tells this history from others.
    pub digest: u64,
    /// How often each kind of act was done.
    pub acts: BTreeMap<&'static str, u64>,
    /// How often a node started again.
    pub restarts: u64,
    /// How many messages arrived.
    pub messages: u64,
    /// How many entries were committed.
    pub committed: u64,
    /// How many leaders were elected.
    pub elections: u64,
    /// How many commands were answered.
    pub answered: u64,
    /// How many reads were answered.
    pub reads: u64,
    /// How many states of state machines were compared.
    pub compared: u64,
    /// How long it took from the end of the bad time to a leader that commits.
    pub recovery: Duration,
    /// So many disks were damaged that nobody may be elected.
    pub is_stuck: bool,
    /// The situations that were reached.
    pub marks: Marks,
    /// What the clients say.
    pub judgement: String,
}

/// A rule was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which, and how.
    pub reason: String,
    /// When, in virtual time.
    pub at: Duration,
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "after {:.3}s: {}", self.at.as_secs_f64(), self.reason)
    }
}

impl std::error::Error for Violation {}

/// Does what the plan says to a cluster of lists.
///
/// # Errors
/// What was found wrong: by an oracle, by an invariant of the core, by the history of the clients.
pub fn run(plan: &Plan) -> Result<Report, Violation> {
    let (result, _) = run_told(plan, false, None);
    result
}

/// The same, with what happened, line by line.
pub fn story(plan: &Plan) -> (Result<Report, Violation>, Vec<String>) {
    run_told(plan, true, None)
}

/// The same, and every step of every node goes into `sink`.
pub fn recorded(plan: &Plan, sink: Sink) -> (Result<Report, Violation>, Vec<String>) {
    run_told(plan, true, Some(sink))
}

fn run_told(
    plan: &Plan,
    with_story: bool,
    sink: Option<Sink>,
) -> (Result<Report, Violation>, Vec<String>) {
    let ballast = plan.settings.ballast;
    if plan.settings.sessions {
        run_lists(plan, move || SessionMachine::new(Lists::new(ballast)), with_story, sink)
    } else {
        run_lists(plan, move || Lists::new(ballast), with_story, sink)
    }
}

fn run_lists<S: ListMachine>(
    plan: &Plan,
    make: impl Fn() -> S + 'static,
    with_story: bool,
    sink: Option<Sink>,
) -> (Result<Report, Violation>, Vec<String>) {
    let cluster = Cluster::told(
        plan.clone(),
        make,
        |settings| Box::new(ListClients::new(settings)),
        with_story,
    );
    if let Some(sink) = sink {
        cluster.court.bench().recording.begin(sink);
    }
    conduct(cluster)
}

/// Runs a cluster to its end, and makes a violation of a panic.
fn conduct<S: StateMachine>(mut cluster: Cluster<S>) -> (Result<Report, Violation>, Vec<String>) {
    let result = quietly(|| cluster.run_to_end());
    let result = result.map_err(|reason| cluster.violation(reason)).map(|()| cluster.report());
    let mut story = cluster.court.bench().story.take().unwrap_or_default();
    if let Err(violation) = &result {
        story.push(format!("{:>9.3}s  BROKEN: {}", violation.at.as_secs_f64(), violation.reason));
    }
    // Locks may be poisoned, and what drops them may panic once more.
    let _ = panic::catch_unwind(AssertUnwindSafe(|| drop(cluster)));
    (result, story)
}

impl<S: StateMachine> Cluster<S> {
    pub(super) fn violation(&self, reason: String) -> Violation {
        Violation { reason, at: Duration::from_nanos(self.now.0) }
    }

    pub(super) fn report(&self) -> Report {
        let figures = self.figures.clone();
        let committed = self.committed();
        let bench = self.court.bench();
        let mut report = Report {
            time: Duration::from_nanos(self.now.0),
            steps: figures.steps,
            digest: 0,
            acts: figures.acts,
            restarts: figures.restarts,
            messages: figures.messages,
            committed,
            elections: bench.elections,
            answered: figures.answered,
            reads: figures.reads,
            compared: self.hashes.compared(),
            recovery: self.recovery,
            is_stuck: self.is_stuck,
            marks: bench.marks.clone(),
            judgement: self.judgement.clone(),
        };
        report.digest = super::machine::hash(format!("{report:?}").as_bytes());
        report
    }
}

thread_local! {
    static IS_QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Runs it without printing a panic, and makes words of one.
fn quietly<T>(run: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !IS_QUIET.get() {
                usual(info);
            }
        }));
    });
    let was = IS_QUIET.replace(true);
    let result = panic::catch_unwind(AssertUnwindSafe(run));
    IS_QUIET.set(was);
    result.unwrap_or_else(|panic| Err(raft_driver::describe(&*panic)))
}
