//! A network in memory.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use raft_core::{Envelope, Message, NodeId, Term, Transport};
use raft_testkit::conformance::transport::{self, Rule, Who};
use raft_testkit::conformance::writes::node;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    None,
    LosesOneInTwenty,
    ForgetsTheTerm,
    KnowsNoTimeoutNow,
    SwapsNeighbours,
    SendsToAllButTheSender,
    SendsToTheLowestStranger,
    DropsLargeAppends,
    SplitsIntoTheSamePlace,
    LeavesTheLast,
    BlocksWhenItIsFull,
    HoldsAllForTheAbsent,
    NeverReconnects,
    AsksForNoCluster,
    AsksForNoName,
}

const MESSAGES_MAX: usize = 1000;
const PART: usize = 10;

#[derive(Default)]
struct State {
    inboxes: BTreeMap<NodeId, (Who, VecDeque<Envelope>)>,
    /// What waits for a node that is not there.
    waiting: Vec<Envelope>,
    sent: u64,
    stopped: bool,
}

#[derive(Clone)]
pub struct Careless {
    fault: Fault,
    state: Arc<Mutex<State>>,
    /// Who is blocked goes on when the test has ended.
    over: Arc<AtomicBool>,
}

pub struct End {
    place: NodeId,
    channel: Arc<Channel>,
}

struct Channel {
    owner: Who,
    network: Careless,
}

impl Careless {
    pub fn new(fault: Fault) -> Self {
        Self { fault, state: Arc::default(), over: Arc::default() }
    }

    pub fn end(&self) {
        self.over.store(true, Ordering::SeqCst);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nobody panics")
    }

    /// Whether it was taken, or there was nobody to take it.
    fn deliver(&self, owner: Who, place: NodeId, envelope: Envelope) -> bool {
        let mut state = self.lock();
        let fault = self.fault;
        if fault == Fault::NeverReconnects && state.stopped && place == node(2) {
            return true;
        }
        let Some((who, inbox)) = state.inboxes.get_mut(&place) else {
            if fault == Fault::HoldsAllForTheAbsent {
                state.waiting.push(envelope);
            }
            return true;
        };
        let is_strange = (who.cluster != owner.cluster && fault != Fault::AsksForNoCluster)
            || (who.node != place && fault != Fault::AsksForNoName);
        let has_room = inbox.len() < MESSAGES_MAX;
        if !is_strange && has_room {
            inbox.push_back(envelope);
        }
        has_room
    }

    fn route(&self, owner: Who, mut envelope: Envelope) {
        let (to, number) = (envelope.to, {
            let mut state = self.lock();
            state.sent += 1;
            state.sent
        });
        let all = [1, 2, 3].map(node).into_iter();
        let places: Vec<NodeId> = match self.fault {
            Fault::LosesOneInTwenty if number % 20 == 0 => return,
            Fault::KnowsNoTimeoutNow if envelope.message == Message::TimeoutNow => return,
            Fault::SendsToAllButTheSender => all.filter(|it| *it != envelope.from).collect(),
            Fault::SendsToTheLowestStranger if to > node(3) => all.take(1).collect(),
            _ => vec![to],
        };
        if self.fault == Fault::ForgetsTheTerm {
            envelope.term = Term(0);
        }
        for place in places {
            while !self.deliver(owner, place, envelope.clone())
                && self.fault == Fault::BlocksWhenItIsFull
                && !self.over.load(Ordering::SeqCst)
            {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }

    fn parts(&self, envelope: Envelope) -> Vec<Envelope> {
        let Message::Append(append) = &envelope.message else { return vec![envelope] };
        match self.fault {
            Fault::DropsLargeAppends if append.entries.len() > PART => Vec::new(),
            Fault::SplitsIntoTheSamePlace if !append.entries.is_empty() => {
                (0..append.entries.len())
                    .step_by(PART)
                    .map(|start| {
                        let mut part = append.clone();
                        part.entries =
                            append.entries.slice(start..append.entries.len().min(start + PART));
                        Envelope { message: Message::Append(part), ..envelope.clone() }
                    })
                    .collect()
            }
            _ => vec![envelope],
        }
    }
}

impl Transport for Channel {
    fn send(&self, envelopes: &mut Vec<Envelope>) {
        let network = &self.network;
        let last = match network.fault {
            Fault::LeavesTheLast => envelopes.pop(),
            _ => None,
        };
        if network.fault == Fault::SwapsNeighbours && envelopes.len() == 7 {
            envelopes.swap(3, 5);
        }
        for envelope in envelopes.drain(..) {
            for part in network.parts(envelope) {
                network.route(self.owner, part);
            }
        }
        envelopes.extend(last);
    }
}

impl transport::Harness for Careless {
    type End = End;

    fn start(&self, place: NodeId, who: Who) -> Option<End> {
        self.lock().inboxes.insert(place, (who, VecDeque::new()));
        Some(End { place, channel: Arc::new(Channel { owner: who, network: self.clone() }) })
    }

    fn stop(&self, end: End) {
        let mut state = self.lock();
        state.inboxes.remove(&end.place);
        // All that stop together are stopped for good.
        state.stopped = !state.inboxes.is_empty();
    }

    fn transport(&self, end: &End) -> Arc<dyn Transport> {
        Arc::clone(&end.channel) as Arc<dyn Transport>
    }

    fn take(&self, end: &mut End, _: usize) -> Vec<Envelope> {
        let mut state = self.lock();
        let inbox = state.inboxes.get_mut(&end.place);
        inbox.map_or(Vec::new(), |(_, inbox)| inbox.drain(..).collect())
    }

    fn until(&self, done: &mut dyn FnMut() -> bool) -> bool {
        (0..300).any(|_| {
            std::thread::sleep(Duration::from_millis(1));
            done()
        })
    }

    fn bytes_max(&self) -> usize {
        1 << 20
    }
}

/// Every way to be careless, and the rule that it breaks.
pub const BROKEN: [(Fault, Rule); 14] = [
    (Fault::LosesOneInTwenty, Rule::Arrives),
    (Fault::ForgetsTheTerm, Rule::Arrives),
    (Fault::KnowsNoTimeoutNow, Rule::AsSent),
    (Fault::SwapsNeighbours, Rule::Order),
    (Fault::SendsToAllButTheSender, Rule::Receiver),
    (Fault::SendsToTheLowestStranger, Rule::Receiver),
    (Fault::DropsLargeAppends, Rule::Large),
    (Fault::SplitsIntoTheSamePlace, Rule::Large),
    (Fault::LeavesTheLast, Rule::TakesAll),
    (Fault::BlocksWhenItIsFull, Rule::NeverBlocks),
    (Fault::HoldsAllForTheAbsent, Rule::Bounded),
    (Fault::NeverReconnects, Rule::ComesBack),
    (Fault::AsksForNoCluster, Rule::Cluster),
    (Fault::AsksForNoName, Rule::Impostor),
];
