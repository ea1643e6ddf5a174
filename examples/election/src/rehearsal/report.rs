//! What a rehearsal came to: the table of failovers, and the rules of the database.

use std::fmt::Write as _;
use std::time::Duration;

use kontiki_election::protected::Work;

use super::budget::Blow;

/// What one failure came to.
pub(crate) struct Row {
    pub(crate) blow: Blow,
    pub(crate) budget: Duration,
    pub(crate) pause: Duration,
    pub(crate) refused: u64,
}

/// The table, a line for each failure.
pub(crate) fn table(rows: &[Row]) -> String {
    let mut table = String::new();
    // Writing to a String cannot fail.
    let _ = writeln!(
        table,
        "{:<46} {:>11} {:>10} {:>22}",
        "failure", "predicted", "measured", "stale writes rejected"
    );
    for row in rows {
        let _ = writeln!(
            table,
            "{:<46} {:>11} {:>10} {:>22}",
            row.blow.title(),
            predicted(row.budget),
            format!("{:.2} s", row.pause.as_secs_f64()),
            row.refused
        );
    }
    table
}

fn predicted(budget: Duration) -> String {
    if budget.is_zero() { "none".to_owned() } else { format!("≤ {:.1} s", budget.as_secs_f64()) }
}

/// What is wrong with the whole log, in words.
pub(crate) fn broken_rules(log: &[Work]) -> Vec<String> {
    let mut broken = Vec::new();
    for (number, work) in (1..).zip(log) {
        if work.sequence != number {
            broken.push(format!("item {number} is missing: {} follows", work.sequence));
            break;
        }
        if work.request != format!("item {number}") {
            broken.push(format!("in the place of item {number} stands {:?}", work.request));
        }
    }
    for pair in log.windows(2) {
        let (before, after) = (&pair[0], &pair[1]);
        if after.token < before.token {
            let (token, sequence) = (after.token, after.sequence);
            broken.push(format!("item {sequence} has token {token} after {}", before.token));
        }
        if after.token == before.token && after.writer != before.writer {
            let (one, other) = (&before.writer, &after.writer);
            broken.push(format!("{one} and {other} both worked with token {}", after.token));
        }
    }
    broken
}

/// The longest time without work from `first` on.
pub(crate) fn longest_pause(log: &[Work]) -> Duration {
    log.windows(2).map(|pair| pair[1].at.since(pair[0].at)).max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kontiki_election::Token;
    use kontiki_election::clock::Moment;

    fn work(sequence: u64, writer: &str, token: u64) -> Work {
        let request = format!("item {sequence}");
        let at = Moment::from_micros(sequence * 1000);
        Work { sequence, request, writer: writer.to_owned(), token: Token(token), at }
    }

    #[test]
    fn a_good_log_breaks_no_rule() {
        let log = [work(1, "a", 3), work(2, "a", 3), work(3, "b", 5)];
        assert_eq!(broken_rules(&log), Vec::<String>::new());
        assert_eq!(longest_pause(&log), Duration::from_millis(1));
    }

    #[test]
    fn each_rule_is_seen_broken() {
        let hole = [work(1, "a", 3), work(3, "a", 3)];
        assert_eq!(broken_rules(&hole), ["item 2 is missing: 3 follows"]);
        let ghost = [Work { request: "ghost".to_owned(), ..work(1, "a", 3) }];
        assert_eq!(broken_rules(&ghost), ["in the place of item 1 stands \"ghost\""]);
        let stale = [work(1, "a", 5), work(2, "b", 3)];
        assert_eq!(broken_rules(&stale), ["item 2 has token 3 after 5"]);
        let two = [work(1, "a", 5), work(2, "b", 5)];
        assert_eq!(broken_rules(&two), ["a and b both worked with token 5"]);
    }
}
