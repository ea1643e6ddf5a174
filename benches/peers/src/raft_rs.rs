//! The pump of tikv's `raft`, under the rules of `raft_benchkit::Pump` and tuned for it:
//! - `batch_append`, messages of up to 1 MiB, 256 of them in flight, no limit elsewhere; pre-vote
//!   and check-quorum on, as in ours.
//! - A proposal of many entries is one message, so their core handles it at once.
//! - The log is a plain deque that the core owns: no lock, no second copy (`MemStorage` has both).
//! - Entries are moved, not cloned, wherever their interface hands them out.
//! - Everything that waits for a node is stepped before its `Ready` is taken, and every `Ready` is
//!   persisted at once.

use std::collections::VecDeque;

use raft::eraftpb::{Entry, HardState, Message, MessageType, Snapshot};
use raft::{
    Config, Error, GetEntriesContext, RaftState, RawNode, StateRole, Storage, StorageError,
};
use raft_benchkit::{Applied, Payloads, Pump, Shape};

/// How the followers learn of the commit index, so that they apply. Which is the faster one is
/// for the measurement to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitNews {
    /// By empty appends as soon as it moves: their default.
    Appends,
    /// By a heartbeat that is asked for once the proposal is committed, with `skip_bcast_commit`.
    Heartbeats,
}

/// Three of their cores; the first one leads.
pub struct RaftRs {
    shape: Shape,
    news: CommitNews,
    payloads: Payloads,
    nodes: Vec<RawNode<Deque>>,
    inboxes: [VecDeque<Message>; 3],
}

impl RaftRs {
    /// Three cores, one of which has just been elected.
    pub fn new(shape: Shape, news: CommitNews) -> Self {
        let logger = slog::Logger::root(slog::Discard, slog::o!());
        let node = |id| {
            let config = Config {
                id,
                max_size_per_msg: 1 << 20,
                max_inflight_msgs: 256,
                batch_append: true,
                skip_bcast_commit: news == CommitNews::Heartbeats,
                check_quorum: true,
                pre_vote: true,
                ..Config::default()
            };
            RawNode::new(&config, Deque::new(shape), &logger).expect("the settings can work")
        };
        let nodes = [1, 2, 3].map(node).into();
        let (payloads, inboxes) = (Payloads::new(shape), Default::default());
        let mut cores = Self { shape, news, payloads, nodes, inboxes };
        cores.nodes[0].campaign().expect("a follower may stand");
        cores.run();
        assert_eq!(cores.nodes[0].raft.state, StateRole::Leader, "nobody stands in its way");
        cores
    }

    fn run(&mut self) {
        let mut idle = 0;
        while idle < 3 {
            for at in 0..3 {
                while let Some(message) = self.inboxes[at].pop_front() {
                    self.nodes[at].step(message).expect("a steady state has no errors");
                }
                idle += 1;
                if self.nodes[at].has_ready() {
                    self.on_ready(at);
                    idle = 0;
                }
            }
        }
    }

    fn on_ready(&mut self, at: usize) {
        let node = &mut self.nodes[at];
        let mut ready = node.ready();
        deliver(&mut self.inboxes, ready.take_messages());
        apply(&mut self.payloads, ready.take_committed_entries());
        let store = node.mut_store();
        store.append(ready.take_entries());
        if let Some(hard_state) = ready.hs() {
            store.hard_state = hard_state.clone();
        }
        deliver(&mut self.inboxes, ready.take_persisted_messages());

        let mut light = node.advance_append(ready);
        if let Some(commit) = light.commit_index() {
            node.mut_store().hard_state.commit = commit;
        }
        deliver(&mut self.inboxes, light.take_messages());
        apply(&mut self.payloads, light.take_committed_entries());
        node.advance_apply();
    }
}

fn deliver(inboxes: &mut [VecDeque<Message>; 3], messages: Vec<Message>) {
    for message in messages {
        inboxes[message.to as usize - 1].push_back(message);
    }
}

fn apply(payloads: &mut Payloads, entries: Vec<Entry>) {
    for entry in entries {
        payloads.apply(&entry.data);
    }
}

impl Pump for RaftRs {
    fn pump(&mut self) {
        let mut proposal = Message::default();
        proposal.set_msg_type(MessageType::MsgPropose);
        proposal.from = 1;
        let payloads = &self.payloads;
        let entry = |_| Entry { data: payloads.next(), ..Entry::default() };
        let entries: Vec<Entry> = (0..self.shape.entries).map(entry).collect();
        proposal.set_entries(entries.into());
        self.nodes[0].step(proposal).expect("the leader takes proposals");
        self.run();
        if self.news == CommitNews::Heartbeats {
            self.nodes[0].ping();
            self.run();
        }
        let last = self.nodes[0].store().last();
        let applied = |node: &RawNode<Deque>| node.raft.raft_log.applied == last;
        assert!(self.nodes.iter().all(applied), "all three have applied everything");
    }

    fn applied(&self) -> Applied {
        self.payloads.applied()
    }
}

/// The newest entries, at consecutive indexes after `base`.
struct Deque {
    kept: usize,
    base: (u64, u64),
    entries: VecDeque<Entry>,
    hard_state: HardState,
}

impl Deque {
    fn new(shape: Shape) -> Self {
        let (kept, hard_state) = (shape.kept_entries(), HardState::default());
        Self { kept, base: (0, 0), entries: VecDeque::new(), hard_state }
    }

    fn last(&self) -> u64 {
        self.base.0 + self.entries.len() as u64
    }

    fn append(&mut self, entries: Vec<Entry>) {
        let Some(first) = entries.first() else { return };
        assert_eq!(first.index, self.last() + 1, "a steady state has no conflicts");
        self.entries.extend(entries);
        while self.entries.len() > self.kept {
            let oldest = self.entries.pop_front().expect("not empty");
            self.base = (oldest.index, oldest.term);
        }
    }
}

impl Storage for Deque {
    fn initial_state(&self) -> raft::Result<RaftState> {
        Ok(RaftState::new(self.hard_state.clone(), (vec![1, 2, 3], vec![]).into()))
    }

    fn entries(
        &self,
        low: u64,
        high: u64,
        max_size: impl Into<Option<u64>>,
        _: GetEntriesContext,
    ) -> raft::Result<Vec<Entry>> {
        if low <= self.base.0 {
            return Err(Error::Store(StorageError::Compacted));
        }
        let place = |index: u64| (index - self.base.0 - 1) as usize;
        let mut entries = self.entries.range(place(low)..place(high)).cloned().collect();
        raft::util::limit_size(&mut entries, max_size.into());
        Ok(entries)
    }

    fn term(&self, index: u64) -> raft::Result<u64> {
        if index == self.base.0 {
            return Ok(self.base.1);
        }
        match index.checked_sub(self.base.0 + 1) {
            None => Err(Error::Store(StorageError::Compacted)),
            Some(place) => match self.entries.get(place as usize) {
                None => Err(Error::Store(StorageError::Unavailable)),
                Some(entry) => Ok(entry.term),
            },
        }
    }

    fn first_index(&self) -> raft::Result<u64> {
        Ok(self.base.0 + 1)
    }

    fn last_index(&self) -> raft::Result<u64> {
        Ok(self.last())
    }

    fn snapshot(&self, _: u64, _: u64) -> raft::Result<Snapshot> {
        Err(Error::Store(StorageError::SnapshotTemporarilyUnavailable))
    }
}
