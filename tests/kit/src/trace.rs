//! Traces: what nodes went through, simulated or real, written down as
//! [records](raft_driver::trace), one line of JSON each.
//!
//! ```text
//!   kontiki serve --trace FILE ─┐
//!   a simulated cluster ────────┼─▶ NDJSON ─▶ Reader ─▶ Checker: is a rule broken, and where?
//!   any driver with a Recorder ─┘                  └──▶ diagram: one page of HTML
//! ```
//! The checker knows the rules of the protocol and nothing of the code that is to follow them.

pub mod check;
pub mod diagram;
mod read;
mod words;

pub use check::{Checker, Figures, Violation};
pub use raft_driver::trace::{
    EntryMark, HardStateMark, MembersMark, Outcome, Persist, Position, Record, Recorder, Role, Run,
    Said, Sink, SnapshotNote, Start, VERSION, What,
};
pub use read::{Line, Merged, Unreadable, merge};
pub use words::InWords;

/// Writes records down, a line each.
pub fn to_lines<'a>(records: impl IntoIterator<Item = &'a Record>) -> String {
    let line = |record: &Record| {
        let mut line = serde_json::to_string(record).expect("a record is plain data");
        line.push('\n');
        line
    };
    records.into_iter().map(line).collect()
}
