//! **Linearizable reads** (Raft §8, thesis §6.4): a read sees everything that was committed
//! anywhere before it was asked.

use std::collections::BTreeMap;

use raft_core::{Effect, Index, NodeId, RequestId, Requests};

use super::{Seen, Step};

#[derive(Clone, Debug, Default)]
pub struct Oracle {
    /// What each open read must see.
    floors: BTreeMap<(NodeId, RequestId), Index>,
}

impl Oracle {
    pub(super) fn on_read(&mut self, id: NodeId, requests: Requests, floor: Index) {
        for request in requests.first.0..requests.end().0 {
            self.floors.insert((id, RequestId(request)), floor);
        }
    }

    pub(super) fn on_crash(&mut self, id: NodeId) {
        self.floors.retain(|(node, _), _| *node != id);
    }

    pub(super) fn observe(&mut self, step: &Step<'_, impl Seen>) {
        for effect in step.effects {
            let &Effect::ReadReady { requests, index, .. } = effect else { continue };
            for request in requests.first.0..requests.end().0 {
                let floor = self.floors.remove(&(step.id, RequestId(request)));
                let floor = floor.expect("only what was asked is answered");
                assert!(
                    index >= floor,
                    "a stale read at {:?}: {index:?}, but {floor:?} was committed before",
                    step.id
                );
            }
        }
    }
}
