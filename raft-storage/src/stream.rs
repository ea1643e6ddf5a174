//! Reads frames out of the sectors of a segment, and checks both layers on the way.

use crate::check::Running;
use crate::disk::read_full;
use crate::error::DiskError;
use crate::frame::{Frame, FrameError, HEADER_BYTES};
use crate::sector::{DATA_BYTES, HEAD_BYTES, SECTOR_BYTES, SectorState, state_of};
use crate::segment::Segment;

/// How much is read at once: little at first, because most reads want little.
const CHUNK_SECTORS_MIN: u64 = 16;
const CHUNK_SECTORS_MAX: u64 = 256;

/// Why a stream gives no more. Offsets are bytes of the file.
#[derive(Debug)]
pub(crate) enum Stop {
    /// A sector was never written, or did not reach the disk.
    Hole { offset: u64 },
    /// What stands there is not what was written.
    Bad { offset: u64, reason: &'static str },
    /// A kind of frame or a group that this version does not know.
    Newer,
    /// The disk failed.
    Disk(DiskError),
}

/// Walks over one segment.
#[derive(Debug)]
pub(crate) struct Stream<'a> {
    segment: &'a Segment,
    /// The next byte, in the stream that the sectors carry; sector 0 counts as if it held data.
    place: u64,
    /// When given, every sector must belong to the batch with this stamp.
    stamp: Option<u16>,
    chunk: Vec<u8>,
    chunk_sectors: u64,
    /// The sectors that are in `chunk`.
    first: u64,
    end: u64,
    /// The sector that was checked last, with this stamp demanded.
    checked: Option<u64>,
}

impl<'a> Stream<'a> {
    pub(crate) fn new(segment: &'a Segment, place: u64) -> Self {
        Self {
            segment,
            place,
            stamp: None,
            chunk: Vec::new(),
            chunk_sectors: CHUNK_SECTORS_MIN,
            first: 0,
            end: 0,
            checked: None,
        }
    }

    /// From here on, only sectors of the batch with this stamp will do.
    pub(crate) fn demand(&mut self, stamp: u16) {
        (self.stamp, self.checked) = (Some(stamp), None);
    }

    pub(crate) fn place(&self) -> u64 {
        self.place
    }

    /// The sector that the next byte is in.
    pub(crate) fn sector(&self) -> u64 {
        self.place / DATA_BYTES as u64
    }

    /// Goes on at the start of the next sector, unless it stands at the start of one.
    pub(crate) fn align(&mut self) {
        self.place = self.place.next_multiple_of(DATA_BYTES as u64);
    }

    /// The byte of the file that the next byte stands at.
    pub(crate) fn offset(&self) -> u64 {
        let within = self.place % DATA_BYTES as u64 + HEAD_BYTES as u64;
        self.sector() * SECTOR_BYTES as u64 + within
    }

    /// What stands in a sector; bad where the file is too short to hold it.
    pub(crate) fn state(&mut self, sector: u64) -> Result<SectorState, DiskError> {
        let salt = self.segment.salt;
        let bytes = self.load(sector)?;
        Ok(bytes.map_or(SectorState::Bad, |bytes| state_of(bytes, salt, sector)))
    }

    /// Reads the header of the next frame; gives its check too.
    pub(crate) fn frame(&mut self) -> Result<(Frame, u32), Stop> {
        let offset = self.offset();
        let mut header = [0; HEADER_BYTES];
        self.fill(&mut header)?;
        Frame::decode(&header).map_err(|error| match error {
            FrameError::Check => Stop::Bad { offset, reason: "the header of a record is wrong" },
            FrameError::Unknown => Stop::Newer,
        })
    }

    /// Reads the payload of `frame` piece by piece, and checks it.
    pub(crate) fn payload(
        &mut self,
        frame: &Frame,
        mut sink: impl FnMut(&[u8]),
    ) -> Result<(), Stop> {
        let (offset, mut check) = (self.offset(), Running::new());
        self.take(u64::from(frame.payload_bytes), |piece| {
            check.update(piece);
            sink(piece);
        })?;
        if check.finish() != frame.payload_check {
            return Err(Stop::Bad { offset, reason: "the payload of a record is wrong" });
        }
        Ok(())
    }

    /// Reads a payload of known length, and checks it.
    pub(crate) fn fixed<const LEN: usize>(&mut self, frame: &Frame) -> Result<[u8; LEN], Stop> {
        let (offset, mut bytes, mut used) = (self.offset(), [0; LEN], 0);
        if frame.payload_bytes as usize != LEN {
            return Err(Stop::Bad { offset, reason: "a record has an impossible length" });
        }
        self.payload(frame, |piece| {
            bytes[used..used + piece.len()].copy_from_slice(piece);
            used += piece.len();
        })?;
        Ok(bytes)
    }

    /// Reads a whole payload, and checks it.
    pub(crate) fn bytes(&mut self, frame: &Frame) -> Result<Vec<u8>, Stop> {
        let mut bytes = Vec::new();
        self.payload(frame, |piece| bytes.extend_from_slice(piece))?;
        Ok(bytes)
    }

    /// Goes past the payload of `frame` without a look at it.
    pub(crate) fn skip(&mut self, frame: &Frame) {
        self.place += u64::from(frame.payload_bytes);
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), Stop> {
        let mut used = 0;
        self.take(bytes.len() as u64, |piece| {
            bytes[used..used + piece.len()].copy_from_slice(piece);
            used += piece.len();
        })
    }

    fn take(&mut self, mut count: u64, mut sink: impl FnMut(&[u8])) -> Result<(), Stop> {
        while count > 0 {
            let sector = self.sector();
            self.check(sector)?;
            let start = (self.place % DATA_BYTES as u64) as usize;
            let piece = count.min((DATA_BYTES - start) as u64);
            let at = (sector - self.first) as usize * SECTOR_BYTES + HEAD_BYTES + start;
            sink(&self.chunk[at..at + piece as usize]);
            self.place += piece;
            count -= piece;
        }
        Ok(())
    }

    fn check(&mut self, sector: u64) -> Result<(), Stop> {
        if self.checked == Some(sector) {
            return Ok(());
        }
        let offset = sector * SECTOR_BYTES as u64;
        let reason = match self.state(sector).map_err(Stop::Disk)? {
            SectorState::Written(stamp) if self.stamp.is_none_or(|wanted| stamp == wanted) => {
                self.checked = Some(sector);
                return Ok(());
            }
            SectorState::Zero => return Err(Stop::Hole { offset }),
            SectorState::Written(_) => "the sector belongs to another batch",
            SectorState::Bad if sector >= self.segment.sectors => {
                "a batch runs past the end of the segment"
            }
            SectorState::Bad => "the sector is not what was written",
        };
        Err(Stop::Bad { offset, reason })
    }

    /// The bytes of a sector, or `None` where the segment ends before it.
    fn load(&mut self, sector: u64) -> Result<Option<&[u8]>, DiskError> {
        if !(self.first..self.end).contains(&sector) {
            let count = self.chunk_sectors.min(self.segment.sectors.saturating_sub(sector));
            self.chunk_sectors = (self.chunk_sectors * 2).min(CHUNK_SECTORS_MAX);
            self.chunk.resize(count as usize * SECTOR_BYTES, 0);
            let offset = sector * SECTOR_BYTES as u64;
            let read = read_full(&*self.segment.file, &mut self.chunk, offset)
                .map_err(|error| self.segment.error("read", offset, error))?;
            (self.first, self.end) = (sector, sector + (read / SECTOR_BYTES) as u64);
            self.checked = None;
        }
        if sector >= self.end {
            return Ok(None);
        }
        let at = (sector - self.first) as usize * SECTOR_BYTES;
        Ok(Some(&self.chunk[at..at + SECTOR_BYTES]))
    }
}
