//! What a suite needs to know of a log store: how to open it, and what can be done to its medium.

use raft_core::{LogPosition, LogStore, Saved, Snapshot};

/// How the suite reaches a store. Only what has no default has to be written; what a medium
/// cannot do is said, and the rules that need it are left out and [listed](super::Figures).
pub trait Harness {
    /// The store.
    type Store: LogStore;
    /// What it is kept on: a directory, a simulated disk.
    type Medium;

    /// An empty one.
    fn medium(&self) -> Self::Medium;

    /// Opens the store of node 1: makes it for the [founders](crate::conformance::writes::founders)
    /// where there is none, and recovers it where there is one. [`Saved::applied`] is zero.
    ///
    /// # Errors
    /// Why that cannot be done.
    fn open(&self, medium: &Self::Medium) -> Result<(Self::Store, Saved), String>;

    /// Ends the store as the death of its process does.
    fn kill(&self, store: Self::Store) {
        drop(store);
    }

    /// How many moments have passed at which the power could have been cut: on a simulated disk,
    /// one before each operation. None where that is not known: then it is cut between calls.
    fn moments(&self, medium: &Self::Medium) -> usize {
        let _ = medium;
        0
    }

    /// What a power cut at this moment leaves, decided by the seed; at the last of them, a cut
    /// now. `None` where that cannot be simulated: then processes die instead.
    fn power_cut(&self, medium: &Self::Medium, moment: usize, seed: u64) -> Option<Self::Medium> {
        let _ = (medium, moment, seed);
        None
    }

    /// Lets the next operation of this kind fail; `false` where that cannot be simulated.
    fn fail_next(&self, medium: &Self::Medium, failure: Failure) -> bool {
        let _ = (medium, failure);
        false
    }

    /// Tries to open the store as somebody to whom it does not belong, and gives what came of it;
    /// `None` where a store does not know that.
    fn open_as(&self, medium: &Self::Medium, stranger: Stranger) -> Option<Result<(), String>> {
        let _ = (medium, stranger);
        None
    }

    /// Makes a snapshot durable, as a node does before it marks it, where the store looks for it.
    fn publish(&self, store: &Self::Store, snapshot: &Snapshot) {
        let _ = (store, snapshot);
    }

    /// Lets go of the snapshots before `last`, as a node does once the mark is durable.
    fn retain(&self, store: &Self::Store, last: LogPosition) {
        let _ = (store, last);
    }
}

/// What can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// A write.
    Write,
    /// What makes writes durable.
    Sync,
}

/// Somebody to whom a store does not belong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stranger {
    /// A node of the same number in another cluster.
    OtherCluster,
    /// Another node of the same cluster.
    OtherNode,
    /// The same node, which expects another disk.
    OtherDisk,
}
