//! The first sixteen bytes of every file, the same in all formats to come.
//!
//! ```text
//!   0                8        12       16
//!   +----------------+--------+--------+
//!   | magic          | format | check  |   check: CRC-32C of the bytes 0..12
//!   +----------------+--------+--------+
//! ```
//!
//! The check tells a newer format from a damaged number.

use crate::check::crc;
use crate::frame::u32_at;

pub(crate) const PREAMBLE_BYTES: usize = 16;
/// The newest format that this version reads, and the one that it writes.
pub(crate) const FORMAT: u32 = 1;

/// What a preamble says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Preamble {
    /// The rest can be read.
    Known,
    /// The file has this newer format.
    Newer(u32),
    /// It is no file of this kind, or damaged.
    Bad,
}

/// Writes the preamble in front of a file.
pub(crate) fn put(file: &mut [u8], magic: [u8; 8]) {
    put_format(file, magic, FORMAT);
}

fn put_format(file: &mut [u8], magic: [u8; 8], format: u32) {
    file[..8].copy_from_slice(&magic);
    file[8..12].copy_from_slice(&format.to_le_bytes());
    let check = crc(&file[..12]);
    file[12..16].copy_from_slice(&check.to_le_bytes());
}

/// Reads the preamble of a file.
pub(crate) fn read(file: &[u8], magic: [u8; 8]) -> Preamble {
    if file.len() < PREAMBLE_BYTES || file[..8] != magic || u32_at(file, 12) != crc(&file[..12]) {
        return Preamble::Bad;
    }
    match u32_at(file, 8) {
        FORMAT => Preamble::Known,
        format if format > FORMAT => Preamble::Newer(format),
        _ => Preamble::Bad,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newer_format_is_told_from_damage() {
        let mut file = [0; PREAMBLE_BYTES];
        put(&mut file, *b"SOMETHIN");
        assert_eq!(read(&file, *b"SOMETHIN"), Preamble::Known);
        assert_eq!(read(&file, *b"ELSEWISE"), Preamble::Bad);
        assert_eq!(read(&file[..15], *b"SOMETHIN"), Preamble::Bad);
        file[8] = 2;
        assert_eq!(read(&file, *b"SOMETHIN"), Preamble::Bad);
        put_format(&mut file, *b"SOMETHIN", 2);
        assert_eq!(read(&file, *b"SOMETHIN"), Preamble::Newer(2));
    }
}
