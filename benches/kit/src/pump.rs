//! The pump: three cores in one thread, in memory. One proposal goes in; every message is
//! delivered and every write is durable at once; the pump stops when all three have applied it.
//!
//! Rules, the same for everybody:
//! - The payload is made once, outside the measurement; each entry holds a counted reference to
//!   it. Building the proposal around the payloads is inside the measurement.
//! - Messages travel as values. Nothing is encoded, and nothing waits.
//! - What is committed is fetched from the core, or taken where the core hands it out, and each
//!   payload is looked at.
//! - Each node keeps about [`Shape::kept_entries`] of its newest entries and drops older ones.

use bytes::Bytes;

/// What one proposal holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Entries in a proposal.
    pub entries: usize,
    /// Bytes in an entry's payload.
    pub bytes: usize,
}

/// The shapes that are measured.
pub const SHAPES: [Shape; 6] = [
    Shape { entries: 1, bytes: 16 },
    Shape { entries: 1, bytes: 256 },
    Shape { entries: 64, bytes: 16 },
    Shape { entries: 64, bytes: 256 },
    Shape { entries: 1024, bytes: 16 },
    Shape { entries: 1024, bytes: 256 },
];

impl Shape {
    /// How many of its newest entries a node keeps in memory.
    pub fn kept_entries(&self) -> usize {
        (4 * self.entries).max(4096)
    }
}

/// Three cores that one proposal at a time goes through.
pub trait Pump {
    /// Proposes once and runs until all three have applied it.
    fn pump(&mut self);

    /// What the three have applied.
    fn applied(&self) -> Applied;
}

/// What was applied at the three nodes together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// Entries of the shape; what elections leave behind is not counted.
    pub entries: u64,
    /// Bytes of payloads that arrived at another address than the one proposed.
    pub copied_bytes: u64,
}

/// The payload of every entry, and the judge of what comes out.
#[derive(Clone, Debug)]
pub struct Payloads {
    payload: Bytes,
    applied: Applied,
}

impl Payloads {
    /// Payloads for this shape.
    pub fn new(shape: Shape) -> Self {
        let payload = Bytes::from(vec![0x5a; shape.bytes]);
        drop(payload.clone()); // From here on a clone counts a reference and does not allocate.
        Self { payload, applied: Applied::default() }
    }

    /// One more entry's payload.
    pub fn next(&self) -> Bytes {
        self.payload.clone()
    }

    /// A node applies this.
    pub fn apply(&mut self, payload: &[u8]) {
        if payload.is_empty() {
            return; // The first entry of a leader.
        }
        self.applied.entries += 1;
        if payload.as_ptr() != self.payload.as_ptr() {
            assert_eq!(payload, &*self.payload, "what was proposed is applied");
            self.applied.copied_bytes += payload.len() as u64;
        }
    }

    /// What was applied up to now.
    pub fn applied(&self) -> Applied {
        self.applied
    }
}
