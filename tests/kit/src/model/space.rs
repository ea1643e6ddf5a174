//! The states and what leads from one to another.
//!
//! ```text
//!   state = for each node (what it is, what can still arrive there), the record, what was spent
//!   (node, act) ── worked out once by the shipped core ──▶ (node after it, packets, facts)
//! ```

use std::panic::{AssertUnwindSafe, catch_unwind};

use raft_core::{Index, Message};

use super::act::{Act, Cost, Packet};
use super::bounds::Bounds;
use super::intern::{Map, Pool, scramble};
use super::local::{Local, Pace};
use super::record::{self, Record};
use super::rules::Facts;
use super::text::{NAMELESS, Renaming, SAME, Text};

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

/// A packet set, sorted.
type Inbox = Box<[u32]>;

const BROKEN: u32 = u32::MAX;

/// Everything that was met so far.
#[derive(Debug)]
pub(super) struct Space<'a> {
    pub(super) bounds: &'a Bounds,
    /// All renamings that count, and behind them the one that takes all names away.
    names: Vec<Renaming>,
    /// Of each renaming that counts, which node gets each name.
    owners: Vec<Vec<usize>>,
    /// What happens costs nothing yet.
    pub(super) is_opening: bool,
    pub(super) locals: Pool<Local>,
    /// The durable term of each.
    terms: Vec<u64>,
    pub(super) packets: Pool<Packet>,
    inboxes: Pool<Inbox>,
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
    unions: Map<(u32, u32), u32>,
    pruned: Map<(u32, u32), u32>,
    recorded: Map<(u32, u32), u32>,
    text: Text,
}

impl<'a> Space<'a> {
    pub(super) fn new(bounds: &'a Bounds) -> Self {
        let mut names = if bounds.symmetry { renamings(bounds.founders as u8) } else { vec![SAME] };
        let owner_of = |names: &Renaming, name: usize| {
            (0..bounds.nodes()).find(|node| usize::from(names[node + 1]) == name + 1)
        };
        let owners = |names| (0..bounds.nodes()).filter_map(|name| owner_of(names, name)).collect();
        let owners = names.iter().map(owners).collect();
        names.push(NAMELESS);
        Self {
            bounds,
            names,
            owners,
            is_opening: true,
            locals: Pool::default(),
            terms: Vec::new(),
            packets: Pool::default(),
            inboxes: Pool::default(),
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
            unions: Map::default(),
            pruned: Map::default(),
            recorded: Map::default(),
            text: Text::default(),
        }
    }

    /// Where the search begins, before its opening.
    pub(super) fn root(&mut self) -> State {
        let inbox = self.inbox(Vec::new());
        let mut nodes = [Place::default(); NODES_MAX];
        for (place, number) in nodes.iter_mut().zip(1..=self.bounds.nodes() as u64) {
            let local = self.local(Local::new(self.bounds, number));
            *place = Place { local, inbox };
        }
        let record = self.records.number(Record::default(), &self.names, &mut self.text);
        State { nodes, record, spent: 0 }
    }

    /// How many different nodes and packets were met, and how many steps worked out.
    pub(super) fn sizes(&self) -> (usize, usize, usize) {
        (self.locals.len(), self.packets.len(), self.steps.len())
    }

    pub(super) fn local_at(&self, state: &State, node: usize) -> &Local {
        self.locals.get(state.nodes[node].local)
    }

    pub(super) fn inbox_of(&self, state: &State, node: usize) -> &[u32] {
        self.inboxes.get(state.nodes[node].inbox)
    }

    /// The same for all states that differ only in the names of the nodes: the least that it is
    /// under the renamings which sort the nodes by what they are without their names.
    pub(super) fn fingerprint(&self, state: &State) -> u64 {
        let (names, count) = (self.names.len(), self.bounds.nodes());
        let of = |place: &Place, at: usize| {
            let local = self.locals.prints(place.local, names)[at];
            let inbox = self.inboxes.prints(place.inbox, names)[at];
            scramble(local.wrapping_add(inbox.rotate_left(32)))
        };
        let places = &state.nodes[..count];
        let mut nameless = [0; NODES_MAX];
        for (nameless, place) in nameless.iter_mut().zip(places) {
            *nameless = of(place, names - 1);
        }
        let record = self.records.prints(state.record, names);
        let mut least = u64::MAX;
        for (at, owners) in self.owners.iter().enumerate() {
            if names > 2 && !owners.is_sorted_by_key(|owner| nameless[*owner]) {
                continue;
            }
            let mut print = scramble(record[at]).wrapping_add(state.spent);
            for owner in owners {
                print = scramble(print ^ of(&places[*owner], at));
            }
            least = least.min(print);
        }
        least
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
        let (before, after) = (self.settled(state), self.settled(&next));
        if before == after {
            next.nodes[node].inbox = self.prune(next.nodes[node], after);
        } else {
            for at in 0..self.bounds.nodes() {
                next.nodes[at].inbox = self.prune(next.nodes[at], after);
            }
        }
        for at in sent.0..sent.1 {
            let packet = self.sent[at as usize];
            let to = self.packets.get(packet).to().get() as usize - 1;
            if to < self.bounds.nodes() {
                next.nodes[to].inbox = self.with(next.nodes[to], packet, after);
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
        let number = self.records.number(after, &self.names, &mut self.text);
        self.recorded.insert(key, number);
        Ok(number)
    }

    /// What can happen to a node with an inbox.
    fn edges_of(&mut self, place: Place) -> (u32, u32) {
        let key = (place.local, place.inbox);
        if let Some(&known) = self.pairs.get(&key) {
            return known;
        }
        let (start, end) = self.own_steps(place.local);
        let mut all: Vec<u32> = (start..end).collect();
        for at in 0..self.inboxes.get(place.inbox).len() {
            let packet = self.inboxes.get(place.inbox)[at];
            let (start, end) = self.received_steps(place.local, packet);
            all.extend(start..end);
        }
        let start = self.edges.len() as u32;
        self.edges.extend(all);
        let range = (start, self.edges.len() as u32);
        self.pairs.insert(key, range);
        range
    }

    fn own_steps(&mut self, local: u32) -> Steps {
        if let Some(&known) = self.own.get(&local) {
            return known;
        }
        let acts = self.locals.get(local).acts(self.bounds);
        let steps = self.work_out(local, &acts);
        self.own.insert(local, steps);
        steps
    }

    fn received_steps(&mut self, local: u32, packet: u32) -> Steps {
        if let Some(&known) = self.received.get(&(local, packet)) {
            return known;
        }
        let steps = self.work_out(local, &[Act::Receive(packet)]);
        self.received.insert((local, packet), steps);
        steps
    }

    fn read_steps(&mut self, local: u32, floor: Index) -> Steps {
        let key = (local, floor.0 as u32);
        if let Some(&known) = self.read.get(&key) {
            return known;
        }
        let steps = self.work_out(local, &[Act::Read(floor)]);
        self.read.insert(key, steps);
        steps
    }

    /// The steps of these acts; one more where what is written may take time.
    fn work_out(&mut self, local: u32, acts: &[Act]) -> Steps {
        let first = self.steps.len() as u32;
        for &act in acts {
            if self.step(local, act, Pace::AtOnce) && self.bounds.stalls > 0 {
                self.step(local, act, Pace::Stalled);
            }
        }
        (first, self.steps.len() as u32)
    }

    /// Works out what an act does: the only place where the core runs. Nothing is kept of an act
    /// that changes nothing, or leads beyond the bounds. Returns whether something was written at
    /// once.
    fn step(&mut self, local: u32, act: Act, pace: Pace) -> bool {
        let before = self.locals.get(local);
        let packet =
            if let Act::Receive(packet) = act { Some(self.packets.get(packet)) } else { None };
        let outcome = match judged(|| before.after(self.bounds, (act, pace), packet)) {
            Ok(outcome) => outcome,
            Err(rule) => {
                let local = self.rules.len() as u32;
                self.rules.push(rule);
                self.steps.push(Step { act, pace, local, facts: BROKEN, sent: (0, 0) });
                return true;
            }
        };
        let synced = outcome.synced;
        if !outcome.local.is_within(self.bounds) {
            return synced;
        }
        let after = self.local(outcome.local);
        let facts = self.facts(outcome.facts);
        let first = self.sent.len() as u32;
        for packet in outcome.sent {
            let packet = self.packets.number(packet, &self.names, &mut self.text);
            self.sent.push(packet);
        }
        let sent = (first, self.sent.len() as u32);
        if after != local || facts != 0 || sent.0 < sent.1 {
            self.steps.push(Step { act, pace, local: after, facts, sent });
        }
        synced
    }

    fn facts(&mut self, facts: Facts) -> u32 {
        if self.facts.is_empty() {
            self.facts.push(Facts::default());
            self.facts_numbers.insert(Facts::default(), 0);
        }
        let next = self.facts.len() as u32;
        let number = *self.facts_numbers.entry(facts.clone()).or_insert(next);
        if number == next {
            self.facts.push(facts);
        }
        number
    }

    fn local(&mut self, local: Local) -> u32 {
        local.describe(&mut self.text);
        let id = u128::from(local.id().get());
        let term = local.store.durable().hard_state.term.0;
        let number = self.locals.number_as(local, id, &self.names, &self.text);
        if number as usize == self.terms.len() {
            self.terms.push(term);
        }
        number
    }

    fn inbox(&mut self, sorted: Vec<u32>) -> u32 {
        let names = self.names.len();
        let sum = |at: usize| {
            let prints = sorted.iter().map(|&packet| self.packets.prints(packet, names)[at]);
            prints.fold(1, |sum: u64, print| sum.wrapping_add(scramble(print)))
        };
        let prints: Vec<u64> = (0..names).map(sum).collect();
        let key = sorted.iter().fold(29, |key, &packet| super::text::mix(key, packet.into()));
        if let Some(known) = self.inboxes.known(key) {
            return known;
        }
        self.inboxes.add(key, sorted.into(), prints.into_iter())
    }

    fn with(&mut self, place: Place, packet: u32, settled: u32) -> u32 {
        let term = self.durable_term(place.local);
        if is_dead(self.packets.get(packet), term, settled) {
            return place.inbox;
        }
        let key = (place.inbox, packet);
        if let Some(&known) = self.unions.get(&key) {
            return known;
        }
        let mut sorted = self.inboxes.get(place.inbox).to_vec();
        let inbox = match sorted.binary_search(&packet) {
            Ok(_) => place.inbox,
            Err(at) => {
                sorted.insert(at, packet);
                self.inbox(sorted)
            }
        };
        self.unions.insert(key, inbox);
        inbox
    }

    fn prune(&mut self, place: Place, settled: u32) -> u32 {
        let term = self.durable_term(place.local);
        let key = (place.inbox, (term as u32) << 8 | settled);
        if let Some(&known) = self.pruned.get(&key) {
            return known;
        }
        let all = self.inboxes.get(place.inbox).iter().copied();
        let is_alive = |packet: &u32| !is_dead(self.packets.get(*packet), term, settled);
        let kept = all.filter(is_alive).collect();
        let inbox = self.inbox(kept);
        self.pruned.insert(key, inbox);
        inbox
    }

    /// The nodes that are in the last term for good, as bits.
    fn settled(&self, state: &State) -> u32 {
        let nodes = state.nodes[..self.bounds.nodes()].iter().enumerate();
        let last = self.bounds.term_max;
        nodes.fold(0, |bits, (node, place)| {
            bits | u32::from(self.terms[place.local as usize] >= last) << node
        })
    }

    fn durable_term(&self, local: u32) -> u64 {
        self.terms[local as usize]
    }
}

/// Runs something that panics where a rule is broken.
fn judged<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        text.unwrap_or_else(|| "a panic without words".to_owned())
    })
}

/// Whether a packet can do nothing any more, whatever comes: an answer, or a word to a leader's
/// follower, of a term that the receiver has left for good (its durable term never falls); or a
/// question from a node that is in the last term there is, for good (`settled`), and asked in an
/// older one: the answer could only tell it of a newer term.
fn is_dead(packet: &Packet, durable: u64, settled: u32) -> bool {
    let Packet::Message(envelope) = packet else { return false };
    let term = envelope.term.0;
    let is_settled = settled >> (envelope.from.get() - 1) & 1 == 1;
    match envelope.message {
        Message::PreVoteReply { asked, granted: true } => asked.0 < durable,
        // They count for nothing but the term that they carry.
        Message::PreVoteReply { granted: false, .. } | Message::VoteReply { granted: false } => {
            term <= durable
        }
        Message::VoteReply { granted: true }
        | Message::AppendReply(_)
        | Message::HeartbeatReply { .. }
        | Message::Commit { .. }
        | Message::TimeoutNow
        | Message::Read { .. }
        | Message::ReadReply { .. } => term < durable,
        Message::PreVote { .. } => is_settled,
        Message::Vote { .. } => term < durable && is_settled,
        Message::Append(_)
        | Message::Heartbeat { .. }
        | Message::Propose { .. }
        | Message::ProposeReply { .. } => false,
    }
}

/// All ways to give the first `count` nodes each other's names; the first one changes nothing.
fn renamings(count: u8) -> Vec<Renaming> {
    let mut all = vec![SAME];
    for at in 1..count {
        let known = all.clone();
        for other in at + 1..=count {
            for names in &known {
                let mut names = *names;
                names.swap(usize::from(at), usize::from(other));
                all.push(names);
            }
        }
    }
    all
}
