//! The search for an order of one key's calls, one at a time, that gives the answers that were
//! given. It is Wing and Gong's (1993): place a call that no unplaced call surely preceded, go on,
//! go back when stuck; with Lowe's memory (2017) of what was placed and what state that gave.
//!
//! Of a place in the search only a fingerprint of 128 bits is kept. Two that are alike by chance
//! would cut off a part of the search: a history could be called wrong, never one right.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::line::Line;
use super::{Call, CallId, Model};

/// How a search ended.
pub(super) enum Found<M: Model> {
    /// There is such an order.
    Order,
    /// There is none.
    Nothing(Stuck<M>),
    /// It took too many steps to say.
    GaveUp,
}

/// Where the search came furthest.
pub(super) struct Stuck<M: Model> {
    /// What was placed, in this order.
    pub(super) placed: Vec<CallId>,
    /// How many calls of those were answered.
    answered: usize,
    /// The state then.
    pub(super) state: M::State,
}

impl<M: Model> Clone for Stuck<M> {
    fn clone(&self) -> Self {
        let Self { placed, answered, state } = self;
        Self { placed: placed.clone(), answered: *answered, state: state.clone() }
    }
}

/// What was found, and what that took.
pub(super) struct Outcome<M: Model> {
    pub(super) found: Found<M>,
    /// How many states were tried.
    pub(super) states: u64,
    pub(super) steps: u64,
}

/// Searches; each step asks the model once.
pub(super) fn search<M: Model>(mut calls: Vec<Call<M>>, steps_max: u64) -> Outcome<M> {
    M::settle(&mut calls);
    // An open call that changes nothing explains nothing.
    calls.retain(|call| call.end.is_some() || !M::is_pure(&call.input, call.output.as_ref()));
    calls.sort_by_key(|call| call.begin);
    let mut search = Search::new(&calls);
    let found = search.run(steps_max);
    Outcome { found, states: search.tried.len() as u64, steps: search.steps }
}

/// One call was placed; and which others could have been instead.
struct Frame<M: Model> {
    candidates: Vec<usize>,
    next: usize,
    /// What was placed last of the candidates, and the state before it.
    placed: Option<(usize, M::State)>,
}

struct Search<'a, M: Model> {
    calls: &'a [Call<M>],
    /// Unplaced calls that end.
    ending: Line,
    /// Unplaced calls that may be left out.
    open: Line,
    /// For each open call, the one before it that asks for the same.
    twins: Vec<Option<usize>>,
    is_placed: Vec<bool>,
    state: M::State,
    /// Stands for the set of placed calls: the numbers of all of them, added without carry.
    set: u128,
    answered: usize,
    path: Vec<Frame<M>>,
    tried: HashSet<u128>,
    steps: u64,
    best: Stuck<M>,
}

impl<'a, M: Model> Search<'a, M> {
    fn new(calls: &'a [Call<M>]) -> Self {
        Self {
            calls,
            ending: Line::new(calls.len(), |at| calls[at].end.is_some()),
            open: Line::new(calls.len(), |at| calls[at].end.is_none()),
            twins: twins(calls),
            is_placed: vec![false; calls.len()],
            state: M::State::default(),
            set: 0,
            answered: 0,
            path: Vec::new(),
            tried: HashSet::new(),
            steps: 0,
            best: Stuck { placed: Vec::new(), answered: 0, state: M::State::default() },
        }
    }

    fn run(&mut self, steps_max: u64) -> Found<M> {
        while !self.ending.is_empty() {
            let candidates = self.candidates();
            self.path.push(Frame { candidates, next: 0, placed: None });
            while !self.place_next() {
                self.path.pop();
                self.note_if_best();
                if !self.take_back() {
                    return Found::Nothing(self.best.clone());
                }
                if self.steps > steps_max {
                    return Found::GaveUp;
                }
            }
        }
        Found::Order
    }

    fn note_if_best(&mut self) {
        if self.answered < self.best.answered || self.answered == 0 {
            return;
        }
        let placed = self.path.iter().filter_map(|frame| frame.placed.as_ref());
        let placed: Vec<CallId> = placed.map(|(at, _)| self.calls[*at].id).collect();
        let is_shorter = placed.len() < self.best.placed.len();
        if self.answered > self.best.answered || is_shorter {
            self.best = Stuck { placed, answered: self.answered, state: self.state.clone() };
        }
    }

    /// The calls that may come next: no unplaced call ended before they began. Those that disturb
    /// nobody come first, then those that must be placed, the most urgent ahead.
    fn candidates(&self) -> Vec<usize> {
        let end = |at: usize| self.calls[at].end.unwrap_or(u64::MAX);
        let mut first_end = u64::MAX;
        let mut candidates = Vec::new();
        for at in self.ending.iter() {
            if self.calls[at].begin > first_end {
                break;
            }
            first_end = first_end.min(end(at));
            candidates.push(at);
        }
        candidates.sort_by_key(|at| (!self.is_pure(*at), end(*at)));
        let open = self.open.iter().take_while(|at| self.calls[*at].begin <= first_end);
        candidates.extend(open.filter(|at| self.is_first_of_its_kind(*at)));
        candidates
    }

    /// Of open calls that ask for the same, the one that began first does whatever another could.
    fn is_first_of_its_kind(&self, at: usize) -> bool {
        self.twins[at].is_none_or(|twin| self.is_placed[twin])
    }

    fn is_pure(&self, at: usize) -> bool {
        M::is_pure(&self.calls[at].input, self.calls[at].output.as_ref())
    }

    /// Places the next candidate of the newest frame that fits and leads somewhere new.
    fn place_next(&mut self) -> bool {
        let Some(mut frame) = self.path.pop() else { return false };
        while let Some(&at) = frame.candidates.get(frame.next) {
            frame.next += 1;
            let call = &self.calls[at];
            self.steps += 1;
            let Some(after) = M::step(&self.state, &call.input, call.output.as_ref()) else {
                continue;
            };
            if call.end.is_none() && after == self.state {
                continue; // The same as leaving it out for now.
            }
            if self.is_pure(at) {
                // It disturbs nobody, so wherever else it fits, it also fits here.
                frame.next = frame.candidates.len();
            } else if !self.tried.insert(fingerprint(self.set ^ number(at), &after)) {
                continue;
            }
            frame.placed = Some((at, std::mem::replace(&mut self.state, after)));
            self.path.push(frame);
            self.mark_placed(at);
            return true;
        }
        self.path.push(frame);
        false
    }

    fn mark_placed(&mut self, at: usize) {
        self.is_placed[at] = true;
        self.set ^= number(at);
        if self.calls[at].end.is_some() {
            self.answered += 1;
            self.ending.take_out(at);
        } else {
            self.open.take_out(at);
        }
    }

    /// Takes back what the newest frame placed. Returns whether there was one.
    fn take_back(&mut self) -> bool {
        let Some((at, before)) = self.path.last_mut().and_then(|frame| frame.placed.take()) else {
            return false;
        };
        self.state = before;
        self.is_placed[at] = false;
        self.set ^= number(at);
        if self.calls[at].end.is_some() {
            self.answered -= 1;
            self.ending.put_back(at);
        } else {
            self.open.put_back(at);
        }
        true
    }
}

fn twins<M: Model>(calls: &[Call<M>]) -> Vec<Option<usize>> {
    let mut kinds: Vec<usize> = Vec::new();
    let mut twins = vec![None; calls.len()];
    for (at, call) in calls.iter().enumerate().filter(|(_, call)| call.end.is_none()) {
        match kinds.iter_mut().find(|newest| calls[**newest].input == call.input) {
            Some(newest) => twins[at] = Some(std::mem::replace(newest, at)),
            None => kinds.push(at),
        }
    }
    twins
}

/// A number for a call that no sum of some others gives, but by chance (splitmix64, twice).
fn number(at: usize) -> u128 {
    let half = |seed: u64| {
        let mut mixed = (at as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ seed;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    };
    u128::from(half(0)) << 64 | u128::from(half(0x6a09_e667_f3bc_c909))
}

fn fingerprint<S: Hash>(set: u128, state: &S) -> u128 {
    let half = |salt: u8| {
        let mut hasher = DefaultHasher::new();
        (salt, set, state).hash(&mut hasher);
        hasher.finish()
    };
    u128::from(half(0)) << 64 | u128::from(half(1))
}
