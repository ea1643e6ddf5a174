//! Checksums: CRC-32C (Castagnoli) over bytes, and the chain that runs over all records.

use crc_fast::{CrcAlgorithm, Digest};

/// The CRC-32C of some bytes.
pub(crate) fn crc(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

/// A CRC-32C over bytes that come in pieces.
pub(crate) struct Running(Digest);

impl Running {
    pub(crate) fn new() -> Self {
        Self(Digest::new(CrcAlgorithm::Crc32Iscsi))
    }

    pub(crate) fn update(&mut self, piece: &[u8]) {
        self.0.update(piece);
    }

    pub(crate) fn finish(&self) -> u32 {
        // A CRC-32 in 64 bits: the upper half is zero.
        self.0.finalize() as u32
    }
}

/// Lets the chain run over one more number. For each old chain, different numbers give different
/// chains, and the other way round: so a single change is never lost on the way.
pub(crate) fn link(chain: u32, number: u32) -> u32 {
    (chain ^ number).rotate_left(13).wrapping_mul(0x9e37_79b1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_crc_32c_however_the_bytes_come() {
        assert_eq!(crc(b"123456789"), 0xe306_9283);
        let mut running = Running::new();
        [&b"12345"[..], b"", b"6789"].into_iter().for_each(|piece| running.update(piece));
        assert_eq!(running.finish(), 0xe306_9283);
    }
}
