//! Breadth first, so that the first violation found has a shortest story.

use std::collections::BTreeSet;
use std::fmt;

use super::act::Act;
use super::bounds::{Bounds, Opening};
use super::intern::Seen;
use super::local::Pace;
use super::space::{Broken, Moved, Space, State};
use super::story;
use crate::cluster;

/// What a search came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Distinct states; those that differ only in the names of the nodes count as one.
    pub states: u64,
    /// Acts that changed something.
    pub transitions: u64,
    /// The longest of the shortest ways to a state, in acts.
    pub depth: u64,
    /// Whether nothing was left to explore within the bounds.
    pub is_exhausted: bool,
    /// Distinct nodes: core, disk and state machine.
    pub locals: u64,
    /// Distinct packets.
    pub packets: u64,
    /// Steps of the core that were worked out.
    pub steps: u64,
    /// The sum of all fingerprints: the same in every process.
    pub digest: u64,
}

impl Figures {
    /// These and others together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            states: self.states + other.states,
            transitions: self.transitions + other.transitions,
            depth: self.depth.max(other.depth),
            is_exhausted: self.is_exhausted && other.is_exhausted,
            locals: self.locals + other.locals,
            packets: self.packets + other.packets,
            steps: self.steps + other.steps,
            digest: self.digest.wrapping_add(other.digest),
        }
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = if self.is_exhausted { "exhausted" } else { "not exhausted" };
        write!(
            f,
            "{} states, {} transitions, depth {}, {end}; {} nodes, {} packets, {} steps of the \
             core; digest {:016x}",
            self.states,
            self.transitions,
            self.depth,
            self.locals,
            self.packets,
            self.steps,
            self.digest
        )
    }
}

/// A rule that was broken, and the shortest way there.
#[derive(Clone, Debug)]
pub struct Violation {
    /// The rule, and how it was broken.
    pub rule: String,
    /// One line for each act.
    pub story: Vec<String>,
    /// How many distinct states were met before it was found.
    pub states: u64,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, line) in self.story.iter().enumerate() {
            writeln!(f, "{:>4}  {line}", number + 1)?;
        }
        write!(f, "broken after {} states: {}", self.states, self.rule)
    }
}

/// How a state was first reached: from which, and by which of all acts that could happen there.
#[derive(Clone, Copy, Debug)]
struct Origin {
    parent: u32,
    ordinal: u32,
}

pub(super) struct Search<'a> {
    space: Space<'a>,
    root: State,
    opening: Vec<String>,
    origins: Vec<Origin>,
    figures: Figures,
}

/// Explores everything within `bounds`, but no more than `states_max` states. `watch` hears of
/// every layer.
pub(super) fn search(
    bounds: &Bounds,
    states_max: u64,
    mut watch: impl FnMut(&Figures),
) -> Result<Figures, Box<Violation>> {
    let mut search = Search::new(bounds)?;
    let mut seen = Seen::new();
    let mut layer = vec![search.root];
    let print = search.space.fingerprint(&search.root);
    seen.insert(print);
    search.origins.push(Origin { parent: 0, ordinal: 0 });
    search.figures = Figures { states: 1, digest: print, ..Figures::default() };
    while !layer.is_empty() {
        let first = search.origins.len() - layer.len();
        let mut next = Vec::new();
        for (at, state) in layer.iter().enumerate() {
            let parent = (first + at) as u32;
            let (figures, origins) = (&mut search.figures, &mut search.origins);
            let result = search.space.successors(state, |space, way, state| {
                figures.transitions += 1;
                let print = space.fingerprint(&state);
                if seen.insert(print) {
                    figures.states += 1;
                    figures.digest = figures.digest.wrapping_add(print);
                    origins.push(Origin { parent, ordinal: way.ordinal });
                    next.push(state);
                }
            });
            if let Err(broken) = result {
                return Err(search.violation(parent, &broken));
            }
            if search.figures.states >= states_max {
                return Ok(search.figures());
            }
        }
        search.figures.depth += u64::from(!next.is_empty());
        layer = next;
        let figures = search.figures();
        watch(&figures);
    }
    search.figures.is_exhausted = true;
    Ok(search.figures())
}

impl<'a> Search<'a> {
    fn new(bounds: &'a Bounds) -> Result<Self, Box<Violation>> {
        let mut space = Space::new(bounds);
        let root = space.root();
        let (origins, figures) = (Vec::new(), Figures::default());
        let mut search = Self { space, root, opening: Vec::new(), origins, figures };
        if bounds.opening == Opening::Led {
            search.open()?;
        }
        search.space.is_opening = false;
        Ok(search)
    }

    fn figures(&self) -> Figures {
        let (locals, packets, steps) = self.space.sizes();
        let (locals, packets, steps) = (locals as u64, packets as u64, steps as u64);
        Figures { locals, packets, steps, ..self.figures }
    }

    /// N1 is elected, and everybody learns that its first entry is committed. What was said on
    /// the way can still arrive late, or again.
    fn open(&mut self) -> Result<(), Box<Violation>> {
        let mut arrived = BTreeSet::new();
        for begin in [Act::Timeout, Act::Heartbeat, Act::Heartbeat] {
            self.do_now(0, begin)?;
            while self.settle(&mut arrived)? {}
        }
        for node in 0..self.space.bounds.founders as usize {
            let raft = &self.space.local_at(&self.root, node).raft;
            let is_led = raft.leader() == Some(cluster::node(1));
            assert!(is_led && raft.commit_index().0 == 1, "N1 leads after the opening: {raft:?}");
        }
        Ok(())
    }

    /// Writes end, and what was sent arrives once. Returns whether anything happened.
    fn settle(&mut self, arrived: &mut BTreeSet<(usize, u32)>) -> Result<bool, Box<Violation>> {
        let mut happened = false;
        for node in 0..self.space.bounds.nodes() {
            while self.do_now(node, Act::Persisted(1))? {
                happened = true;
            }
            for packet in self.space.inbox_of(&self.root, node).to_vec() {
                if arrived.insert((node, packet)) {
                    happened |= self.do_now(node, Act::Receive(packet))?;
                }
            }
        }
        Ok(happened)
    }

    fn do_now(&mut self, node: usize, act: Act) -> Result<bool, Box<Violation>> {
        match self.space.perform(&self.root, node, act) {
            Err(broken) => Err(self.violation(0, &broken)),
            Ok(None) => Ok(false),
            Ok(Some(next)) => {
                let by = Moved { node, act, pace: Pace::AtOnce };
                self.opening.push(story::line(&self.space, &self.root, by, &next));
                self.root = next;
                Ok(true)
            }
        }
    }

    /// The states on the way to this one, each with the place of the act that led there.
    fn way_to(&self, mut number: u32) -> Vec<u32> {
        let mut way = Vec::new();
        while number != 0 {
            let origin = self.origins[number as usize];
            way.push(origin.ordinal);
            number = origin.parent;
        }
        way.reverse();
        way
    }

    fn violation(&mut self, parent: u32, broken: &Broken) -> Box<Violation> {
        let mut story = self.opening.clone();
        let mut state = self.root;
        for ordinal in self.way_to(parent) {
            let Some((by, next)) = self.space.successor(&state, ordinal) else { break };
            story.push(story::line(&self.space, &state, by, &next));
            state = next;
        }
        story.push(story::last(&self.space, &state, broken.by));
        Box::new(Violation { rule: broken.rule.clone(), story, states: self.figures.states })
    }
}
