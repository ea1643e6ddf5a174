//! Random runs: what a node might write, restarts, and cuts at every moment.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::bench::{Bench, difference};
use super::{Figures, Harness, Rule, Violation};
use crate::conformance::Model;

const STEPS: usize = 24;
/// How many outcomes of a power cut are tried, when a call has returned and at each moment.
const OUTCOMES_AFTER: u64 = 2;
const OUTCOMES_WITHIN: u64 = 2;

/// A call, and the moments at which it was under way.
struct Call {
    begun: usize,
    returned: usize,
    /// The logs before it and after each of its writes.
    stages: Vec<Model>,
}

pub(super) fn check<H: Harness>(
    harness: &H,
    seed: u64,
    figures: &mut Figures,
) -> Result<(), Violation> {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let mut bench = Bench::new(harness, figures, Rule::Durable, Some(seed))?;
    let (mut calls, mut can_cut) = (Vec::new(), true);
    for _ in 0..STEPS {
        let (begun, before) = (harness.moments(&bench.medium), bench.model.clone());
        let writes = bench.model.clone().step(&mut random);
        bench.write(&writes)?;
        let returned = harness.moments(&bench.medium);
        calls.push(Call { begun, returned, stages: before.stages(&writes) });
        bench.holds()?;
        can_cut = can_cut && bench.cut_now(Rule::Durable, OUTCOMES_AFTER)?;
        if random.random_range(0..6) == 0 {
            bench.restart()?;
        }
    }
    bench.restart()?;
    let moments = harness.moments(&bench.medium);
    if !can_cut || moments == 0 {
        bench.figures.left_out.insert(Rule::Atomic);
    }
    if !can_cut {
        bench.figures.left_out.insert(Rule::Durable);
        return Ok(());
    }
    for moment in calls[0].begun..moments {
        for outcome in 0..OUTCOMES_WITHIN {
            cut(&mut bench, &calls, moment, outcome * 1000 + moment as u64)?;
        }
    }
    Ok(())
}

/// Cuts the power at a moment of the past.
fn cut<H: Harness>(
    bench: &mut Bench<'_, H>,
    calls: &[Call],
    moment: usize,
    outcome: u64,
) -> Result<(), Violation> {
    let Some(left) = bench.harness.power_cut(&bench.medium, moment, outcome) else {
        return Ok(());
    };
    bench.figures.power_cuts += 2;
    let (store, found) = bench.recover(Rule::Durable, &left)?;
    bench.harness.kill(store);
    let newest = calls.iter().rposition(|call| call.begun <= moment).unwrap_or(0);
    let call = &calls[newest];
    // A call that has returned is there; of one that is under way, any number of its writes.
    let allowed = match moment < call.returned {
        true => &call.stages[..],
        false => &call.stages[call.stages.len() - 1..],
    };
    if !allowed.contains(&found) {
        let mut older = calls[..=newest].iter().flat_map(|call| &call.stages);
        let rule = if older.any(|old| *old == found) { Rule::Durable } else { Rule::Atomic };
        let place = format!("call {newest}, moment {moment}, outcome {outcome}");
        let difference = difference(&found, &allowed[0]);
        return Err(bench.broken(rule, format!("{place}: {difference}, or a later state")));
    }
    let (store, again) = bench.recover(Rule::RecoveredTwice, &left)?;
    bench.harness.kill(store);
    if again != found {
        let difference = difference(&again, &found);
        return Err(bench.broken(Rule::RecoveredTwice, difference));
    }
    Ok(())
}
