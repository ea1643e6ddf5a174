//! Adapters in memory that are careless in one way at a time: the suites must say in which.

use std::fmt::{Debug, Display};

pub mod log;
pub mod network;
pub mod snapshots;

/// Whoever is careless must be told of exactly the rule that it breaks.
pub fn must_break<Fault: Copy + Debug, Rule: Display>(
    broken: impl IntoIterator<Item = (Fault, Rule)>,
    check: impl Fn(Fault) -> Result<(), String>,
) {
    let wrong = broken.into_iter().filter_map(|(fault, rule)| match check(fault) {
        Ok(()) => Some(format!("{fault:?} passes")),
        Err(told) if told.starts_with(&format!("broken rule: {rule}\n")) => None,
        Err(told) => Some(format!("{fault:?} is no case of: {told}")),
    });
    let wrong: Vec<String> = wrong.collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
