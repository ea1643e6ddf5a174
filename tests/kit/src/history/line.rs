//! Calls in the order in which they began, some of them taken out for now: taking out and putting
//! back costs the same however many there are (Knuth's dancing links).

/// Numbers in a fixed order.
///
/// Invariant: what was taken out last is put back first.
pub(super) struct Line {
    /// The last place is the head of the ring.
    next: Vec<usize>,
    previous: Vec<usize>,
    len: usize,
}

impl Line {
    /// A line of those of `0..count` that `belongs` to it, ascending.
    pub(super) fn new(count: usize, belongs: impl Fn(usize) -> bool) -> Self {
        let (mut next, mut previous) = (vec![count; count + 1], vec![count; count + 1]);
        let (mut last, mut len) = (count, 0);
        for at in (0..count).filter(|at| belongs(*at)) {
            (next[last], previous[at]) = (at, last);
            (last, len) = (at, len + 1);
        }
        (next[last], previous[count]) = (count, last);
        Self { next, previous, len }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = usize> {
        let head = self.next.len() - 1;
        std::iter::successors(Some(self.next[head]), |at| Some(self.next[*at]))
            .take_while(move |at| *at != head)
    }

    pub(super) fn take_out(&mut self, at: usize) {
        let (before, after) = (self.previous[at], self.next[at]);
        (self.next[before], self.previous[after]) = (after, before);
        self.len -= 1;
    }

    pub(super) fn put_back(&mut self, at: usize) {
        let (before, after) = (self.previous[at], self.next[at]);
        (self.next[before], self.previous[after]) = (at, at);
        self.len += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_taken_out_comes_back_to_its_place() {
        let mut line = Line::new(6, |at| at != 3);
        let all = |line: &Line| line.iter().collect::<Vec<_>>();
        assert_eq!(all(&line), [0, 1, 2, 4, 5]);
        for at in [2, 0, 4, 5, 1] {
            line.take_out(at);
        }
        assert!(line.is_empty() && all(&line).is_empty());
        line.put_back(1);
        line.put_back(5);
        assert_eq!(all(&line), [1, 5]);
        line.put_back(4);
        assert_eq!(all(&line), [1, 4, 5]);
    }
}
