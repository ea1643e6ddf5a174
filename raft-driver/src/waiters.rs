//! Who waits for which request. Requests are numbered upwards, so finding one is an offset.

use std::collections::VecDeque;

use raft_core::{RequestId, Requests};

/// Waiters by request. Each is taken out exactly once.
#[derive(Debug)]
pub(crate) struct Waiters<W> {
    first: RequestId,
    slots: VecDeque<Option<W>>,
}

impl<W> Waiters<W> {
    pub(crate) fn new() -> Self {
        Self { first: RequestId(1), slots: VecDeque::new() }
    }

    /// Numbers these waiters.
    pub(crate) fn add(&mut self, waiters: impl IntoIterator<Item = W>) -> Requests {
        let first = RequestId(self.first.0 + self.slots.len() as u64);
        let before = self.slots.len();
        self.slots.extend(waiters.into_iter().map(Some));
        Requests { first, count: (self.slots.len() - before) as u64 }
    }

    /// Takes out those of `requests` that still wait, each with its offset among them.
    pub(crate) fn take(&mut self, requests: Requests, mut take: impl FnMut(u64, W)) {
        for offset in 0..requests.count {
            let at = (requests.first.0 + offset).checked_sub(self.first.0);
            let slot = at.and_then(|at| self.slots.get_mut(at as usize));
            if let Some(waiter) = slot.and_then(Option::take) {
                take(offset, waiter);
            }
        }
        while let Some(None) = self.slots.front() {
            self.slots.pop_front();
            self.first = self.first.next();
        }
    }

    /// Whether nobody waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// The oldest request that has not ended, or the next one to come.
    pub(crate) fn oldest(&self) -> RequestId {
        self.first
    }

    /// Takes out everybody.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = W> + '_ {
        self.first = RequestId(self.first.0 + self.slots.len() as u64);
        self.slots.drain(..).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_taken_once_and_nobody_is_mixed_up() {
        let mut waiters = Waiters::new();
        let first = waiters.add(["a", "b", "c"]);
        let second = waiters.add(["d"]);
        let mut taken = Vec::new();
        waiters.take(second, |offset, who| taken.push((offset, who)));
        waiters.take(first, |offset, who| taken.push((offset, who)));
        waiters.take(first, |offset, who| taken.push((offset, who)));
        assert_eq!(taken, [(0, "d"), (0, "a"), (1, "b"), (2, "c")]);
        assert!(waiters.slots.is_empty(), "nothing is kept of those that ended");
        assert_eq!(waiters.add(["e"]).first, second.end(), "no number is given twice");
    }
}
