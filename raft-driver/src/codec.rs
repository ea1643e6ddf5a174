//! Typed commands: how a command becomes the bytes of an entry.

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Turns commands into bytes and back. Every node of a group must use the same one.
pub trait Codec {
    /// The bytes of `command`.
    ///
    /// # Errors
    /// The command cannot be written in this format.
    fn encode<C: Serialize>(&self, command: &C) -> Result<Bytes, CodecError>;

    /// The command of `bytes`.
    ///
    /// # Errors
    /// The bytes are not a command of this type in this format.
    fn decode<C: DeserializeOwned>(&self, bytes: &[u8]) -> Result<C, CodecError>;
}

/// What a codec cannot do, in its own words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the command cannot be {verb}: {reason}")]
pub struct CodecError {
    /// What was tried.
    pub verb: &'static str,
    /// Why it failed.
    pub reason: String,
}

/// The default codec: bincode's standard format. Compact and fast; fields are told apart by
/// their order alone, so a type may grow only by new enum variants at its end.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bincode;

impl Codec for Bincode {
    fn encode<C: Serialize>(&self, command: &C) -> Result<Bytes, CodecError> {
        bincode::serde::encode_to_vec(command, bincode::config::standard())
            .map(Bytes::from)
            .map_err(|error| CodecError { verb: "encoded", reason: error.to_string() })
    }

    fn decode<C: DeserializeOwned>(&self, bytes: &[u8]) -> Result<C, CodecError> {
        let fail = |reason| CodecError { verb: "decoded", reason };
        // A number of sixteen bytes may be written in one: so much is the most that bytes can hold.
        let decoded = match bytes.len() {
            0..0x1_0000 => within::<{ 0x1_0000 * 16 }, C>(bytes),
            0x1_0000..0x100_0000 => within::<{ 0x100_0000 * 16 }, C>(bytes),
            _ => within::<{ u32::MAX as usize }, C>(bytes),
        };
        let (command, read) = decoded.map_err(|error| fail(error.to_string()))?;
        if read == bytes.len() {
            Ok(command)
        } else {
            Err(fail(format!("{} bytes follow it", bytes.len() - read)))
        }
    }
}

/// Reads a command of at most so many bytes in memory: one whose bytes claim more is refused, and
/// takes no memory. Else a single bad entry would end every node that applies it.
fn within<const BYTES_MAX: usize, C: DeserializeOwned>(
    bytes: &[u8],
) -> Result<(C, usize), bincode::error::DecodeError> {
    let config = bincode::config::standard().with_limit::<BYTES_MAX>();
    bincode::serde::decode_from_slice(bytes, config)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_that_no_bytes_stand_behind_takes_no_memory() {
        // The length of the text, in eight bytes.
        let mut bytes = vec![253];
        bytes.extend((u64::MAX >> 1).to_le_bytes());
        for fill in [0, 1 << 16, 1 << 24] {
            bytes.resize(9 + fill, b'a');
            assert_eq!(Bincode.decode::<String>(&bytes).expect_err("too long").verb, "decoded");
        }
    }

    #[test]
    fn a_command_may_be_as_dense_as_it_likes() {
        for count in [1 << 10, 0xfffb, 0x1_0000, 0x11_0000] {
            let numbers = vec![7u128; count];
            let bytes = Bincode.encode(&numbers).expect("encodes");
            assert_eq!(Bincode.decode::<Vec<u128>>(&bytes), Ok(numbers), "{count}");
        }
    }

    #[test]
    fn a_command_comes_back_whole_or_not_at_all() {
        let bytes = Bincode.encode(&(7u64, "seven")).expect("encodes");
        let back: (u64, String) = Bincode.decode(&bytes).expect("decodes");
        assert_eq!(back, (7, "seven".into()));

        let cut = Bincode.decode::<(u64, String)>(&bytes[..bytes.len() - 1]);
        assert_eq!(cut.expect_err("cut short").verb, "decoded");
        let longer = [&bytes[..], b"!"].concat();
        let error = Bincode.decode::<(u64, String)>(&longer).expect_err("too long");
        assert_eq!(error.to_string(), "the command cannot be decoded: 1 bytes follow it");
    }
}
