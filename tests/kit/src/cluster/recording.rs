//! Writing down what happens to the nodes.

use raft_core::{Effect, Event, NodeId};
use raft_driver::Observer;
use raft_driver::trace::{Record, Recorder, Run, What};

use super::Cluster;

impl Cluster {
    pub(super) fn record_start(&mut self, id: NodeId) {
        let Some(sink) = self.sink.clone() else { return };
        let member = &self.members[&id];
        let run = Run { number: member.run(), disk: Some(member.disks), epoch_nanos: 0 };
        let mut recorder = Recorder::new(run, sink);
        recorder.start(self.clock, member.raft().expect("it has started"));
        self.recorders.insert(id, recorder);
    }

    pub(super) fn record_event(&mut self, id: NodeId, event: &Event) {
        let raft = self.members[&id].raft();
        if let (Some(recorder), Some(raft)) = (self.recorders.get_mut(&id), raft) {
            recorder.on_event(self.clock, raft, event);
        }
    }

    pub(super) fn record_effects(&mut self, id: NodeId, effects: &[Effect]) {
        let raft = self.members[&id].raft();
        if let (Some(recorder), Some(raft)) = (self.recorders.get_mut(&id), raft) {
            recorder.on_effects(self.clock, raft, effects);
        }
    }

    pub(super) fn record_crash(&self, id: NodeId) {
        if let Some(sink) = &self.sink {
            let (node, run) = (id.get(), self.members[&id].run());
            sink.take(Record { node, run, at: self.clock.0, what: What::Crash });
        }
    }
}
