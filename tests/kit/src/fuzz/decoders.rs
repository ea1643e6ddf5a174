//! Every decoder of what lies on disks, of members and of sessions: none panics, whatever the
//! bytes; what can be read comes back; and where there is one way to write it, nothing else is
//! read.

use bytes::Bytes;
use raft_core::Membership;
use raft_driver::sessions::Frame;
use raft_driver::{Bincode, Codec};
use raft_storage::formats::Format;

/// A header is filled up to a whole sector.
const PADDING_MAX: usize = 512;

/// Hands the bytes to all of them, as they are and with right checks.
pub fn run(bytes: &[u8]) {
    for format in Format::ALL {
        file(format, bytes);
        let mut sealed = bytes.to_vec();
        format.seal(&mut sealed);
        file(format, &sealed);
    }
    members(bytes);
    session(bytes);
    typed(bytes);
}

fn file(format: Format, bytes: &[u8]) {
    let Some(again) = format.rewritten(bytes) else { return };
    assert!(again.len() <= bytes.len() + PADDING_MAX, "{format:?} grows to {}", again.len());
    if format.is_canonical() {
        assert_eq!(again, bytes[..again.len()], "{format:?} has one way to be written");
    }
    assert_eq!(format.rewritten(&again), Some(again), "{format:?} does not come back");
}

fn members(bytes: &[u8]) {
    let Ok(members) = Membership::decode(bytes) else { return };
    assert_eq!(members.encode(), bytes, "there is one way to write members");
    assert_eq!(members.encoded_len(), bytes.len());
}

fn session(bytes: &[u8]) {
    let Some(frame) = Frame::decode(&Bytes::copy_from_slice(bytes)) else { return };
    assert_eq!(frame.encode(), bytes, "there is one way to write {frame:?}");
}

/// A command of each shape that the default codec may meet.
type Shape = (u64, String, Vec<u8>, Option<i16>, Result<char, Vec<(bool, u128)>>);

fn typed(bytes: &[u8]) {
    let Ok(command) = Bincode.decode::<Shape>(bytes) else { return };
    let again = Bincode.encode(&command).expect("what was read can be written");
    assert_eq!(Bincode.decode::<Shape>(&again), Ok(command), "a command comes back");
}
