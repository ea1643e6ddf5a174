//! The tokio shell around the driver: one task that drains what has come, steps the driver,
//! and hands out the work.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use raft_core::{Envelope, Instant, LogReader, LogStore, Raft, Saved, Transport};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::time;

use crate::apply::{self, Answer, Batches};
use crate::completion::{Completion, Reports};
use crate::driver::{Driver, Input, Load, Work};
use crate::error::{ProposeError, StartError, StopReason};
use crate::machine::StateMachine;
use crate::node::{Node, Proposer, Reader, Request, Shared};
use crate::status::{Leadership, Status};
use crate::storage::{self, Writes};

/// How many requests may wait for the driver; beyond, callers wait.
const REQUESTS_MAX: usize = 4096;
/// How much is drained before the driver's work is handed out.
const DRAIN_MAX: usize = 1024;
/// How many bytes of commands go into one proposal.
const PROPOSAL_BYTES_MAX: usize = 256 << 10;

/// Settings of a node: the core's, and the engine's own.
#[derive(Clone, Debug)]
pub struct Config {
    /// The core's settings.
    pub raft: raft_core::Config,
    /// The most bytes of commands that may be under way through one node's handle, from the
    /// call until the answer; beyond, callers wait. 64 MiB.
    pub proposing_bytes_max: usize,
}

impl Config {
    /// The defaults around these settings of the core.
    pub fn new(raft: raft_core::Config) -> Self {
        Self { raft, proposing_bytes_max: 64 << 20 }
    }
}

/// Where a transport puts what it receives.
#[derive(Debug)]
pub struct Inbox {
    /// Elections, heartbeats and read rounds.
    pub control: mpsc::Receiver<Vec<Envelope>>,
    /// Entries, and what must stay in order with them.
    pub bulk: mpsc::Receiver<Vec<Envelope>>,
}

/// Starts a node on any store, transport and state machine. `saved` is what the store
/// recovered; [`Builder`](crate::Builder) does all this for the adapters of this crate.
///
/// # Errors
/// Settings or a recovered state that cannot work; see [`StartError`].
///
/// # Panics
/// Outside of a tokio runtime.
pub fn start<S, L, T>(
    config: Config,
    saved: Saved,
    store: L,
    transport: Arc<T>,
    inbox: Inbox,
    machine: S,
) -> Result<Node<S::Response>, StartError>
where
    S: StateMachine,
    L: LogStore,
    T: Transport,
{
    let origin = time::Instant::now();
    let entry_bytes_max = config.raft.entry_bytes_max;
    if config.proposing_bytes_max < entry_bytes_max {
        return Err(StartError::Settings(format!(
            "proposing_bytes_max ({}) is less than entry_bytes_max ({entry_bytes_max}), so the \
             largest entry could never be proposed; raise it",
            config.proposing_bytes_max
        )));
    }
    let budget = config.proposing_bytes_max.min(Semaphore::MAX_PERMITS);
    let raft = Raft::restore(config.raft, saved, rand::random(), Instant(0))?;
    let (reports, completions) = mpsc::unbounded_channel();
    let (requests, requested) = mpsc::channel(REQUESTS_MAX);
    let (leadership, leadership_seen) = watch::channel(Leadership::of(&raft));
    let (stopped, stopped_seen) = watch::channel(None);
    let status = Arc::new(Mutex::new(Status::of(&raft)));
    let reader = store.reader();
    let machine = Arc::new(Mutex::new(machine));
    let apply = apply::start(Arc::clone(&machine), reader.clone(), reports.clone());
    let (batches, apply_thread) = apply.map_err(StartError::Thread)?;
    let storage = storage::start(store, reports.clone());
    let (writes, storage_thread) = storage.map_err(StartError::Thread)?;
    let shell: Shell<S, L::Reader, T> = Shell {
        driver: Driver::new(raft),
        work: Work::default(),
        origin,
        requested,
        inbox,
        completions,
        reports,
        transport,
        reader,
        writes,
        machine,
        batches,
        queued: 0,
        leadership,
        status: Arc::clone(&status),
    };
    tokio::spawn(async move {
        let reason = shell.run([storage_thread, apply_thread]).await;
        match &reason {
            StopReason::Shutdown => tracing::info!("stopped"),
            failed => tracing::error!("stopped: {failed}"),
        }
        // Nobody may be left to hear it.
        let _ = stopped.send(Some(reason));
    });
    Ok(Node::new(Shared {
        requests,
        budget: Arc::new(Semaphore::new(budget)),
        entry_bytes_max,
        leadership: leadership_seen,
        stopped: stopped_seen,
        status,
    }))
}

type Proposing<S> = Proposer<<S as StateMachine>::Response>;
type Answers<S> = Answer<Proposing<S>, S>;

struct Shell<S: StateMachine, L, T> {
    driver: Driver<Proposing<S>, Reader>,
    work: Work<Proposing<S>, Reader>,
    origin: time::Instant,
    requested: mpsc::Receiver<Request<S::Response>>,
    inbox: Inbox,
    completions: mpsc::UnboundedReceiver<Completion<Answers<S>>>,
    reports: Reports<Answers<S>>,
    transport: Arc<T>,
    reader: L,
    writes: Writes,
    machine: Arc<Mutex<S>>,
    batches: Batches<Proposing<S>>,
    /// How many batches are with the apply thread.
    queued: usize,
    leadership: watch::Sender<Leadership>,
    status: Arc<Mutex<Status>>,
}

/// What one turn of the loop found waiting.
struct Drained<R, A> {
    control: Vec<Vec<Envelope>>,
    bulk: Vec<Vec<Envelope>>,
    completions: Vec<Completion<A>>,
    requests: Vec<Request<R>>,
}

impl<R, A> Default for Drained<R, A> {
    fn default() -> Self {
        let (control, bulk) = (Vec::new(), Vec::new());
        Self { control, bulk, completions: Vec::new(), requests: Vec::new() }
    }
}

impl<S: StateMachine, L: LogReader, T: Transport> Shell<S, L, T> {
    async fn run(mut self, threads: [JoinHandle<()>; 2]) -> StopReason {
        let mut drained = Drained::default();
        let timer = time::sleep(Duration::ZERO);
        tokio::pin!(timer);
        let reason = loop {
            self.wait(&mut drained, timer.as_mut()).await;
            if let Some(reason) = self.turn(&mut drained) {
                break reason;
            }
        };
        self.driver.stop(&mut self.work);
        self.work.applies.clear(); // They wait in the log.
        self.hand_out();
        let Self { writes, batches, .. } = self;
        drop((writes, batches));
        // They finish what they were given. Should one have panicked, it has been reported.
        let joined = tokio::task::spawn_blocking(|| threads.map(JoinHandle::join)).await;
        drop(joined);
        reason
    }

    /// Waits until something is to be done, then takes what is there, up to a bound.
    async fn wait(
        &mut self,
        drained: &mut Drained<S::Response, Answers<S>>,
        mut timer: std::pin::Pin<&mut time::Sleep>,
    ) {
        let due = self.driver.deadline().map(|at| self.origin + Duration::from_nanos(at.0));
        if let Some(due) = due
            && (due < timer.deadline() || timer.is_elapsed())
        {
            timer.as_mut().reset(due);
        }
        let Drained { control, bulk, completions, requests } = drained;
        let Inbox { control: urgent, bulk: bulky } = &mut self.inbox;
        tokio::select! {
            biased;
            _ = urgent.recv_many(control, DRAIN_MAX), if !urgent.is_closed() => {}
            _ = self.completions.recv_many(completions, DRAIN_MAX) => {}
            _ = bulky.recv_many(bulk, DRAIN_MAX), if !bulky.is_closed() => {}
            count = self.requested.recv_many(requests, DRAIN_MAX) => {
                if count == 0 {
                    requests.push(Request::Shutdown); // Nobody holds a handle any more.
                }
            }
            () = timer.as_mut(), if due.is_some() => {}
        }
        drain(urgent, control);
        drain(bulky, bulk);
        drain(&mut self.requested, requests);
        while let Ok(more) = self.completions.try_recv() {
            completions.push(more);
        }
    }

    /// Steps the driver through what was drained. Returns why the node stops, if it does.
    fn turn(&mut self, drained: &mut Drained<S::Response, Answers<S>>) -> Option<StopReason> {
        let mut reason = None;
        let now = self.now();
        let envelopes = drained.control.drain(..).chain(drained.bulk.drain(..)).flatten();
        for envelope in envelopes {
            self.driver.handle(now, Input::Receive(envelope), &mut self.work);
        }
        for completion in drained.completions.drain(..) {
            self.queued -= usize::from(matches!(completion, Completion::Applied { .. }));
            reason = self.complete(now, completion).or(reason);
        }
        reason = self.request(now, &mut drained.requests).or(reason);
        if self.driver.deadline().is_some_and(|due| due <= now) {
            self.driver.handle(now, Input::Timer, &mut self.work);
        }
        self.hand_out(); // Before anything is applied: others wait for it.
        reason = self.apply(now).or(reason);
        self.hand_out();
        reason
    }

    /// Has the state machine apply what may be applied: at once what is quick, else on its
    /// thread, and always in order.
    fn apply(&mut self, now: Instant) -> Option<StopReason> {
        while !self.work.applies.is_empty() {
            for batch in std::mem::take(&mut self.work.applies) {
                let batch = if self.queued == 0 {
                    apply::apply_now(&self.machine, &self.reader, batch)
                } else {
                    Err(batch)
                };
                match batch {
                    Ok(done) => {
                        if let Some(reason) = self.complete(now, done) {
                            return Some(reason);
                        }
                    }
                    Err(batch) => {
                        self.queued += 1;
                        // An apply thread that has gone has reported why.
                        let _ = self.batches.send(batch);
                    }
                }
            }
        }
        None
    }

    fn complete(&mut self, now: Instant, done: Completion<Answers<S>>) -> Option<StopReason> {
        let (input, reason) = match done {
            Completion::Persisted(ticket) => (Input::Persisted(ticket), None),
            Completion::Loaded { peer, entries } => (Input::Loaded { peer, entries }, None),
            Completion::Applied { last, answers } => {
                for (proposer, applied) in answers {
                    // Who has gone away does not want to know.
                    let _ = proposer.answer.send(Ok(applied));
                }
                (Input::Applied(last), None)
            }
            Completion::StorageFailed(reason) => {
                (Input::StorageFailed, Some(StopReason::Storage(reason)))
            }
            Completion::MachineFailed(reason) => {
                return Some(StopReason::StateMachine(reason));
            }
        };
        self.driver.handle(now, input, &mut self.work);
        reason
    }

    /// Batches what callers ask for: neighbours become one proposal, one read.
    fn request(
        &mut self,
        now: Instant,
        requests: &mut Vec<Request<S::Response>>,
    ) -> Option<StopReason> {
        let (mut proposals, mut bytes) = (Vec::<(Bytes, Proposing<S>)>::new(), 0);
        // Asked once a turn, and only where somebody wants something.
        let is_cut_off = !requests.is_empty() && self.is_cut_off_from_leader();
        let mut readers = Vec::new();
        let mut reason = None;
        for request in requests.drain(..) {
            match request {
                // Handed on now, it would be lost, and nobody would know it for sure.
                Request::Propose(_, proposer) if is_cut_off => {
                    let error = ProposeError::NotLeader { leader: None };
                    self.work.proposals_failed.push((proposer, error));
                }
                Request::Propose(command, proposer) => {
                    if bytes + command.len() > PROPOSAL_BYTES_MAX {
                        self.driver.propose(now, &mut proposals, &mut self.work);
                        bytes = 0;
                    }
                    bytes += command.len();
                    proposals.push((command, proposer));
                }
                Request::Read(reader) => readers.push(reader),
                Request::Shutdown => reason = Some(StopReason::Shutdown),
            }
        }
        self.driver.propose(now, &mut proposals, &mut self.work);
        self.driver.read(now, &mut readers, &mut self.work);
        reason
    }

    /// Whether another node leads, and there is no way to it at this moment.
    fn is_cut_off_from_leader(&self) -> bool {
        let raft = self.driver.raft();
        let other = raft.leader().filter(|leader| *leader != raft.id());
        other.is_some_and(|leader| !self.transport.is_reachable(leader))
    }

    /// Hands out the work of this turn. What answers nobody any more is dropped.
    fn hand_out(&mut self) {
        let work = &mut self.work;
        if !work.sends.is_empty() {
            self.transport.send(&mut work.sends);
        }
        if !work.writes.is_empty() {
            // A storage thread that has gone has reported why.
            let _ = self.writes.send(std::mem::take(&mut work.writes));
        }
        for load in work.loads.drain(..) {
            spawn_load(self.reader.clone(), load, self.reports.clone());
        }
        for (proposer, error) in work.proposals_failed.drain(..) {
            let _ = proposer.answer.send(Err(error));
        }
        for (reader, error) in work.reads_failed.drain(..) {
            let _ = reader.send(Err(error));
        }
        for (reader, index) in work.reads_ready.drain(..) {
            let _ = reader.send(Ok(index));
        }
        for regression in work.regressions.drain(..) {
            tracing::error!(peer = %regression.peer, acknowledged = %regression.acknowledged,
                holds = %regression.holds, "a peer has lost entries that it had acknowledged");
        }
        for change in work.role_changes.drain(..) {
            let leader = change.leader.map(|leader| leader.to_string());
            tracing::info!(term = %change.term, role = ?change.role,
                leader = leader.as_deref().unwrap_or("none"), last = ?change.last, "role changed");
        }
        let status = Status::of(self.driver.raft());
        if *self.leadership.borrow() != status.leadership {
            self.leadership.send_replace(status.leadership);
        }
        *self.status.lock().unwrap_or_else(PoisonError::into_inner) = status;
    }

    fn now(&self) -> Instant {
        Instant(u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }
}

/// Takes what is there, up to a bound.
fn drain<M>(receiver: &mut mpsc::Receiver<M>, into: &mut Vec<M>) {
    while into.len() < DRAIN_MAX
        && let Ok(more) = receiver.try_recv()
    {
        into.push(more);
    }
}

fn spawn_load<L: LogReader, A: Send + 'static>(reader: L, load: Load, reports: Reports<A>) {
    tokio::task::spawn_blocking(move || {
        let Load { peer, first, last, bytes_max } = load;
        let mut entries = Vec::new();
        let done = match reader.read(first, last, bytes_max, &mut entries) {
            Ok(()) => Completion::Loaded { peer, entries: entries.into() },
            Err(error) => Completion::StorageFailed(error.to_string()),
        };
        // Without a driver nobody needs them.
        let _ = reports.send(done);
    });
}
