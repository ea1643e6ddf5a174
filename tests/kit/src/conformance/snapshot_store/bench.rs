//! A store of snapshots under test, and the steps that the rules are made of.

use std::sync::Arc;

use raft_core::{
    Index, Snapshot, SnapshotOffer, SnapshotSink, SnapshotSource, SnapshotStore, SnapshotStoreError,
};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::{Figures, Harness, Rule, Violation};
use crate::conformance::writes::{at, founders, node};

pub(super) struct Bench<'a, H: Harness> {
    pub(super) harness: &'a H,
    pub(super) figures: &'a mut Figures,
    pub(super) medium: H::Medium,
    /// There is always one between two steps.
    home: Option<H::Home>,
    rule: Rule,
}

/// A snapshot that ends at this index, and what it holds.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    pub(super) snapshot: Snapshot,
    pub(super) bytes: Vec<u8>,
    check: u32,
}

impl Sample {
    pub(super) fn new(index: u64, len: usize) -> Self {
        let mut random = Pcg64Mcg::seed_from_u64(index ^ len as u64);
        let membership = Arc::new(founders());
        let snapshot = Snapshot { last: at(index, 2), membership, membership_index: Index::ZERO };
        let bytes: Vec<u8> = (0..len).map(|_| random.random()).collect();
        Self { snapshot, check: crc32c(&bytes), bytes }
    }

    pub(super) fn offer(&self, transfer: u64) -> SnapshotOffer {
        SnapshotOffer {
            from: node(2),
            term: self.snapshot.last.term,
            transfer,
            snapshot: self.snapshot.clone(),
            len_bytes: self.bytes.len() as u64,
            check: self.check,
        }
    }

    /// Reads a snapshot in pieces; a piece that cannot be read ends it. Says in what it differs.
    pub(super) fn compare(&self, source: &dyn SnapshotSource, piece: usize) -> Result<(), String> {
        if *source.snapshot() != self.snapshot {
            return Err(format!("{:?} instead of {:?}", source.snapshot(), self.snapshot));
        }
        let told = (source.len_bytes(), source.check());
        let wanted = (self.bytes.len() as u64, self.check);
        if told != wanted {
            return Err(format!("length and check are {told:x?} instead of {wanted:x?}"));
        }
        let (mut offset, mut buffer) = (0, vec![0; piece]);
        loop {
            let read = source.read_at(offset as u64, &mut buffer);
            let read = read.map_err(|error| format!("{UNREADABLE}{offset}: {error}"))?;
            let due = &self.bytes[offset..self.bytes.len().min(offset + piece)];
            if read > due.len() || buffer[..read] != due[..read] {
                return Err(format!("the {read} bytes from {offset} on are not what was written"));
            }
            if read == 0 && !due.is_empty() {
                return Err(format!("it ends at {offset}"));
            }
            if read == 0 {
                return Ok(());
            }
            offset += read;
        }
    }
}

/// How the reason begins where a read failed, in contrast to a read that gives wrong bytes.
pub(super) const UNREADABLE: &str = "it cannot be read from byte ";

impl<'a, H: Harness> Bench<'a, H> {
    pub(super) fn new(
        harness: &'a H,
        figures: &'a mut Figures,
        rule: Rule,
    ) -> Result<Self, Violation> {
        let mut bench = Self { medium: harness.medium(), harness, figures, home: None, rule };
        bench.open()?;
        Ok(bench)
    }

    pub(super) fn broken(&self, found: impl Into<String>) -> Violation {
        Violation { rule: self.rule, seed: None, found: found.into() }
    }

    fn failed(&self, what: &str, error: &SnapshotStoreError) -> Violation {
        self.broken(format!("{what} failed: {error}"))
    }

    pub(super) fn store(&self) -> Arc<dyn SnapshotStore> {
        self.harness.snapshots(self.home.as_ref().expect("it is open between two steps"))
    }

    fn open(&mut self) -> Result<(), Violation> {
        let opened = self.harness.open(&self.medium);
        self.home =
            Some(opened.map_err(|error| self.broken(format!("it does not open: {error}")))?);
        Ok(())
    }

    /// Goes on with an empty store.
    pub(super) fn begin_anew(&mut self) -> Result<(), Violation> {
        self.home = None;
        self.medium = self.harness.medium();
        self.open()
    }

    pub(super) fn restart(&mut self) -> Result<(), Violation> {
        self.home = None;
        self.open()
    }

    /// Goes on with what a power cut leaves; with the same medium where only processes can die.
    pub(super) fn crash(&mut self, seed: u64) -> Result<(), Violation> {
        self.home = None;
        let moment = self.harness.moments(&self.medium);
        match self.harness.power_cut(&self.medium, moment, seed) {
            Some(left) => {
                self.figures.power_cuts += 1;
                self.medium = left;
            }
            None => drop(self.figures.left_out.insert(Rule::Durable)),
        }
        self.open()
    }

    pub(super) fn receive(
        &self,
        offer: &SnapshotOffer,
    ) -> Result<Box<dyn SnapshotSink>, Violation> {
        let sink = self.store().receive(offer);
        sink.map_err(|error| self.failed("beginning to receive", &error))
    }

    pub(super) fn write(&self, sink: &mut dyn SnapshotSink, bytes: &[u8]) -> Result<(), Violation> {
        sink.write(bytes).map_err(|error| self.failed("a write", &error))
    }

    pub(super) fn publish(&mut self, sink: Box<dyn SnapshotSink>) -> Result<(), Violation> {
        self.figures.published += 1;
        sink.publish().map_err(|error| self.failed("publishing", &error))
    }

    /// Builds a snapshot here, and publishes it.
    pub(super) fn build(&mut self, sample: &Sample) -> Result<(), Violation> {
        let sink = self.store().build(&sample.snapshot);
        let mut sink = sink.map_err(|error| self.failed("beginning to build", &error))?;
        for piece in sample.bytes.chunks(9000) {
            let offset = piece.as_ptr() as usize - sample.bytes.as_ptr() as usize;
            if sink.offset() != offset as u64 {
                return Err(self.broken(format!("offset {} instead of {offset}", sink.offset())));
            }
            self.write(&mut *sink, piece)?;
        }
        self.publish(sink)
    }

    /// Builds one, publishes and marks it.
    pub(super) fn build_marked(&mut self, sample: &Sample) -> Result<(), Violation> {
        self.build(sample)?;
        self.mark(&sample.snapshot);
        Ok(())
    }

    pub(super) fn mark(&mut self, snapshot: &Snapshot) {
        self.harness.mark(self.home.as_mut().expect("it is open between two steps"), snapshot);
    }

    /// The newest one.
    pub(super) fn newest(&self) -> Result<Option<Arc<dyn SnapshotSource>>, Violation> {
        self.store().newest().map_err(|error| self.failed("looking for the newest", &error))
    }

    /// The newest one must be this.
    pub(super) fn serves(&self, sample: &Sample) -> Result<(), Violation> {
        let newest = self.newest()?.ok_or_else(|| {
            self.broken(format!("there is none, and {:?} was published", sample.snapshot.last))
        })?;
        sample.compare(&*newest, 5000).map_err(|error| self.broken(error))
    }

    /// There must be none.
    pub(super) fn serves_none(&self) -> Result<(), Violation> {
        match self.newest()? {
            None => Ok(()),
            Some(source) => {
                let last = source.snapshot().last;
                Err(self.broken(format!("{last:?} is served, and was never published")))
            }
        }
    }
}

/// The CRC-32C of these bytes, as [`SnapshotOffer::check`] wants it: made here, so that it stands
/// on nothing of what is tested.
pub fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc: u32, byte| (crc >> 8) ^ TABLE[(crc as u8 ^ byte) as usize])
}

/// What eight steps make of each byte.
const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut crc, mut bit) = (byte as u32, 0);
        while bit < 8 {
            crc = (crc >> 1) ^ (0x82f6_3b78 & (crc & 1).wrapping_neg());
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    #[test]
    fn the_check_is_the_one_of_the_standard() {
        // RFC 3720, appendix B.4.
        assert_eq!(super::crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(super::crc32c(&[0; 32]), 0x8a91_36aa);
    }
}
