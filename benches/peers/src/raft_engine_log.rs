//! The log of tikv's `raft-engine`, under the rules of `raft_benchkit::Journal` and tuned for it:
//! entries and hard state in one batch, written with one sync; files made and filled beforehand
//! (`prefill_for_recycle`), as ours are; no compression, since noise cannot be compressed.

use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use raft::eraftpb::{Entry, HardState};
use raft_benchkit::{Allocations, PAYLOAD_BYTES, Round, noise};
use raft_engine::{Config, Engine, LogBatch, MessageExt, ReadableSize};

const GROUP: u64 = 1;

/// An engine that gets batch after batch.
pub struct RaftEngineLog {
    engine: Engine,
    log_batch: LogBatch,
    batch: u64,
    payload: Bytes,
    last: u64,
}

struct Entries;

impl MessageExt for Entries {
    type Entry = Entry;
    fn index(entry: &Entry) -> u64 {
        entry.index
    }
}

impl RaftEngineLog {
    /// A new, empty log in a directory of its own, and how many entries to write at a time.
    pub fn new(dir: &Path, batch: usize) -> Self {
        let config = Config {
            dir: dir.to_str().expect("a path in UTF-8").to_owned(),
            batch_compression_threshold: ReadableSize(0),
            target_file_size: ReadableSize::mb(64),
            purge_threshold: ReadableSize::mb(256),
            prefill_for_recycle: true,
            prefill_limit: Some(ReadableSize::mb(256)),
            ..Config::default()
        };
        let engine = Engine::open(config).expect("an empty directory");
        let (log_batch, payload) = (LogBatch::with_capacity(16), noise(PAYLOAD_BYTES));
        Self { engine, log_batch, batch: batch as u64, payload, last: 0 }
    }

    /// Writes so many batches; a unit of the round is a batch.
    pub fn round(&mut self, batches: u64) -> Round {
        let (mut elapsed, mut allocations) = (Duration::ZERO, Allocations::default());
        for _ in 0..batches {
            let hard_state = HardState { term: 1, vote: 1, commit: self.last, ..HardState::new() };
            let entry =
                |index| Entry { term: 1, index, data: self.payload.clone(), ..Entry::new() };
            let entries: Vec<Entry> = (self.last + 1..=self.last + self.batch).map(entry).collect();
            self.last += self.batch;
            let (start, before) = (Instant::now(), Allocations::now());
            self.log_batch.add_entries::<Entries>(GROUP, &entries).expect("a batch has room");
            let key = b"hard state".to_vec();
            self.log_batch.put_message(GROUP, key, &hard_state).expect("a batch has room");
            self.engine.write(&mut self.log_batch, true).expect("the disk works");
            elapsed += start.elapsed();
            allocations = allocations + (Allocations::now() - before);
        }
        Round { units: batches, elapsed, allocations, copied_bytes: 0 }
    }
}
