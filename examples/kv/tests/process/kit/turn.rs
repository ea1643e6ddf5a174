//! Tests with clusters take turns: three nodes keep two cores busy, and nodes that wait for a core
//! look like nodes that fail.

use std::cell::OnceCell;
use std::sync::{Condvar, Mutex};
use std::thread::available_parallelism;

/// How many cores one test with a cluster needs.
const CORES: usize = 2;

/// How many tests run.
static RUNNING: Mutex<usize> = Mutex::new(0);
static FREED: Condvar = Condvar::new();

thread_local! {
    /// The turn of the test that this thread runs; it ends with the thread.
    static MINE: OnceCell<Turn> = const { OnceCell::new() };
}

struct Turn;

impl Drop for Turn {
    fn drop(&mut self) {
        *RUNNING.lock().expect("nobody panics with it") -= 1;
        FREED.notify_one();
    }
}

/// Waits until this test may start clusters, as many as it likes.
pub(crate) fn take() {
    MINE.with(|mine| {
        mine.get_or_init(|| {
            let at_once = (available_parallelism().map_or(1, usize::from) / CORES).max(1);
            let running = RUNNING.lock().expect("nobody panics with it");
            let free = FREED.wait_while(running, |running| *running >= at_once);
            *free.expect("nobody panics with it") += 1;
            Turn
        });
    });
}
