//! One store under test, and what it should hold.

use raft_core::{LogStore, Write};

use super::{Figures, Harness, Rule, Violation};
use crate::conformance::{Model, persist};

pub(super) struct Bench<'a, H: Harness> {
    pub(super) harness: &'a H,
    pub(super) figures: &'a mut Figures,
    pub(super) medium: H::Medium,
    /// There is always one between two calls.
    store: Option<H::Store>,
    pub(super) model: Model,
    rule: Rule,
    seed: Option<u64>,
}

impl<'a, H: Harness> Bench<'a, H> {
    /// A new store. What goes wrong breaks `rule`, where nothing else is said.
    pub(super) fn new(
        harness: &'a H,
        figures: &'a mut Figures,
        rule: Rule,
        seed: Option<u64>,
    ) -> Result<Self, Violation> {
        let (medium, model) = (harness.medium(), Model::default());
        let mut bench = Self { harness, figures, medium, store: None, model, rule, seed };
        bench.open(Rule::FirstStart)?;
        Ok(bench)
    }

    pub(super) fn broken(&self, rule: Rule, found: impl Into<String>) -> Violation {
        Violation { rule, seed: self.seed, found: found.into() }
    }

    pub(super) fn store(&mut self) -> &mut H::Store {
        self.store.as_mut().expect("it is open between two calls")
    }

    /// Writes; that must work.
    pub(super) fn write(&mut self, writes: &[Write]) -> Result<(), Violation> {
        self.figures.calls += 1;
        writes.iter().for_each(|write| self.model.apply(write));
        let (harness, rule) = (self.harness, self.rule);
        let written = persist(harness, self.store(), writes);
        written.map_err(|error| self.broken(rule, format!("{writes:?} was refused: {error}")))
    }

    /// Every entry can be read, and is what it should be.
    pub(super) fn holds(&mut self) -> Result<(), Violation> {
        let (rule, saved) = (self.rule, self.model.saved());
        let found = Model::read(&saved, &self.store().reader());
        self.compare(rule, "read beside the writer", found)
    }

    /// Its process dies, and it is recovered.
    pub(super) fn restart(&mut self) -> Result<(), Violation> {
        self.kill();
        self.open(self.rule)
    }

    pub(super) fn kill(&mut self) {
        self.figures.restarts += 1;
        let store = self.store.take();
        self.harness.kill(store.expect("it is open between two calls"));
    }

    /// Takes the store away from the bench, which must [`open`](Self::open) it again.
    pub(super) fn take_store(&mut self) -> H::Store {
        self.figures.restarts += 1;
        self.store.take().expect("it is open between two calls")
    }

    /// Opens it: it must hold what it should.
    pub(super) fn open(&mut self, rule: Rule) -> Result<(), Violation> {
        let (store, found) = self.recover(rule, &self.medium)?;
        self.store = Some(store);
        self.compare(rule, "recovered", Ok(found))
    }

    /// The power is cut now, with some outcomes; each must hold what the store should hold.
    /// `false` where the harness can only kill: that was done instead.
    pub(super) fn cut_now(&mut self, rule: Rule, outcomes: u64) -> Result<bool, Violation> {
        let moment = self.harness.moments(&self.medium);
        for outcome in 0..outcomes {
            let Some(left) = self.harness.power_cut(&self.medium, moment, outcome) else {
                self.kill();
                self.open(rule)?;
                return Ok(false);
            };
            self.figures.power_cuts += 1;
            let (store, found) = self.recover(rule, &left)?;
            self.harness.kill(store);
            self.compare(rule, &format!("after a power cut with outcome {outcome}"), Ok(found))?;
        }
        Ok(true)
    }

    /// Opens what is on this medium, and reads it.
    pub(super) fn recover(
        &self,
        rule: Rule,
        medium: &H::Medium,
    ) -> Result<(H::Store, Model), Violation> {
        let failed = |error| self.broken(rule, format!("it cannot be recovered: {error}"));
        let (store, saved) = self.harness.open(medium).map_err(failed)?;
        if saved.claim.is_some() {
            return Err(self.broken(rule, format!("it claims to be damaged: {saved:?}")));
        }
        let found = Model::read(&saved, &store.reader()).map_err(failed)?;
        Ok((store, found))
    }

    fn compare(
        &self,
        rule: Rule,
        when: &str,
        found: Result<Model, String>,
    ) -> Result<(), Violation> {
        let found = found.map_err(|error| self.broken(rule, format!("{when}: {error}")))?;
        if found == self.model {
            return Ok(());
        }
        Err(self.broken(rule, format!("{when}: {}", difference(&found, &self.model))))
    }
}

/// The first thing in which what was found is not what was expected.
pub(super) fn difference(found: &Model, expected: &Model) -> String {
    let of = |model: &Model| (model.base, model.snapshot, model.last());
    if found.hard_state != expected.hard_state {
        return format!("{:?} instead of {:?}", found.hard_state, expected.hard_state);
    }
    if of(found) != of(expected) {
        let (found, expected) = (of(found), of(expected));
        return format!("base, snapshot and last index are {found:?} instead of {expected:?}");
    }
    let mut pairs = found.entries.iter().zip(&expected.entries);
    if let Some((found, expected)) = pairs.find(|(found, expected)| found != expected) {
        return format!("{} instead of {}", told(found), told(expected));
    }
    format!("the members are {:?} instead of {:?}", found.memberships, expected.memberships)
}

/// An entry in so many words.
fn told(entry: &raft_core::Entry) -> String {
    let text = format!("{entry:?}");
    match text.char_indices().nth(200) {
        Some((end, _)) => format!("{}... of {} bytes", &text[..end], entry.payload.len()),
        None => text,
    }
}
