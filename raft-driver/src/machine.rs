//! What a user of the engine writes: the state machine.

use std::fmt::Display;
use std::io::Read;

use raft_core::{Entry, Index};

/// A deterministic state machine. Every replica applies the same commands in the same order
/// and must come to the same state: no clock, no randomness, nothing that only one node knows.
///
/// The engine calls it from one thread at a time. Readers share the state with it in a way of
/// the user's choice; `Node::read` tells them when they may look.
pub trait StateMachine: Send + 'static {
    /// What a command answers to the one who proposed it.
    type Response: Send + 'static;
    /// What can go wrong in storing the state. It stops the node.
    type Error: Display;

    /// The index of the last entry whose effects are in the state; zero for a new one. Asked
    /// once, at the start: the engine applies what comes after.
    fn applied(&self) -> Index;

    /// Up to where the state survives a crash by itself. `None` for one that lives in memory:
    /// then snapshots are written from time to time, so that the log can be cut. With an index,
    /// the log is cut up to there, and a snapshot is written only for a node that needs one.
    fn durable(&self) -> Option<Index> {
        None
    }

    /// Whether these entries, which come next, can be applied in a few microseconds, without
    /// waiting for a disk or for readers. Then the engine may apply them between two messages
    /// rather than on the thread of its own, which saves the way there and back. Never by
    /// default; a wrong yes holds up heartbeats.
    fn is_quick(&self, entries: &[Entry]) -> bool {
        let _ = entries;
        false
    }

    /// Applies consecutive committed entries, and adds to `responses` one for each
    /// [`Command`](raft_core::Payload::Command) among them, in order. Entries without a command
    /// change nothing but the applied index.
    ///
    /// A state that survives a restart keeps the index of the last entry in the same
    /// transaction as the effects. It need not be synced: the log brings back what was lost.
    ///
    /// # Errors
    /// The state cannot be stored. The node stops, and nobody is told that the entries were
    /// applied.
    fn apply(
        &mut self,
        entries: &[Entry],
        responses: &mut Vec<Self::Response>,
    ) -> Result<(), Self::Error>;

    /// The state as it is now, as bytes that [`restore`](Self::restore) takes. It is read on
    /// another thread while entries are applied, and must not change by that. Making it must be
    /// quick, however large the state is; reading it may take its time.
    ///
    /// # Errors
    /// The state cannot be read. No snapshot is taken; the engine asks again later.
    fn snapshot(&self) -> Result<Box<dyn Read + Send>, Self::Error>;

    /// Replaces the whole state by that of a snapshot, which holds the effects of all entries up
    /// to `applied`. Ends with the state replaced and [`applied`](Self::applied) at that index,
    /// or, also after a crash in the middle, with an `applied` that is lower: it is done again
    /// then.
    ///
    /// # Errors
    /// The bytes cannot be read or make no sense, or the state cannot be stored. The node stops.
    fn restore(&mut self, applied: Index, state: &mut dyn Read) -> Result<(), Self::Error>;
}

/// A command that was applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Applied<R> {
    /// Where it stands in the log.
    pub index: Index,
    /// What the state machine answered.
    pub response: R,
}
