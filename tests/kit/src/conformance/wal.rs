//! Our own log and snapshots on the simulated disk, as the suites reach them: an example of a
//! harness that can do everything.

use std::path::Path;
use std::sync::Arc;

use raft_core::{
    Index, LogPosition, LogStore, Membership, Saved, Snapshot, SnapshotSource, SnapshotStore,
};
use raft_storage::{Disk, Identity, Options, Owner, Preparation, Wal};

use super::log_store::{self, Failure, Stranger};
use super::snapshot_store;
use super::writes::{founders, mark, node};
use crate::disk::{Fault, Operation, SimDisk};

/// The log of node 1, in segments as small as they can be.
#[derive(Clone, Copy, Debug, Default)]
pub struct WalOnSimDisk;

const DIR: &str = "/data/wal";

impl WalOnSimDisk {
    /// Where it is.
    pub fn dir() -> &'static Path {
        Path::new(DIR)
    }

    /// Whose it is.
    pub fn identity() -> Identity {
        Identity { cluster_id: 0xc1, node_id: node(1), incarnation: 0xd15c }
    }

    /// How it is kept. Every operation comes in one order.
    pub fn options(disk: &SimDisk) -> Options {
        Options {
            segment_bytes: Options::SEGMENT_BYTES_MIN,
            preparation: Preparation::Inline,
            ..Options::on(Arc::new(disk.clone()) as Arc<dyn Disk>)
        }
    }

    /// What a state machine has at this place, for want of one.
    pub fn body(last: LogPosition) -> Vec<u8> {
        format!("the state after {last:?}").repeat(40).into_bytes()
    }

    /// Opens a log that is there.
    ///
    /// # Errors
    /// It cannot be opened, or the newest snapshot is not the one that the log has marked.
    pub fn recover(disk: &SimDisk) -> Result<(Wal, Saved), String> {
        let opened = Wal::open(Self::dir(), Self::identity().owner(), &Self::options(disk));
        let (wal, recovered) = opened.map_err(|error| error.to_string())?;
        if recovered.identity != Self::identity() || recovered.founders != founders() {
            return Err(format!("its identity is another one: {:?}", recovered.identity));
        }
        let newest = wal.snapshots().newest().map_err(|error| error.to_string())?;
        let newest = newest.map_or(Ok(LogPosition::ZERO), |it| read_snapshot(&*it))?;
        if newest != recovered.snapshot {
            let marked = recovered.snapshot;
            return Err(format!("{marked:?} is marked, and the newest snapshot is {newest:?}"));
        }
        Ok((wal, recovered.into_saved(Index::ZERO)))
    }
}

/// The end of a snapshot whose bytes are what they should be.
fn read_snapshot(source: &dyn SnapshotSource) -> Result<LogPosition, String> {
    let mut bytes = vec![0; source.len_bytes() as usize];
    let last = source.snapshot().last;
    let read = source.read_at(0, &mut bytes).map_err(|error| error.to_string())?;
    if read != bytes.len() || bytes != WalOnSimDisk::body(last) {
        return Err(format!("the snapshot {last:?} is not what was written"));
    }
    Ok(last)
}

impl log_store::Harness for WalOnSimDisk {
    type Store = Wal;
    type Medium = SimDisk;

    fn medium(&self) -> SimDisk {
        let disk = SimDisk::new();
        disk.keep_history();
        disk
    }

    fn open(&self, disk: &SimDisk) -> Result<(Wal, Saved), String> {
        let options = Self::options(disk);
        if Wal::exists(Self::dir(), &options).map_err(|error| error.to_string())? {
            return Self::recover(disk);
        }
        let founders: Membership = founders();
        let made = Wal::create(Self::dir(), Self::identity(), &founders, &options);
        let (wal, recovered) = made.map_err(|error| error.to_string())?;
        Ok((wal, recovered.into_saved(Index::ZERO)))
    }

    fn moments(&self, disk: &SimDisk) -> usize {
        disk.operations()
    }

    fn power_cut(&self, disk: &SimDisk, moment: usize, seed: u64) -> Option<SimDisk> {
        let image = disk.image_before(moment)?;
        let left = SimDisk::from_image(image.after_power_cut(seed));
        left.keep_history();
        Some(left)
    }

    fn fail_next(&self, disk: &SimDisk, failure: Failure) -> bool {
        let operation = match failure {
            Failure::Write => Operation::Write,
            Failure::Sync => Operation::Sync,
        };
        disk.inject(operation, 1, Fault::Error(Fault::IO));
        true
    }

    fn open_as(&self, disk: &SimDisk, stranger: Stranger) -> Option<Result<(), String>> {
        let Owner { cluster_id, node_id } = Self::identity().owner();
        let owner = match stranger {
            Stranger::OtherCluster => Owner { cluster_id: cluster_id + 1, node_id },
            Stranger::OtherNode => Owner { cluster_id, node_id: node(2) },
            // Whoever opens it is told which disk it is, and expects none.
            Stranger::OtherDisk => return None,
        };
        let opened = Wal::open(Self::dir(), owner, &Self::options(disk));
        Some(opened.map(drop).map_err(|error| error.to_string()))
    }

    fn publish(&self, wal: &Wal, snapshot: &Snapshot) {
        let mut sink = wal.snapshots().build(snapshot).expect("a healthy disk");
        sink.write(&Self::body(snapshot.last)).expect("a healthy disk");
        sink.publish().expect("a healthy disk");
    }

    fn retain(&self, wal: &Wal, last: LogPosition) {
        wal.snapshots().retain(last).expect("a healthy disk");
    }
}

impl snapshot_store::Harness for WalOnSimDisk {
    type Home = Wal;
    type Medium = SimDisk;

    fn medium(&self) -> SimDisk {
        log_store::Harness::medium(self)
    }

    fn open(&self, disk: &SimDisk) -> Result<Wal, String> {
        let options = Self::options(disk);
        let exists = Wal::exists(Self::dir(), &options).map_err(|error| error.to_string())?;
        let opened = match exists {
            true => Wal::open(Self::dir(), Self::identity().owner(), &options)
                .map_err(|error| error.to_string()),
            false => Wal::create(Self::dir(), Self::identity(), &founders(), &options)
                .map_err(|error| error.to_string()),
        };
        Ok(opened?.0)
    }

    fn snapshots(&self, wal: &Wal) -> Arc<dyn SnapshotStore> {
        Arc::new(wal.snapshots())
    }

    fn mark(&self, wal: &mut Wal, snapshot: &Snapshot) {
        let members = (snapshot.membership_index, Arc::clone(&snapshot.membership));
        wal.persist(&[mark(snapshot.last, snapshot.last, members)]).expect("a healthy disk");
    }

    fn moments(&self, disk: &SimDisk) -> usize {
        log_store::Harness::moments(self, disk)
    }

    fn power_cut(&self, disk: &SimDisk, moment: usize, seed: u64) -> Option<SimDisk> {
        log_store::Harness::power_cut(self, disk, moment, seed)
    }

    fn damage(&self, disk: &SimDisk, seed: u64) -> bool {
        let is_snapshot = |path: &Path| path.extension().is_some_and(|it| it == "snap");
        let newest = disk.files().into_iter().rfind(|(path, _)| is_snapshot(path));
        let (path, bytes) = newest.expect("a snapshot was published");
        // All over the file, its first and its last bytes too.
        let last = bytes.len() as u64 - 1;
        disk.corrupt(&path, seed * 2_654_435_761 % (last + 1), |byte| byte ^ 0x10);
        true
    }
}
