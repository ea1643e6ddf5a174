//! Something is wrong on purpose, and must be found.

use std::io::{Cursor, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use raft_core::{Entry, Index, Payload};
use raft_driver::StateMachine;
use raft_testkit::sim::{self, Cluster, Faults, Plan, Violation};

/// What is wrong with a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flaw {
    None,
    /// Its state depends on something that only one node knows.
    Nondeterministic,
    /// A snapshot does not hold all of it.
    Forgetful,
    /// It says that it has applied less than it has.
    Modest,
}

/// Counts commands.
struct Count {
    count: u64,
    hidden: u64,
    applied: Index,
    flaw: Flaw,
    chance: Arc<AtomicU64>,
}

impl StateMachine for Count {
    type Response = u64;
    type Error = std::io::Error;

    fn applied(&self) -> Index {
        if self.flaw == Flaw::Modest { Index(self.applied.0 / 2) } else { self.applied }
    }

    fn apply(&mut self, entries: &[Entry], counts: &mut Vec<u64>) -> Result<(), Self::Error> {
        for entry in entries {
            self.applied = entry.index;
            if let Payload::Command(_) = entry.payload {
                self.count += 1;
                self.hidden += 1;
                if self.flaw == Flaw::Nondeterministic {
                    self.hidden += self.chance.fetch_add(1, Ordering::Relaxed);
                }
                counts.push(self.count);
            }
        }
        Ok(())
    }

    fn snapshot(&self) -> Result<Box<dyn Read + Send>, Self::Error> {
        let mut bytes = self.count.to_le_bytes().to_vec();
        bytes.extend_from_slice(&self.hidden.to_le_bytes());
        Ok(Box::new(Cursor::new(bytes)))
    }

    fn restore(&mut self, applied: Index, state: &mut dyn Read) -> Result<(), Self::Error> {
        let (mut count, mut hidden) = ([0; 8], [0; 8]);
        state.read_exact(&mut count)?;
        state.read_exact(&mut hidden)?;
        (self.count, self.applied) = (u64::from_le_bytes(count), applied);
        self.hidden = if self.flaw == Flaw::Forgetful { 0 } else { u64::from_le_bytes(hidden) };
        Ok(())
    }
}

fn run(seed: u64, flaw: Flaw) -> Result<sim::Report, Violation> {
    let chance = Arc::new(AtomicU64::new(0));
    let make = move || {
        let (applied, chance) = (Index::ZERO, Arc::clone(&chance));
        Count { count: 0, hidden: 0, applied, flaw, chance }
    };
    Cluster::new(seed, make).with_commands(|_| "one more".into()).run()
}

fn found(flaw: Flaw) -> String {
    let violation = (1..20).find_map(|seed| run(seed, flaw).err());
    violation.expect("it is found within twenty seeds").reason
}

#[test]
fn a_machine_that_is_right_is_called_right() {
    for seed in 1..4 {
        let report = run(seed, Flaw::None).expect("nothing is wrong with it");
        assert!(report.compared > 10, "{report:?}");
    }
}

#[test]
fn a_machine_that_is_not_deterministic_is_found() {
    let reason = found(Flaw::Nondeterministic);
    assert!(reason.starts_with("equal state at equal index: at index"), "{reason}");
}

#[test]
fn a_snapshot_that_lacks_something_is_found() {
    let reason = found(Flaw::Forgetful);
    assert!(reason.starts_with("equal state at equal index: at index"), "{reason}");
}

#[test]
fn a_machine_that_does_not_know_what_it_has_applied_is_found() {
    let reason = found(Flaw::Modest);
    assert!(reason.contains("the machine of"), "{reason}");
}

fn lying(seed: u64) -> Plan {
    let faults = Faults::named("power,crash").expect("there are such faults");
    let mut plan = sim::plan(seed, &faults, Some(3));
    (plan.settings.lying_disk, plan.settings.storm_ms) = (true, 6000);
    plan.acts.retain(|(at, _)| *at <= 6000);
    plan
}

#[test]
fn a_disk_that_lies_about_syncs_is_found_and_the_plan_becomes_short() {
    let broken = (1..20).find_map(|seed| {
        let plan = lying(seed);
        let violation = sim::run(&plan).err()?;
        (plan.acts.len() > 10).then_some((plan, violation))
    });
    let (plan, violation) = broken.expect("it is found within twenty seeds");
    let (short, violation) = sim::shrink(&plan, violation);
    assert!(violation.reason.starts_with("durability: "), "{violation}");
    assert!(short.acts.len() <= 3, "{short}");
    let again: Plan = short.to_string().parse().expect("a plan is its text");
    assert_eq!(sim::run(&again), Err(violation));
}
