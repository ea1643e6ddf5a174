//! A place to watch the core from: for oracles in simulations, and for traces.

use std::fmt;

use raft_core::{Effect, Event, Instant, Raft};

/// Sees every step of the core. It changes nothing, and is on the driver's path: it must be quick.
pub trait Observer: Send {
    /// This is about to happen to the core.
    fn on_event(&mut self, now: Instant, raft: &Raft, event: &Event);

    /// This is to be done now, and none of it is yet.
    fn on_effects(&mut self, now: Instant, raft: &Raft, effects: &[Effect]);
}

/// The observer of a driver, if there is one.
#[derive(Default)]
pub(super) struct Observed(pub(super) Option<Box<dyn Observer>>);

impl fmt::Debug for Observed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "observed" } else { "unobserved" })
    }
}
