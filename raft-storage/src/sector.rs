//! The lowest layer: a segment is a row of 512-byte sectors, and each carries a check of its own.
//!
//! ```text
//!   0        4      6       8                                   512
//!   +--------+------+-------+-----------------------------------+
//!   | check  | tag  | stamp | 504 bytes of the stream of frames |
//!   +--------+------+-------+-----------------------------------+
//!   check  CRC-32C of the bytes 4..512, xor the number of the sector, xor a CRC-32C of the disk
//!          incarnation and the number of the segment: a sector in a wrong place fails
//!   tag    "K!": no byte of it is zero
//!   stamp  the lowest 16 bits of the number of the batch that the sector belongs to
//! ```
//!
//! A disk writes one sector wholly or not at all, and a batch starts on a fresh one, which is all
//! zeros. So after a power cut a sector of a batch that was never synced is one of two things:
//! zeros, or valid and stamped with that batch. Anything else is damage, and can be told from a
//! torn write without knowing anything about the rest of the batch. No change of a single byte
//! turns a valid sector into zeros, because the tag alone has two bytes that are not.

use crate::check::crc;

pub(crate) const SECTOR_BYTES: usize = 512;
pub(crate) const HEAD_BYTES: usize = 8;
/// How much of the stream of frames one sector holds.
pub(crate) const DATA_BYTES: usize = SECTOR_BYTES - HEAD_BYTES;

const TAG: [u8; 2] = *b"K!";
const ZEROS: [u8; SECTOR_BYTES] = [0; SECTOR_BYTES];

/// What stands in a sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SectorState {
    /// Nothing was written yet, or it did not reach the disk.
    Zero,
    /// A part of a batch with this stamp.
    Written(u16),
    /// Neither: nobody ever wrote this.
    Bad,
}

/// Binds the checks of a segment to their place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Salt(u32);

impl Salt {
    pub(crate) fn new(incarnation: u64, segment: u64) -> Self {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&incarnation.to_le_bytes());
        bytes[8..].copy_from_slice(&segment.to_le_bytes());
        Self(crc(&bytes))
    }

    fn check(self, sector: u64, bytes: &[u8]) -> u32 {
        // The same bytes have another check in each place, so no two sectors of a segment (of
        // less than 2 TiB) can stand for each other.
        crc(bytes) ^ self.0 ^ sector as u32
    }
}

/// Which stamp the sectors of a batch carry.
pub(crate) fn stamp_of(batch: u64) -> u16 {
    batch as u16
}

/// Completes the head of a sector whose data stands in place.
pub(crate) fn seal(bytes: &mut [u8], salt: Salt, sector: u64, stamp: u16) {
    debug_assert_eq!(bytes.len(), SECTOR_BYTES);
    bytes[4..6].copy_from_slice(&TAG);
    bytes[6..8].copy_from_slice(&stamp.to_le_bytes());
    let check = salt.check(sector, &bytes[4..]);
    bytes[..4].copy_from_slice(&check.to_le_bytes());
}

/// Says what stands in a sector.
pub(crate) fn state_of(bytes: &[u8], salt: Salt, sector: u64) -> SectorState {
    debug_assert_eq!(bytes.len(), SECTOR_BYTES);
    let check = salt.check(sector, &bytes[4..]).to_le_bytes();
    if bytes[..4] == check && bytes[4..6] == TAG {
        SectorState::Written(u16::from_le_bytes([bytes[6], bytes[7]]))
    } else if is_zero(bytes) {
        SectorState::Zero
    } else {
        SectorState::Bad
    }
}

/// Whether a sector holds nothing but zeros.
pub(crate) fn is_zero(bytes: &[u8]) -> bool {
    bytes == &ZEROS[..bytes.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_changed_bit_of_a_sector_is_bad_and_never_zero() {
        let salt = Salt::new(7, 3);
        for batch in [0, 1, 0x1_0000, u64::MAX] {
            let mut bytes = [0; SECTOR_BYTES];
            seal(&mut bytes, salt, 9, stamp_of(batch));
            assert_eq!(state_of(&bytes, salt, 9), SectorState::Written(stamp_of(batch)));
            for bit in 0..SECTOR_BYTES * 8 {
                bytes[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(state_of(&bytes, salt, 9), SectorState::Bad, "bit {bit}");
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
        }
    }

    #[test]
    fn a_sector_in_the_wrong_place_is_bad() {
        let mut bytes = [5; SECTOR_BYTES];
        seal(&mut bytes, Salt::new(7, 3), 9, 1);
        for (salt, sector) in [(Salt::new(7, 3), 10), (Salt::new(7, 4), 9), (Salt::new(8, 3), 9)] {
            assert_eq!(state_of(&bytes, salt, sector), SectorState::Bad);
        }
        assert_eq!(state_of(&[0; SECTOR_BYTES], Salt::new(7, 3), 9), SectorState::Zero);
    }
}
