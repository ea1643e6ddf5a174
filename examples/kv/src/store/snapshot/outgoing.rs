//! Writes a snapshot, a few blocks at a time, as somebody reads it.

use std::io::{self, Read};

use super::super::base::{Upkeep, encode_mark};
use super::super::error::StoreError;
use super::super::format::Revision;
use super::super::history::History;
use super::super::state::State;
use super::Totals;
use super::blocks::{BLOCK_BYTES, Sealer};

/// A view of the store, being read as a snapshot. It holds what the view shares with the store,
/// one block, and the largest change.
pub(in crate::store) struct Outgoing {
    history: History,
    compacted: i64,
    totals: Totals,
    sealer: Sealer,
    /// What is not in a block yet.
    bytes: Vec<u8>,
    /// What is to be read next, from `taken` on.
    ready: Vec<u8>,
    taken: usize,
    is_whole: bool,
}

impl Outgoing {
    pub fn new(view: State) -> Self {
        let header = encode_mark(&view.mark, &Upkeep::default());
        let (mut sealer, mut bytes, mut ready) = (Sealer::default(), Vec::new(), Vec::new());
        sealer.start(&mut ready);
        append(&header, &mut bytes);
        Self {
            compacted: view.mark.compacted,
            history: History::new(view),
            totals: Totals::default(),
            sealer,
            bytes,
            ready,
            taken: 0,
            is_whole: false,
        }
    }

    /// Makes the next blocks ready.
    fn advance(&mut self) -> Result<(), StoreError> {
        (self.taken, self.is_whole) = (0, true);
        self.ready.clear();
        while self.bytes.len() < BLOCK_BYTES {
            let Some(change) = self.history.next() else {
                self.bytes.extend_from_slice(&Revision::NONE.row());
                self.bytes.extend_from_slice(&self.totals.encode());
                self.seal();
                self.sealer.block(&[], &mut self.ready);
                return Ok(());
            };
            let change = change?;
            let row = change.encode();
            self.totals.add(&change, &row, self.compacted);
            self.bytes.extend_from_slice(&change.at.row());
            append(&row, &mut self.bytes);
        }
        self.seal();
        // After an error no end is written: whoever reads on finds the stream cut.
        self.is_whole = false;
        Ok(())
    }

    fn seal(&mut self) {
        for block in self.bytes.chunks(BLOCK_BYTES) {
            self.sealer.block(block, &mut self.ready);
        }
        self.bytes.clear();
    }
}

impl Read for Outgoing {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.taken == self.ready.len() && !self.is_whole {
            self.advance().map_err(io::Error::other)?;
        }
        let count = (&self.ready[self.taken..]).read(into)?;
        self.taken += count;
        Ok(count)
    }
}

fn append(part: &[u8], bytes: &mut Vec<u8>) {
    let length = u32::try_from(part.len()).expect("requests are far shorter");
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes.extend_from_slice(part);
}
