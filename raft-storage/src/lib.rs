//! The write-ahead log of Kontiki: what makes a promise of Raft survive a crash.
//!
//! Blocking std. It never touches tokio, a network or a clock that shows the time of day, and
//! knows nothing of the engine: it is a [`LogStore`](raft_core::LogStore) of `raft-core`.
//!
//! ```
//! use raft_core::{Entries, Entry, Index, LogReader, LogStore, Membership, NodeId, Payload, Term};
//! use raft_core::{Ticket, Write};
//! use raft_storage::{Identity, Options, Wal};
//!
//! let home = tempfile::tempdir()?;
//! let node_id = NodeId::new(1).ok_or("zero is no node")?;
//! let identity = Identity { cluster_id: 7, node_id, incarnation: 0x5eed };
//! let founders = Membership::new([node_id]).ok_or("a group has voters")?;
//!
//! let (mut wal, _) = Wal::create(home.path(), identity, &founders, &Options::default())?;
//! let payload = Payload::Command("a command".into());
//! let entries = Entries::from(Entry { index: Index(1), term: Term(1), payload });
//! let ticket = Ticket(1);
//! wal.persist(&[Write { ticket, truncate: None, entries, hard_state: None, snapshot: None }])?;
//! // Entry 1 is durable from here on.
//! wal.close()?;
//!
//! let (wal, recovered) = Wal::open(home.path(), identity.owner(), &Options::default())?;
//! assert_eq!(recovered.log.last_index(), Index(1));
//! let mut found = Vec::new();
//! wal.reader().read(Index(1), Index(1), 4096, &mut found)?;
//! assert_eq!(found[0].payload, Payload::Command("a command".into()));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Guarantees
//!
//! Assumed of the disk: after `fdatasync` returns, the data survives a power cut; a sector of 512
//! bytes is written wholly or not at all; bytes may rot at any time, but not into a valid CRC-32C.
//!
//! - What [`persist`](raft_core::LogStore::persist) acknowledged is there after any crash, with
//!   one write and one `fdatasync` a call, however many writes it is handed.
//! - A call that was not acknowledged is there as a whole or not at all. Nothing that was cut
//!   comes back: the replay takes every record in the order in which it was written.
//! - `{term, vote, commit}` is one record: a vote is never seen without its term.
//! - A change of any byte that was durable is noticed, and is never taken for a torn write; what
//!   can and what cannot be told apart is argued in the source of the replay, at its top.
//! - The first failed write or sync is the last one: every later call fails with the same error.
//! - A full disk is met before a batch is begun, never in the middle of one.
//!
//! # Files
//!
//! ```text
//!   LOCK                                    flock: one owner at a time
//!   meta.0  meta.1  meta.2                  three copies: whose log it is, the sync mark, and
//!                                           what it held before it was damaged
//!   0000000000000001-0000000000000001.wal   segment 1; its first index is 1 (hexadecimal)
//!   0000000000000002-00000000000003e9.wal   segment 2
//!   next.tmp                                zeros: the space of the next segment
//!   00000000000003e8-0000000000000002.snap  a snapshot: ends at index 1000, term 2
//!   *.snap.tmp  *.part                      snapshots that are being built, and received
//!   *.damaged                               what was damaged once and set aside: for people
//! ```
//!
//! All numbers are little-endian. Every file but `LOCK` begins with sixteen bytes that stay the
//! same in all formats to come, so that an older version can say that a file is too new for it:
//!
//! ```text
//!   0                8        12       16
//!   | magic          | format | check  |         check: CRC-32C of the bytes 0..12; format: 1
//! ```
//!
//! A segment has as many bytes as its header says, and was zero-filled and synced before it got
//! its name. From sector 1 on it holds batches, each on sectors of its own:
//!
//! ```text
//!   sector 0   1        2        3        4        5
//!   +--------+--------+--------+--------+--------+--------+--------+
//!   | header | batch 1         | batch 2| batch 3         | zeros..|
//!   +--------+--------+--------+--------+--------+--------+--------+
//!            /          \
//!   +-------+------+-------+--------------------------+
//!   | check | tag  | stamp | 504 bytes of records     |   each sector: see sector.rs
//!   +-------+------+-------+--------------------------+
//!   0       4      6       8                        512
//!
//!   the records of a batch, through all of its sectors: see frame.rs
//!   +-----------+--------+--------+- -+------------+-------+--------+
//!   | truncate? | entry  | entry  |   | hard state?| mark? | commit |   all but the last may repeat
//!   +-----------+--------+--------+- -+------------+-------+--------+
//!                   \
//!   +--------+---------+---------+------+------+-------+-------+------+---------
//!   | header | payload | payload | kind | form | group | index | term | payload
//!   | check  | length  | check   |      |      |       |       |      |
//!   +--------+---------+---------+------+------+-------+-------+------+---------
//!   0        4         8         12     13     14      16      24     32
//! ```
//!
//! The layout of the segment's header stands in `segment.rs`, that of a meta file in `meta.rs`, that
//! of a snapshot in `snapshots.rs`.
//!
//! # Snapshots
//!
//! A snapshot is published first, then marked in the log ([`SnapshotMark`](raft_core::SnapshotMark)),
//! and only when the mark is durable does anything go that it replaces: the entries up to its base,
//! with the segments that hold nothing else, oldest first, and older snapshots. So whatever a crash
//! leaves, the log names a snapshot that is there, and either the old one or the new one.
//!
//! # Damage
//!
//! A log that is damaged somewhere before its end is repaired when it is opened; see
//! [`Wal::open`], and the source of `repair.rs` for why that forgets no vote and loses no
//! acknowledged entry. [`Wal::scrubber`] finds damage before anybody needs what is damaged. A
//! cluster that has lost its quorum for good can be begun anew with [`force_new_cluster`].

mod batch;
mod check;
mod checkpoint;
mod create;
mod disk;
mod error;
pub mod formats;
mod frame;
mod inspect;
mod map;
mod meta;
mod meter;
mod open;
mod options;
mod preamble;
mod prepare;
mod reader;
mod recover;
mod repair;
mod replay;
mod scrub;
mod sector;
mod segment;
mod snapshots;
mod state;
mod stream;
mod survey;
mod wal;

pub use disk::{Access, Disk, DiskFile, DiskLock, RealDisk};
pub use error::{
    CreateError, Damage, DiskError, OpenError, OptionsError, RecoverError, SnapshotError, WalError,
};
pub use inspect::{
    EntryReport, HardStateReport, LogReport, MetaCopyReport, Report, SegmentReport, Verdict,
    inspect, inspect_on,
};
pub use meter::{WriteCounts, WriteMeter};
pub use open::Recovered;
pub use options::{Identity, OnDamage, Options, Owner, Preparation, StateKept};
pub use reader::WalReader;
pub use recover::{Forced, force_new_cluster};
pub use scrub::{Scrubbed, Scrubber};
pub use snapshots::{SnapshotFile, Snapshots};
pub use wal::Wal;
