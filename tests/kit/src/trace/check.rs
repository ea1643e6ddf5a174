//! Checks traces against the rules of the protocol, one function for each rule under `check/`.
//!
//! None of the rules needs the nodes' clocks to agree. What one node may do is judged by its own
//! trace alone: a leader counts what it has *received*, a promise rests on what is durable where
//! it is *sent*. What must be the same everywhere is compared wherever it turns up first.
//!
//! A trace may have holes. What a run did before its trace begins, or after a [`What::Gap`], is
//! not known, and nothing is concluded from it; what a node says to others counts all the same.

mod applying;
mod commits;
mod elections;
mod ledger;
mod log;
mod monotone;
mod node;
mod promises;

use std::collections::BTreeMap;
use std::fmt;

use super::{Line, Record, What};
use ledger::Ledger;
use node::Node;

/// What a whole trace came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Records.
    pub records: u64,
    /// Nodes.
    pub nodes: u64,
    /// Starts of nodes.
    pub starts: u64,
    /// Crashes, where the trace knows them.
    pub crashes: u64,
    /// Records that are known to be missing.
    pub missing: u64,
    /// From the first record to the last, in nanoseconds.
    pub nanos: u64,
    /// Elections that were won.
    pub elections: u64,
    /// The newest term.
    pub term: u64,
    /// Votes given to others.
    pub votes: u64,
    /// Acknowledgements of entries.
    pub accepts: u64,
    /// Entries written, on all nodes together.
    pub written: u64,
    /// The newest index that was committed.
    pub committed: u64,
    /// Entries applied, on all nodes together.
    pub applied: u64,
    /// Snapshots that took the place of a state.
    pub installed: u64,
    /// Messages sent.
    pub sent: u64,
    /// Messages received.
    pub received: u64,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.nanos as f64 / 1e9;
        let Self { records, nodes, starts, crashes, missing, elections, term, .. } = self;
        writeln!(f, "{records} records of {nodes} nodes over {seconds:.3} s")?;
        writeln!(f, "{starts} starts, {crashes} crashes noted, {missing} records missing")?;
        writeln!(f, "{elections} elections won, newest term {term}, {} votes given", self.votes)?;
        writeln!(
            f,
            "{} entries written, {} acknowledged, committed up to {}",
            self.written, self.accepts, self.committed
        )?;
        writeln!(f, "{} entries applied, {} snapshots installed", self.applied, self.installed)?;
        write!(f, "{} messages sent, {} received", self.sent, self.received)
    }
}

/// A rule was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The rule's name.
    pub rule: &'static str,
    /// What is wrong.
    pub what: String,
    /// The record that showed it.
    pub line: Line,
    /// That record.
    pub record: Box<Record>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rule {}: {}", self.rule, self.what)
    }
}

impl std::error::Error for Violation {}

/// What a rule says of a record.
type Verdict = Result<(), Broken>;

/// A rule's name, and what is wrong.
#[derive(Debug)]
struct Broken(&'static str, String);

/// Rejects unless `holds`.
fn demand(holds: bool, rule: &'static str, what: impl FnOnce() -> String) -> Verdict {
    if holds { Ok(()) } else { Err(Broken(rule, what())) }
}

/// Reads records and says when a rule is broken.
#[derive(Debug, Default)]
pub struct Checker {
    nodes: BTreeMap<u64, Node>,
    ledger: Ledger,
    figures: Figures,
    began_at: Option<u64>,
}

impl Checker {
    /// A checker that has seen nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// What was seen so far.
    pub fn figures(&self) -> Figures {
        self.figures
    }

    /// Takes the next record.
    ///
    /// # Errors
    /// When it breaks a rule. Nothing that comes later is worth checking.
    pub fn observe(&mut self, line: Line, record: &Record) -> Result<(), Violation> {
        self.count(record);
        let verdict = self.judge(line, record);
        self.figures.nodes = self.nodes.len() as u64;
        verdict.map_err(|Broken(rule, what)| Violation {
            rule,
            what,
            line,
            record: Box::new(record.clone()),
        })
    }

    fn count(&mut self, record: &Record) {
        let figures = &mut self.figures;
        let began_at = *self.began_at.get_or_insert(record.at);
        figures.records += 1;
        figures.nanos = figures.nanos.max(record.at.saturating_sub(began_at));
        match &record.what {
            What::Start(_) => figures.starts += 1,
            What::Crash => figures.crashes += 1,
            What::Gap { records } => figures.missing += records,
            What::Role { term, .. } => figures.term = figures.term.max(*term),
            What::Persist(write) => figures.written += write.entries.len() as u64,
            What::Commit { index } => figures.committed = figures.committed.max(*index),
            What::Apply { first, last } => figures.applied += (last + 1).saturating_sub(*first),
            What::Install { .. } => figures.installed += 1,
            What::Send { .. } => figures.sent += 1,
            What::Receive { .. } => figures.received += 1,
            _ => {} // Nothing to count.
        }
    }

    fn judge(&mut self, line: Line, record: &Record) -> Verdict {
        let (id, what) = (record.node, &record.what);
        let Self { nodes, ledger, figures, .. } = self;
        let node = nodes.entry(id).or_insert_with(|| Node::new(id));
        if what.is_event() {
            node.begin_step();
        }
        match what {
            What::Start(start) => {
                monotone::on_start(node, start)?;
                elections::on_start(ledger, node, start, line)?;
                node.start(start);
                commits::on_start(ledger, node)?;
            }
            What::Stop | What::Crash | What::Gap { .. } => node.lose_sight(),
            What::Receive { from, term, says } => node.on_receive(*from, *term, says),
            What::SnapshotReceived { last, .. } => node.on_told(last.1),
            What::Persisted { ticket } => {
                node.on_persisted(*ticket);
                elections::on_persisted(ledger, node, line)?;
            }
            What::Applied { index } => applying::on_applied(node, *index)?,
            What::Role { term, role, .. } => {
                monotone::on_role(node, *term)?;
                node.on_role(*term, *role);
                figures.elections += elections::on_role(ledger, node, *term, *role, line)?;
            }
            What::Members(members) => node.on_members(members),
            What::Persist(write) => {
                monotone::on_persist(node, write)?;
                elections::on_persist(node, write)?;
                log::on_persist(ledger, node, write)?;
                node.on_persist(write);
            }
            What::Commit { index } => {
                monotone::on_commit(node, *index)?;
                commits::on_commit(ledger, node, *index)?;
                node.commit = *index;
            }
            What::Send { to, term, says } => {
                figures.votes += elections::on_send(ledger, node, (*to, *term), says, line)?;
                figures.accepts += promises::on_send(node, (*to, *term), says)?;
            }
            What::Apply { first, last } => {
                applying::on_apply(node, *first, *last)?;
                node.applying = *last;
            }
            What::Install { last } => {
                applying::on_install(ledger, node, *last)?;
                node.applying = last.1;
            }
            _ => {} // No rule says anything about it.
        }
        Ok(())
    }
}
