//! A durable snapshot as the stream of bytes that a state machine restores from.

use std::io::{self, Read};
use std::sync::Arc;

use raft_core::SnapshotSource;

/// How much is read ahead: state machines read a few bytes at a time.
const BUFFER_BYTES: usize = 256 << 10;

/// Reads a snapshot from its beginning to its end. Remembers what went wrong with the disk, so
/// that it is not taken for a fault of the state machine.
pub(crate) struct SourceReader {
    source: Arc<dyn SnapshotSource>,
    offset: u64,
    buffer: Vec<u8>,
    /// Of the buffer, this much was read already.
    used: usize,
    error: Option<String>,
}

impl SourceReader {
    pub(crate) fn new(source: Arc<dyn SnapshotSource>) -> Self {
        Self { source, offset: 0, buffer: Vec::new(), used: 0, error: None }
    }

    pub(crate) fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }

    fn fill(&mut self) -> io::Result<()> {
        self.buffer.resize(BUFFER_BYTES, 0);
        let left = self.source.len_bytes() - self.offset;
        let read = match self.source.read_at(self.offset, &mut self.buffer) {
            Ok(0) if left > 0 => Err(format!("it ends {left} bytes before its end")),
            Ok(read) => Ok(read),
            Err(error) => Err(error.to_string()),
        };
        self.used = 0;
        match read {
            Ok(read) => {
                self.buffer.truncate(read);
                self.offset += read as u64;
                Ok(())
            }
            Err(reason) => {
                self.buffer.clear();
                self.error = Some(reason.clone());
                Err(io::Error::other(reason))
            }
        }
    }
}

impl Read for SourceReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.used == self.buffer.len() {
            self.fill()?;
        }
        let count = into.len().min(self.buffer.len() - self.used);
        into[..count].copy_from_slice(&self.buffer[self.used..self.used + count]);
        self.used += count;
        Ok(count)
    }
}
