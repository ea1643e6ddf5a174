//! The store as the engine's state machine.

use std::io::Read;

use kontiki::{Entry, Index, StateMachine};

use crate::store::{Response, Store, StoreError};

/// A store that is fed by the engine.
pub(super) struct Machine(pub(super) Store);

impl StateMachine for Machine {
    type Response = Response;
    type Error = StoreError;

    fn applied(&self) -> Index {
        self.0.applied()
    }

    fn durable(&self) -> Option<Index> {
        Some(self.0.durable_applied())
    }

    fn is_quick(&self, entries: &[Entry]) -> bool {
        self.0.is_quick(entries)
    }

    fn apply(
        &mut self,
        entries: &[Entry],
        responses: &mut Vec<Response>,
    ) -> Result<(), StoreError> {
        self.0.apply(entries, responses)
    }

    fn snapshot(&self) -> Result<Box<dyn Read + Send>, StoreError> {
        self.0.snapshot()
    }

    fn restore(&mut self, applied: Index, state: &mut dyn Read) -> Result<(), StoreError> {
        self.0.restore(applied, state)
    }
}
