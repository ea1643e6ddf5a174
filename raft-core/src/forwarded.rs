//! What its followers have handed on to the leader of a term, as far as copies must be told from
//! what is new. It outlives the leadership: who leads no more takes nothing for that term ever
//! again, so it can refuse what it has surely not taken.

use alloc::collections::BTreeMap;

use crate::{NodeId, RequestId, Requests, Term, seeded};

/// The requests taken, or refused, in one term.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Forwarded {
    term: Term,
    /// Behind the newest request of each peer in each of its runs.
    newest: BTreeMap<(NodeId, u64), RequestId>,
}

impl Forwarded {
    /// This node leads `term` now.
    pub(crate) fn begin(&mut self, term: Term) {
        self.term = term;
        self.newest.clear();
    }

    /// Whether these requests, meant for the leader of `term`, have come for the first time to
    /// one who led it; notes that they have. Those that a later one has overtaken count as copies.
    pub(crate) fn is_new(
        &mut self,
        term: Term,
        peer: NodeId,
        session: u64,
        requests: Requests,
    ) -> bool {
        if term != self.term {
            return false;
        }
        let newest = self.newest.entry((peer, session)).or_insert(RequestId::ZERO);
        let is_new = requests.first >= *newest || seeded!(CopyTakenTwice);
        *newest = requests.end().max(*newest);
        is_new
    }
}
