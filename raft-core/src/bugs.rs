//! Faults that can be put into the code on purpose, one at a time, to see whether the tests find
//! them. The shipped code has nothing of them: they exist only where the compiler is told
//!
//! ```text
//!   RUSTFLAGS='--cfg seeded_bugs' cargo run --release -p raft-testkit -- bugs
//! ```
//!
//! and elsewhere [`seeded!`](crate::seeded) is `false`. Each stands at the place of the rule that
//! it breaks, in this crate or in one above it.

/// Whether this fault is on: `false` in all shipped code.
#[cfg(not(seeded_bugs))]
#[macro_export]
macro_rules! seeded {
    ($bug:ident) => {
        $crate::bugs::never()
    };
}

/// No fault is ever on.
#[cfg(not(seeded_bugs))]
#[inline(always)]
pub const fn never() -> bool {
    false
}

/// Whether this fault is on.
#[cfg(seeded_bugs)]
#[macro_export]
macro_rules! seeded {
    ($bug:ident) => {
        $crate::bugs::is_on($crate::bugs::Bug::$bug)
    };
}

#[cfg(seeded_bugs)]
mod list;

#[cfg(seeded_bugs)]
pub use list::{Bug, Room};
#[cfg(seeded_bugs)]
pub use switch::{is_on, set};

#[cfg(seeded_bugs)]
mod switch {
    use core::sync::atomic::{AtomicU32, Ordering};

    use super::Bug;

    /// One more than the place of the fault that is on, or zero.
    static ON: AtomicU32 = AtomicU32::new(0);

    /// From now on this fault is on in the whole process, and no other.
    pub fn set(bug: Option<Bug>) {
        ON.store(bug.map_or(0, |bug| bug as u32 + 1), Ordering::SeqCst);
    }

    /// Whether it is.
    pub fn is_on(bug: Bug) -> bool {
        ON.load(Ordering::Relaxed) == bug as u32 + 1
    }
}
