//! Model checking of the shipped core: within stated bounds, everything that can happen happens.
//!
//! What runs is [`raft_core::Raft`] itself, and not a model of it. A state is the whole group:
//! every node with its disk and its state machine, every message that was sent, and a record of
//! what happened for good. The search goes breadth first from a first state through all acts:
//!
//! ```text
//!   a packet arrives            any that was ever sent, at any time, any number of times
//!   patience ends               at any node at any time; a leader's heartbeat is due
//!   much time passes            at a node, and its timer has not fired yet
//!   a write takes time          it ends late, and is reported later than what comes meanwhile
//!   a node crashes and starts   of the writes under way, any part from the beginning survives
//!   a log is damaged            its end is gone, and the node knows how much there was
//!   somebody asks               for an entry, a read, a change of the members, another leader
//!   a snapshot is taken         and sent, and installed, or lost on its way
//! ```
//!
//! Every state is judged: one leader a term, one vote a term for life, logs that match, leaders
//! that hold what was committed, commits by counting only in the own term and only of what is
//! durable on a majority, promises that are durable before they leave, entries applied in order
//! and once, reads that see all that was committed before them, one change of the members at a
//! time, every request ended once and truly; and the core's own invariants. A broken rule is told
//! as a shortest story, one line for each act ([`Violation`]).
//!
//! # What is abstracted, and why nothing is lost by it
//!
//! - **Loss and repetition.** Packets stay in the network. One that is lost is one that never
//!   arrives; one that is repeated arrives again. A node that is down for long is one to which
//!   nothing arrives: so a crash and the start after it are one act.
//! - **Time.** The core compares times only with timeouts. Clocks here move by a heartbeat, or by
//!   more than the longest timeout, whenever it matters; how long exactly, no state shows. The
//!   fingerprint of a state says of every instant in it whether it is past or not.
//! - **Write and sync.** Between asking for a write and hearing that it is durable, a crash leaves
//!   any part of what is under way: so whether the disk had it already needs no act of its own.
//! - **Names.** States that differ only in the names of the nodes are one, where nobody is named.
//!   Measured on `elections`: 238,727 states instead of 1,431,484, and the same depth.
//! - **Dead packets.** A packet that can never do anything again, as an answer of a term that its
//!   receiver has left for good, is taken out of the network.
//! - **Counters.** Of tickets only the order counts, and which of them are durable.
//!
//! # What is not covered
//!
//! What the bounds leave out, and: leases and disks that stall for so long that a leader yields
//! (both are about lengths of time), proposals that followers hand on, entries that are loaded
//! from storage while other things happen, and state machines that apply slowly. The simulators
//! go through these, at random.
//!
//! # Why a search of our own
//!
//! The core is run once for each pair of a node's state and an act; after that, a state of the
//! group is 56 bytes of numbers, and one that was seen is 8 bytes of fingerprint and 8 of origin.
//! Measured on three nodes and two or three terms, on one thread: 250,000 new states a second of
//! processor time and 110 bytes a state with everything around them; `stateright` 0.31, over the
//! same core with one property instead of all, made 72,000 and held 5,500 bytes a state.
//! The fingerprints have 64 bits: with a hundred million states, the chance that any two of them
//! coincide, and one of the two is missed, is less than one in three thousand.

mod act;
mod bounds;
mod configurations;
mod intern;
mod local;
mod names;
mod network;
mod record;
mod rules;
mod search;
mod space;
mod story;
mod text;

pub use bounds::{Bounds, Disks, Opening};
pub use configurations::{Configuration, Size, configurations};
pub use search::{Figures, Violation};

/// Explores everything within `bounds`, but no more than `states_max` states.
///
/// ```
/// use raft_testkit::model::{Bounds, check};
///
/// // Three nodes, one term, one entry.
/// let bounds = Bounds { term_max: 1, last_max: 1, ..Bounds::default() };
/// let figures = check(&bounds, 100_000).expect("no rule is broken");
/// assert!(figures.is_exhausted && figures.states > 10);
/// ```
///
/// # Errors
/// The first rule that was seen broken, and a shortest way there.
pub fn check(bounds: &Bounds, states_max: u64) -> Result<Figures, Box<Violation>> {
    search::search(bounds, states_max, |_| {})
}

/// As [`check`]; `watch` is told the figures after every act more.
///
/// # Errors
/// The first rule that was seen broken, and a shortest way there.
pub fn check_watched(
    bounds: &Bounds,
    states_max: u64,
    watch: impl FnMut(&Figures),
) -> Result<Figures, Box<Violation>> {
    search::search(bounds, states_max, watch)
}

/// Looks for a broken rule in all searches, the small ones first, with no more than `states_max`
/// states together.
///
/// # Errors
/// The first rule that was seen broken, and after how many states.
pub fn hunt(states_max: u64) -> Result<Figures, Box<Violation>> {
    let mut all = Figures { is_exhausted: true, ..Figures::default() };
    for configuration in configurations() {
        let left = states_max.saturating_sub(all.states);
        if left == 0 {
            all.is_exhausted = false;
            break;
        }
        match check(&configuration.bounds, left) {
            Ok(figures) => all = all.and(figures),
            Err(mut violation) => {
                violation.states += all.states;
                violation.rule = format!("{}: {}", configuration.name, violation.rule);
                return Err(violation);
            }
        }
    }
    Ok(all)
}
