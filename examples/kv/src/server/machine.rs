//! The store as the engine's state machine; the lessor learns what becomes of leases.

use std::io::Read;

use kontiki::{Entry, Index, StateMachine};

use super::lessor::Lessor;
use crate::store::{Response, Store, StoreError};

/// A store that is fed by the engine.
pub(super) struct Machine {
    pub(super) store: Store,
    pub(super) lessor: Lessor,
}

impl StateMachine for Machine {
    type Response = Response;
    type Error = StoreError;

    fn applied(&self) -> Index {
        self.store.applied()
    }

    fn durable(&self) -> Option<Index> {
        Some(self.store.durable_applied())
    }

    fn is_quick(&self, entries: &[Entry]) -> bool {
        self.store.is_quick(entries)
    }

    fn apply(
        &mut self,
        entries: &[Entry],
        responses: &mut Vec<Response>,
    ) -> Result<(), StoreError> {
        let before = responses.len();
        self.store.apply(entries, responses)?;
        let leases = responses[before..].iter().flatten().flat_map(|answer| answer.leases());
        let leases: Vec<i64> = leases.copied().collect();
        if !leases.is_empty() {
            self.lessor.learn(&leases);
        }
        Ok(())
    }

    fn snapshot(&self) -> Result<Box<dyn Read + Send>, StoreError> {
        self.store.snapshot()
    }

    fn restore(&mut self, applied: Index, state: &mut dyn Read) -> Result<(), StoreError> {
        self.store.restore(applied, state)
    }
}
