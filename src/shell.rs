//! The tokio shell around the driver: one task that drains what has come, steps the driver,
//! and hands out the work.

mod hand_out;
mod take_in;

use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use raft_core::{Envelope, Index, Instant, LogReader, RoleKind, SnapshotStore};
use raft_driver::{Answer, Applier, Driver, Ending, Input, ReadKind, StateMachine, Wish, Work};
use tokio::sync::{mpsc, watch};
use tokio::time;

use crate::apply::Tasks;
use crate::callers::Caller;
use crate::clock::Clock;
use crate::completion::{Completion, Reports};
use crate::error::StopReason;
use crate::node::Request;
use crate::runtime::Inbox;
use crate::snapshot_builder::SnapshotBuilder;
use crate::status::{Leadership, Members, Status};
use crate::storage::Writes;
use crate::transfers::Transfers;
use crate::transport::{Notice, Peers};

/// How much is drained before the driver's work is handed out.
const DRAIN_MAX: usize = 1024;
/// How late a timer may be: not worth setting it anew.
const TIMER_SLACK: Duration = Duration::from_micros(50);
/// How many bytes of commands go into one proposal.
const PROPOSAL_BYTES_MAX: usize = 256 << 10;

pub(crate) type CallerOf<S> = Caller<<S as StateMachine>::Response>;
pub(crate) type AnswerOf<S> = Answer<CallerOf<S>, S>;

pub(crate) struct Shell<S: StateMachine, L, T> {
    pub(crate) driver: Driver<CallerOf<S>>,
    pub(crate) work: Work<CallerOf<S>>,
    pub(crate) clock: Clock,
    /// How long a node that leaves takes its time to hand over.
    pub(crate) grace: Duration,
    /// How long the last messages of a node that fails have to leave.
    pub(crate) linger: Duration,
    pub(crate) requested: mpsc::Receiver<Request<S::Response>>,
    pub(crate) inbox: Inbox,
    pub(crate) completions: mpsc::UnboundedReceiver<Completion<AnswerOf<S>>>,
    pub(crate) reports: Reports<AnswerOf<S>>,
    pub(crate) transport: Arc<T>,
    pub(crate) reader: L,
    pub(crate) writes: Writes,
    pub(crate) applier: Arc<Applier<S, L>>,
    pub(crate) tasks: Tasks<CallerOf<S>>,
    /// How many tasks are with the apply thread.
    pub(crate) queued: usize,
    pub(crate) snapshots: Arc<dyn SnapshotStore>,
    pub(crate) transfers: Transfers,
    pub(crate) builder: SnapshotBuilder,
    /// Set from the moment on at which the node is to stop, until it has handed over.
    pub(crate) leaving: Option<Leaving>,
    pub(crate) views: Views,
}

/// A node that is about to stop, in good order.
pub(crate) struct Leaving {
    reason: StopReason,
    /// And then at the latest.
    until: Instant,
}

/// What the handles look at.
pub(crate) struct Views {
    pub(crate) leadership: watch::Sender<Leadership>,
    pub(crate) members: watch::Sender<Members>,
    pub(crate) applied: watch::Sender<Index>,
    pub(crate) status: Arc<Mutex<Status>>,
}

/// What one turn of the loop found waiting.
struct Drained<R, A> {
    control: Vec<Vec<Envelope>>,
    bulk: Vec<Vec<Envelope>>,
    notices: Vec<Notice>,
    completions: Vec<Completion<A>>,
    requests: Vec<Request<R>>,
    /// Nobody holds a handle any more.
    is_abandoned: bool,
}

impl<R, A> Default for Drained<R, A> {
    fn default() -> Self {
        Self {
            control: Vec::new(),
            bulk: Vec::new(),
            notices: Vec::new(),
            completions: Vec::new(),
            requests: Vec::new(),
            is_abandoned: false,
        }
    }
}

impl<S: StateMachine, L: LogReader, T: Peers> Shell<S, L, T> {
    pub(crate) async fn run(mut self, threads: [JoinHandle<()>; 2]) -> StopReason {
        let mut drained = Drained::default();
        let timer = time::sleep(Duration::ZERO);
        tokio::pin!(timer);
        let reason = loop {
            self.wait(&mut drained, timer.as_mut()).await;
            if let Some(reason) = self.turn(&mut drained) {
                break reason;
            }
        };
        self.requested.close();
        while let Ok(request) = self.requested.try_recv() {
            self.turn_away(request, Ending::Stopped);
        }
        self.driver.stop(&mut self.work);
        self.work.tasks.clear(); // They wait in the log.
        self.hand_out();
        if matches!(reason, StopReason::Storage(_) | StopReason::StateMachine(_)) {
            // The others have been asked to go on without this node: let that leave.
            time::sleep(self.linger).await;
        }
        let Self { writes, tasks, builder, .. } = self;
        drop((writes, tasks));
        let joined = tokio::task::spawn_blocking(|| {
            drop(builder);
            // They finish what they were given. Should one have panicked, it has been reported.
            threads.map(JoinHandle::join)
        });
        drop(joined.await);
        reason
    }

    /// Waits until something is to be done, then takes what is there, up to a bound.
    async fn wait(
        &mut self,
        drained: &mut Drained<S::Response, AnswerOf<S>>,
        mut timer: std::pin::Pin<&mut time::Sleep>,
    ) {
        let due = self.deadline().map(|at| self.clock.timer(at));
        if let Some(due) = due
            && (due + TIMER_SLACK < timer.deadline() || timer.is_elapsed())
        {
            timer.as_mut().reset(due);
        }
        let Drained { control, bulk, notices, completions, requests, is_abandoned } = drained;
        let Inbox { control: urgent, bulk: bulky, notices: told } = &mut self.inbox;
        tokio::select! {
            biased;
            _ = urgent.recv_many(control, DRAIN_MAX), if !urgent.is_closed() => {}
            _ = self.completions.recv_many(completions, DRAIN_MAX) => {}
            _ = bulky.recv_many(bulk, DRAIN_MAX), if !bulky.is_closed() => {}
            _ = told.recv_many(notices, DRAIN_MAX), if !told.is_closed() => {}
            count = self.requested.recv_many(requests, DRAIN_MAX), if !*is_abandoned => {
                if count == 0 {
                    *is_abandoned = true;
                    requests.push(Request::Shutdown);
                }
            }
            () = timer.as_mut(), if due.is_some() => {}
        }
        drain(urgent, control);
        drain(bulky, bulk);
        drain(told, notices);
        drain(&mut self.requested, requests);
        while let Ok(more) = self.completions.try_recv() {
            completions.push(more);
        }
    }

    fn deadline(&self) -> Option<Instant> {
        let until = self.leaving.as_ref().map(|leaving| leaving.until);
        self.driver.deadline(self.now()).into_iter().chain(until).min()
    }

    /// Steps the driver through what was drained. Returns why the node stops, if it does.
    fn turn(&mut self, drained: &mut Drained<S::Response, AnswerOf<S>>) -> Option<StopReason> {
        let mut reason = None;
        let now = self.now();
        let envelopes = drained.control.drain(..).chain(drained.bulk.drain(..)).flatten();
        for envelope in envelopes {
            self.driver.handle(now, Input::Receive(envelope), &mut self.work);
        }
        for notice in drained.notices.drain(..) {
            reason = self.on_notice(now, notice).or(reason);
        }
        for completion in drained.completions.drain(..) {
            self.queued -= usize::from(matches!(completion, Completion::Task(Ok(_))));
            reason = self.complete(now, completion).or(reason);
        }
        self.request(now, &mut drained.requests);
        if self.driver.deadline(now).is_some_and(|due| due <= now) {
            self.driver.handle(now, Input::Timer, &mut self.work);
        }
        self.hand_out(); // Before anything is applied: others wait for it.
        reason = self.perform_tasks(now).or(reason);
        self.hand_out();
        reason.or_else(|| self.has_left(now))
    }

    /// Has the state machine do what it is to do: at once what is quick, else on its thread,
    /// and always in order.
    fn perform_tasks(&mut self, now: Instant) -> Option<StopReason> {
        while !self.work.tasks.is_empty() {
            for task in std::mem::take(&mut self.work.tasks) {
                let is_free = self.queued == 0;
                let done = if is_free { self.applier.perform_quick(task) } else { Err(task) };
                match done {
                    Ok(done) => {
                        if let Some(reason) = self.complete(now, Completion::Task(done)) {
                            return Some(reason);
                        }
                    }
                    Err(task) => {
                        self.queued += 1;
                        // An apply thread that has gone has reported why.
                        let _ = self.tasks.send(task);
                    }
                }
            }
        }
        None
    }

    /// Batches what callers ask for: neighbours become one proposal, one read.
    fn request(&mut self, now: Instant, requests: &mut Vec<Request<S::Response>>) {
        if requests.is_empty() {
            return;
        }
        let (mut proposals, mut bytes) = (Vec::<(Bytes, CallerOf<S>)>::new(), 0);
        let (mut confirmed, mut leased) = (Vec::new(), Vec::new());
        // Asked once a turn, and only where somebody wants something.
        let is_cut_off = self.is_cut_off_from_leader();
        let is_leaving = self.leaving.is_some();
        for request in requests.drain(..) {
            match request {
                Request::Shutdown => self.leave(now, StopReason::Shutdown),
                request if is_leaving => self.turn_away(request, Ending::Stopped),
                // Handed on now, it would be lost, and nobody would know it for sure.
                request @ Request::Propose(..) if is_cut_off => {
                    let refusal = raft_core::Refusal::NotLeader { leader: None };
                    self.turn_away(request, Ending::Refused(refusal));
                }
                Request::Propose(command, proposer) => {
                    if bytes + command.len() > PROPOSAL_BYTES_MAX {
                        self.driver.propose(now, &mut proposals, &mut self.work);
                        bytes = 0;
                    }
                    bytes += command.len();
                    proposals.push((command, Caller::Proposer(proposer)));
                }
                Request::Read(ReadKind::Confirmed, it) => confirmed.push(Caller::Reader(it)),
                Request::Read(ReadKind::Leased, it) => leased.push(Caller::Reader(it)),
                Request::Change(set, it) => {
                    let (wish, caller) = (Wish::Change(set), Caller::Changer(it));
                    self.driver.wish(now, wish, caller, &mut self.work);
                }
                Request::Transfer(to, it) => {
                    let (wish, caller) = (Wish::Transfer(to), Caller::Mover(it));
                    self.driver.wish(now, wish, caller, &mut self.work);
                }
            }
        }
        self.driver.propose(now, &mut proposals, &mut self.work);
        self.driver.read(now, ReadKind::Confirmed, &mut confirmed, &mut self.work);
        self.driver.read(now, ReadKind::Leased, &mut leased, &mut self.work);
    }

    fn turn_away(&mut self, request: Request<S::Response>, ending: Ending) {
        let caller = match request {
            Request::Propose(_, it) => Caller::Proposer(it),
            Request::Read(_, it) => Caller::Reader(it),
            Request::Change(_, it) => Caller::Changer(it),
            Request::Transfer(_, it) => Caller::Mover(it),
            Request::Shutdown => Caller::Node,
        };
        caller.end(ending, self.clock);
    }

    /// Whether another node leads, and there is no way to it at this moment.
    fn is_cut_off_from_leader(&self) -> bool {
        let raft = self.driver.raft();
        let other = raft.leader().filter(|leader| *leader != raft.id());
        other.is_some_and(|leader| !self.transport.is_reachable(leader))
    }

    /// From now on nothing new is taken. A leader hands over, and what is under way goes on for
    /// a while: then the node stops.
    fn leave(&mut self, now: Instant, reason: StopReason) {
        if self.leaving.is_some() {
            return;
        }
        self.leaving = Some(Leaving { reason, until: now + self.grace });
        if self.driver.raft().role() == RoleKind::Leader {
            // Alone, it is refused.
            self.driver.wish(now, Wish::Transfer(None), Caller::Node, &mut self.work);
        }
    }

    /// Why the node stops, once it has handed over or that has taken too long.
    fn has_left(&mut self, now: Instant) -> Option<StopReason> {
        let raft = self.driver.raft();
        if raft.is_removed() && raft.role() != RoleKind::Leader {
            return Some(StopReason::Removed);
        }
        let driver = &self.driver;
        let left = self.leaving.take_if(|leaving| leaving.until <= now || driver.is_idle())?;
        Some(left.reason)
    }

    fn now(&self) -> Instant {
        self.clock.now()
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
