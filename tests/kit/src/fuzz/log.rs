//! A log to do harm to: the files that a writer left, and all that it held on the way.

use std::path::PathBuf;

use raft_core::Entry;
use raft_storage::{Wal, inspect_on};
use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;

use super::{Input, follower};
use crate::conformance::wal::WalOnSimDisk;
use crate::conformance::{Model, persist, writes};
use crate::disk::SimDisk;

const STEPS_MAX: u64 = 48;

/// A log as it was left.
#[derive(Debug)]
pub(super) struct Log {
    pub(super) files: Vec<(PathBuf, Vec<u8>)>,
    /// What it held: at first, and after each call.
    pub(super) past: Vec<Model>,
    /// So much of it is known to be synced: the number of a past.
    pub(super) known: usize,
    /// Every entry that it ever held.
    pub(super) written: Vec<Entry>,
}

impl Log {
    /// Writes the log that the input names.
    pub(super) fn write(input: &mut Input<'_>) -> Self {
        let mut random = Pcg64Mcg::seed_from_u64(u64::from(input.byte()));
        let steps = input.below(STEPS_MAX);
        let is_closed = input.flag();

        let (disk, mut model) = (SimDisk::new(), Model::default());
        let (dir, options) = (WalOnSimDisk::dir(), WalOnSimDisk::options(&disk));
        let made = Wal::create(dir, WalOnSimDisk::identity(), &writes::founders(), &options);
        let (mut wal, _) = made.expect("a healthy disk");
        let (mut past, mut written) = (vec![model.clone()], Vec::new());
        for _ in 0..steps {
            let writes = follower::next(&model, &mut random);
            persist(&WalOnSimDisk, &mut wal, &writes).expect("a healthy disk");
            for write in &writes {
                model.apply(write);
                written.extend(write.entries.iter().cloned());
            }
            past.push(model.clone());
        }
        match is_closed {
            true => wal.close().expect("a healthy disk"),
            false => drop(wal),
        }
        let report = inspect_on(&disk, dir).expect("a log");
        // Each call is a batch.
        let unknown = report.last_batch.saturating_sub(report.synced_batch) as usize;
        Self { files: disk.files(), known: past.len() - 1 - unknown, past, written }
    }

    /// Everything that it may hold where whole sectors of its end are gone, the newest last.
    pub(super) fn undecided(&self) -> &[Model] {
        &self.past[self.known..]
    }

    /// What it held in the end.
    pub(super) fn newest(&self) -> &[Model] {
        &self.past[self.past.len() - 1..]
    }
}
