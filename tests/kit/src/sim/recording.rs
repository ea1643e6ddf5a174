//! Writing down what happens to the nodes, if anybody wants to know.

use std::collections::BTreeMap;

use raft_core::{Effect, Event, Instant, NodeId, Raft};
use raft_driver::Observer as _;
use raft_driver::trace::{Record, Recorder, Run, Sink, What};

/// Where all is recorded, and which runs of nodes there are.
#[derive(Default)]
pub(super) struct Recording {
    sink: Option<Sink>,
    runs: BTreeMap<NodeId, Run>,
    recorders: BTreeMap<NodeId, Recorder>,
}

impl Recording {
    /// From now on.
    pub(super) fn begin(&mut self, sink: Sink) {
        self.sink = Some(sink);
    }

    pub(super) fn on_launch(&mut self, id: NodeId, number: u64, disk: u64) {
        self.runs.insert(id, Run { number, disk: Some(disk), epoch_nanos: 0 });
    }

    pub(super) fn on_event(&mut self, id: NodeId, now: Instant, raft: &Raft, event: &Event) {
        let (Some(sink), Some(run)) = (&self.sink, self.runs.get(&id)) else { return };
        let new = || Recorder::new(*run, sink.clone());
        self.recorders.entry(id).or_insert_with(new).on_event(now, raft, event);
    }

    pub(super) fn on_effects(&mut self, id: NodeId, now: Instant, raft: &Raft, of: &[Effect]) {
        if let Some(recorder) = self.recorders.get_mut(&id) {
            recorder.on_effects(now, raft, of);
        }
    }

    /// The run is over. The first word counts.
    pub(super) fn on_end(&mut self, id: NodeId, now: Instant, what: What) {
        if let (Some(sink), Some(_)) = (&self.sink, self.recorders.remove(&id)) {
            let run = self.runs.get(&id).map_or(0, |run| run.number);
            sink.take(Record { node: id.get(), run, at: now.0, what });
        }
    }
}
