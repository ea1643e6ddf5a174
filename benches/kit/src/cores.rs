//! Our pump. The queue and the vector of effects are used again and again, as a driver does.

use std::mem;

use raft_core::{
    Config, Effect, Entries, Event, Index, Instant, Membership, NodeId, Payload, Raft, RequestId,
    Requests, RoleKind, Saved,
};

use crate::{Applied, Payloads, Pump, Shape};

/// Three of our cores; the first one leads.
#[derive(Debug)]
pub struct Cores {
    shape: Shape,
    payloads: Payloads,
    nodes: Vec<Raft>,
    now: Instant,
    requests: RequestId,
    /// What waits for each node.
    inboxes: [Vec<Event>; 3],
    events: Vec<Event>,
    effects: Vec<Effect>,
}

impl Cores {
    /// Three cores, one of which has just been elected.
    pub fn new(shape: Shape) -> Self {
        let ids = [1, 2, 3].map(|id| NodeId::new(id).expect("not zero"));
        let membership = Membership::new(ids).expect("not empty");
        let nodes = ids.map(|id| {
            let mut config = Config::new(id);
            let entry_bytes = shape.bytes + raft_core::Entry::OVERHEAD_BYTES;
            config.recent_bytes_max = shape.kept_entries() * entry_bytes;
            let saved = Saved::first_start(membership.clone());
            Raft::restore(config, saved, id.get(), Instant(0)).expect("the settings can work")
        });
        let mut cores = Self {
            shape,
            payloads: Payloads::new(shape),
            nodes: nodes.into(),
            now: Instant(0),
            requests: RequestId(1),
            inboxes: Default::default(),
            events: Vec::new(),
            effects: Vec::new(),
        };
        cores.now = cores.nodes[0].deadline().expect("a follower waits for an election");
        cores.inboxes[0].push(Event::Timer);
        cores.run();
        assert_eq!(cores.nodes[0].role(), RoleKind::Leader, "nobody stands in its way");
        cores
    }

    fn run(&mut self) {
        while self.inboxes.iter().any(|inbox| !inbox.is_empty()) {
            for at in 0..3 {
                mem::swap(&mut self.events, &mut self.inboxes[at]);
                for event in self.events.drain(..) {
                    self.nodes[at].handle(self.now, event, &mut self.effects);
                }
                self.perform(at);
            }
        }
    }

    fn perform(&mut self, at: usize) {
        for effect in self.effects.drain(..) {
            match effect {
                Effect::Persist(write) => self.inboxes[at].push(Event::Persisted(write.ticket)),
                Effect::Send(envelope) => {
                    let to = envelope.to.get() as usize - 1;
                    self.inboxes[to].push(Event::Receive(envelope));
                }
                Effect::Apply { first, last } => {
                    apply(&self.nodes[at], first, last, &mut self.payloads);
                    self.inboxes[at].push(Event::Applied(last));
                }
                Effect::Resolve { .. } | Effect::RoleChanged(_) => {}
                other => panic!("a steady state has no {other:?}"),
            }
        }
    }
}

fn apply(node: &Raft, mut first: Index, last: Index, payloads: &mut Payloads) {
    while first <= last {
        let entries = node.recent_entries(first, last, usize::MAX).expect("the newest are here");
        for entry in entries.iter() {
            if let Payload::Command(bytes) = &entry.payload {
                payloads.apply(bytes);
            }
        }
        first = entries[entries.len() - 1].index.next();
    }
}

impl Pump for Cores {
    fn pump(&mut self) {
        let requests = Requests { first: self.requests, count: self.shape.entries as u64 };
        self.requests = requests.end();
        let payloads = &self.payloads;
        let entries = Entries::proposal((0..self.shape.entries).map(|_| payloads.next()));
        self.inboxes[0].push(Event::Propose { requests, entries });
        self.run();
        let last = self.nodes[0].last().index;
        let applied = |node: &Raft| node.applied_index() == last;
        assert!(self.nodes.iter().all(applied), "all three have applied everything");
    }

    fn applied(&self) -> Applied {
        self.payloads.applied()
    }
}
