//! Logs on a disk: batches of entries, each made durable by one sync.
//!
//! Every batch carries a new commit index beside its entries, as a core asks for. It is made
//! outside the measurement; payloads are noise, so that nobody gains by compressing them.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use raft_core::{Entry, HardState, Index, LogStore, NodeId, Payload, Term, Ticket, Write};

use crate::{Allocations, Round};

/// The payload of an entry in a log, in bytes.
pub const PAYLOAD_BYTES: usize = 256;

/// The batch sizes that are measured, in entries.
pub const BATCHES: [usize; 3] = [1, 16, 256];

/// Bytes without a pattern, the same in every run.
pub fn noise(bytes: usize) -> Bytes {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let byte = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    };
    (0..bytes).map(byte).collect()
}

/// A store that gets batch after batch.
#[derive(Debug)]
pub struct Journal<S> {
    store: S,
    batch: usize,
    payload: Bytes,
    last: Index,
    ticket: Ticket,
}

impl<S: LogStore> Journal<S> {
    /// A new, empty store, and how many entries to write at a time.
    pub fn new(store: S, batch: usize) -> Self {
        let payload = noise(PAYLOAD_BYTES);
        Self { store, batch, payload, last: Index::ZERO, ticket: Ticket::ZERO }
    }

    /// Writes so many batches; a unit of the round is a batch.
    pub fn round(&mut self, batches: u64) -> Round {
        let (mut elapsed, mut allocations) = (Duration::ZERO, Allocations::default());
        for _ in 0..batches {
            let write = self.write();
            let (start, before) = (Instant::now(), Allocations::now());
            self.store.persist(&[write]).expect("the disk works");
            elapsed += start.elapsed();
            allocations = allocations + (Allocations::now() - before);
        }
        Round { units: batches, elapsed, allocations, copied_bytes: 0 }
    }

    fn write(&mut self) -> Write {
        let (term, commit) = (Term(1), self.last);
        let first = self.last.next();
        self.last = Index(self.last.0 + self.batch as u64);
        self.ticket = self.ticket.next();
        let entry = |index| {
            let payload = Payload::Command(self.payload.clone());
            Entry { index: Index(index), term, payload }
        };
        Write {
            ticket: self.ticket,
            truncate: None,
            entries: (first.0..self.last.0 + 1).map(entry).collect(),
            hard_state: Some(HardState { term, vote: NodeId::new(1), commit }),
            snapshot: None,
        }
    }
}

/// What no log can beat: the same number of bytes, written at an explicit offset into a file
/// that is full of zeros already, and one `fdatasync`.
#[derive(Debug)]
pub struct RawFile {
    file: File,
    buffer: Vec<u8>,
    offset: u64,
}

impl RawFile {
    const FILE_BYTES: u64 = 64 << 20;

    /// A file at `path`, to be written so many bytes at a time.
    ///
    /// # Errors
    /// The disk's.
    pub fn new(path: &Path, batch_bytes: usize) -> io::Result<Self> {
        let file = File::create(path)?;
        let zeros = vec![0; 1 << 20];
        for offset in (0..Self::FILE_BYTES).step_by(zeros.len()) {
            file.write_all_at(&zeros, offset)?;
        }
        file.sync_all()?;
        Ok(Self { file, buffer: noise(batch_bytes).into(), offset: 0 })
    }

    /// Writes so many batches; a unit of the round is a batch.
    pub fn round(&mut self, batches: u64) -> Round {
        let start = Instant::now();
        for _ in 0..batches {
            if self.offset + self.buffer.len() as u64 > Self::FILE_BYTES {
                self.offset = 0;
            }
            self.file.write_all_at(&self.buffer, self.offset).expect("the disk works");
            self.file.sync_data().expect("the disk works");
            self.offset += self.buffer.len() as u64;
        }
        let elapsed = start.elapsed();
        Round { units: batches, elapsed, allocations: Allocations::default(), copied_bytes: 0 }
    }
}
