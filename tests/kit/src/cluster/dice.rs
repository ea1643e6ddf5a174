//! The only source of chance in a cluster: one seed, one history.

use core::time::Duration;

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg32;

/// Seeded dice.
#[derive(Clone, Debug)]
pub struct Dice(Pcg32);

impl Dice {
    /// Dice that always fall the same way for `seed`.
    pub fn new(seed: u64) -> Self {
        Self(Pcg32::seed_from_u64(seed))
    }

    /// Any number.
    pub fn any(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number below `end`; zero where `end` is zero.
    pub fn below(&mut self, end: u64) -> u64 {
        self.any() % end.max(1)
    }

    /// Whether something happens that happens `per_mille` times in a thousand.
    pub fn chance(&mut self, per_mille: u64) -> bool {
        per_mille > 0 && self.below(1000) < per_mille
    }

    /// One of `choices`.
    ///
    /// # Panics
    /// When there is none.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }

    /// A time from `span.0` to `span.1`.
    pub fn within(&mut self, (least, most): (Duration, Duration)) -> Duration {
        let spread = most.saturating_sub(least).as_nanos() as u64;
        if spread == 0 { least } else { least + Duration::from_nanos(self.below(spread + 1)) }
    }
}
