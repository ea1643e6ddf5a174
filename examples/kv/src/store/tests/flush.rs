//! When changes become durable.

use std::time::{Duration, Instant};

use super::{Fixture, eager};
use crate::store::Options;

/// A lot that is full is frozen and begins to be written. What was applied since is not in it, and
/// is written as well before a flush returns: not only when changes are due by their age.
#[test]
fn a_flush_writes_what_came_after_a_lot_that_was_being_written() {
    let (late, most) = (Duration::from_secs(60), Duration::from_secs(30));
    let options = Options { flush_bytes: 1 << 10, flush_interval: late, ..eager() };
    let mut fixture = Fixture::new(options);
    for round in 0..20 {
        fixture.put("a", &"long".repeat(400));
        fixture.put("b", "short");
        let began = Instant::now();
        fixture.store().flush().expect("the store works");
        assert!(began.elapsed() < most, "round {round}: it has waited until changes were old");
        assert_eq!(fixture.store().durable_applied(), fixture.store().applied());
    }
}
