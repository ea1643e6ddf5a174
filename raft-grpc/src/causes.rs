//! Says each trouble once, and again only after a while: not at every retry.

use std::time::{Duration, Instant};

const REPEAT_AFTER: Duration = Duration::from_secs(60);
const REMEMBERED_MAX: usize = 32;

/// The troubles said lately.
#[derive(Debug, Default)]
pub(crate) struct Causes {
    said: Vec<(String, Instant)>,
}

impl Causes {
    /// Whether `cause` is to be said at `now`; notes that it was.
    pub(crate) fn is_news(&mut self, cause: &str, now: Instant) -> bool {
        self.said.retain(|(_, at)| now.duration_since(*at) < REPEAT_AFTER);
        if self.said.iter().any(|(said, _)| said == cause) {
            return false;
        }
        // A sender of ever new causes cannot grow this, nor flood the log.
        if self.said.len() >= REMEMBERED_MAX {
            return false;
        }
        self.said.push((cause.to_owned(), now));
        true
    }

    /// All is well again: the next trouble is news.
    pub(crate) fn clear(&mut self) {
        self.said.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_news_once_a_minute_and_the_memory_is_bounded() {
        let (mut causes, start) = (Causes::default(), Instant::now());
        assert!(causes.is_news("refused", start));
        assert!(!causes.is_news("refused", start + REPEAT_AFTER / 2));
        assert!(causes.is_news("lost", start + REPEAT_AFTER / 2));
        assert!(causes.is_news("refused", start + REPEAT_AFTER));

        let news = (0..1000).filter(|n| causes.is_news(&n.to_string(), start)).count();
        assert!(news <= REMEMBERED_MAX);
        causes.clear();
        assert!(causes.is_news("refused", start + REPEAT_AFTER));
    }
}
