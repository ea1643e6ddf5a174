//! A bit is flipped in the log of a node that is down.

use std::path::Path;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// The first sectors of a segment say what it is.
const HEAD_BYTES: usize = 1024;
/// So much of what was written last is left whole: damage there cannot be told from a write that
/// the crash cut short, on any disk. It is more than is written at once.
const TAIL_BYTES: usize = 64 << 10;

/// Flips a bit in one of the segments in `raft`. Says where; `None` if they hold too little.
pub(crate) fn flip_a_bit(raft: &Path, draw: u64) -> std::io::Result<Option<String>> {
    let mut random = Pcg64Mcg::seed_from_u64(draw);
    let mut segments = Vec::new();
    for entry in std::fs::read_dir(raft)? {
        let path = entry?.path();
        if path.extension().is_some_and(|ending| ending == "wal") {
            segments.push(path);
        }
    }
    // Their names are in the order of what they hold.
    segments.sort();
    let (mut candidates, mut tail) = (Vec::new(), TAIL_BYTES);
    for path in segments.into_iter().rev() {
        let bytes = std::fs::read(&path)?;
        let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        let end = used.saturating_sub(tail);
        tail -= tail.min(used.saturating_sub(HEAD_BYTES));
        if end > HEAD_BYTES && bytes[HEAD_BYTES..end].iter().any(|byte| *byte != 0) {
            candidates.push((path, bytes, end));
        }
    }
    if candidates.is_empty() {
        return Ok(None);
    }
    let (path, mut bytes, end) = candidates.swap_remove(random.random_range(0..candidates.len()));
    let at = loop {
        let at = random.random_range(HEAD_BYTES..end);
        if bytes[at] != 0 {
            break at;
        }
    };
    bytes[at] ^= 1 << random.random_range(0..8);
    std::fs::write(&path, bytes)?;
    Ok(Some(format!("{} at byte {at}", name(&path))))
}

fn name(path: &Path) -> String {
    path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn the_head_and_the_tail_stay_whole() {
        let dir = tempfile::tempdir().expect("a directory");
        let (old, new) = (dir.path().join("1.wal"), dir.path().join("2.wal"));
        let whole = |used: usize| [vec![0xa5; used], vec![0; 4096]].concat();
        let write = |path: &PathBuf, used| std::fs::write(path, whole(used)).expect("written");
        let flipped = |path: &PathBuf, used| {
            let bytes = std::fs::read(path).expect("read");
            bytes.iter().zip(whole(used)).position(|(is, was)| *is != was)
        };
        write(&new, TAIL_BYTES + 1000);
        assert_eq!(flip_a_bit(dir.path(), 1).expect("read"), None);
        // What was written last is partly in the older one.
        write(&old, 2000);
        write(&new, HEAD_BYTES + TAIL_BYTES - 1000);
        assert_eq!(flip_a_bit(dir.path(), 1).expect("read"), None);
        for draw in 0..50 {
            write(&old, 1100);
            write(&new, TAIL_BYTES + 1100);
            let said = flip_a_bit(dir.path(), draw).expect("read").expect("there is enough");
            let (in_old, in_new) = (flipped(&old, 1100), flipped(&new, TAIL_BYTES + 1100));
            let at = in_old.or(in_new).expect("a bit was flipped");
            assert!(in_old.is_none() || in_new.is_none(), "one bit only");
            assert!((HEAD_BYTES..1100).contains(&at), "{said}");
        }
    }
}
