//! Looks for a fault: how many seeds does it take until some rule is seen broken? Only whether a
//! seed panics is asked, so every oracle and every assertion of the code itself takes part.

use std::any::Any;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// Something that searches, seed by seed, and panics where a rule is broken.
#[derive(Clone, Copy, Debug)]
pub struct Harness {
    /// Its name.
    pub name: &'static str,
    /// Runs one seed.
    pub run: fn(u64),
}

/// A rule was seen broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The seed, which is the first that shows it.
    pub seed: u64,
    /// The words in which it was said.
    pub words: String,
}

/// Runs the seeds from 0 on, `seeds_max` of them, on so many threads. The result does not depend
/// on the threads: it is the first seed that breaks something.
pub fn hunt(harness: Harness, seeds_max: u64, jobs: u64) -> Option<Found> {
    let (first, found) = (AtomicU64::new(seeds_max), Mutex::new(Vec::new()));
    let search = |job: u64| {
        for seed in (job..seeds_max).step_by(jobs as usize) {
            if seed > first.load(Ordering::SeqCst) {
                return;
            }
            let Err(cause) = panic::catch_unwind(AssertUnwindSafe(|| (harness.run)(seed))) else {
                continue;
            };
            first.fetch_min(seed, Ordering::SeqCst);
            let words = words(&*cause);
            found.lock().expect("nobody panics here").push(Found { seed, words });
            return;
        }
    };
    thread::scope(|scope| {
        for job in 0..jobs {
            let search = &search;
            scope.spawn(move || search(job));
        }
    });
    let found = found.into_inner().expect("nobody panics here");
    found.into_iter().min_by_key(|found| found.seed)
}

/// What a panic says.
pub fn words(cause: &(dyn Any + Send)) -> String {
    let text = cause.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| cause.downcast_ref::<&str>().copied());
    text.unwrap_or("a panic without words").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_seed_that_breaks_something_is_found_on_any_number_of_threads() {
        fn breaks_at_eleven(seed: u64) {
            assert!(seed < 11, "seed {seed} is too much");
        }
        let harness = Harness { name: "eleven", run: breaks_at_eleven };
        for jobs in [1, 2, 7, 40] {
            let found = hunt(harness, 30, jobs);
            assert_eq!(found, Some(Found { seed: 11, words: "seed 11 is too much".into() }));
        }
        assert_eq!(hunt(harness, 11, 2), None);
    }
}
