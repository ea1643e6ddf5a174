//! The outer shape of a snapshot: blocks, each closed by a checksum over all that came before.

use std::io::{ErrorKind, Read};
use std::sync::Arc;

use bytes::{Buf, Bytes};

use super::super::error::SnapshotError;
use super::{FORMAT, MAGIC};

/// The most that one block holds.
pub(super) const BLOCK_BYTES: usize = 64 << 10;

/// Closes blocks.
#[derive(Default)]
pub(in crate::store) struct Sealer {
    sum: u32,
}

impl Sealer {
    /// What a stream starts with.
    pub fn start(&mut self, out: &mut Vec<u8>) {
        self.add(MAGIC, out);
        self.add(&FORMAT.to_be_bytes(), out);
    }

    /// A block, or the end of the stream when it has no bytes.
    pub fn block(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let length = u32::try_from(bytes.len()).expect("a block is small");
        self.add(&length.to_be_bytes(), out);
        self.add(bytes, out);
        out.extend_from_slice(&self.sum.to_be_bytes());
    }

    fn add(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        self.sum = crc32c::crc32c_append(self.sum, bytes);
        out.extend_from_slice(bytes);
    }
}

/// The bytes of the blocks of a stream, none of them unchecked.
pub(in crate::store) struct Blocks<'a> {
    source: &'a mut dyn Read,
    /// How many bytes of the stream were read.
    pub read: u64,
    sum: u32,
    block: Bytes,
}

impl<'a> Blocks<'a> {
    /// Reads what a stream starts with.
    pub fn open(source: &'a mut dyn Read) -> Result<Self, SnapshotError> {
        let mut blocks = Self { source, read: 0, sum: 0, block: Bytes::new() };
        let magic: [u8; 8] = blocks.array().map_err(|error| match error {
            SnapshotError::Cut { .. } => SnapshotError::Foreign,
            error => error,
        })?;
        if magic != *MAGIC {
            return Err(SnapshotError::Foreign);
        }
        match u32::from_be_bytes(blocks.array()?) {
            FORMAT => Ok(blocks),
            0 => Err(blocks.damaged()),
            found => Err(SnapshotError::NewerFormat { found, known: FORMAT }),
        }
    }

    /// The next `len` bytes.
    pub fn take(&mut self, len: usize) -> Result<Bytes, SnapshotError> {
        if self.block.is_empty() && len > 0 {
            self.next_block()?;
        }
        if len <= self.block.len() {
            return Ok(self.block.split_to(len));
        }
        // It grows with what really is there: nobody believes a length.
        let mut bytes = Vec::new();
        while bytes.len() < len {
            if self.block.is_empty() {
                self.next_block()?;
            }
            let part = self.block.split_to(self.block.len().min(len - bytes.len()));
            bytes.extend_from_slice(&part);
        }
        Ok(bytes.into())
    }

    pub fn u32(&mut self) -> Result<u32, SnapshotError> {
        Ok(self.take(4)?.get_u32())
    }

    pub fn u64(&mut self) -> Result<u64, SnapshotError> {
        Ok(self.take(8)?.get_u64())
    }

    /// Takes the end of the stream, which must be here, and nothing behind it.
    pub fn end(&mut self) -> Result<(), SnapshotError> {
        if !self.block.is_empty() || self.length()? != 0 {
            return Err(self.damaged());
        }
        self.check()?;
        match self.fill(&mut [0])? {
            0 => Ok(()),
            _ => Err(self.damaged()),
        }
    }

    /// That what was read up to here is not what was written.
    pub fn damaged(&self) -> SnapshotError {
        SnapshotError::Damaged { at: self.read }
    }

    fn next_block(&mut self) -> Result<(), SnapshotError> {
        let length = self.length()?;
        if length == 0 {
            return Err(self.damaged());
        }
        let mut block = vec![0; length];
        self.exactly(&mut block)?;
        self.sum = crc32c::crc32c_append(self.sum, &block);
        self.check()?;
        self.block = block.into();
        Ok(())
    }

    fn length(&mut self) -> Result<usize, SnapshotError> {
        match u32::from_be_bytes(self.array()?) as usize {
            length if length <= BLOCK_BYTES => Ok(length),
            _ => Err(self.damaged()),
        }
    }

    fn check(&mut self) -> Result<(), SnapshotError> {
        let mut sum = [0; 4];
        self.exactly(&mut sum)?;
        if sum == self.sum.to_be_bytes() { Ok(()) } else { Err(self.damaged()) }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], SnapshotError> {
        let mut bytes = [0; N];
        self.exactly(&mut bytes)?;
        self.sum = crc32c::crc32c_append(self.sum, &bytes);
        Ok(bytes)
    }

    fn exactly(&mut self, bytes: &mut [u8]) -> Result<(), SnapshotError> {
        if self.fill(bytes)? < bytes.len() {
            return Err(SnapshotError::Cut { at: self.read });
        }
        Ok(())
    }

    /// Reads until there is no more, or `bytes` is full. How many there were.
    fn fill(&mut self, bytes: &mut [u8]) -> Result<usize, SnapshotError> {
        let mut filled = 0;
        while filled < bytes.len() {
            match self.source.read(&mut bytes[filled..]) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(SnapshotError::Read(Arc::new(error))),
            }
        }
        self.read += filled as u64;
        Ok(filled)
    }
}
