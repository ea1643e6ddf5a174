//! Files that nobody wrote as they are: bytes of the input over those of a log, or alone, with
//! right checksums or without. Opening them never panics; what is opened can be read, and is the
//! same when it is opened again.

use std::path::{Path, PathBuf};

use raft_core::{Index, LogStore};
use raft_storage::formats::{Format, seal_segment};
use raft_storage::{Options, Recovered, Wal, inspect_on};

use super::Input;
use super::log::Log;
use crate::conformance::Model;
use crate::conformance::wal::WalOnSimDisk;
use crate::disk::SimDisk;

const PATCHES_MAX: usize = 32;
const NEW_BYTES_MAX: usize = 2048;
/// What files may be called.
const NAMES: [&str; 14] = [
    "meta.0",
    "meta.1",
    "meta.2",
    "0000000000000001-0000000000000001.wal",
    "0000000000000002-0000000000000005.wal",
    "0000000000000002-0000000000000009.wal",
    "ffffffffffffffff-ffffffffffffffff.wal",
    "x.wal",
    "0000000000000004-0000000000000001.snap",
    "ffffffffffffffff-ffffffffffffffff.snap",
    "0000000000000004-0000000000000001.snap.tmp",
    "0000000000000004-0000000000000001-5eed.part",
    "next.tmp",
    "damaged.tmp",
];

type Files = Vec<(PathBuf, Vec<u8>)>;

/// Puts files on a disk, and opens them.
pub fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let mut files = if input.flag() { Log::write(&mut input).files } else { Files::new() };
    let is_sealed = input.flag();
    for _ in 0..PATCHES_MAX {
        if input.is_empty() {
            break;
        }
        patch(&mut files, &mut input);
    }
    if is_sealed {
        files.iter_mut().for_each(|(path, bytes)| seal(path, bytes));
    }
    let disk = SimDisk::new();
    // The directory is there, whatever is in it.
    disk.put_file(&WalOnSimDisk::dir().join("LOCK"), &[]);
    files.iter().for_each(|(path, bytes)| disk.put_file(path, bytes));
    opens(&disk);
}

fn patch(files: &mut Files, input: &mut Input<'_>) {
    let kind = input.below(8);
    if kind == 0 || files.is_empty() {
        let path = WalOnSimDisk::dir().join(input.pick(&NAMES));
        let most = input.place(NEW_BYTES_MAX);
        files.push((path, input.take(most).to_vec()));
        return;
    }
    let at = input.place(files.len());
    let (path, bytes) = &mut files[at];
    match kind {
        1 => drop(files.remove(at)),
        2 => *path = WalOnSimDisk::dir().join(input.pick(&NAMES)),
        3 => bytes.resize(input.place(8192), 0),
        _ if bytes.is_empty() => {}
        // Everything that stands in a file is at most so wide, and stands at such a place.
        4..=5 => {
            let at = input.place(bytes.len()) / 8 * 8;
            let number = input.number().to_le_bytes();
            let end = bytes.len().min(at + 8);
            bytes[at..end].copy_from_slice(&number[..end - at]);
        }
        _ => {
            let (at, most) = (input.place(bytes.len()), 1 + input.place(64));
            let new = input.take(most);
            let end = bytes.len().min(at + new.len());
            bytes[at..end].copy_from_slice(&new[..end - at]);
        }
    }
}

/// Makes the checks of a file right.
fn seal(path: &Path, bytes: &mut [u8]) {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("wal") => seal_segment(bytes),
        Some("snap") => {
            let length =
                bytes.get(16..20).map_or(0, |it| u32::from_le_bytes([it[0], it[1], it[2], it[3]]));
            let length = (length as usize).min(bytes.len());
            Format::Snapshot.seal(&mut bytes[..length]);
        }
        Some("0" | "1" | "2") => Format::Meta.seal(bytes),
        Some(_) | None => {}
    }
}

fn opens(disk: &SimDisk) {
    let before = disk.files();
    let report = inspect_on(disk, WalOnSimDisk::dir());
    assert_eq!(disk.files(), before, "looking changes nothing");
    let owner = WalOnSimDisk::identity().owner();
    let options: Options = WalOnSimDisk::options(disk);
    let Ok((wal, found)) = Wal::open(WalOnSimDisk::dir(), owner, &options) else { return };
    assert!(report.is_ok(), "what can be opened can be looked at: {report:?}");
    let held = Model::read(&found.clone().into_saved(Index::ZERO), &wal.reader());
    let held = held.unwrap_or_else(|error| panic!("what was verified cannot be read: {error}"));
    drop(wal);
    let again = Wal::open(WalOnSimDisk::dir(), owner, &options);
    let (wal, again) = again.unwrap_or_else(|error| panic!("it is not opened again: {error}"));
    assert_eq!(again, Recovered { repairs: Vec::new(), ..found }, "it comes to the same");
    let same = Model::read(&again.into_saved(Index::ZERO), &wal.reader());
    assert_eq!(same, Ok(held), "and holds the same");
}
