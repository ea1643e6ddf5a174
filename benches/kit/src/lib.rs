//! What the benches share, so that we and a rival run under the same rules in one process.
//!
//! Everything is measured in short rounds that take turns: the machine is noisy, and only ratios
//! within one run mean anything.

mod allocations;
mod cores;
mod journal;
mod pump;
mod rounds;
mod table;

pub use allocations::{Allocations, Counting};
pub use cores::Cores;
pub use journal::{BATCHES, Journal, PAYLOAD_BYTES, RawFile, noise};
pub use pump::{Applied, Payloads, Pump, SHAPES, Shape};
pub use rounds::{Effort, Figures, Round, interleave};
pub use table::Table;
