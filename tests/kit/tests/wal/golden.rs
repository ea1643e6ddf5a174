//! Files as each released format wrote them. They are never changed: what a version has written,
//! every later version reads.

use std::path::Path;
use std::sync::Arc;

use raft_core::{Entry, Index, Membership, Payload, Term, Write};
use raft_testkit::disk::SimDisk;

use crate::model::{
    Model, at, command, create, dir, entries, hard, mark, node, open, persist, voters,
};

const FILES: [(&str, &[u8]); 5] = [
    ("meta.0", include_bytes!("golden/format-1/meta.0")),
    ("meta.1", include_bytes!("golden/format-1/meta.1")),
    ("meta.2", include_bytes!("golden/format-1/meta.2")),
    (SEGMENT, include_bytes!("golden/format-1/0000000000000001-0000000000000001.wal")),
    (SNAPSHOT, include_bytes!("golden/format-1/0000000000000002-0000000000000002.snap")),
];
const SEGMENT: &str = "0000000000000001-0000000000000001.wal";
const SNAPSHOT: &str = "0000000000000002-0000000000000002.snap";

/// Every kind of record once, and an entry over more than one sector.
fn story() -> Vec<Vec<Write>> {
    let group = Membership::founded([(node(1), "one:1"), (node(2), "two:2")]);
    let group = Arc::new(group.expect("voters"));
    vec![
        vec![hard(1, Some(1), 0), entries([command(1, 1, b"one"), command(2, 1, b"two")])],
        vec![Write { truncate: Some(Index(1)), ..entries([command(2, 2, &[0xa5; 600])]) }],
        vec![hard(2, None, 1)],
        vec![entries([Entry {
            index: Index(3),
            term: Term(2),
            payload: Payload::Membership(group),
        }])],
        vec![hard(2, Some(3), 3), mark(at(2, 2), at(1, 1), (Index(0), voters().into()))],
    ]
}

fn played() -> (SimDisk, Model) {
    let disk = SimDisk::new();
    let (mut wal, mut model) = (create(&disk), Model::default());
    for writes in story() {
        persist(&mut wal, &writes).expect("a healthy disk");
        writes.iter().for_each(|write| model.apply(write));
    }
    (disk, model)
}

#[test]
fn a_log_of_format_1_is_read() {
    let disk = SimDisk::new();
    for (name, bytes) in FILES {
        disk.put_file(&dir().join(name), bytes);
    }
    assert_eq!(open(&disk).1, played().1);
}

#[test]
fn the_same_story_gives_the_same_bytes() {
    let (disk, _) = played();
    for (path, bytes) in disk.files() {
        let name = path.file_name().and_then(|name| name.to_str()).expect("a name");
        let golden = FILES.iter().find(|(golden, _)| *golden == name);
        let Some((_, golden)) = golden else { continue };
        assert!(bytes == *golden, "{name}: the format has changed; give it a new number");
    }
}

/// Writes the files of the current format: `WAL_GOLDEN=dir cargo test -p raft-testkit --test wal`.
#[test]
fn write_golden_files_when_asked_to() {
    let Some(target) = std::env::var_os("WAL_GOLDEN") else { return };
    for (path, bytes) in played().0.files() {
        let name = path.file_name().expect("a name");
        std::fs::write(Path::new(&target).join(name), bytes).expect("a directory to write to");
    }
}
