//! Calls drawn as stretches of time, one line each.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::{Call, Model};

/// How many columns the time may take.
const COLUMNS_MAX: usize = 60;

/// One line for each call. Every start and end has a column of its own, so lengths mean nothing.
pub(super) fn picture<M: Model>(calls: &[Call<M>]) -> String {
    let times: BTreeSet<u64> =
        calls.iter().flat_map(|call| [Some(call.begin), call.end]).flatten().collect();
    let columns = |time: u64| times.range(..time).count();
    let wide = (COLUMNS_MAX / times.len().max(1)).clamp(1, 5);
    let width = times.len() * wide;
    let mut text = String::new();
    for call in calls {
        let begin = columns(call.begin) * wide;
        let end = call.end.map(|end| columns(end) * wide + wide.saturating_sub(2));
        let mut line = " ".repeat(begin);
        line.push('|');
        match end {
            Some(end) => {
                line.push_str(&"-".repeat(end.saturating_sub(begin + 1)));
                line.push('|');
            }
            None => {
                line.push_str(&"- ".repeat(width.saturating_sub(begin + 1) / 2));
            }
        }
        let output = match (&call.output, call.end) {
            (Some(output), _) => format!("{output:?}"),
            (None, Some(_)) => "done".into(),
            (None, None) => "no answer".into(),
        };
        let end = call.end.map_or_else(String::new, |end| end.to_string());
        let (client, input, begin) = (call.client, &call.input, call.begin);
        // A string takes any text.
        let _ = writeln!(
            text,
            "  client {client:<3} {line:<width$}  {input:?} → {output}  [{begin}, {end}]",
        );
    }
    text
}
