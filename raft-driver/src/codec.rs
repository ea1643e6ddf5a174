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
        let (command, read) = bincode::serde::decode_from_slice(bytes, bincode::config::standard())
            .map_err(|error| fail(error.to_string()))?;
        if read == bytes.len() {
            Ok(command)
        } else {
            Err(fail(format!("{} bytes follow it", bytes.len() - read)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
