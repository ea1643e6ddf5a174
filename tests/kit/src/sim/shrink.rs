//! Makes a plan that breaks a rule as short as it gets: fewer acts, then less time.

use super::Plan;
use super::run::{Violation, run};

/// How many runs a search may take.
const RUNS_MAX: u32 = 400;

/// The shortest plan that was found to break a rule too, and how it does.
pub fn shrink(plan: &Plan, violation: Violation) -> (Plan, Violation) {
    let mut search = Search { best: plan.clone(), violation, runs: 0 };
    // What comes after the end cannot be its cause.
    let end = search.violation.at.as_millis() as u64;
    search.try_out(|plan| plan.acts.retain(|(at, _)| *at <= end));
    search.drop_acts();
    search.shorten();
    search.drop_acts();
    (search.best, search.violation)
}

struct Search {
    best: Plan,
    violation: Violation,
    runs: u32,
}

impl Search {
    /// Keeps the change if a rule is still broken.
    fn try_out(&mut self, change: impl FnOnce(&mut Plan)) -> bool {
        let mut plan = self.best.clone();
        change(&mut plan);
        if plan == self.best || self.runs >= RUNS_MAX {
            return false;
        }
        self.runs += 1;
        let Err(violation) = run(&plan) else { return false };
        (self.best, self.violation) = (plan, violation);
        true
    }

    /// Delta debugging: leaves out ever smaller stretches of acts.
    fn drop_acts(&mut self) {
        let mut stretch = self.best.acts.len().div_ceil(2);
        while stretch > 0 {
            let mut at = 0;
            while at < self.best.acts.len() {
                let end = (at + stretch).min(self.best.acts.len());
                let dropped = self.try_out(|plan| drop(plan.acts.drain(at..end)));
                if !dropped {
                    at = end;
                }
            }
            stretch /= 2;
        }
    }

    /// The bad time ends earlier, and there are fewer clients.
    fn shorten(&mut self) {
        let last = self.best.acts.last().map_or(0, |(at, _)| *at);
        self.try_out(|plan| plan.settings.storm_ms = last);
        while self.best.settings.storm_ms > 100 && self.try_out(|plan| plan.settings.storm_ms /= 2)
        {
        }
        for clients in [1, 2] {
            if clients < self.best.settings.clients
                && self.try_out(|plan| plan.settings.clients = clients)
            {
                break;
            }
        }
    }
}
