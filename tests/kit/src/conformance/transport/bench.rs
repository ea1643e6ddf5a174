//! Some ends, and the steps that the rules are made of.

use raft_core::{Envelope, Lane};

use super::messages::{is_probe, number, numbered, probes};
use super::{Figures, Harness, Rule, Violation, Who};
use crate::conformance::writes::node;

pub(super) const CLUSTER: u64 = 7;

pub(super) struct Bench<'a, H: Harness> {
    pub(super) harness: &'a H,
    pub(super) figures: &'a mut Figures,
    pub(super) rule: Rule,
}

impl<H: Harness> Bench<'_, H> {
    pub(super) fn broken(&self, rule: Rule, found: impl Into<String>) -> Violation {
        Violation { rule, seed: None, found: found.into() }
    }

    /// Starts a node where it belongs.
    pub(super) fn start(&self, id: u64) -> Result<H::End, Violation> {
        let who = Who { cluster: CLUSTER, node: node(id) };
        let end = self.harness.start(node(id), who);
        end.ok_or_else(|| self.broken(self.rule, format!("node {id} cannot be started")))
    }

    pub(super) fn stop(&self, ends: impl IntoIterator<Item = H::End>) {
        ends.into_iter().for_each(|end| self.harness.stop(end));
    }

    pub(super) fn send(&mut self, end: &H::End, messages: &[Envelope]) -> Result<(), Violation> {
        self.figures.sent += messages.len() as u64;
        let mut handed = messages.to_vec();
        self.harness.transport(end).send(&mut handed);
        match handed.len() {
            0 => Ok(()),
            left => Err(self.broken(Rule::TakesAll, format!("{left} messages were left"))),
        }
    }

    /// Waits for `count` messages that must come, as long as patience.
    pub(super) fn expected(&mut self, end: &mut H::End, count: usize) -> Vec<Envelope> {
        let (harness, mut all) = (self.harness, Vec::new());
        harness.until(&mut || {
            let more = harness.take(end, count - all.len());
            all.extend(more.into_iter().filter(|envelope| !is_probe(envelope)));
            all.len() >= count
        });
        self.figures.arrived += all.len() as u64;
        all
    }

    /// Waits until `count` have arrived, or no more come: for what need not come.
    pub(super) fn arrived(&mut self, end: &mut H::End, count: usize) -> Vec<Envelope> {
        let mut all = Vec::new();
        while all.len() < count {
            let more = self.harness.take(end, count - all.len());
            if more.is_empty() {
                break;
            }
            all.extend(more.into_iter().filter(|envelope| !is_probe(envelope)));
        }
        self.figures.arrived += all.len() as u64;
        all
    }

    /// Waits until there is a way from one to the other on both lanes; `rule` is broken if there
    /// is none.
    pub(super) fn meet(
        &mut self,
        rule: Rule,
        source: (u64, &H::End),
        target: (u64, &mut H::End),
    ) -> Result<(), Violation> {
        let (harness, probes) = (self.harness, probes(source.0, target.0));
        let transport = harness.transport(source.1);
        let (mut lanes, mut left) = ([false; 2], 0);
        let met = harness.until(&mut || {
            transport.is_reachable(node(target.0)) && {
                let mut handed = probes.clone();
                transport.send(&mut handed);
                left += handed.len();
                for found in harness.take(target.1, probes.len()) {
                    lanes[usize::from(found.message.lane() == Lane::Bulk)] |= is_probe(&found);
                }
                lanes == [true; 2]
            }
        });
        // What is still under way of them.
        self.arrived(target.1, 1);
        if left > 0 {
            return Err(self.broken(Rule::TakesAll, format!("{left} messages were left")));
        }
        if met {
            return Ok(());
        }
        let text = format!("node {} does not reach node {}", source.0, target.0);
        Err(self.broken(rule, text))
    }

    /// Two nodes that reach each other.
    pub(super) fn pair(&mut self) -> Result<(H::End, H::End), Violation> {
        let (mut first, mut second) = (self.start(1)?, self.start(2)?);
        self.meet(Rule::Arrives, (1, &first), (2, &mut second))?;
        self.meet(Rule::Arrives, (2, &second), (1, &mut first))?;
        Ok((first, second))
    }

    /// A few messages one way, all of which must arrive.
    pub(super) fn talk(
        &mut self,
        rule: Rule,
        source: (u64, &H::End),
        target: (u64, &mut H::End),
        first: u64,
    ) -> Result<(), Violation> {
        let sent: Vec<_> = [Lane::Control, Lane::Bulk]
            .into_iter()
            .flat_map(|lane| (first..first + 10).map(move |it| (lane, it)))
            .map(|(lane, it)| numbered(source.0, target.0, lane, it))
            .collect();
        self.send(source.1, &sent)?;
        let found = self.expected(target.1, sent.len());
        for envelope in &sent {
            if !found.contains(envelope) {
                let text = format!("{envelope:?} did not arrive, but {found:?}");
                return Err(self.broken(rule, text));
            }
        }
        self.in_order(&found, &sent)
    }

    /// What was found on each lane are messages that were sent, in their order.
    pub(super) fn in_order(&self, found: &[Envelope], sent: &[Envelope]) -> Result<(), Violation> {
        for lane in [Lane::Control, Lane::Bulk] {
            let mut newest = 0;
            for envelope in found.iter().filter(|it| it.message.lane() == lane) {
                if !sent.contains(envelope) {
                    let text = format!("{envelope:?} was never sent");
                    return Err(self.broken(Rule::AsSent, text));
                }
                let number = number(envelope).unwrap_or(newest);
                if number < newest {
                    let text = format!("{number} comes after {newest} on the lane {lane:?}");
                    return Err(self.broken(Rule::Order, text));
                }
                newest = number;
            }
        }
        Ok(())
    }
}
