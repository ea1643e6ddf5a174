//! Reads entries beside the writer. It takes a lock only to look up where they stand, and never
//! sees a batch before it is durable.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use raft_core::{Entry, Index, LogPosition, LogReader, Membership, MembershipDecodeError, Payload};

use crate::error::{Damage, DiskError, WalError};
use crate::frame::Kind;
use crate::map::{Map, Stretch};
use crate::segment::Segment;
use crate::stream::{Stop, Stream};

/// Reads entries that were persisted. Cheap to clone; goes beside the writer from any thread.
/// Every read verifies the checksums of what it gives.
#[derive(Clone, Debug)]
pub struct WalReader {
    map: Arc<Mutex<Map>>,
}

/// One read under way.
struct Walk<'a> {
    first: Index,
    /// The next one that is wanted.
    next: Index,
    last: Index,
    bytes_left: usize,
    /// The payloads, in one allocation for all entries of a stretch.
    payloads: Vec<u8>,
    found: Vec<(LogPosition, Kind, usize)>,
    entries: &'a mut Vec<Entry>,
}

impl WalReader {
    pub(crate) fn new(map: Arc<Mutex<Map>>) -> Self {
        Self { map }
    }

    /// What a read of entries that are not there gives: nothing where a snapshot has taken their
    /// place, else an error.
    fn absent(&self, index: Index) -> Result<(), WalError> {
        let (first, last) = lock(&self.map).range();
        if index < first { Ok(()) } else { Err(WalError::Absent { index, first, last }) }
    }
}

impl LogReader for WalReader {
    type Error = WalError;

    /// Reads from a log that one moment held: when it is cut during the read, what was found
    /// before the cut is given and nothing after it.
    fn read(
        &self,
        first: Index,
        last: Index,
        bytes_max: usize,
        entries: &mut Vec<Entry>,
    ) -> Result<(), WalError> {
        let mut walk = Walk {
            first,
            next: first,
            last: last.max(first),
            bytes_left: bytes_max,
            payloads: Vec::new(),
            found: Vec::new(),
            entries,
        };
        let mut cuts = None;
        while walk.wants_more() {
            let stretch = lock(&self.map).stretch(walk.next);
            let Some(stretch) = stretch else {
                // The end of the log; an error only for the first entry.
                return if walk.next == first { self.absent(first) } else { Ok(()) };
            };
            if *cuts.get_or_insert(stretch.cuts) != stretch.cuts {
                return Ok(());
            }
            walk.along(&stretch)?;
        }
        Ok(())
    }
}

impl Walk<'_> {
    /// The first entry is given however large it is.
    fn wants_more(&self) -> bool {
        self.next == self.first || (self.next <= self.last && self.bytes_left > 0)
    }

    /// Takes from a stretch the entries that are wanted.
    fn along(&mut self, stretch: &Stretch) -> Result<(), WalError> {
        let mut stream = Stream::new(&stretch.segment, stretch.place);
        let last = self.last.min(stretch.last);
        while self.next <= last {
            if !self.frame(&mut stream).map_err(|stop| self.failure(&stretch.segment, stop))? {
                self.bytes_left = 0;
                break;
            }
        }
        self.deliver(&stretch.segment)
    }

    /// Reads one frame, or says that no more bytes fit.
    fn frame(&mut self, stream: &mut Stream<'_>) -> Result<bool, Stop> {
        let offset = stream.offset();
        let (frame, _) = stream.frame()?;
        match frame.kind {
            Kind::Commit => {
                stream.skip(&frame);
                stream.align();
            }
            Kind::Truncate | Kind::HardState | Kind::Mark => stream.skip(&frame),
            Kind::EmptyEntry | Kind::CommandEntry | Kind::MembershipEntry
                if frame.position.index < self.next =>
            {
                stream.skip(&frame);
            }
            Kind::EmptyEntry | Kind::CommandEntry | Kind::MembershipEntry => {
                if frame.position.index > self.next {
                    let reason = "an entry is missing before this one";
                    return Err(Stop::Bad { offset, reason });
                }
                let size = Entry::OVERHEAD_BYTES + frame.payload_bytes as usize;
                if size > self.bytes_left && self.next != self.first {
                    return Ok(false);
                }
                let payloads = &mut self.payloads;
                stream.payload(&frame, |piece| payloads.extend_from_slice(piece))?;
                self.found.push((frame.position, frame.kind, frame.payload_bytes as usize));
                self.bytes_left = self.bytes_left.saturating_sub(size);
                self.next = self.next.next();
            }
        }
        Ok(true)
    }

    fn deliver(&mut self, segment: &Segment) -> Result<(), WalError> {
        let mut payloads = Bytes::from(std::mem::take(&mut self.payloads));
        for (position, kind, length) in self.found.drain(..) {
            let bytes = payloads.split_to(length);
            let payload = match kind {
                Kind::CommandEntry => Payload::Command(bytes),
                Kind::MembershipEntry => {
                    let membership = Membership::decode(&bytes)
                        .map_err(|error| unreadable(segment, position, error))?;
                    Payload::Membership(Arc::new(membership))
                }
                Kind::EmptyEntry | Kind::Truncate | Kind::HardState | Kind::Commit | Kind::Mark => {
                    Payload::Empty
                }
            };
            let LogPosition { term, index } = position;
            self.entries.push(Entry { index, term, payload });
        }
        Ok(())
    }

    fn failure(&self, segment: &Segment, stop: Stop) -> WalError {
        let damage = |offset, reason: &str| {
            let intact = self.found.last().map_or(LogPosition::ZERO, |&(position, ..)| position);
            let reason = format!("{reason}, where entry {} should stand", self.next);
            Damage { file: segment.path.clone(), offset, reason, intact }.into()
        };
        match stop {
            Stop::Hole { offset } => damage(offset, "the sector is empty"),
            Stop::Bad { offset, reason } => damage(offset, reason),
            Stop::Newer => damage(0, "a record has an unknown kind"),
            Stop::Disk(error) => WalError::from(DiskError { verb: "read", ..error }),
        }
    }
}

/// The checksums hold, so these are the bytes that were written; this version cannot read them.
fn unreadable(segment: &Segment, position: LogPosition, error: MembershipDecodeError) -> WalError {
    let reason = format!("entry {position:?}: {error}");
    Damage { file: segment.path.clone(), offset: 0, reason, intact: LogPosition::ZERO }.into()
}

/// The map is whole between any two statements, so a panic elsewhere does not spoil it.
pub(crate) fn lock(map: &Mutex<Map>) -> MutexGuard<'_, Map> {
    map.lock().unwrap_or_else(PoisonError::into_inner)
}
