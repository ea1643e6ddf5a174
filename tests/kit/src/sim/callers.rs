//! Clients on their way to nodes: which one they ask, how long they wait, and that every try is
//! answered once and not twice.

use core::time::Duration;

use raft_core::{Index, NodeId};
use raft_driver::{Applied, Ending, StateMachine};

use super::node::Waiter;
use super::workload::{Ask, End};
use super::{Cluster, Due, Happening};

/// How long a client waits for an answer.
const PATIENCE: Duration = Duration::from_millis(2500);

/// One client.
#[derive(Debug, Default)]
pub(super) struct Caller {
    /// Its newest try, and whether it waits for its answer.
    tries: u64,
    waits: bool,
    /// The node it asked last, if that one answered.
    at: Option<NodeId>,
}

impl Caller {
    pub(super) fn is_busy(&self) -> bool {
        self.waits
    }
}

impl<S: StateMachine> Cluster<S> {
    pub(super) fn begin_calls(&mut self) {
        for client in 0..self.callers.len() as u64 {
            let after = self.think();
            self.schedule(after, Due::Client(client), None);
        }
    }

    fn think(&mut self) -> Duration {
        let most = Duration::from_millis(self.plan.settings.think_ms);
        self.dice.clients.within((Duration::from_millis(1), most.max(Duration::from_millis(1))))
    }

    /// A client has thought, and asks.
    pub(super) fn on_client(&mut self, client: u64) {
        let (now, is_over) = (self.now, self.is_over);
        let Some(ask) = self.workload.ask(client, now, is_over, &mut self.dice.clients) else {
            if !is_over {
                let after = self.think();
                self.schedule(after, Due::Client(client), None);
            }
            return;
        };
        let id = self.choose(client);
        let caller = &mut self.callers[client as usize];
        caller.tries += 1;
        caller.waits = true;
        caller.at = Some(id);
        let attempt = caller.tries;
        self.schedule(PATIENCE, Due::GiveUp(client, attempt), None);
        let travel = self.travel();
        self.schedule(travel, Due::Node(id, Happening::Asked(client, attempt, ask)), None);
    }

    fn choose(&mut self, client: u64) -> NodeId {
        let ids: Vec<NodeId> = self.nodes.keys().copied().collect();
        let random = self.dice.clients.pick(&ids);
        let known = self.callers[client as usize].at;
        match self.dice.clients.below(10) {
            0..6 => self.leader().unwrap_or(random),
            6..8 => known.unwrap_or(random),
            _ => random,
        }
    }

    fn travel(&mut self) -> Duration {
        self.dice.clients.within((Duration::ZERO, Duration::from_millis(2)))
    }

    /// A call has come to a node that runs.
    pub(super) fn on_asked(&mut self, id: NodeId, client: u64, attempt: u64, ask: Ask) {
        let now = self.now;
        let Some(node) = self.nodes.get_mut(&id) else { return };
        let (local, run) = (node.clock.local(now), node.run);
        let Some(running) = &mut node.running else {
            return self.turn_away(client, attempt);
        };
        self.open.insert((client, attempt), (id, run));
        let mut work = Default::default();
        match ask {
            Ask::Propose(bytes) => {
                let mut proposals = vec![(bytes, (client, attempt))];
                running.driver.propose(local, &mut proposals, &mut work);
            }
            Ask::Read { lease } => {
                let kind = if lease {
                    raft_driver::ReadKind::Leased
                } else {
                    raft_driver::ReadKind::Confirmed
                };
                running.driver.read(local, kind, &mut vec![(client, attempt)], &mut work);
            }
        }
        self.hand_out(id, work);
    }

    /// There is nobody to ask. The client may have given up long ago.
    pub(super) fn turn_away(&mut self, client: u64, attempt: u64) {
        let caller = &self.callers[client as usize];
        if caller.waits && caller.tries == attempt {
            self.deliver(client, End::Refused);
        }
    }

    /// Nothing was heard for too long.
    pub(super) fn on_give_up(&mut self, client: u64, attempt: u64) {
        let caller = &mut self.callers[client as usize];
        if caller.waits && caller.tries == attempt {
            caller.at = None;
            self.deliver(client, End::Unknown);
        }
    }

    /// The state machine has answered, or its answer is gone.
    pub(super) fn answer_applied(&mut self, waiter: Waiter, applied: Option<Applied<S::Response>>) {
        if !self.close(waiter) {
            return;
        }
        self.figures.answered += u64::from(applied.is_some());
        match applied {
            Some(applied) => self.deliver(waiter.0, End::Applied(applied.response)),
            None => self.deliver(waiter.0, End::Unknown),
        }
    }

    /// A try has ended without having been applied.
    pub(super) fn answer_end(&mut self, waiter: Waiter, ending: Ending) {
        let at = self.open.get(&waiter).map(|(id, _)| *id);
        if !self.close(waiter) {
            return;
        }
        match ending {
            Ending::Readable { index, until } => self.read(waiter.0, at, index, until),
            Ending::Refused(_) | Ending::Superseded | Ending::Stopped => {
                if matches!(ending, Ending::Refused(raft_core::Refusal::NotLeader { .. })) {
                    self.mark(super::Mark::CallRefused);
                }
                self.deliver(waiter.0, End::Refused);
            }
            Ending::Unknown | Ending::Changed(_) | Ending::Transferred(_) => {
                self.deliver(waiter.0, End::Unknown);
            }
        }
    }

    fn read(
        &mut self,
        client: u64,
        at: Option<NodeId>,
        index: Index,
        until: Option<raft_core::Instant>,
    ) {
        self.figures.reads += 1;
        let node = at.and_then(|id| self.nodes.get(&id));
        let Some(node) = node else { return };
        let local = node.clock.local(self.now);
        let Some(running) = &node.running else { return };
        if until.is_some_and(|until| local >= until) {
            return self.deliver(client, End::Refused); // The caller looks at its clock.
        }
        let (workload, now) = (&mut self.workload, self.now);
        let state = running.applier.look(|judged| {
            workload.on_end(client, now, End::Readable(judged.machine()));
            StateMachine::applied(judged)
        });
        if state < index {
            let reason = format!("a reader was let in at {index}, and the state is at {state}");
            self.break_off(reason);
        }
        self.think_again(client);
    }

    /// Whether the client waits for this. **Every try ends once.**
    fn close(&mut self, waiter: Waiter) -> bool {
        let (client, attempt) = waiter;
        let caller = &self.callers[client as usize];
        let is_awaited = caller.waits && caller.tries == attempt;
        if self.open.remove(&waiter).is_none() && !is_awaited {
            self.break_off(format!("client {client} is answered twice (try {attempt})"));
        }
        is_awaited
    }

    fn deliver(&mut self, client: u64, end: End<'_, S>) {
        self.workload.on_end(client, self.now, end);
        self.think_again(client);
    }

    fn think_again(&mut self, client: u64) {
        self.callers[client as usize].waits = false;
        for mark in self.workload.take_marks() {
            self.mark(mark);
        }
        let after = self.think();
        self.schedule(after, Due::Client(client), None);
    }

    /// The callers of a process that has died hear nothing any more.
    pub(super) fn forget_calls(&mut self, id: NodeId) {
        self.open.retain(|_, (at, _)| *at != id);
    }
}
