//! The states and what leads from one to another.
//!
//! ```text
//!   state = for each node (what it is, what can still arrive there), the record, what was spent
//!   (node, act) ── worked out once by the shipped core ──▶ (node after it, packets, facts)
//! ```

mod work;

use super::act::{Act, Cost, Packet};
use super::bounds::Bounds;
use super::intern::{Map, Pool};
use super::local::{Local, Pace};
use super::names::Names;
use super::network::{Network, Receiver};
use super::record::{self, Record};
use super::rules::Facts;
use super::text::Text;
use work::judged;

/// The most nodes of a group.
pub(super) const NODES_MAX: usize = 5;

/// A state of the whole group, in numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct State {
    pub(super) nodes: [Place; NODES_MAX],
    pub(super) record: u32,
    /// How often each thing happened that may happen only so often, four bits each.
    pub(super) spent: u64,
}

/// A node, and what has been sent to it and can still matter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) local: u32,
    pub(super) inbox: u32,
}

/// What one act does to one node.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) act: Act,
    pub(super) pace: Pace,
    local: u32,
    facts: u32,
    /// Where its packets lie among all.
    sent: (u32, u32),
}

/// What happened to which node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Moved {
    pub(super) node: usize,
    pub(super) act: Act,
    pub(super) pace: Pace,
}

/// A rule was broken.
#[derive(Clone, Debug)]
pub(super) struct Broken {
    pub(super) by: Moved,
    pub(super) rule: String,
}

/// How one state leads to another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    node: usize,
    step: u32,
    /// The place of the act among all that can happen.
    pub(super) ordinal: u32,
}

/// The steps from here to there.
type Steps = (u32, u32);

const BROKEN: u32 = u32::MAX;

/// Everything that was met so far.
#[derive(Debug)]
pub(super) struct Space<'a> {
    pub(super) bounds: &'a Bounds,
    names: Names,
    /// What happens costs nothing yet.
    pub(super) is_opening: bool,
    pub(super) locals: Pool<Local>,
    /// The durable term of each.
    terms: Vec<u64>,
    network: Network,
    records: Pool<Record>,
    facts: Vec<Facts>,
    facts_numbers: Map<Facts, u32>,
    steps: Vec<Step>,
    sent: Vec<u32>,
    rules: Vec<String>,
    /// What becomes of a node when a packet arrives.
    received: Map<(u32, u32), Steps>,
    read: Map<(u32, u32), Steps>,
    /// What else can happen to a node.
    own: Map<u32, Steps>,
    /// What can happen to a node with an inbox: a stretch of `edges`.
    pairs: Map<(u32, u32), (u32, u32)>,
    edges: Vec<u32>,
    recorded: Map<(u32, u32), u32>,
    text: Text,
}

impl<'a> Space<'a> {
    pub(super) fn new(bounds: &'a Bounds) -> Self {
        let free = if bounds.symmetry { bounds.founders as u8 } else { 1 };
        let names = Names::new(bounds.nodes(), free);
        Self {
            bounds,
            names,
            is_opening: true,
            locals: Pool::default(),
            terms: Vec::new(),
            network: Network::default(),
            records: Pool::default(),
            facts: Vec::new(),
            facts_numbers: Map::default(),
            steps: Vec::new(),
            sent: Vec::new(),
            rules: Vec::new(),
            received: Map::default(),
            read: Map::default(),
            own: Map::default(),
            pairs: Map::default(),
            edges: Vec::new(),
            recorded: Map::default(),
            text: Text::default(),
        }
    }

    /// Where the search begins, before its opening.
    pub(super) fn root(&mut self) -> State {
        let inbox = self.network.inbox(Vec::new(), self.names.len());
        let mut nodes = [Place::default(); NODES_MAX];
        for (place, number) in nodes.iter_mut().zip(1..=self.bounds.nodes() as u64) {
            let local = self.local(Local::new(self.bounds, number));
            *place = Place { local, inbox };
        }
        let record = self.records.number(Record::default(), self.names.all(), &mut self.text);
        State { nodes, record, spent: 0 }
    }

    /// How many different nodes and packets were met, and how many steps worked out.
    pub(super) fn sizes(&self) -> (usize, usize, usize) {
        (self.locals.len(), self.network.packets.len(), self.steps.len())
    }

    pub(super) fn local_at(&self, state: &State, node: usize) -> &Local {
        self.locals.get(state.nodes[node].local)
    }

    pub(super) fn inbox_of(&self, state: &State, node: usize) -> &[u32] {
        self.network.inboxes.get(state.nodes[node].inbox)
    }

    /// The same for all states that differ only in the names of the nodes.
    pub(super) fn fingerprint(&self, state: &State) -> u64 {
        let names = self.names.len();
        let mut nodes = [&[] as &[u64]; 2 * NODES_MAX];
        for (pair, place) in nodes.chunks_mut(2).zip(&state.nodes[..self.bounds.nodes()]) {
            pair[0] = self.locals.prints(place.local, names);
            pair[1] = self.network.inboxes.prints(place.inbox, names);
        }
        let record = self.records.prints(state.record, names);
        self.names.fingerprint(&nodes, record, state.spent)
    }

    /// Calls `visit` with every state that one act leads to, and the place of the act among all.
    pub(super) fn successors(
        &mut self,
        state: &State,
        mut visit: impl FnMut(&Self, Way, State),
    ) -> Result<(), Broken> {
        let mut ordinal = 0;
        for node in 0..self.bounds.nodes() {
            let (start, end) = self.edges_of(state.nodes[node]);
            let mut go = |space: &mut Self, step: u32| {
                if let Some(next) = space.follow(state, node, step)? {
                    visit(space, Way { node, step, ordinal }, next);
                }
                ordinal += 1;
                Ok(())
            };
            for edge in start..end {
                let step = self.edges[edge as usize];
                go(self, step)?;
            }
            if self.bounds.reads > 0 && self.local_at(state, node).can_read() {
                let floor = self.records.get(state.record).committed();
                let (start, end) = self.read_steps(state.nodes[node].local, floor);
                for step in start..end {
                    go(self, step)?;
                }
            }
        }
        Ok(())
    }

    /// The act at this place among all that can happen in `state`, and what it leads to.
    pub(super) fn successor(&mut self, state: &State, ordinal: u32) -> Option<(Moved, State)> {
        let mut found = None;
        let all = self.successors(state, |space, way, next| {
            if way.ordinal == ordinal {
                let Step { act, pace, .. } = space.steps[way.step as usize];
                found = Some((Moved { node: way.node, act, pace }, next));
            }
        });
        drop(all); // What is broken behind it is told by the search.
        found
    }

    /// Makes this act happen; `None` where it changes nothing.
    pub(super) fn perform(
        &mut self,
        state: &State,
        node: usize,
        act: Act,
    ) -> Result<Option<State>, Broken> {
        let local = state.nodes[node].local;
        let (start, end) = match act {
            Act::Receive(packet) => self.received_steps(local, packet),
            _ => self.own_steps(local),
        };
        match (start..end).find(|&step| self.steps[step as usize].act == act) {
            Some(step) => self.follow(state, node, step),
            None => Ok(None),
        }
    }

    fn follow(&mut self, state: &State, node: usize, step: u32) -> Result<Option<State>, Broken> {
        let Step { act, pace, local, facts, sent } = self.steps[step as usize];
        let Some(spent) = self.spend(state.spent, act, pace) else { return Ok(None) };
        let broken = |rule: String| Broken { by: Moved { node, act, pace }, rule };
        if facts == BROKEN {
            return Err(broken(self.rules[local as usize].clone()));
        }
        let mut next = State { spent, ..*state };
        next.nodes[node].local = local;
        if let (Act::Receive(packet), false) = (act, self.bounds.repeats) {
            let (names, place) = (self.names.len(), &mut next.nodes[node]);
            place.inbox = self.network.without(place.inbox, packet, names);
        }
        let (before, after) = (self.settled(state), self.settled(&next));
        if before == after {
            self.prune(&mut next.nodes[node], after);
        } else {
            for place in &mut next.nodes[..self.bounds.nodes()] {
                self.prune(place, after);
            }
        }
        for at in sent.0..sent.1 {
            let packet = self.sent[at as usize];
            let to = self.network.packets.get(packet).to().get() as usize - 1;
            if to < self.bounds.nodes() {
                let receiver = self.receiver(next.nodes[to], after);
                let place = &mut next.nodes[to];
                place.inbox = self.network.with(place.inbox, packet, receiver);
            }
        }
        if facts != 0 {
            next.record = self.note(state, &next, node, facts).map_err(broken)?;
        }
        Ok((next != *state).then_some(next))
    }

    fn spend(&self, mut spent: u64, act: Act, pace: Pace) -> Option<u64> {
        if self.is_opening {
            return Some(spent);
        }
        let stall = (pace == Pace::Stalled).then_some(Cost::Stall);
        for cost in [act.cost(), stall].into_iter().flatten() {
            if cost == Cost::Timeout && self.bounds.timeouts.is_none() {
                continue;
            }
            let shift = 4 * cost as u32;
            let already = spent >> shift & 15;
            // Changes come in their order.
            let is_next =
                if let Act::Change(number) = act { already == u64::from(number) } else { true };
            if already >= u64::from(self.bounds.most(cost)) || !(is_next || cost == Cost::Stall) {
                return None;
            }
            spent += 1 << shift;
        }
        Some(spent)
    }

    /// The record after the step, judged.
    fn note(
        &mut self,
        state: &State,
        next: &State,
        node: usize,
        facts: u32,
    ) -> Result<u32, String> {
        let (before, key) = (self.records.get(state.record), (state.record, facts));
        let noted = &self.facts[facts as usize];
        if noted.wrote || !noted.commits.is_empty() {
            let locals: Vec<&Local> =
                (0..self.bounds.nodes()).map(|at| self.local_at(next, at)).collect();
            let known = before.committed();
            judged(|| record::check_group(&locals, node, noted, known))?;
        }
        if let Some(&known) = self.recorded.get(&key) {
            return Ok(known);
        }
        let after = judged(|| before.after(noted))?;
        let number = self.records.number(after, self.names.all(), &mut self.text);
        self.recorded.insert(key, number);
        Ok(number)
    }

    /// The nodes that are in the last term for good, as bits.
    fn settled(&self, state: &State) -> u32 {
        let nodes = state.nodes[..self.bounds.nodes()].iter().enumerate();
        let last = self.bounds.term_max;
        nodes.fold(0, |bits, (node, place)| {
            bits | u32::from(self.terms[place.local as usize] >= last) << node
        })
    }

    fn receiver(&self, place: Place, settled: u32) -> Receiver {
        let term = self.terms[place.local as usize];
        Receiver { term, settled, names: self.names.len() }
    }

    fn prune(&mut self, place: &mut Place, settled: u32) {
        let receiver = self.receiver(*place, settled);
        place.inbox = self.network.prune(place.inbox, receiver);
    }

    pub(super) fn packet(&self, number: u32) -> &Packet {
        self.network.packets.get(number)
    }
}
