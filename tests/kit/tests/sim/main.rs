//! The simulator itself: one seed is one history, what is broken goes red, and what goes red is
//! made short.

mod broken;
mod seeds;
