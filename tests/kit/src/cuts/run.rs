//! One seed: a long trace and a short one, and all their cuts.

use raft_core::LogStore;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::{Figures, OUTCOMES_MAX};
use crate::conformance::log_store::Harness;
use crate::conformance::wal::WalOnSimDisk;
use crate::conformance::{Model, persist};
use crate::disk::{Image, SimDisk};

const LONG_STEPS: usize = 16;
const SHORT_STEPS: usize = 3;
/// How many outcomes are tried at a moment that has too many: two of each mode of the disk.
const SAMPLES: u64 = 14;

/// A run of a log, and what it should hold at which operation.
struct Trace {
    disk: SimDisk,
    /// The log after each call, from the operation on at which the call returned.
    calls: Vec<(usize, Model)>,
}

impl Trace {
    fn new(disk: SimDisk, model: Model) -> Self {
        Self { calls: vec![(disk.operations(), model)], disk }
    }

    /// What may be found after a cut before this operation.
    fn candidates(&self, moment: usize) -> &[(usize, Model)] {
        let acknowledged = self.calls.iter().rposition(|(returned, _)| *returned <= moment);
        let first = acknowledged.unwrap_or(0);
        &self.calls[first..self.calls.len().min(first + 2)]
    }

    /// Whether this may be found, or what is wrong with it.
    fn check(&self, moment: usize, found: &Model) -> Result<(), String> {
        let candidates = self.candidates(moment);
        if candidates.iter().any(|(_, model)| model == found) {
            return Ok(());
        }
        let acknowledged = &candidates[0].1;
        if let Some(old) = self.calls.iter().position(|(_, model)| model == found) {
            let now = self.calls.iter().position(|(_, model)| model == acknowledged);
            return Err(match now {
                Some(now) if old < now => {
                    format!("it is as after call {old}, and call {now} was acknowledged")
                }
                _ => format!("it is as after call {old}, which was not begun"),
            });
        }
        Err(format!("no call ever left this: {found:#?}\nit should be one of {candidates:#?}"))
    }
}

/// All cuts of one seed.
pub(super) struct Search {
    seed: u64,
    figures: Figures,
    random: Pcg64Mcg,
    place: String,
}

impl Search {
    pub(super) fn new(seed: u64) -> Self {
        let random = Pcg64Mcg::seed_from_u64(seed);
        Self { seed, figures: Figures::default(), random, place: "before any cut".to_owned() }
    }

    pub(super) fn figures(&self) -> &Figures {
        &self.figures
    }

    /// Where it is.
    pub(super) fn place(&self) -> String {
        format!("seed {}, {}", self.seed, self.place)
    }

    pub(super) fn all(&mut self) -> Result<(), String> {
        self.long()?;
        self.short()
    }

    fn long(&mut self) -> Result<(), String> {
        let trace = self.trace(LONG_STEPS)?;
        for (moment, image) in moments(&trace) {
            self.figures.moments += 1;
            for outcome in 0..SAMPLES / 2 {
                let outcome = outcome + 7 * moment as u64;
                self.place = format!("long trace, moment {moment}, outcome {outcome}");
                let (disk, found) = self.cut(&trace, moment, image.after_power_cut(outcome))?;
                self.go_on(disk, found, outcome)?;
            }
        }
        Ok(())
    }

    fn short(&mut self) -> Result<(), String> {
        let trace = self.trace(SHORT_STEPS)?;
        for (moment, image) in moments(&trace) {
            self.figures.moments += 1;
            let outcomes = image.outcomes();
            let count = outcomes.count().filter(|count| *count <= OUTCOMES_MAX);
            for outcome in 0..count.unwrap_or(SAMPLES) {
                self.place = format!("short trace, moment {moment}, outcome {outcome}");
                let left = match count {
                    Some(_) => outcomes.nth(outcome),
                    None => image.after_power_cut(outcome),
                };
                self.cut(&trace, moment, left)?;
            }
            match count {
                Some(count) => {
                    self.figures.exhaustive_moments += 1;
                    self.figures.exhaustive_cuts += count;
                }
                None => self.figures.sampled_moments += 1,
            }
        }
        Ok(())
    }

    /// Writes at random, and reopens the log now and then.
    fn trace(&mut self, steps: usize) -> Result<Trace, String> {
        self.figures.traces += 1;
        let (disk, mut model) = (WalOnSimDisk.medium(), Model::default());
        let (mut wal, _) = WalOnSimDisk.open(&disk)?;
        let mut trace = Trace::new(disk.clone(), model.clone());
        for _ in 0..steps {
            if self.random.random_range(0..8) == 0 {
                match self.random.random() {
                    true => drop(wal),
                    false => wal.close().map_err(|error| error.to_string())?,
                }
                wal = WalOnSimDisk::recover(&disk)?.0;
            }
            let writes = model.step(&mut self.random);
            persist(&WalOnSimDisk, &mut wal, &writes).map_err(|error| error.to_string())?;
            trace.calls.push((disk.operations(), model.clone()));
            self.figures.calls += 1;
        }
        Ok(trace)
    }

    /// Recovers what is left, and compares it; cuts the power in the middle of that recovery, and
    /// recovers again.
    fn cut(
        &mut self,
        trace: &Trace,
        moment: usize,
        left: Image,
    ) -> Result<(SimDisk, Model), String> {
        self.figures.cuts += 1;
        let disk = SimDisk::from_image(left);
        disk.keep_history();
        let found = recover(&disk)?;
        trace.check(moment, &found)?;
        let operations = disk.operations();
        if recover(&disk)? != found {
            return Err("a second recovery gives something else".to_owned());
        }
        // A later moment of the recovery each time, until all of them had their turn.
        let inner = self.figures.cuts as usize % (operations + 1);
        let seed = self.random.random();
        let image = disk.image_before(inner).expect("the history is kept");
        self.figures.cuts += 1;
        self.figures.recovery_cuts += 1;
        let again = recover(&SimDisk::from_image(image.after_power_cut(seed)))?;
        if again != found {
            return Err(format!(
                "a cut at moment {inner} of the recovery leaves {again:#?}\nafter {found:#?}"
            ));
        }
        Ok((disk, found))
    }

    /// The log goes on after a cut, and the power is cut again.
    fn go_on(&mut self, disk: SimDisk, mut model: Model, outcome: u64) -> Result<(), String> {
        let (mut wal, _) = WalOnSimDisk::recover(&disk)?;
        let first = disk.operations();
        let mut trace = Trace::new(disk, model.clone());
        for _ in 0..self.random.random_range(0..3) {
            let writes = model.step(&mut self.random);
            persist(&WalOnSimDisk, &mut wal, &writes).map_err(|error| error.to_string())?;
            trace.calls.push((trace.disk.operations(), model.clone()));
        }
        drop(wal);
        let moment = self.random.random_range(first..=trace.disk.operations());
        self.place = format!("{}, then moment {moment}", self.place);
        self.figures.cuts += 1;
        let image = trace.disk.image_before(moment).expect("the history is kept");
        let found = recover(&SimDisk::from_image(image.after_power_cut(outcome / 7)))?;
        trace.check(moment, &found)
    }
}

/// The moments of a trace from the creation of its log on, and what the disk holds at each.
fn moments(trace: &Trace) -> impl Iterator<Item = (usize, Image)> {
    let history = trace.disk.history();
    history.into_iter().enumerate().skip(trace.calls[0].0)
}

fn recover(disk: &SimDisk) -> Result<Model, String> {
    let (wal, saved) = WalOnSimDisk::recover(disk)?;
    Model::read(&saved, &wal.reader())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::writes::{command, entries};

    /// Three calls, which return at the operations 10, 20 and 30.
    fn trace() -> Trace {
        let mut trace = Trace::new(SimDisk::new(), Model::default());
        for call in 1..=3 {
            let mut model = trace.calls[call - 1].1.clone();
            model.apply(&entries([command(call as u64, 1, b"x")]));
            trace.calls.push((call * 10, model));
        }
        trace
    }

    #[test]
    fn what_was_acknowledged_is_there_and_the_next_call_may_be() {
        let trace = trace();
        let holds = |moment, calls: usize| trace.check(moment, &trace.calls[calls].1).is_ok();
        for (moment, allowed) in
            [(0, [0, 1]), (9, [0, 1]), (10, [1, 2]), (29, [2, 3]), (30, [3, 3])]
        {
            for calls in 0..4 {
                assert_eq!(holds(moment, calls), allowed.contains(&calls), "{moment}, {calls}");
            }
        }
    }

    #[test]
    fn it_is_said_what_is_wrong() {
        let trace = trace();
        let wrong = |moment, model: &Model| trace.check(moment, model).expect_err("wrong");
        let lost = wrong(20, &trace.calls[1].1);
        assert_eq!(lost, "it is as after call 1, and call 2 was acknowledged");
        let early = wrong(5, &trace.calls[2].1);
        assert_eq!(early, "it is as after call 2, which was not begun");
        let mut invented = trace.calls[2].1.clone();
        invented.hard_state.commit = raft_core::Index(1);
        assert!(wrong(20, &invented).starts_with("no call ever left this"));
    }
}
