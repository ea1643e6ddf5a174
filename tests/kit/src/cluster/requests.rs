//! What callers ask a node for.

use bytes::Bytes;
use raft_core::{ChangeSet, Entries, Event, NodeId, RequestId, Requests};

use super::Cluster;

/// What callers ask for.
impl Cluster {
    /// Proposes these payloads at a node; `None` while it is down.
    pub fn propose<P: Into<Bytes>>(
        &mut self,
        id: NodeId,
        payloads: impl IntoIterator<Item = P>,
    ) -> Option<Requests> {
        let payloads: Vec<Bytes> = payloads.into_iter().map(Into::into).collect();
        let requests = self.number(id, payloads.len() as u64)?;
        self.oracles.on_propose(id, self.clock, requests, &payloads);
        self.tell(id, Event::Propose { requests, entries: Entries::proposal(payloads) });
        Some(requests)
    }

    /// Asks for a linearizable read at a node; `None` while it is down.
    pub fn read(&mut self, id: NodeId) -> Option<Requests> {
        let requests = self.number(id, 1)?;
        self.oracles.on_read(id, self.clock, requests);
        self.tell(id, Event::Read { requests, lease: false });
        Some(requests)
    }

    /// Asks for a read under the lease at a node; `None` while it is down.
    pub fn lease_read(&mut self, id: NodeId) -> Option<Requests> {
        let requests = self.number(id, 1)?;
        self.oracles.on_read(id, self.clock, requests);
        self.tell(id, Event::Read { requests, lease: true });
        Some(requests)
    }

    /// Asks a node to change the members; `None` while it is down.
    pub fn change(&mut self, id: NodeId, set: ChangeSet) -> Option<RequestId> {
        let requests = self.number(id, 1)?;
        self.oracles.on_change(id, self.clock, requests);
        let request = requests.first;
        self.tell(id, Event::ChangeMembership { request, set });
        Some(request)
    }

    /// Asks a node to hand leadership over; `None` while it is down.
    pub fn transfer(&mut self, id: NodeId, to: Option<NodeId>) -> Option<RequestId> {
        let requests = self.number(id, 1)?;
        self.oracles.on_transfer(id, self.clock, requests);
        let request = requests.first;
        self.tell(id, Event::TransferLeadership { request, to });
        Some(request)
    }

    fn number(&mut self, id: NodeId, count: u64) -> Option<Requests> {
        let member = self.get_mut(id);
        member.raft.as_ref()?;
        let first = RequestId(member.next_request);
        member.next_request += count;
        Some(Requests { first, count })
    }
}
